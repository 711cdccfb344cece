//! From the bytes of an answer to a [`Document`], or to the reason why they are none.
//!
//! What it promises: a malformed field costs that field, not the event; a malformed event costs that event, not the
//! document; each is reported as an [`Anomaly`]. What it must never do: read an answer that is no scheduled-events
//! document as "no events". Only a JSON object with an `Events` array is a document; IMDS's own errors are JSON too.
//!
//! The form is Microsoft's: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#query-for-events>.
//! The structures of the wire are private to this file.

mod event;
mod raw;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use serde_json::value::RawValue;

use crate::event::{Event, EventId, Status};

/// More events than a placement group can have; what comes after is counted as unreadable, so that it ends nothing.
const MAX_EVENTS: usize = 10_000;
/// Anomalies that are described one by one; the rest is only counted.
const MAX_ANOMALIES: usize = 64;

/// What IMDS says is going on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Azure's counter of changes. It may go back: it is reset when the feature was off.
    pub incarnation: Option<i64>,
    /// The events, each id once.
    pub events: Vec<Event>,
    /// Entries of `Events` that could not be read. While there are any, an event that is missing may be one of them.
    pub unreadable_events: usize,
}

impl Document {
    /// Whether each entry of `Events` was read, so that an event that is missing is really gone.
    pub fn is_complete(&self) -> bool {
        self.unreadable_events == 0
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
    /// The last document still holds (304).
    Unchanged,
}

/// Why an answer is no document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON at all: a captive portal's page, a truncated body.
    #[error("no JSON: {0}")]
    Json(String),
    /// It is JSON, but no document: an error object, `{}`, `null`, `"Events": null`.
    #[error("JSON, but no scheduled-events document: {0}")]
    Shape(String),
}

/// What kind of oddity a document has: the values of the label `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnomalyKind {
    /// `Description` is no string.
    Description,
    /// The same id stands twice; both were merged.
    DuplicateEvent,
    /// `DurationInSeconds` is no whole number of seconds.
    Duration,
    /// A body without a byte, for so long that it was taken as "no events".
    EmptyBody,
    /// The body is not UTF-8.
    Encoding,
    /// An entry of `Events` could not be read and is lost.
    Event,
    /// `EventSource` is no string.
    EventSource,
    /// `EventStatus` is missing or no string.
    EventStatus,
    /// `EventType` is missing or no string.
    EventType,
    /// `DocumentIncarnation` is missing or no whole number.
    Incarnation,
    /// `NotBefore` is no time.
    NotBefore,
    /// `ResourceType` is no string.
    ResourceType,
    /// `Resources` is missing or no array of strings.
    Resources,
    /// A started event is said to be scheduled again.
    StatusRegressed,
    /// A member that we do not know was too long, or there were too many, to keep.
    UnknownMember,
}

impl AnomalyKind {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 15] = [
        Self::Description,
        Self::DuplicateEvent,
        Self::Duration,
        Self::EmptyBody,
        Self::Encoding,
        Self::Event,
        Self::EventSource,
        Self::EventStatus,
        Self::EventType,
        Self::Incarnation,
        Self::NotBefore,
        Self::ResourceType,
        Self::Resources,
        Self::StatusRegressed,
        Self::UnknownMember,
    ];

    /// The value of the label `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::DuplicateEvent => "duplicate_event",
            Self::Duration => "duration",
            Self::EmptyBody => "empty_body",
            Self::Encoding => "encoding",
            Self::Event => "event",
            Self::EventSource => "event_source",
            Self::EventStatus => "event_status",
            Self::EventType => "event_type",
            Self::Incarnation => "incarnation",
            Self::NotBefore => "not_before",
            Self::Resources => "resources",
            Self::ResourceType => "resource_type",
            Self::StatusRegressed => "status_regressed",
            Self::UnknownMember => "unknown_member",
        }
    }
}

/// One oddity: what, in which event, and what stood there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Anomaly {
    /// Its kind.
    pub kind: AnomalyKind,
    /// A sentence for the log, at most a few hundred characters.
    pub detail: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.detail)
    }
}

/// The oddities of one document, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anomalies {
    listed: Vec<Anomaly>,
    /// How many more there are.
    suppressed: BTreeMap<AnomalyKind, u64>,
}

impl Anomalies {
    /// Takes one more; past the bound it is only counted, since a document with so many needs no more words.
    pub fn add(&mut self, kind: AnomalyKind, detail: impl Into<String>) {
        if self.listed.len() < MAX_ANOMALIES {
            self.listed.push(Anomaly {
                kind,
                detail: detail.into(),
            });
        } else {
            *self.suppressed.entry(kind).or_default() += 1;
        }
    }

    /// How many there are that are not described, by kind.
    pub fn suppressed(&self) -> &BTreeMap<AnomalyKind, u64> {
        &self.suppressed
    }

    /// Those that are described, in the order of the document.
    pub fn iter(&self) -> std::slice::Iter<'_, Anomaly> {
        self.listed.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl<'a> IntoIterator for &'a Anomalies {
    type Item = &'a Anomaly;
    type IntoIter = std::slice::Iter<'a, Anomaly>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Reads the body of a 200.
pub fn parse(body: &[u8]) -> Result<(Document, Anomalies), ParseError> {
    let mut anomalies = Anomalies::default();
    let text = String::from_utf8_lossy(body);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        anomalies.add(
            AnomalyKind::Encoding,
            "the body is not UTF-8; what could not be read stands as U+FFFD",
        );
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let root = raw::root(text)?;
    let incarnation = event::incarnation(root.incarnation, &mut anomalies);
    let mut collector = Collector {
        document: Document {
            incarnation,
            ..Document::default()
        },
        places: HashMap::new(),
    };
    raw::each_event(root.events, |entry| collector.take(entry, &mut anomalies))?;
    Ok((collector.document, anomalies))
}

/// Puts the entries of `Events` together.
struct Collector {
    document: Document,
    places: HashMap<EventId, usize>,
}

impl Collector {
    fn take(&mut self, entry: &RawValue, anomalies: &mut Anomalies) {
        if self.document.events.len() >= MAX_EVENTS {
            return self.lose(format!("more than {MAX_EVENTS} events"), anomalies);
        }
        let event = match event::event(entry, anomalies) {
            Ok(event) => event,
            Err(why) => return self.lose(why, anomalies),
        };
        let known = self
            .places
            .get(&event.id)
            .and_then(|place| self.document.events.get_mut(*place));
        if let Some(known) = known {
            anomalies.add(
                AnomalyKind::DuplicateEvent,
                format!(
                    "event {} stands twice; both were merged",
                    event::excerpt(event.id.as_str())
                ),
            );
            merge(known, event);
        } else {
            self.places
                .insert(event.id.clone(), self.document.events.len());
            self.document.events.push(event);
        }
    }

    fn lose(&mut self, why: String, anomalies: &mut Anomalies) {
        self.document.unreadable_events += 1;
        anomalies.add(AnomalyKind::Event, why);
    }
}

/// One event out of two entries with one id: the union of the resources, and the more that is said of the rest.
fn merge(known: &mut Event, again: Event) {
    match (&mut known.resources, again.resources) {
        (Some(resources), Some(more)) => {
            let folded = |name: &str| name.to_ascii_lowercase();
            let mut have: HashSet<_> = resources.iter().map(|name| folded(name)).collect();
            resources.extend(more.into_iter().filter(|name| have.insert(folded(name))));
        }
        (resources @ None, more) => *resources = more,
        (Some(_), None) => {}
    }
    if progress(&again.status) > progress(&known.status) {
        known.status = again.status;
    }
    if known.event_type.as_str() == event::UNREADABLE {
        known.event_type = again.event_type;
    }
    known.not_before = known.not_before.or(again.not_before);
    known.duration_seconds = known.duration_seconds.or(again.duration_seconds);
    known.source = known.source.take().or(again.source);
    known.resource_type = known.resource_type.take().or(again.resource_type);
    known.description = known.description.take().or(again.description);
}

/// Of two entries with one id, the one that is further holds.
fn progress(status: &Status) -> u8 {
    match status {
        Status::Other(word) if &**word == event::UNREADABLE => 0,
        Status::Scheduled => 1,
        Status::Other(_) => 2,
        Status::Started => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;

    #[test]
    fn of_two_entries_with_one_id_the_one_that_says_more_holds() {
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
        let words = |status| format!(r#""EventType":"Freeze","EventStatus":"{status}""#);
        for (less, more) in [
            ("Scheduled", "Started"),
            ("Scheduled", "Paused"),
            ("Paused", "Started"),
            ("Unknown", "Scheduled"),
        ] {
            let expected = (EventType::Freeze, Status::new(more));
            assert_eq!(merged(&words(less), &words(more)), expected);
            assert_eq!(merged(&words(more), &words(less)), expected);
        }
        let nothing = r#""EventStatus":7"#;
        let expected = (EventType::Freeze, Status::Scheduled);
        assert_eq!(merged(nothing, &words("Scheduled")), expected);
        assert_eq!(merged(&words("Scheduled"), nothing), expected);
    }

    #[test]
    fn resources_are_united_without_case_in_their_order_however_many_they_are() {
        let names = |numbers: std::ops::Range<usize>, word: &str| {
            let names: Vec<_> = numbers
                .map(|number| format!(r#""{word}{number}""#))
                .collect();
            names.join(",")
        };
        let (lower, upper) = (names(0..50_000, "vm"), names(25_000..75_000, "VM"));
        let body = format!(
            r#"{{"Events":[{{"EventId":"a","Resources":[{lower}]}},{{"EventId":"A","Resources":[{upper}]}}]}}"#
        );
        let (document, _) = parse(body.as_bytes()).unwrap();
        let [event] = document.events.try_into().unwrap();
        let united = event.resources.unwrap();
        assert_eq!(united.len(), 75_000);
        assert_eq!((&*united[0], &*united[49_999]), ("vm0", "vm49999"));
        assert_eq!((&*united[50_000], &*united[74_999]), ("VM50000", "VM74999"));
    }

    #[test]
    fn every_anomaly_is_counted_and_the_first_are_described() {
        let body = format!(
            r#"{{"DocumentIncarnation":1,"Events":[{}{{"EventId":"a"}}]}}"#,
            "{},".repeat(100)
        );
        let (document, anomalies) = parse(body.as_bytes()).unwrap();
        assert_eq!(document.unreadable_events, 100);
        assert_eq!(anomalies.iter().count(), MAX_ANOMALIES);
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
