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

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::value::RawValue;

pub(crate) use self::raw::excerpt;
pub use self::{
    anomaly::{Anomalies, Anomaly, AnomalyKind},
    raw::ParseError,
    unreadable::Unreadable,
};
use crate::event::{Event, EventId, Status, UNREADABLE};

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
    let mut anomalies = Anomalies::default();
    let text = String::from_utf8_lossy(body);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        anomalies.add(
            AnomalyKind::Encoding,
            "the body is not UTF-8; invalid bytes were replaced with U+FFFD",
        );
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let root = raw::root(text)?;
    for name in &root.duplicates {
        let detail = format!("{} occurs twice in the document", excerpt(name));
        anomalies.add(AnomalyKind::DuplicateMember, detail);
    }
    let incarnation = event::incarnation(root.incarnation, &mut anomalies);
    let mut builder = DocumentBuilder {
        document: Document {
            incarnation,
            ..Document::default()
        },
        known: HashMap::new(),
        entries: 0,
    };
    raw::for_each_event(root.events, |entry| builder.add(entry, &mut anomalies))?;
    builder.check_unreadable(&mut anomalies);
    let mut document = builder.document;
    if !root.duplicates.is_empty() {
        let ids = document.events.iter().map(|event| event.id.clone());
        document.contradictory.extend(ids);
    }
    Ok((document, anomalies))
}

struct DocumentBuilder {
    document: Document,
    known: HashMap<EventId, KnownEvent>,
    /// Readable entries.
    entries: usize,
}

struct KnownEvent {
    index: usize,
    /// Made at the first duplicate, so that each further one costs no more than its own names.
    names: Option<FoldedNames>,
}

/// The names in `Resources` of an event, in lower case.
type FoldedNames = HashSet<String>;

impl DocumentBuilder {
    fn add(&mut self, entry: &RawValue, anomalies: &mut Anomalies) {
        if self.entries >= MAX_EVENTS {
            let detail = format!("more than {MAX_EVENTS} entries");
            return self.add_unreadable(entry, detail, anomalies);
        }
        let (event, contradiction) = match event::event(entry, anomalies) {
            Ok(read) => read,
            Err(detail) => return self.add_unreadable(entry, detail, anomalies),
        };
        self.entries += 1;
        let id = event.id.clone();
        let mut contradictions: Vec<String> = contradiction.into_iter().collect();
        let known = self.known.get_mut(&id).and_then(|known| {
            let event = self.document.events.get_mut(known.index)?;
            Some((event, &mut known.names))
        });
        if let Some((known, names)) = known {
            anomalies.add(
                AnomalyKind::DuplicateEvent,
                format!(
                    "event {} is listed twice; the entries were merged",
                    excerpt(event.id.as_str())
                ),
            );
            contradictions.extend(merge(known, names, event));
        } else {
            let index = self.document.events.len();
            let known = KnownEvent { index, names: None };
            self.known.insert(id.clone(), known);
            self.document.events.push(event);
        }
        for why in contradictions {
            self.contradict(id.clone(), &why, anomalies);
        }
    }

    fn contradict(&mut self, id: EventId, why: &str, anomalies: &mut Anomalies) {
        let detail = format!("event {}: {why}", excerpt(id.as_str()));
        if self.document.contradictory.insert(id) {
            anomalies.add(AnomalyKind::Contradiction, detail);
        }
    }

    /// An unreadable entry that has the id of a readable one may contradict it.
    fn check_unreadable(&mut self, anomalies: &mut Anomalies) {
        let ids = self.document.events.iter().map(|event| &event.id);
        for id in self.document.unreadable.mentioned(ids) {
            self.contradict(id, "another entry with its id cannot be read", anomalies);
        }
    }

    fn add_unreadable(&mut self, entry: &RawValue, detail: String, anomalies: &mut Anomalies) {
        self.document.unreadable.add(entry);
        anomalies.add(AnomalyKind::Event, detail);
    }
}

/// Merges two entries with the same id: the union of the resources, the status that is further along, and for every
/// other field the first known value. Returns how the entries contradict each other.
fn merge(known: &mut Event, names: &mut Option<FoldedNames>, duplicate: Event) -> Option<String> {
    let contradiction = differences(known, &duplicate);
    // An entry without readable names may name more VMs.
    known.has_more_resources |=
        duplicate.has_more_resources || known.resources.is_some() != duplicate.resources.is_some();
    match (&mut known.resources, duplicate.resources) {
        (Some(resources), Some(more)) => {
            let folded = |name: &str| name.to_ascii_lowercase();
            let known = || resources.iter().map(|name| folded(name)).collect();
            let names = names.get_or_insert_with(known);
            let free = event::MAX_RESOURCES.saturating_sub(resources.len());
            let new = more.into_iter().filter(|name| names.insert(folded(name)));
            resources.extend(new.take(free));
        }
        (resources @ None, more) => *resources = more,
        (Some(_), None) => {}
    }
    if status_rank(&duplicate.status) > status_rank(&known.status) {
        known.status = duplicate.status;
    }
    if known.event_type.as_str() == UNREADABLE {
        known.event_type = duplicate.event_type;
    }
    known.not_before = known.not_before.or(duplicate.not_before);
    known.duration_seconds = known.duration_seconds.or(duplicate.duration_seconds);
    known.source = known.source.take().or(duplicate.source);
    known.resource_type = known.resource_type.take().or(duplicate.resource_type);
    if known.description_text().is_none() {
        known.description = duplicate.description.or_else(|| known.description.take());
    }
    contradiction
}

/// The members that must agree in all entries of an event. Its VMs may be listed in several entries, and its status may
/// change while the document is made; a status that cannot be read must not become Scheduled.
fn differences(one: &Event, other: &Event) -> Option<String> {
    let is_unreadable = |event: &Event| status_rank(&event.status) == 0;
    // Azure blanks NotBefore when the event starts.
    let is_blanked = |event: &Event| event.status == Status::Started && event.not_before.is_none();
    let is_rescheduled =
        one.not_before != other.not_before && !is_blanked(one) && !is_blanked(other);
    let differing: Vec<_> = [
        ("EventType", one.event_type != other.event_type),
        ("EventStatus", is_unreadable(one) != is_unreadable(other)),
        ("EventSource", one.source != other.source),
        ("NotBefore", is_rescheduled),
        (
            "DurationInSeconds",
            one.duration_seconds != other.duration_seconds,
        ),
    ]
    .into_iter()
    .filter_map(|(name, is_different)| is_different.then_some(name))
    .collect();
    (!differing.is_empty()).then(|| format!("its entries differ in {}", differing.join(", ")))
}

/// Orders statuses by how far the event has progressed.
fn status_rank(status: &Status) -> u8 {
    match status {
        Status::Other(name) if &**name == UNREADABLE => 0,
        Status::Advisory => 1,
        Status::Scheduled => 2,
        Status::Other(_) => 3,
        Status::Started => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;

    #[test]
    fn duplicate_entries_are_merged_and_the_later_status_wins() {
        let merged = |one: &str, other: &str| {
            let entry = |members: &str| format!(r#"{{"EventId":"a","Resources":[],{members}}}"#);
            let body = format!(
                r#"{{"DocumentIncarnation":1,"Events":[{},{}]}}"#,
                entry(one),
                entry(other)
            );
            let (document, _) = parse(body.as_bytes()).unwrap();
            let [event] = document.events.try_into().unwrap();
            (event.event_type, event.status)
        };
        let members = |status| format!(r#""EventType":"Freeze","EventStatus":"{status}""#);
        for (less, more) in [
            ("Scheduled", "Started"),
            ("Scheduled", "Paused"),
            ("Paused", "Started"),
            ("Unknown", "Scheduled"),
        ] {
            let expected = (EventType::Freeze, Status::new(more));
            assert_eq!(merged(&members(less), &members(more)), expected);
            assert_eq!(merged(&members(more), &members(less)), expected);
        }
        let unidentified = r#""EventStatus":7"#;
        let expected = (EventType::Freeze, Status::Scheduled);
        assert_eq!(merged(unidentified, &members("Scheduled")), expected);
        assert_eq!(merged(&members("Scheduled"), unidentified), expected);
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
        assert_eq!(anomalies.iter().count(), anomaly::MAX_ANOMALIES);
        let suppressed: Vec<_> = anomalies.suppressed().iter().collect();
        let expected = [
            (&AnomalyKind::Event, &36),
            (&AnomalyKind::EventStatus, &1),
            (&AnomalyKind::EventType, &1),
            (&AnomalyKind::Resources, &1),
        ];
        assert_eq!(suppressed, expected);
    }
}
