//! Parses the body of a response into a [`Document`].
//!
//! Invariants: a malformed field only drops that field; a malformed event costs that event, not the document;
//! each is reported as an [`Anomaly`]. A body that is not a scheduled-events document is an error, never "no events":
//! only a JSON object with an `Events` array is a document, since IMDS's error bodies are JSON too.
//!
//! Format: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#query-for-events>.

mod anomaly;
mod event;
mod raw;
mod unreadable;

use std::{
    collections::{BTreeSet, HashMap},
    mem,
};

use serde_json::value::RawValue;

use self::event::MAX_RESOURCES;
pub(crate) use self::raw::excerpt;
pub use self::{
    anomaly::{Anomalies, Anomaly, AnomalyKind},
    raw::ParseError,
    unreadable::Unreadable,
};
use crate::azure::event::{Event, EventId, Status};

/// Far more events than a placement group can have. Further entries, also of known events, count as unreadable, so that
/// their events do not end.
pub(crate) const MAX_EVENTS: usize = 10_000;

/// A scheduled-events document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Azure's counter of changes. It is reset when Scheduled Events is disabled for the VM.
    pub incarnation: Option<i64>,
    /// Ids are unique.
    pub events: Vec<Event>,
    /// A missing event may be one of these.
    pub unreadable: Unreadable,
    /// Events whose entry cannot be trusted: members that occur twice, entries of one id that differ, `Resources` that
    /// are no list of names. They are shown, and never approved.
    pub contradictory: BTreeSet<EventId>,
}

impl Document {
    /// True if every entry of `Events` was read: a missing event has ended.
    pub fn is_complete(&self) -> bool {
        self.unreadable.entries == 0
    }

    /// True if `Events` is empty.
    pub(crate) fn has_no_events(&self) -> bool {
        self.events.is_empty() && self.is_complete()
    }
}

/// The result of a successful poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A document and its anomalies.
    Document {
        document: Document,
        anomalies: Anomalies,
    },
    /// The last document still holds: a 304, or the same bytes again.
    Unchanged,
}

/// Parses the body of a 200.
pub fn parse(body: &[u8]) -> Result<(Document, Anomalies), ParseError> {
    let mut builder = DocumentBuilder::default();
    let text = String::from_utf8_lossy(body);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        builder.anomalies.add(
            AnomalyKind::Encoding,
            "the body is not UTF-8; invalid bytes were replaced with U+FFFD",
        );
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let root = raw::root(text)?;
    for name in &root.duplicates {
        let detail = format!("{} occurs twice in the document", excerpt(name));
        builder.anomalies.add(AnomalyKind::DuplicateMember, detail);
    }
    let incarnation = event::incarnation(root.incarnation, &mut builder.anomalies);
    builder.document.incarnation = incarnation;
    for entry in root.events {
        builder.add(entry);
    }
    let (mut document, anomalies) = builder.finish();
    if !root.duplicates.is_empty() {
        let ids = document.events.iter().map(|event| event.id.clone());
        document.contradictory.extend(ids);
    }
    Ok((document, anomalies))
}

#[derive(Default)]
struct DocumentBuilder {
    document: Document,
    anomalies: Anomalies,
    /// Positions in `document.events`.
    known: HashMap<EventId, usize>,
    /// Positions of the events with more than one entry.
    united: BTreeSet<usize>,
    /// Readable entries.
    entries: usize,
}

impl DocumentBuilder {
    fn add(&mut self, entry: &RawValue) {
        let read = if self.entries < MAX_EVENTS {
            event::read(entry, &mut self.anomalies)
        } else {
            Err(format!("more than {MAX_EVENTS} entries"))
        };
        let (event, untrusted) = match read {
            Ok(read) => read,
            Err(detail) => {
                self.document.unreadable.add(entry);
                return self.anomalies.add(AnomalyKind::Event, detail);
            }
        };
        self.entries += 1;
        let id = event.id.clone();
        if let Some(why) = untrusted {
            self.contradict(&id, &why);
        }
        let index = self.document.events.len();
        let index = *self.known.entry(id.clone()).or_insert(index);
        let Some(known) = self.document.events.get_mut(index) else {
            return self.document.events.push(event);
        };
        let shown = excerpt(id.as_str());
        let detail = format!("event {shown} is listed twice; its resources are united");
        self.anomalies.add(AnomalyKind::DuplicateEvent, detail);
        self.united.insert(index);
        if has_different_entry(known, event) {
            self.contradict(&id, "its entries differ");
        }
    }

    fn contradict(&mut self, id: &EventId, why: &str) {
        if self.document.contradictory.insert(id.clone()) {
            let detail = format!("event {}: {why}", excerpt(id.as_str()));
            self.anomalies.add(AnomalyKind::Contradiction, detail);
        }
    }

    fn finish(mut self) -> (Document, Anomalies) {
        for index in &self.united {
            if let Some(event) = self.document.events.get_mut(*index) {
                event::unite_resources(event);
            }
        }
        // An unreadable entry that has the id of a readable one may contradict it.
        let ids = self.document.events.iter().map(|event| &event.id);
        for id in self.document.unreadable.mentioned(ids) {
            self.contradict(&id, "another entry with its id cannot be read");
        }
        (self.document, self.anomalies)
    }
}

/// Adds the resources of another entry with the same id. The first one counts, but an announcement before an advisory.
/// The status may change while the document is made: an event is started if one entry says so, and then needs no
/// `NotBefore`. Returns whether the entries differ in anything else.
fn has_different_entry(known: &mut Event, mut other: Event) -> bool {
    if known.is_advisory() && !other.is_advisory() {
        mem::swap(known, &mut other);
    }
    let statuses = [&known.status, &other.status];
    if statuses.contains(&&Status::Started) && statuses.contains(&&Status::Scheduled) {
        known.status = Status::Started;
        other.status = Status::Started;
        known.not_before = known.not_before.or(other.not_before);
        other.not_before = other.not_before.or(known.not_before);
    }
    // An entry without readable names may name more VMs.
    known.has_more_resources |=
        other.has_more_resources || known.resources.is_some() != other.resources.is_some();
    other.has_more_resources = known.has_more_resources;
    if let Some(names) = other.resources.take() {
        let united = known.resources.get_or_insert_default();
        // Repeated names are removed when all entries are known.
        if united.len() <= 2 * MAX_RESOURCES {
            united.extend(names);
        } else {
            known.has_more_resources = true;
        }
    }
    let united = known.resources.take();
    let differs = *known != other;
    known.resources = united;
    differs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::azure::event::EventType;

    #[test]
    fn entries_of_one_id_that_differ_are_a_contradiction_and_the_first_one_counts() {
        let read = |one: &str, other: &str| {
            let entry = |members: &str| format!(r#"{{"EventId":"a","Resources":[],{members}}}"#);
            let body = format!(r#"{{"Events":[{},{}]}}"#, entry(one), entry(other));
            let (document, _) = parse(body.as_bytes()).unwrap();
            let is_contradictory = !document.contradictory.is_empty();
            let [event] = document.events.try_into().unwrap();
            (event.event_type, event.status, is_contradictory)
        };
        let members = |status| format!(r#""EventType":"Freeze","EventStatus":"{status}""#);
        for (one, other, expected) in [
            ("Scheduled", "Scheduled", ("Scheduled", false)),
            ("Scheduled", "Started", ("Started", false)),
            ("Started", "Scheduled", ("Started", false)),
            ("Advisory", "Scheduled", ("Scheduled", true)),
            ("Scheduled", "Advisory", ("Scheduled", true)),
            ("Paused", "Scheduled", ("Paused", true)),
        ] {
            let (status, is_contradictory) = expected;
            let expected = (EventType::Freeze, Status::new(status), is_contradictory);
            assert_eq!(read(&members(one), &members(other)), expected);
        }
        let reboot = r#""EventType":"Reboot","EventStatus":"Scheduled""#;
        let expected = (EventType::Freeze, Status::Scheduled, true);
        assert_eq!(read(&members("Scheduled"), reboot), expected);
    }

    #[test]
    fn resources_of_duplicates_are_united_without_case_and_in_order() {
        let names = |numbers: std::ops::Range<usize>, prefix: &str| {
            let names: Vec<_> = numbers
                .map(|number| format!(r#""{prefix}{number}""#))
                .collect();
            names.join(",")
        };
        let (lower, upper) = (names(0..6_000, "vm"), names(3_000..9_000, "VM"));
        let body = format!(
            r#"{{"Events":[{{"EventId":"a","Resources":[{lower}]}},{{"EventId":"A","Resources":[{upper}]}}]}}"#
        );
        let (document, _) = parse(body.as_bytes()).unwrap();
        let [event] = document.events.try_into().unwrap();
        let united = event.resources.unwrap();
        assert_eq!(united.len(), 9_000);
        assert_eq!((&*united[0], &*united[5_999]), ("vm0", "vm5999"));
        assert_eq!((&*united[6_000], &*united[8_999]), ("VM6000", "VM8999"));
    }

    #[test]
    fn anomalies_past_the_bound_are_counted_by_kind() {
        let body = format!(
            r#"{{"DocumentIncarnation":1,"Events":[{}{{"EventId":"a"}}]}}"#,
            "{},".repeat(100)
        );
        let (document, anomalies) = parse(body.as_bytes()).unwrap();
        assert_eq!(document.unreadable.entries, 100);
        assert_eq!(anomalies.described.len(), anomaly::MAX_ANOMALIES);
        let suppressed: Vec<_> = anomalies.suppressed.iter().collect();
        let expected = [
            (&AnomalyKind::Event, &36),
            (&AnomalyKind::EventStatus, &1),
            (&AnomalyKind::EventType, &1),
            (&AnomalyKind::Resources, &1),
        ];
        assert_eq!(suppressed, expected);
    }
}
