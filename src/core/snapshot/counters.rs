//! Counters since the start of the process: never by event id, and from zero for all documented values.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::Histogram;
use crate::{
    azure::{
        FailureReason,
        document::AnomalyKind,
        event::{EventId, EventScope, EventType, Impact},
    },
    base::{label::label_values, text::visible},
    core::lifecycle::{Outcome, Transition, TransitionKind},
};

/// Undocumented event types that are counted by name; further ones are counted together as `other`.
const MAX_OTHER_TYPES: usize = 16;
/// Upper bounds of the notice: a Spot eviction gives at most 30 s, degraded hardware up to a week.
const NOTICE_BOUNDS: &[f64] = &[
    5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 86_400.0, 604_800.0,
];
/// Upper bounds of the time that an event is Started: usually five to ten minutes.
const IMPACT_BOUNDS: &[f64] = &[
    1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
];
/// Upper bounds of an interruption: a freeze takes seconds, a reboot minutes.
const INTERRUPTION_BOUNDS: &[f64] = &[
    1.0, 2.0, 5.0, 9.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0,
];
/// Upper bounds of the duration of a request to IMDS: usually milliseconds, up to two minutes for the first.
const REQUEST_BOUNDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 130.0,
];

label_values! {
    /// The result of an approval: the closed set of values of the label `result`.
    pub enum ApprovalResult {
        Approved = "approved",
        DryRun = "dry_run",
        /// IMDS refused it, or did not answer.
        Failed = "failed",
    }
}

/// An event type as a label of a counter, bounded in length and number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeLabel(Box<str>);

impl TypeLabel {
    const MAX_CHARS: usize = 64;

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&EventType> for TypeLabel {
    fn from(event_type: &EventType) -> Self {
        let shown = event_type.as_str().chars().take(Self::MAX_CHARS);
        Self(shown.map(visible).collect())
    }
}

/// A counter with the last counted event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExemplarCounter {
    pub count: u64,
    /// Its trace is the exemplar.
    pub last: Option<EventId>,
}

impl ExemplarCounter {
    fn add(&mut self, transition: &Transition) {
        self.count += 1;
        self.last = Some(transition.tracked.shown.id.clone());
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct EventCounters {
    pub observed: BTreeMap<(TypeLabel, EventScope), ExemplarCounter>,
    pub ended: BTreeMap<(TypeLabel, Outcome), ExemplarCounter>,
    pub notice: BTreeMap<TypeLabel, Histogram>,
    pub impact: BTreeMap<TypeLabel, Histogram>,
    pub interruption: BTreeMap<TypeLabel, Histogram>,
    /// Interruptions of this VM without an event.
    pub unannounced: Histogram,
    pub approvals: BTreeMap<(TypeLabel, ApprovalResult), u64>,
    /// Each anomaly is counted when it appears, not at every poll.
    pub anomalies: BTreeMap<AnomalyKind, u64>,
    other_types: BTreeSet<TypeLabel>,
}

impl Default for EventCounters {
    fn default() -> Self {
        let types = || EventType::KNOWN.iter().map(TypeLabel::from);
        let observed = types().flat_map(|label| {
            [EventScope::Own, EventScope::Other].map(|scope| (label.clone(), scope))
        });
        let is_approvable = |event_type: &&EventType| {
            matches!(event_type.spec().impact, Impact::Pause | Impact::Restart)
        };
        let approvable = EventType::KNOWN.iter().filter(is_approvable);
        let approvals = approvable
            .map(TypeLabel::from)
            .flat_map(|label| ApprovalResult::ALL.map(|result| ((label.clone(), result), 0)));
        let ended = types().flat_map(|label| Outcome::ALL.map(|outcome| (label.clone(), outcome)));
        Self {
            observed: observed
                .map(|key| (key, ExemplarCounter::default()))
                .collect(),
            ended: ended.map(|key| (key, ExemplarCounter::default())).collect(),
            notice: BTreeMap::new(),
            impact: BTreeMap::new(),
            interruption: BTreeMap::new(),
            unannounced: Histogram::new(INTERRUPTION_BOUNDS),
            approvals: approvals.collect(),
            anomalies: AnomalyKind::ALL.into_iter().map(|kind| (kind, 0)).collect(),
            other_types: BTreeSet::new(),
        }
    }
}

impl EventCounters {
    /// Counts a transition. An event that came back and ends again is counted twice only if its outcome differs.
    pub fn count(&mut self, transition: &Transition) {
        let tracked = &transition.tracked;
        let event = &tracked.shown;
        // Otherwise an advisory that becomes maintenance of the same type would be counted twice.
        if event.is_other_advisory() {
            return;
        }
        let label = self.label(&event.event_type);
        match &transition.kind {
            TransitionKind::Announced => self
                .observed
                .entry((label, tracked.scope))
                .or_default()
                .add(transition),
            TransitionKind::Started => {
                observe(&mut self.notice, label, NOTICE_BOUNDS, tracked.notice());
            }
            TransitionKind::Interrupted(interruption) => {
                let (bounds, length) = (INTERRUPTION_BOUNDS, Some(interruption.length));
                observe(&mut self.interruption, label, bounds, length);
            }
            TransitionKind::Ended(outcome) => self.count_end(label, *outcome, transition),
            _ => {}
        }
    }

    pub fn count_anomalies(&mut self, kind: AnomalyKind, count: u64) {
        *self.anomalies.entry(kind).or_default() += count;
    }

    fn count_end(&mut self, label: TypeLabel, outcome: Outcome, transition: &Transition) {
        let tracked = &transition.tracked;
        if tracked.previous_outcome == Some(outcome) {
            return;
        }
        let impact = tracked.impact();
        observe(&mut self.impact, label.clone(), IMPACT_BOUNDS, impact);
        self.ended
            .entry((label.clone(), outcome))
            .or_default()
            .add(transition);
        if tracked.started_at.is_none() {
            observe(&mut self.notice, label, NOTICE_BOUNDS, tracked.notice());
        }
    }

    /// The number of undocumented types is bounded: a fault could send a new one with each event.
    fn label(&mut self, event_type: &EventType) -> TypeLabel {
        let label = TypeLabel::from(event_type);
        if matches!(event_type, EventType::Other(_)) && !self.other_types.contains(&label) {
            if self.other_types.len() >= MAX_OTHER_TYPES {
                return TypeLabel("other".into());
            }
            self.other_types.insert(label.clone());
        }
        label
    }
}

fn observe(
    histograms: &mut BTreeMap<TypeLabel, Histogram>,
    label: TypeLabel,
    bounds: &'static [f64],
    duration: Option<Duration>,
) {
    if let Some(duration) = duration {
        histograms
            .entry(label)
            .or_insert_with(|| Histogram::new(bounds))
            .observe(duration);
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct RequestCounters {
    pub(crate) requests: u64,
    pub(crate) failures: BTreeMap<FailureReason, u64>,
    pub(crate) duration: Histogram,
}

impl Default for RequestCounters {
    fn default() -> Self {
        Self {
            requests: 0,
            failures: FailureReason::ALL.into_iter().map(|it| (it, 0)).collect(),
            duration: Histogram::new(REQUEST_BOUNDS),
        }
    }
}

impl RequestCounters {
    pub(crate) fn count(&mut self, took: Duration, failed: Option<FailureReason>) {
        self.requests += 1;
        self.duration.observe(took);
        if let Some(reason) = failed {
            *self.failures.entry(reason).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        azure::document,
        base::time::{Moment, Timestamp},
        core::lifecycle::Tracker,
    };

    #[test]
    fn the_number_of_undocumented_types_is_bounded() {
        let mut counters = EventCounters::default();
        let mut tracker = Tracker::default();
        let now = Moment::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        let mut see = |events: &str| {
            let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{events}]}}"#);
            let (document, _) = document::parse(body.as_bytes()).unwrap();
            for transition in tracker.observe(&document, None, now) {
                counters.count(&transition);
            }
        };
        let event = |id: u32, event_type: &str| {
            format!(r#"{{"EventId":"{id}","EventType":"{event_type}","EventStatus":"Started"}}"#)
        };
        // The start of an event in the first document was not seen.
        see("");
        for number in 0..100 {
            see(&event(number, "Freeze"));
            see(&event(number, &format!("Freeze{number}")));
            see("");
        }
        let types: BTreeSet<_> = counters
            .ended
            .keys()
            .map(|(label, _)| label.as_str())
            .collect();
        assert_eq!(types.len(), EventType::KNOWN.len() + MAX_OTHER_TYPES + 1);
        assert!(types.contains("other"), "{types:?}");
        assert_eq!(counters.impact.len(), MAX_OTHER_TYPES + 1);
    }
}
