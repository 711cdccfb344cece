//! What deviates from the documented form: counted by kind and described in the log.

use std::collections::BTreeMap;

use crate::base::label::label_values;

/// Anomalies that are described individually; the rest is only counted.
pub(super) const MAX_ANOMALIES: usize = 64;

label_values! {
    /// Values of the label `kind`. Those with the name of a member say that it is missing, too long or of another type.
    pub enum AnomalyKind {
        /// An entry of `Events` contradicts another one, itself, or an earlier document. The event is never approved.
        Contradiction = "contradiction",
        Description = "description",
        /// Two entries have the same id: the first one counts, and the document neither ends nor approves the event.
        DuplicateEvent = "duplicate_event",
        /// The document or an entry of `Events` has two members of one name; the last one counts.
        DuplicateMember = "duplicate_member",
        Duration = "duration",
        /// Only empty bodies for so long that they were accepted as "no events".
        EmptyBody = "empty_body",
        Encoding = "encoding",
        /// An entry of `Events` could not be read, or more events are pending than are tracked.
        Event = "event",
        EventSource = "event_source",
        EventStatus = "event_status",
        EventType = "event_type",
        Incarnation = "incarnation",
        NotBefore = "not_before",
        ResourceType = "resource_type",
        Resources = "resources",
        StatusRegressed = "status_regressed",
        /// Undocumented members were dropped: too many, too long, with values that some JSON decoders refuse, or with
        /// names that differ from a documented one only in case.
        UnknownMember = "unknown_member",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    /// For the log; at most a few hundred characters, without control characters.
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anomalies {
    /// At most 64, in the order of the document.
    pub described: Vec<Anomaly>,
    /// How many more there are of each kind.
    pub(crate) suppressed: BTreeMap<AnomalyKind, u64>,
}

impl Anomalies {
    pub(crate) fn add(&mut self, kind: AnomalyKind, detail: impl Into<String>) {
        if self.described.len() < MAX_ANOMALIES {
            let detail = detail.into();
            self.described.push(Anomaly { kind, detail });
        } else {
            *self.suppressed.entry(kind).or_default() += 1;
        }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for anomaly in &other.described {
            self.add(anomaly.kind, anomaly.detail.clone());
        }
        for (kind, count) in &other.suppressed {
            *self.suppressed.entry(*kind).or_default() += count;
        }
    }
}
