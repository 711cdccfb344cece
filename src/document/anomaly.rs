//! What deviates from the documented form: counted by kind and described in the log.

use std::{collections::BTreeMap, fmt};

/// Anomalies that are described individually; the rest is only counted.
pub(super) const MAX_ANOMALIES: usize = 64;

/// Values of the label `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnomalyKind {
    /// An entry of `Events` contradicts another one, itself, or an earlier document. The event is never approved.
    Contradiction,
    /// `Description` is too long or not a string.
    Description,
    /// Two entries have the same id: they are one event with the resources of both.
    DuplicateEvent,
    /// The document or an entry of `Events` has two members of one name; the last one counts.
    DuplicateMember,
    /// `DurationInSeconds` is not a whole number of seconds.
    Duration,
    /// Only empty bodies for so long that they were accepted as "no events".
    EmptyBody,
    /// The body is not UTF-8.
    Encoding,
    /// An entry of `Events` could not be read, or more events are pending than are tracked.
    Event,
    /// `EventSource` is too long or not a string.
    EventSource,
    /// `EventStatus` is missing, too long or not a string.
    EventStatus,
    /// `EventType` is missing, too long or not a string.
    EventType,
    /// `DocumentIncarnation` is missing or not a whole number.
    Incarnation,
    /// `NotBefore` is not a time.
    NotBefore,
    /// `ResourceType` is too long or not a string.
    ResourceType,
    /// `Resources` is missing, has too many or too long names, or is not an array of strings.
    Resources,
    /// A started event is reported as scheduled again.
    StatusRegressed,
    /// Undocumented members were dropped: too many, too long, with values that some JSON decoders refuse, or with names
    /// that differ from a documented one only in case.
    UnknownMember,
}

impl AnomalyKind {
    /// In the order of the label values.
    pub(crate) const ALL: [Self; 17] = [
        Self::Contradiction,
        Self::Description,
        Self::DuplicateEvent,
        Self::DuplicateMember,
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

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contradiction => "contradiction",
            Self::Description => "description",
            Self::DuplicateEvent => "duplicate_event",
            Self::DuplicateMember => "duplicate_member",
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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    /// For the log; at most a few hundred characters, without control characters.
    pub detail: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.detail)
    }
}

/// The anomalies of one document, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anomalies {
    listed: Vec<Anomaly>,
    /// Counts past [`MAX_ANOMALIES`].
    suppressed: BTreeMap<AnomalyKind, u64>,
}

impl Anomalies {
    /// Past [`MAX_ANOMALIES`] it is counted without a description.
    pub(crate) fn add(&mut self, kind: AnomalyKind, detail: impl Into<String>) {
        if self.listed.len() < MAX_ANOMALIES {
            self.listed.push(Anomaly {
                kind,
                detail: detail.into(),
            });
        } else {
            *self.suppressed.entry(kind).or_default() += 1;
        }
    }

    /// Adds those of `other`.
    pub(crate) fn extend(&mut self, other: &Self) {
        for anomaly in other {
            self.add(anomaly.kind, anomaly.detail.clone());
        }
        for (kind, count) in &other.suppressed {
            *self.suppressed.entry(*kind).or_default() += count;
        }
    }

    /// Counts by kind of the anomalies that are not described.
    pub(crate) fn suppressed(&self) -> &BTreeMap<AnomalyKind, u64> {
        &self.suppressed
    }

    /// The described anomalies, in the order of the document.
    pub fn iter(&self) -> std::slice::Iter<'_, Anomaly> {
        self.listed.iter()
    }
}

impl<'a> IntoIterator for &'a Anomalies {
    type Item = &'a Anomaly;
    type IntoIter = std::slice::Iter<'a, Anomaly>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
