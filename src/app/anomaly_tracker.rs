//! Which anomalies of documents are news: one that stays is neither counted nor logged again.

use std::collections::BTreeMap;

use super::logging;
use crate::{
    document::{Anomalies, Anomaly, AnomalyKind},
    event::Status,
    lifecycle::{Transition, TransitionKind},
};

/// The anomalies of the last document.
#[derive(Debug, Default)]
pub(super) struct AnomalyTracker {
    /// With how often each stands there.
    described: BTreeMap<Anomaly, u64>,
    suppressed: BTreeMap<AnomalyKind, u64>,
}

impl AnomalyTracker {
    /// Logs what is odd about this document, and what happened with it, and was not so about the last one. Returns how
    /// many anomalies of which kind that is.
    pub(super) fn note(
        &mut self,
        anomalies: &Anomalies,
        transitions: &[Transition],
    ) -> Vec<(AnomalyKind, u64)> {
        let mut news = Vec::new();
        for anomaly in transitions.iter().filter_map(regression) {
            logging::anomaly(&anomaly);
            news.push((anomaly.kind, 1));
        }
        let mut present: BTreeMap<Anomaly, u64> = BTreeMap::new();
        for anomaly in anomalies {
            *present.entry(anomaly.clone()).or_default() += 1;
        }
        for (anomaly, count) in &present {
            let more = count.saturating_sub(known(&self.described, anomaly));
            if more > 0 {
                logging::anomaly(anomaly);
                news.push((anomaly.kind, more));
            }
        }
        for (kind, count) in anomalies.suppressed() {
            let more = count.saturating_sub(known(&self.suppressed, kind));
            if more > 0 {
                logging::more_anomalies(*kind, more);
                news.push((*kind, more));
            }
        }
        self.described = present;
        self.suppressed.clone_from(anomalies.suppressed());
        news
    }
}

fn known<K: Ord>(counts: &BTreeMap<K, u64>, key: &K) -> u64 {
    counts.get(key).copied().unwrap_or(0)
}

/// A started event is said to be scheduled again.
fn regression(transition: &Transition) -> Option<Anomaly> {
    let event = &transition.tracked.event;
    let is_regression = transition.kind == TransitionKind::StatusChanged(Status::Started)
        && event.status == Status::Scheduled;
    is_regression.then(|| Anomaly {
        kind: AnomalyKind::StatusRegressed,
        detail: format!(
            "event {} was started and is said to be scheduled again",
            event.id
        ),
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
    fn only_what_is_new_is_news() {
        let mut anomaly_tracker = AnomalyTracker::default();
        let mut news = |unreadable| -> u64 {
            let news = anomaly_tracker.note(&anomalies(unreadable), &[]);
            news.iter().map(|(_, count)| count).sum()
        };
        assert_eq!(news(0), 1, "the incarnation is missing");
        let unreadable = [0, 3, 3, 100, 103, 103, 0, 1];
        assert_eq!(unreadable.map(&mut news), [0, 3, 0, 97, 3, 0, 0, 1]);
    }
}
