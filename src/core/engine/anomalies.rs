//! Which anomalies of a document are new: one that was in the last document is neither counted nor logged again.

use std::collections::BTreeMap;

use super::LogEntry;
use crate::{
    azure::{
        document::{Anomalies, Anomaly, AnomalyKind},
        event::Status,
    },
    core::lifecycle::{Transition, TransitionKind},
};

/// The anomalies of the last document, each with its count.
#[derive(Debug, Default)]
pub(super) struct AnomalyTracker {
    described: BTreeMap<Anomaly, u64>,
    suppressed: BTreeMap<AnomalyKind, u64>,
}

impl AnomalyTracker {
    /// The anomalies of a document that the last one did not have, counted, and as log entries. `transitions` are those
    /// that the document caused: a status that went back is an anomaly too.
    pub(super) fn compare(
        &mut self,
        anomalies: Anomalies,
        transitions: &[Transition],
    ) -> Vec<(AnomalyKind, u64, LogEntry)> {
        let describe = |anomaly: Anomaly, count| (anomaly.kind, count, LogEntry::Anomaly(anomaly));
        let regressions = transitions.iter().filter_map(regression);
        let mut new: Vec<_> = regressions.map(|anomaly| describe(anomaly, 1)).collect();
        let mut present: BTreeMap<Anomaly, u64> = BTreeMap::new();
        for anomaly in anomalies.described {
            *present.entry(anomaly).or_default() += 1;
        }
        for (anomaly, count) in &present {
            let more = count.saturating_sub(known(&self.described, anomaly));
            if more > 0 {
                new.push(describe(anomaly.clone(), more));
            }
        }
        for (&kind, count) in &anomalies.suppressed {
            let count = count.saturating_sub(known(&self.suppressed, &kind));
            if count > 0 {
                new.push((kind, count, LogEntry::MoreAnomalies { kind, count }));
            }
        }
        self.described = present;
        self.suppressed = anomalies.suppressed;
        new
    }
}

fn known<K: Ord>(counts: &BTreeMap<K, u64>, key: &K) -> u64 {
    counts.get(key).copied().unwrap_or(0)
}

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
    use crate::azure::document;

    fn anomalies(unreadable: usize) -> Anomalies {
        let events = vec!["{}"; unreadable].join(",");
        let body = format!(r#"{{"Events":[{events}]}}"#);
        document::parse(body.as_bytes()).unwrap().1
    }

    #[test]
    fn only_new_anomalies_are_counted() {
        let mut tracker = AnomalyTracker::default();
        let mut count_new = |unreadable| -> u64 {
            let new = tracker.compare(anomalies(unreadable), &[]);
            new.iter().map(|(_, count, _)| count).sum()
        };
        assert_eq!(count_new(0), 1, "the incarnation is missing");
        let unreadable = [0, 3, 3, 100, 103, 103, 0, 1];
        assert_eq!(unreadable.map(&mut count_new), [0, 3, 0, 97, 3, 0, 0, 1]);
    }
}
