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

use std::collections::BTreeSet;

use serde_json::value::RawValue;

pub(crate) use self::raw::excerpt;
pub use self::{
    anomaly::{Anomalies, Anomaly, AnomalyKind},
    raw::ParseError,
    unreadable::Unreadable,
};
use crate::azure::event::{Event, EventId};

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
    /// Events whose entry cannot be trusted: two entries of one id, members that occur twice, `Resources` that are no
    /// list of names. The first entry is shown, and this document neither approves nor ends the event.
    pub contradicted: BTreeSet<EventId>,
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
        document.contradicted.extend(ids);
    }
    Ok((document, anomalies))
}

#[derive(Default)]
struct DocumentBuilder {
    document: Document,
    anomalies: Anomalies,
    /// The ids in `document.events`.
    known: BTreeSet<EventId>,
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
        if self.known.insert(id.clone()) {
            return self.document.events.push(event);
        }
        let shown = excerpt(id.as_str());
        let detail = format!("event {shown} is listed twice; the first entry counts");
        self.anomalies.add(AnomalyKind::DuplicateEvent, detail);
        self.contradict(&id, "it has two entries");
    }

    fn contradict(&mut self, id: &EventId, why: &str) {
        if self.document.contradicted.insert(id.clone()) {
            let detail = format!("event {}: {why}", excerpt(id.as_str()));
            self.anomalies.add(AnomalyKind::Contradiction, detail);
        }
    }

    fn finish(mut self) -> (Document, Anomalies) {
        // An unreadable entry that has the id of a readable one may contradict it.
        let unreadable = std::mem::take(&mut self.document.unreadable.ids);
        for id in self
            .known
            .intersection(&unreadable)
            .cloned()
            .collect::<Vec<_>>()
        {
            self.contradict(&id, "another entry with its id cannot be read");
        }
        self.document.unreadable.ids = unreadable;
        (self.document, self.anomalies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_of_an_id_counts() {
        let entry = |id, members| format!(r#"{{"EventId":"{id}",{members}}}"#);
        let scheduled = r#""EventStatus":"Scheduled","Resources":["web_0"]"#;
        let started = r#""EventStatus":"Started","Resources":["web_1"]"#;
        for (one, other) in [
            (scheduled, started),
            (started, scheduled),
            (scheduled, scheduled),
        ] {
            let body = format!(
                r#"{{"Events":[{},{}]}}"#,
                entry("a", one),
                entry("A", other)
            );
            let (document, anomalies) = parse(body.as_bytes()).unwrap();
            let body = format!(r#"{{"Events":[{}]}}"#, entry("a", one));
            let (alone, _) = parse(body.as_bytes()).unwrap();
            assert_eq!(document.events, alone.events);
            assert!(document.contradicted.contains(&EventId::new("a")));
            let kinds: Vec<_> = anomalies.described.iter().map(|it| it.kind).collect();
            assert!(kinds.contains(&AnomalyKind::DuplicateEvent), "{kinds:?}");
        }
    }

    #[test]
    fn a_root_member_in_another_spelling_is_no_document() {
        for body in [
            r#"{"events":[{"EventId":"a"}],"Events":[]}"#,
            r#"{"Events":[],"EVENTS":[{"EventId":"a"}]}"#,
            r#"{"Events":[],"Events ":[]}"#,
            r#"{"Events":[],"Events\u200b":[]}"#,
            r#"{"Events":[],"events":null}"#,
            r#"{"documentIncarnation":2,"Events":[]}"#,
            r#"{"DocumentIncarnation":1,"document_incarnation":2,"Events":[]}"#,
            r#"{"Events":[],"Events":[{"EventId":"a"}]}"#,
        ] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert!(matches!(error, ParseError::Shape(_)), "{body}: {error}");
        }
        assert!(parse(br#"{"Events":[],"EventsCount":0}"#).is_ok());
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
