//! Which anomalies of a document are new: one that was in the last document is neither counted nor logged again.

use std::collections::BTreeMap;

use tracing::warn;

use super::log::LogLimit;
use crate::{
    azure::{
        document::{Anomalies, Anomaly, AnomalyKind},
        event::Status,
    },
    core::lifecycle::{Transition, TransitionKind},
};

/// The anomalies of the last document, each with its count.
#[derive(Debug, Default)]
pub(super) struct AnomalyTracker(BTreeMap<Anomaly, u64>);

impl AnomalyTracker {
    /// Logs and counts the new anomalies. A status that went back, in the `transitions` of the document, is one too.
    pub(super) fn compare(
        &mut self,
        anomalies: Anomalies,
        transitions: &[Transition],
        limit: &mut LogLimit,
    ) -> Vec<(AnomalyKind, u64)> {
        let regressions = transitions.iter().filter_map(regression);
        let mut new: Vec<_> = regressions.map(|anomaly| (anomaly, 1)).collect();
        let more = anomalies.suppressed.into_iter().map(|(kind, count)| {
            let detail = "more of this kind than are logged".to_owned();
            (Anomaly { kind, detail }, count)
        });
        let mut present: BTreeMap<_, u64> = more.collect();
        for anomaly in anomalies.described {
            *present.entry(anomaly).or_default() += 1;
        }
        for (anomaly, count) in &present {
            let known = self.0.get(anomaly).copied().unwrap_or(0);
            if *count > known {
                new.push((anomaly.clone(), count - known));
            }
        }
        self.0 = present;
        let counted = new.iter().map(|(anomaly, count)| {
            if limit.admits(None) {
                log_anomaly(anomaly);
            }
            (anomaly.kind, *count)
        });
        counted.collect()
    }
}

pub(crate) fn log_anomaly(anomaly: &Anomaly) {
    warn!(
        kind = anomaly.kind.as_str(),
        detail = anomaly.detail,
        "document anomaly"
    );
}

fn regression(transition: &Transition) -> Option<Anomaly> {
    let event = &transition.tracked.shown;
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
            let new = tracker.compare(anomalies(unreadable), &[], &mut LogLimit::default());
            new.iter().map(|(_, count)| count).sum()
        };
        assert_eq!(count_new(0), 1, "the incarnation is missing");
        let unreadable = [0, 3, 3, 100, 103, 103, 0, 1];
        assert_eq!(unreadable.map(&mut count_new), [0, 3, 0, 97, 3, 0, 0, 1]);
    }
}
