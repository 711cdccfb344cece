//! Properties of following events: any documents in any order, failures, clocks that jump, restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    document::Document,
    event::{Event, EventId, EventType, Source, Status},
    lifecycle::{
        Interruption, Outcome, Restored, TrackedEvent, Tracker, Transition, TransitionKind,
    },
    metrics::{self, MetricsOptions, exposition::Format},
    snapshot::{EventCounters, SeriesScope, Snapshot},
    state::{Directory, Found, Saved},
    time::{Moment, Timestamp},
};
use proptest::prelude::*;

const ENDED_RETENTION: Duration = Duration::from_mins(10);
const OWN_NAME: Option<&str> = Some("web_0");
const EVENTS: usize = 4;

/// What a document says of one event.
#[derive(Debug, Clone, Copy)]
struct Sight {
    status: u8,
    event_type: usize,
    not_before: Option<i64>,
    is_own: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Observe([Option<Sight>; EVENTS], bool),
    Confirm,
    Fail,
    StandStill(u64),
    Approve(usize),
    Restart { rebooted: bool },
}

/// How far both clocks go before a step: the wall clock may jump on top.
#[derive(Debug, Clone, Copy)]
struct Elapse {
    millis: u64,
    jump_seconds: i64,
}

fn sight() -> impl Strategy<Value = Sight> {
    let not_before = prop::option::weighted(0.7, -100_000_i64..700_000);
    (0_u8..3, 0_usize..6, not_before, any::<bool>()).prop_map(
        |(status, event_type, not_before, is_own)| Sight {
            status,
            event_type,
            not_before,
            is_own,
        },
    )
}

fn sights() -> impl Strategy<Value = [Option<Sight>; EVENTS]> {
    prop::array::uniform4(prop::option::of(sight()))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (sights(), prop::bool::weighted(0.2)).prop_map(|(sights, lost)| Step::Observe(sights, lost)),
        1 => Just(Step::Confirm),
        1 => Just(Step::Fail),
        1 => (0_u64..5_000).prop_map(Step::StandStill),
        1 => (0..EVENTS).prop_map(Step::Approve),
        1 => any::<bool>().prop_map(|rebooted| Step::Restart { rebooted }),
    ]
}

fn elapse() -> impl Strategy<Value = Elapse> {
    let millis = prop_oneof![Just(0), Just(1_000), 0_u64..120_000, 0_u64..7_200_000];
    let jump_seconds = prop_oneof![4 => Just(0), 1 => -200_000_i64..200_000];
    (millis, jump_seconds).prop_map(|(millis, jump_seconds)| Elapse {
        millis,
        jump_seconds,
    })
}

fn start() -> Moment {
    Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(5),
    }
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

fn id(place: usize) -> EventId {
    EventId::new(&format!("{place:08X}-52DA-4F6E-9C38-A40D7E91B265"))
}

fn document(sights: &[Option<Sight>; EVENTS], is_lossy: bool) -> Document {
    let event = |(place, sight): (usize, &Option<Sight>)| {
        let sight = (*sight)?;
        let other = EventType::Other("Hibernate".into());
        let name = if sight.is_own { "web_0" } else { "web_1" };
        Some(Event {
            id: id(place),
            event_type: EventType::KNOWN
                .get(sight.event_type)
                .cloned()
                .unwrap_or(other),
            status: match sight.status {
                0 => Status::Scheduled,
                1 => Status::Started,
                _ => Status::Other("Paused".into()),
            },
            source: Some(Source::Platform),
            resource_type: Some("VirtualMachine".into()),
            resources: Some(vec![name.into()]),
            not_before: sight
                .not_before
                .map(|seconds| Timestamp::from_unix_seconds(1_794_906_000 + seconds).unwrap()),
            duration_seconds: None,
            description: None,
            unknown_members: Vec::new(),
        })
    };
    Document {
        incarnation: None,
        events: sights.iter().enumerate().filter_map(event).collect(),
        unreadable_events: usize::from(is_lossy),
    }
}

fn restored(events: Vec<Arc<TrackedEvent>>, heartbeat_at: Timestamp, rebooted: bool) -> Restored {
    Restored {
        events,
        document_at: Some(heartbeat_at),
        heartbeat_at: Some(heartbeat_at),
        rebooted,
    }
}

/// What a careful reader of the transitions believes: which events are going on, and which are over.
#[derive(Debug, Default)]
struct Reader {
    going_on: BTreeMap<EventId, bool>,
    counters: EventCounters,
}

impl Reader {
    fn take(&mut self, transition: &Transition) {
        self.counters.count(transition);
        let tracked = &transition.tracked;
        let before = self.going_on.get(&tracked.event.id).copied();
        let (expected, after) = match &transition.kind {
            TransitionKind::Appeared => (None, true),
            TransitionKind::Returned => (Some(false), true),
            TransitionKind::Ended(outcome) => {
                assert_eq!(tracked.end.map(|end| end.outcome), Some(*outcome));
                assert_honest(tracked, *outcome);
                (Some(true), false)
            }
            TransitionKind::Started
            | TransitionKind::Rescheduled(_)
            | TransitionKind::StatusChanged(_)
            | TransitionKind::Amended { .. }
            | TransitionKind::Approved
            | TransitionKind::Interrupted(_) => (Some(true), true),
        };
        assert_eq!(before, expected, "{transition:?}");
        self.going_on.insert(tracked.event.id.clone(), after);
    }

    /// Forgets what the tracker forgets: only what is over.
    fn forget(&mut self, tracker: &Tracker) {
        let events = tracker.events();
        let followed: BTreeSet<_> = events.iter().map(|tracked| &tracked.event.id).collect();
        self.going_on.retain(|id, going_on| {
            assert!(
                !*going_on || followed.contains(id),
                "{id} vanished while it went on"
            );
            followed.contains(id)
        });
        let pending = events.iter().filter(|tracked| tracked.is_pending());
        let pending: BTreeSet<_> = pending.map(|tracked| &tracked.event.id).collect();
        let believed = self.going_on.iter().filter(|(_, going_on)| **going_on);
        assert_eq!(pending, believed.map(|(id, _)| id).collect());
    }
}

/// An outcome is what the evidence allows.
fn assert_honest(tracked: &TrackedEvent, outcome: Outcome) {
    let event = &tracked.event;
    let ended_at = tracked.end.unwrap().at;
    let is_due = event.not_before.is_some_and(|at| ended_at >= at);
    let has_run = tracked.started_at.is_some() || tracked.approved_at.is_some() || is_due;
    match outcome {
        Outcome::Completed => assert!(has_run || tracked.rebooted, "{tracked:?}"),
        Outcome::Cancelled => {
            assert!(!has_run && event.not_before.is_some(), "{tracked:?}");
            assert_eq!(event.status, Status::Scheduled, "{tracked:?}");
        }
        Outcome::Unknown => assert!(!has_run, "{tracked:?}"),
    }
}

/// Nothing that is exposed may be negative but a countdown, or no number.
fn assert_sane(tracker: &Tracker, counters: &EventCounters, now: Moment) {
    let mut snapshot = Snapshot::empty(OWN_NAME.map(Arc::from), now);
    snapshot.events = tracker.events().into();
    snapshot.has_document = true;
    snapshot.counters = Arc::new(counters.clone());
    let exposed = MetricsOptions {
        scope: SeriesScope::All,
        resources: true,
        process: false,
    };
    let text = Format::Text.write(metrics::render(&Arc::new(snapshot), exposed, 0, now).unwrap());
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
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_ends_twice_and_nothing_is_negative_whatever_happens(
        steps in prop::collection::vec((elapse(), step()), 1..40),
    ) {
        let mut now = start();
        let mut heartbeat_at = now.wall;
        let mut tracker = Tracker::new(ENDED_RETENTION);
        let mut reader = Reader::default();
        for (elapse, step) in steps {
            now = later(now, elapse);
            let happened = match &step {
                Step::Observe(sights, is_lossy) => {
                    let document = document(sights, *is_lossy);
                    let happened = tracker.observe(&document, OWN_NAME, now);
                    let ended = happened.iter().any(|one| matches!(one.kind, TransitionKind::Ended(_)));
                    prop_assert!(!(ended && *is_lossy), "a document with unreadable events ended one");
                    let again = tracker.observe(&document, OWN_NAME, now);
                    prop_assert!(again.is_empty(), "the same document again: {again:?}");
                    happened
                }
                Step::Confirm => {
                    tracker.document_unchanged(now);
                    Vec::new()
                }
                Step::Fail => {
                    tracker.poll_failed(now);
                    Vec::new()
                }
                Step::StandStill(millis) => {
                    let length = Duration::from_millis(*millis);
                    tracker.record_interruption(Interruption { until: now.wall, length }, now.wall)
                }
                Step::Approve(place) => tracker.record_approval(&id(*place), now.wall).into_iter().collect(),
                Step::Restart { rebooted } => {
                    now.monotonic = Duration::from_secs(1);
                    let left = restored(tracker.events(), heartbeat_at, *rebooted);
                    tracker = Tracker::restore(ENDED_RETENTION, left, now);
                    Vec::new()
                }
            };
            heartbeat_at = now.wall;
            // What was forgotten in this step was forgotten before it was seen again.
            reader.going_on.retain(|id, going_on| {
                let appeared = |one: &Transition| one.kind == TransitionKind::Appeared && one.tracked.event.id == *id;
                *going_on || !happened.iter().any(appeared)
            });
            for one in &happened {
                reader.take(one);
            }
            reader.forget(&tracker);
        }
        assert_sane(&tracker, &reader.counters, now);
    }

    #[test]
    fn a_restart_in_which_nothing_happened_changes_nothing(
        before in prop::collection::vec((0_u64..30_000, sights()), 1..12),
        away in 0_u64..30_000,
        after in prop::collection::vec((0_u64..30_000, sights()), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(folder.path()).unwrap();
        let mut now = start();
        let mut stayed = Tracker::new(ENDED_RETENTION);
        for (millis, sights) in &before {
            now = now.after(Duration::from_millis(*millis));
            stayed.observe(&document(sights, false), OWN_NAME, now);
        }
        directory.write(&Saved {
            boot_id: None,
            heartbeat_at: now.wall,
            document_at: stayed.document_at(),
            vm_name: None,
            vm_id: None,
            events: stayed.events(),
        }).unwrap();
        now = now.after(Duration::from_millis(away));
        let Found::State(saved) = directory.read(now.wall) else {
            panic!("the state cannot be read back");
        };
        prop_assert_eq!(&saved.events, &stayed.events());
        // The new process' monotonic clock begins anew.
        let started = Duration::from_secs(1);
        let offset = now.monotonic.saturating_sub(started);
        let left = restored(saved.events, saved.heartbeat_at, false);
        let mut back = Tracker::restore(ENDED_RETENTION, left, Moment { monotonic: started, ..now });
        for (millis, sights) in &after {
            now = now.after(Duration::from_millis(*millis));
            let document = document(sights, false);
            let there = Moment { monotonic: now.monotonic.saturating_sub(offset), ..now };
            prop_assert_eq!(
                back.observe(&document, OWN_NAME, there),
                stayed.observe(&document, OWN_NAME, now)
            );
            prop_assert_eq!(back.events(), stayed.events());
        }
    }
}
