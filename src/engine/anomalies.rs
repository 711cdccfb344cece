//! Which anomalies of a document are new: one that was in the last document is neither counted nor logged again.

use std::collections::BTreeMap;

use super::LogEntry;
use crate::{
    document::{Anomalies, Anomaly, AnomalyKind},
    event::Status,
    lifecycle::{Transition, TransitionKind},
};

/// The anomalies of the last document, each with its count.
#[derive(Debug, Default)]
pub(super) struct AnomalyTracker {
    described: BTreeMap<Anomaly, u64>,
    suppressed: BTreeMap<AnomalyKind, u64>,
}

/// The anomalies that the last document did not have.
#[derive(Debug, Default)]
pub(super) struct NewAnomalies {
    pub(super) counts: Vec<(AnomalyKind, u64)>,
    pub(super) log: Vec<LogEntry>,
}

impl NewAnomalies {
    fn add(&mut self, anomaly: &Anomaly, count: u64) {
        self.counts.push((anomaly.kind, count));
        self.log.push(LogEntry::Anomaly(anomaly.clone()));
    }
}

impl AnomalyTracker {
    /// Compares a document with the last one. `transitions` are those that the document caused: a status that went back
    /// is an anomaly too.
    pub(super) fn compare(
        &mut self,
        anomalies: &Anomalies,
        transitions: &[Transition],
    ) -> NewAnomalies {
        let mut new = NewAnomalies::default();
        for anomaly in transitions.iter().filter_map(regression) {
            new.add(&anomaly, 1);
        }
        let mut present: BTreeMap<Anomaly, u64> = BTreeMap::new();
        for anomaly in anomalies {
            *present.entry(anomaly.clone()).or_default() += 1;
        }
        for (anomaly, count) in &present {
            let more = count.saturating_sub(known(&self.described, anomaly));
            if more > 0 {
                new.add(anomaly, more);
            }
        }
        for (kind, count) in anomalies.suppressed() {
            let more = count.saturating_sub(known(&self.suppressed, kind));
            if more > 0 {
                new.counts.push((*kind, more));
                new.log.push(LogEntry::MoreAnomalies {
                    kind: *kind,
                    count: more,
                });
            }
        }
        self.described = present;
        self.suppressed.clone_from(anomalies.suppressed());
        new
    }
}

fn known<K: Ord>(counts: &BTreeMap<K, u64>, key: &K) -> u64 {
    counts.get(key).copied().unwrap_or(0)
}

/// The anomaly of an event that was Started and is Scheduled again.
fn regression(transition: &Transition) -> Option<Anomaly> {
    let event = &transition.tracked.event;
    let is_regression = transition.kind == TransitionKind::StatusChanged(Status::Started)
        && event.status == Status::Scheduled;
    is_regression.then(|| Anomaly {
        kind: AnomalyKind::StatusRegressed,
        detail: format!("event {} was Started and is Scheduled again", event.id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;

    fn anomalies(unreadable: usize) -> Anomalies {
        let events = vec!["{}"; unreadable].join(",");
        let body = format!(r#"{{"Events":[{events}]}}"#);
        document::parse(body.as_bytes()).unwrap().1
    }

    #[test]
    fn only_new_anomalies_are_counted() {
        let mut tracker = AnomalyTracker::default();
        let mut count_new = |unreadable| -> u64 {
            let new = tracker.compare(&anomalies(unreadable), &[]);
            new.counts.iter().map(|(_, count)| count).sum()
        };
        assert_eq!(count_new(0), 1, "the incarnation is missing");
        let unreadable = [0, 3, 3, 100, 103, 103, 0, 1];
        assert_eq!(unreadable.map(&mut count_new), [0, 3, 0, 97, 3, 0, 0, 1]);
    }
}
