//! Parses the body of a response into a [`Document`].
//!
//! Invariants: a malformed field only drops that field; a malformed event costs that event, not the document;
//! each is reported as an [`Anomaly`]. A body that is not a scheduled-events document is an error, never "no events":
//! only a JSON object with an `Events` array is a document, since IMDS's error bodies are JSON too.
//!
//! Format: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#query-for-events>.

mod anomaly;
mod event_parser;
mod json_object;

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::value::RawValue;

pub use self::anomaly::{Anomalies, Anomaly, AnomalyKind};
use self::json_object::JsonObject;
use crate::{
    azure::event::{Event, EventId},
    base::text,
};

/// Far more events than a placement group can have. Further entries, also of known events, count as unreadable, so that
/// their events do not end.
pub(crate) const MAX_EVENTS: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// For example a captive portal's page or a truncated body.
    #[error("not JSON: {0}")]
    Json(String),
    /// For example an error object, `{}`, `null` or `"Events": null`.
    #[error("JSON, but not a scheduled-events document: {0}")]
    Shape(String),
}

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

    pub(crate) fn has_no_events(&self) -> bool {
        self.events.is_empty() && self.is_complete()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unreadable {
    pub entries: usize,
    pub(crate) ids: BTreeSet<EventId>,
    /// One has no readable id: it may be any event.
    pub(crate) has_unidentified: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Document {
        document: Document,
        anomalies: Anomalies,
    },
    /// The last document still holds: a 304, or the same bytes again.
    Unchanged,
}

pub fn parse(body: &[u8]) -> Result<(Document, Anomalies), ParseError> {
    let mut builder = DocumentBuilder::default();
    let text = String::from_utf8_lossy(body);
    if matches!(text, Cow::Owned(_)) {
        builder.anomalies.add(
            AnomalyKind::Encoding,
            "the body is not UTF-8; invalid bytes were replaced with U+FFFD",
        );
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| ParseError::Json(error.to_string()))?;
    let shape = |why| ParseError::Shape(format!("{why}; it begins {}", excerpt(value.get())));
    let root = JsonObject::read(value).ok_or_else(|| shape("it is not an object".to_owned()));
    let mut root = root?;
    let entries = entries(&mut root).map_err(shape)?;
    for name in &root.duplicates {
        let detail = format!("{} occurs twice in the document", excerpt(name));
        builder.anomalies.add(AnomalyKind::DuplicateMember, detail);
    }
    let incarnation = root.take("DocumentIncarnation");
    let incarnation = event_parser::incarnation(incarnation, &mut builder.anomalies);
    builder.document.incarnation = incarnation;
    for entry in entries {
        builder.add(entry);
    }
    // An unreadable entry that has the id of a readable one may contradict it.
    let both = builder.known.intersection(&builder.document.unreadable.ids);
    for id in both.cloned().collect::<Vec<_>>() {
        builder.contradict(&id, "another entry with its id cannot be read");
    }
    if !root.duplicates.is_empty() {
        builder.document.contradicted.extend(builder.known);
    }
    Ok((builder.document, builder.anomalies))
}

/// The entries of `Events`. The error says why there are none.
fn entries<'a>(root: &mut JsonObject<'a>) -> Result<Vec<&'a RawValue>, String> {
    if let Some((name, _)) = root.members.iter().find(|(name, _)| is_misspelt(name)) {
        return Err(format!("it has a member called {}", excerpt(name)));
    }
    if root.duplicates.contains("Events") {
        return Err("it has two members called Events".to_owned());
    }
    let events = root.take("Events").ok_or("it has no Events")?;
    serde_json::from_str(events.get()).map_err(|_| "its Events is not an array".to_owned())
}

/// Whether the name of a root member differs from a documented one only in case, or in characters that are neither
/// letters nor digits. Nobody knows which of the two has the events.
fn is_misspelt(name: &str) -> bool {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let mut documented = ["Events", "DocumentIncarnation"].into_iter();
    documented.any(|it| it != name && it.eq_ignore_ascii_case(&letters))
}

#[derive(Default)]
struct DocumentBuilder {
    document: Document,
    anomalies: Anomalies,
    known: BTreeSet<EventId>,
}

impl DocumentBuilder {
    fn add(&mut self, entry: &RawValue) {
        let read = if self.known.len() < MAX_EVENTS {
            event_parser::read(entry, &mut self.anomalies)
        } else {
            Err(format!("more than {MAX_EVENTS} entries"))
        };
        let (event, untrusted) = match read {
            Ok(read) => read,
            Err(detail) => {
                let unreadable = &mut self.document.unreadable;
                unreadable.entries += 1;
                match unreadable_id(entry) {
                    Some(id) => drop(unreadable.ids.insert(id)),
                    None => unreadable.has_unidentified = true,
                }
                return self.anomalies.add(AnomalyKind::Event, detail);
            }
        };
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
}

/// The `EventId` or `Id` of an entry, in any case. A member such as `VmId` has the id of something else.
fn unreadable_id(entry: &RawValue) -> Option<EventId> {
    let object = JsonObject::read(entry)?;
    let is_id =
        |name: &str| name.eq_ignore_ascii_case("EventId") || name.eq_ignore_ascii_case("Id");
    let mut ids = object
        .members
        .iter()
        .filter(|(name, _)| is_id(name))
        .filter_map(|(name, value)| {
            let id: String = serde_json::from_str(value.get()).ok()?;
            let is_given = !id.trim().is_empty() && !object.duplicates.contains(name);
            is_given.then(|| EventId::new(&id))
        });
    let first = ids.next()?;
    // With two ids it is not known which of two events it is.
    ids.all(|id| id == first).then_some(first)
}

/// The beginning of untrusted text for the description of an anomaly, safe for a log line.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    text::excerpt(text, MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";
    const B: &str = "602D9444-D2CD-49C7-8624-8643E7171297";

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

    fn unreadable(entries: &str) -> Unreadable {
        let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{entries}]}}"#);
        parse(body.as_bytes()).unwrap().0.unreadable
    }

    #[test]
    fn an_entry_is_the_event_whose_id_it_has() {
        for entry in [
            format!(r#"{{"Id":"{A}"}}"#),
            format!(r#"{{"eventid":"{}"}}"#, A.to_lowercase()),
            format!(r#"{{"EventId":7,"ID":"{A}"}}"#),
            format!(r#"{{"id":"{A}","eventId":"{A}","VmId":"{B}"}}"#),
        ] {
            let unreadable = unreadable(&entry);
            let ids: Vec<_> = unreadable.ids.into_iter().collect();
            assert_eq!(ids, [EventId::new(A)], "{entry}");
            assert!(!unreadable.has_unidentified, "{entry}");
        }
    }

    #[test]
    fn an_entry_without_a_readable_id_is_unidentified() {
        for entry in [
            r#"{"EventId":7}"#,
            "null",
            r#""7B1E04C9-52DA-4F6E-9C38-A40D7E91B265""#,
            r#"{"EventId":" "}"#,
            r#"{"EventId":["7B1E04C9-52DA-4F6E-9C38-A40D7E91B265"]}"#,
            r#"{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventId":"a"}"#,
            r#"{"Id":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","ID":"a"}"#,
            r#"{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265\ud800"}"#,
            r#"{"EventType":"Freeze"}"#,
            r#"{"EventId":7,"VmId":"3F2504E0-4F89-41D3-9A0C-0305E82C3301"}"#,
        ] {
            let unreadable = unreadable(entry);
            assert!(unreadable.has_unidentified, "{entry}");
            assert!(unreadable.ids.is_empty(), "{entry}");
        }
        assert!(!unreadable("").has_unidentified);
    }
}
