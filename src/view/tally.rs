//! What was counted since the process began: never by event id, and from zero for all that is documented.

use std::{collections::BTreeMap, fmt};

use super::Histogram;
use crate::{
    document::AnomalyKind,
    event::{EventId, EventType, Scope},
    lifecycle::{Life, Outcome, Transition, What},
};

/// Event types beside the documented ones that are counted by name; more are counted together as `other`.
const MOST_OTHER_TYPES: usize = 16;
/// Upper bounds for the notice: Spot eviction gives at most 30 s, degraded hardware up to a week.
const NOTICE_BOUNDS: &[f64] = &[
    5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 86_400.0, 604_800.0,
];
/// Upper bounds for the time an event is Started: usually five to ten minutes.
const IMPACT_BOUNDS: &[f64] = &[
    1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
];
/// Upper bounds for an interruption: a freeze takes seconds, a reboot minutes.
const INTERRUPTION_BOUNDS: &[f64] = &[
    1.0, 2.0, 5.0, 9.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0,
];

/// An event type as a label of a counter, bounded in length and number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeLabel(Box<str>);

impl TypeLabel {
    const LONGEST: usize = 64;

    fn new(event_type: &EventType) -> Self {
        let shown = event_type.as_str().chars().take(Self::LONGEST);
        Self(
            shown
                .map(|c| {
                    if c.is_control() {
                        char::REPLACEMENT_CHARACTER
                    } else {
                        c
                    }
                })
                .collect(),
        )
    }

    /// The value of the label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<EventType> for TypeLabel {
    fn from(event_type: EventType) -> Self {
        Self::new(&event_type)
    }
}

impl fmt::Display for TypeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A count, and the event that was counted last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// How many.
    pub count: u64,
    /// The last one, whose trace is the exemplar.
    pub last: Option<EventId>,
}

impl Counted {
    fn add(&mut self, id: &EventId) {
        self.count += 1;
        self.last = Some(id.clone());
    }
}

/// All that is counted of events and documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// Events seen for the first time.
    pub observed: BTreeMap<(TypeLabel, Scope), Counted>,
    /// Events that ended.
    pub ended: BTreeMap<(TypeLabel, Outcome), Counted>,
    /// Time from first sight to the start.
    pub notice: BTreeMap<TypeLabel, Histogram>,
    /// Time from the start to the end.
    pub impact: BTreeMap<TypeLabel, Histogram>,
    /// Times in which this VM stood still.
    pub interruption: BTreeMap<TypeLabel, Histogram>,
    /// Oddities of documents, each counted when it appears.
    pub anomalies: BTreeMap<AnomalyKind, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let types = || EventType::KNOWN.into_iter().map(TypeLabel::from);
        let observed = types()
            .flat_map(|label| [Scope::Own, Scope::Other].map(|scope| (label.clone(), scope)));
        let ended = types().flat_map(|label| Outcome::ALL.map(|outcome| (label.clone(), outcome)));
        Self {
            observed: observed.map(|key| (key, Counted::default())).collect(),
            ended: ended.map(|key| (key, Counted::default())).collect(),
            notice: BTreeMap::new(),
            impact: BTreeMap::new(),
            interruption: BTreeMap::new(),
            anomalies: AnomalyKind::ALL.into_iter().map(|kind| (kind, 0)).collect(),
        }
    }
}

impl Tally {
    /// Counts what happened. An event that came back and ends again is not counted twice; only its impact is counted then,
    /// where it had not started when it was gone before.
    pub fn count(&mut self, transition: &Transition) {
        let life = &transition.life;
        let label = self.label(&life.event.event_type);
        match &transition.what {
            What::Appeared => self
                .observed
                .entry((label, life.scope))
                .or_default()
                .add(&life.event.id),
            What::Started => observe(&mut self.notice, label, NOTICE_BOUNDS, life.notice()),
            What::Interrupted(interruption) => {
                observe(
                    &mut self.interruption,
                    label,
                    INTERRUPTION_BOUNDS,
                    Some(interruption.length),
                );
            }
            What::Ended(outcome) => self.count_end(label, *outcome, life),
            What::Rescheduled(_)
            | What::StatusChanged(_)
            | What::Amended { .. }
            | What::Approved
            | What::Returned => {}
        }
    }

    /// Counts an oddity of a document.
    pub fn count_anomaly(&mut self, kind: AnomalyKind) {
        *self.anomalies.entry(kind).or_default() += 1;
    }

    fn count_end(&mut self, label: TypeLabel, outcome: Outcome, life: &Life) {
        if life.is_first_impact() {
            observe(
                &mut self.impact,
                label.clone(),
                IMPACT_BOUNDS,
                life.impact(),
            );
        }
        if life.times_ended > 1 {
            return;
        }
        self.ended
            .entry((label.clone(), outcome))
            .or_default()
            .add(&life.event.id);
        if life.started_at.is_none() {
            observe(&mut self.notice, label, NOTICE_BOUNDS, life.notice());
        }
    }

    /// The label of a type. Azure may invent types; a fault that invents one for each event must not fill the memory.
    fn label(&self, event_type: &EventType) -> TypeLabel {
        let label = TypeLabel::new(event_type);
        let seen = |wanted: &TypeLabel| self.observed.keys().any(|(known, _)| known == wanted);
        let mut types: Vec<_> = self.observed.keys().map(|(known, _)| known).collect();
        types.dedup();
        if seen(&label) || types.len() < EventType::KNOWN.len() + MOST_OTHER_TYPES {
            label
        } else {
            TypeLabel("other".into())
        }
    }
}

fn observe(
    histograms: &mut BTreeMap<TypeLabel, Histogram>,
    label: TypeLabel,
    bounds: &'static [f64],
    duration: Option<std::time::Duration>,
) {
    if let Some(duration) = duration {
        histograms
            .entry(label)
            .or_insert_with(|| Histogram::new(bounds))
            .observe(duration);
    }
}
