//! Properties of the engine: any documents in any order, failures, clocks that jump, restarts.

mod oracle;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    FailureReason, RequestError,
    document::{self, Anomalies, Answer, Document, Unreadable},
    engine::{Input, SavedState},
    event::{Event, EventId, EventType, Source, Status},
    lifecycle::{TrackedEvent, Transition, TransitionKind},
    metrics::{self, MetricsOptions, exposition::Format},
    snapshot::{SeriesScope, Snapshot},
    time::{Moment, MonotonicTime, Timestamp},
};
use proptest::prelude::*;

use self::oracle::Oracle;
use crate::support::driven_engine::{DrivenEngine, config, failure, through_a_file};

const EVENTS: usize = 4;

/// The entry of one event in a document.
#[derive(Debug, Clone, Copy)]
struct Observed {
    status: u8,
    event_type: usize,
    not_before: Option<i64>,
    is_own: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Observe([Option<Observed>; EVENTS], Lost),
    Confirm,
    Fail,
    StandStill(u64),
    Approve(usize),
    Restart { rebooted: bool, away: Elapse },
}

/// An entry of a document that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// It may be any event.
    Unidentified,
    /// It has the id of this event.
    Event(usize),
}

/// How far both clocks advance before a step. The wall clock may jump in addition.
#[derive(Debug, Clone, Copy)]
struct Elapse {
    millis: u64,
    jump_seconds: i64,
}

fn observed() -> impl Strategy<Value = Observed> {
    let seconds = prop_oneof![-100_000_i64..700_000, 0_i64..600];
    let not_before = prop::option::weighted(0.7, seconds);
    (0_u8..4, 0_usize..7, not_before, any::<bool>()).prop_map(
        |(status, event_type, not_before, is_own)| Observed {
            status,
            event_type,
            not_before,
            is_own,
        },
    )
}

fn observations() -> impl Strategy<Value = [Option<Observed>; EVENTS]> {
    prop::array::uniform4(prop::option::of(observed()))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (observations(), lost()).prop_map(|(events, lost)| Step::Observe(events, lost)),
        1 => Just(Step::Confirm),
        1 => Just(Step::Fail),
        1 => (0_u64..5_000).prop_map(Step::StandStill),
        1 => (0..EVENTS).prop_map(Step::Approve),
        1 => (any::<bool>(), elapse()).prop_map(|(rebooted, away)| Step::Restart { rebooted, away }),
    ]
}

fn lost() -> impl Strategy<Value = Lost> {
    prop_oneof![
        8 => Just(Lost::Nothing),
        2 => Just(Lost::Unidentified),
        1 => (0..EVENTS).prop_map(Lost::Event),
    ]
}

fn elapse() -> impl Strategy<Value = Elapse> {
    let millis = prop_oneof![
        Just(0),
        Just(1_000),
        Just(10_000),
        0_u64..120_000,
        0_u64..7_200_000
    ];
    let jump_seconds = prop_oneof![4 => Just(0), 1 => -200_000_i64..200_000];
    (millis, jump_seconds).prop_map(|(millis, jump_seconds)| Elapse {
        millis,
        jump_seconds,
    })
}

fn start() -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        Duration::from_secs(5),
    )
}

/// The clock of a new process that only counts while the VM is awake starts at about zero.
fn restarted() -> MonotonicTime {
    MonotonicTime::since_origin(Duration::from_secs(1))
}

fn later(now: Moment, elapse: Elapse) -> Moment {
    let mut later = now.after(Duration::from_millis(elapse.millis));
    let jump = Duration::from_secs(elapse.jump_seconds.unsigned_abs());
    later.wall = if elapse.jump_seconds < 0 {
        later.wall.before(jump)
    } else {
        later.wall.after(jump)
    };
    later
}

fn id(index: usize) -> EventId {
    EventId::new(&format!("{index:08X}-52DA-4F6E-9C38-A40D7E91B265"))
}

fn document(events: &[Option<Observed>; EVENTS], lost: Lost) -> Document {
    let event = |(index, observed): (usize, &Option<Observed>)| {
        let observed = (*observed)?;
        let other = EventType::Other("Hibernate".into());
        let name = if observed.is_own { "web_0" } else { "web_1" };
        Some(Event {
            id: id(index),
            event_type: EventType::KNOWN
                .into_iter()
                .chain([EventType::SpotRebalanceRecommendation])
                .nth(observed.event_type)
                .unwrap_or(other),
            status: match observed.status {
                0 => Status::Scheduled,
                1 => Status::Started,
                2 => Status::Advisory,
                _ => Status::Other("Paused".into()),
            },
            source: Some(Source::Platform),
            resource_type: Some("VirtualMachine".into()),
            resources: Some(vec![name.into()]),
            has_more_resources: false,
            not_before: observed
                .not_before
                .map(|seconds| Timestamp::from_unix_seconds(1_794_906_000 + seconds).unwrap()),
            duration_seconds: None,
            is_duration_unknown: false,
            description: None,
            unknown_members: Vec::new(),
        })
    };
    Document {
        incarnation: None,
        events: events.iter().enumerate().filter_map(event).collect(),
        unreadable: unreadable(lost),
        ..Document::default()
    }
}

fn unreadable(lost: Lost) -> Unreadable {
    let entry = match lost {
        Lost::Nothing => String::new(),
        Lost::Unidentified => r#"{"EventId":7}"#.to_owned(),
        Lost::Event(index) => format!(r#"{{"EventId":7,"Id":"{}"}}"#, id(index)),
    };
    let body = format!(r#"{{"Events":[{entry}]}}"#);
    document::parse(body.as_bytes()).unwrap().0.unreadable
}

/// A process of the exporter.
struct Process {
    driven: DrivenEngine,
    boot: u32,
}

impl Process {
    fn start(boot: u32, restored: Option<SavedState>, now: Moment) -> Self {
        let driven = DrivenEngine::new(config(Some("web_0"), boot), restored, now);
        Self { driven, boot }
    }

    /// Gives an input to the engine; returns the transitions that it emits. Each of them is logged.
    fn handle(&mut self, input: Input, now: Moment) -> Vec<Transition> {
        self.driven.now = now;
        self.driven.handle(input);
        let emitted = self.driven.emitted.drain(..);
        let transitions: Vec<_> = emitted.map(|(entry, _)| entry.transition.clone()).collect();
        let lines = self.driven.log.drain(..);
        let logged = lines.filter(|line| line.field("transition").is_some());
        assert_eq!(logged.count(), transitions.len());
        transitions
    }

    fn observe(&mut self, document: &Document, now: Moment) -> Vec<Transition> {
        self.polled(Ok(answer(document)), now)
    }

    fn polled(&mut self, result: Result<Answer, RequestError>, now: Moment) -> Vec<Transition> {
        let (took, late) = (Duration::ZERO, Duration::ZERO);
        self.handle(Input::Polled { result, took, late }, now)
    }

    fn snapshot(&mut self, now: Moment) -> Snapshot {
        self.driven.now = now;
        self.driven.snapshot()
    }

    fn events(&mut self, now: Moment) -> Arc<[Arc<TrackedEvent>]> {
        self.snapshot(now).events
    }

    /// Stops the process; returns its saved state.
    fn stop(mut self, now: Moment) -> SavedState {
        self.handle(Input::Shutdown, now);
        self.driven.saved.unwrap()
    }
}

fn answer(document: &Document) -> Answer {
    Answer::Document {
        document: document.clone(),
        anomalies: Anomalies::default(),
    }
}

/// The events that are pending or have ended according to the transitions.
#[derive(Debug, Default)]
struct Reader {
    pending: BTreeMap<EventId, bool>,
    /// The advisories that have ended. Their ids may be announced again, as maintenance.
    advisories: BTreeSet<EventId>,
}

impl Reader {
    fn take(&mut self, transition: &Transition) {
        let tracked = &transition.tracked;
        let before = self.pending.get(&tracked.shown.id).copied();
        let (expected, after) = match &transition.kind {
            TransitionKind::Announced if self.advisories.remove(&tracked.shown.id) => {
                // `None` if the ended advisory expired before.
                (before.filter(|is_pending| !is_pending), true)
            }
            // Maintenance that has become an advisory.
            TransitionKind::Announced if is_advisory(&tracked.shown) => {
                (before.filter(|is_pending| !is_pending), true)
            }
            TransitionKind::Announced => (None, true),
            TransitionKind::Returned { .. } => {
                self.advisories.remove(&tracked.shown.id);
                (Some(false), true)
            }
            TransitionKind::Ended(outcome) => {
                assert_eq!(tracked.end.map(|end| end.outcome), Some(*outcome));
                if is_advisory(&tracked.shown) {
                    self.advisories.insert(tracked.shown.id.clone());
                }
                (Some(true), false)
            }
            TransitionKind::Started => {
                assert!(!is_advisory(&tracked.shown), "{transition:?}");
                (Some(true), true)
            }
            TransitionKind::Rescheduled(_)
            | TransitionKind::StatusChanged(_)
            | TransitionKind::Amended { .. }
            | TransitionKind::Approved
            | TransitionKind::ApprovedElsewhere
            | TransitionKind::Interrupted(_) => (Some(true), true),
        };
        assert_eq!(before, expected, "{transition:?}");
        self.pending.insert(tracked.shown.id.clone(), after);
    }

    /// Removes the events that the engine no longer has, which must have ended.
    fn remove_expired(&mut self, events: &[Arc<TrackedEvent>]) {
        let shown: BTreeSet<_> = events.iter().map(|tracked| &tracked.shown.id).collect();
        self.pending.retain(|id, pending| {
            assert!(
                !*pending || shown.contains(id),
                "{id} was removed while pending"
            );
            shown.contains(id)
        });
        self.advisories.retain(|id| shown.contains(id));
        let pending = events.iter().filter(|tracked| tracked.is_pending());
        let pending: BTreeSet<_> = pending.map(|tracked| &tracked.shown.id).collect();
        let expected = self.pending.iter().filter(|(_, pending)| **pending);
        assert_eq!(pending, expected.map(|(id, _)| id).collect());
    }
}

fn is_advisory(event: &Event) -> bool {
    event.status == Status::Advisory || event.event_type == EventType::SpotRebalanceRecommendation
}

fn assert_ended_ones_are_missing_for_a_minute(
    transitions: &[Transition],
    missing_since: &BTreeMap<EventId, MonotonicTime>,
    now: Moment,
) {
    for one in transitions {
        if matches!(one.kind, TransitionKind::Ended(_)) {
            let since = missing_since[&one.tracked.shown.id];
            assert!(now.monotonic >= since + Duration::from_mins(1), "{one:?}");
        }
    }
}

/// Every exposed value is a finite number, and only a countdown is negative.
fn assert_values_are_valid(snapshot: Snapshot, now: Moment) {
    let snapshot = Arc::new(snapshot);
    let exposed = MetricsOptions {
        scope: SeriesScope::All,
        resources: true,
        process: false,
    };
    let text = metrics::render(&snapshot, Format::Text, exposed, &Arc::default(), now).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(value.is_finite(), "{line}");
        assert!(
            value >= 0.0 || line.contains("_countdown_seconds"),
            "{line}"
        );
    }
}

proptest! {
    // PROPTEST_CASES sets another number of cases.
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn nothing_ends_twice_and_nothing_is_negative(
        steps in prop::collection::vec((elapse(), step()), 1..40),
    ) {
        let mut now = start();
        let mut process = Process::start(0, None, now);
        let mut reader = Reader::default();
        let mut oracle = Oracle::default();
        let mut missing_since = BTreeMap::new();
        for (elapse, step) in steps {
            now = later(now, elapse);
            oracle.elapsed += Duration::from_millis(elapse.millis);
            let transitions = match &step {
                Step::Observe(events, lost) => {
                    let document = document(events, *lost);
                    let unreadable = match lost {
                        Lost::Event(index) => Some(id(*index)),
                        _ => None,
                    };
                    let transitions = process.observe(&document, now);
                    oracle.observe(&document, unreadable.as_ref(), &transitions, now);
                    for (index, event) in events.iter().enumerate() {
                        if event.is_some() {
                            missing_since.remove(&id(index));
                        } else {
                            missing_since.entry(id(index)).or_insert(now.monotonic);
                        }
                    }
                    if *lost == Lost::Unidentified {
                        // An advisory ends if the document has its id as maintenance.
                        let is_missing = |one: &Transition| document.events.iter().all(|event| event.id != one.tracked.shown.id);
                        let missing: Vec<_> = transitions.iter().filter(|one| is_missing(one)).cloned().collect();
                        assert_ended_ones_are_missing_for_a_minute(&missing, &missing_since, now);
                    }
                    let again = process.observe(&document, now);
                    prop_assert!(again.is_empty(), "the same document again: {again:?}");
                    oracle.observe(&document, unreadable.as_ref(), &again, now);
                    transitions
                }
                Step::Confirm => {
                    let transitions = process.polled(Ok(Answer::Unchanged), now);
                    oracle.confirm(&transitions, now);
                    assert_ended_ones_are_missing_for_a_minute(&transitions, &missing_since, now);
                    transitions
                }
                Step::Fail => {
                    let transitions = process.polled(Err(failure(FailureReason::Timeout)), now);
                    oracle.interrupt(&transitions);
                    transitions
                }
                Step::StandStill(millis) => {
                    let mut transitions = process.handle(Input::Tick, now);
                    now = now.after(Duration::from_millis(*millis));
                    oracle.elapsed += Duration::from_millis(*millis);
                    transitions.extend(process.handle(Input::Tick, now));
                    oracle.interrupt(&transitions);
                    transitions
                }
                Step::Approve(index) => {
                    let (ids, result, took) = (vec![id(*index)], Ok(()), Duration::ZERO);
                    let transitions = process.handle(Input::ApprovalSent { ids, result, took }, now);
                    oracle.approve(&transitions, now);
                    transitions
                }
                Step::Restart { rebooted, away } => {
                    let boot = process.boot + u32::from(*rebooted);
                    let stopped = now;
                    let saved = process.stop(now);
                    now = later(now, *away);
                    now.awake = restarted();
                    now = saved.resume(now);
                    missing_since.clear();
                    oracle.restart(*rebooted, stopped, now);
                    process = Process::start(boot, Some(saved), now);
                    Vec::new()
                }
            };
            // An ended event that expired in this step expired before it was seen again.
            reader.pending.retain(|id, pending| {
                let is_announced = |one: &Transition| {
                    one.kind == TransitionKind::Announced && one.tracked.shown.id == *id
                };
                *pending || !transitions.iter().any(is_announced)
            });
            for one in &transitions {
                reader.take(one);
            }
            reader.remove_expired(&process.events(now));
        }
        assert_values_are_valid(process.snapshot(now), now);
    }

    /// A response with the bytes of the last document is not parsed again.
    #[test]
    fn the_same_document_again_has_the_effects_of_parsing_it(
        steps in prop::collection::vec((0_u64..700, prop::option::of((observations(), lost()))), 1..40),
    ) {
        let mut now = start();
        let [mut parses, mut skips] = [(); 2].map(|()| Process::start(0, None, now));
        let mut last = document(&[None; EVENTS], Lost::Nothing);
        parses.observe(&last, now);
        skips.observe(&last, now);
        for (seconds, other) in steps {
            now = now.after(Duration::from_secs(seconds));
            let mut again = Answer::Unchanged;
            if let Some((events, lost)) = other {
                last = document(&events, lost);
                again = answer(&last);
            }
            prop_assert_eq!(parses.observe(&last, now), skips.polled(Ok(again), now));
            prop_assert_eq!(parses.events(now), skips.events(now));
            prop_assert_eq!(&parses.driven.saved, &skips.driven.saved);
        }
    }

    #[test]
    fn a_restart_without_a_change_of_the_document_changes_nothing(
        before in prop::collection::vec((0_u64..30_000, observations()), 1..12),
        away in 0_u64..30_000,
        after in prop::collection::vec((0_u64..30_000, observations()), 1..6),
    ) {
        let mut now = start();
        let mut stayed = Process::start(0, None, now);
        for (millis, events) in &before {
            now = now.after(Duration::from_millis(*millis));
            stayed.observe(&document(events, Lost::Nothing), now);
        }
        stayed.handle(Input::Shutdown, now);
        now = now.after(Duration::from_millis(away));
        let saved = through_a_file(stayed.driven.saved.as_ref().unwrap(), now.wall);
        prop_assert_eq!(&*saved.events, &*stayed.events(now));
        let there = Moment { awake: restarted(), ..now };
        prop_assert_eq!(saved.resume(there), there);
        let mut restarted = Process::start(0, Some(saved), there);
        for (millis, events) in &after {
            now = now.after(Duration::from_millis(*millis));
            let document = document(events, Lost::Nothing);
            prop_assert_eq!(restarted.observe(&document, now), stayed.observe(&document, now));
            prop_assert_eq!(restarted.events(now), stayed.events(now));
        }
    }
}
