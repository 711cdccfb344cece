//! Properties of the engine: any documents in any order, failures, clocks that jump, restarts.

mod known_event;
mod oracle;

use std::{sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    FailureReason, RequestError,
    approval::ApprovalPolicy,
    document::{self, Anomalies, Answer, Document},
    engine::{EngineConfig, Input, SavedState},
    event::EventId,
    lifecycle::{TrackedEvent, Transition},
    metrics::{MetricsOptions, Scrape, exposition::Format},
    pause::Lateness,
    snapshot::{SeriesScope, Snapshot},
    time::{Moment, MonotonicTime, Timestamp},
};
use proptest::{option::weighted, prelude::*, sample::select};
use serde_json::{Value, json};

use self::oracle::Oracle;
use crate::support::{
    driven_engine::{DrivenEngine, config, failure, through_a_file},
    simulated_vm::refusal,
};

const EVENTS: usize = 4;

/// The entry of one event in a document. What is `None` cannot be read.
#[derive(Debug, Clone, Copy)]
struct Observed {
    status: Option<&'static str>,
    event_type: &'static str,
    /// Seconds after the start.
    not_before: Option<i64>,
    /// -1 if it is unknown.
    duration: Option<i64>,
    is_own: Option<bool>,
    is_user_event: bool,
}

type Observations = [Option<Observed>; EVENTS];

#[derive(Debug, Clone)]
enum Step {
    Observe(Box<Observations>, Lost),
    Confirm,
    Fail,
    StandStill(u64),
    /// IMDS accepts the approval of these events.
    Approve([bool; EVENTS]),
    /// IMDS answers the approval that was requested.
    Answer(Reply),
    Restart {
        rebooted: bool,
        away: Elapse,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Accepted,
    Refused,
    NoAnswer,
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
    let status = select(&["Scheduled", "Scheduled", "Started", "Advisory", "Paused"]);
    let event_type = select(&[
        "Freeze",
        "Reboot",
        "Redeploy",
        "Preempt",
        "Terminate",
        "SpotRebalanceRecommendation",
        "Hibernate",
    ]);
    let seconds = prop_oneof![-100_000_i64..700_000, 0_i64..600];
    let duration = prop_oneof![Just(-1), 0_i64..60];
    (
        weighted(0.9, status),
        event_type,
        weighted(0.7, seconds),
        weighted(0.7, duration),
        weighted(0.9, any::<bool>()),
        any::<bool>(),
    )
        .prop_map(
            |(status, event_type, not_before, duration, is_own, is_user_event)| Observed {
                status,
                event_type,
                not_before,
                duration,
                is_own,
                is_user_event,
            },
        )
}

fn observations() -> impl Strategy<Value = Observations> {
    prop::array::uniform4(prop::option::of(observed()))
}

/// The physical host, as it is read with a document.
fn host() -> impl Strategy<Value = Option<Arc<str>>> {
    prop::option::of(select(&["AMS1", "AMS2"]).prop_map(Arc::from))
}

fn step() -> impl Strategy<Value = Step> {
    let reply = select(&[Reply::Accepted, Reply::Refused, Reply::NoAnswer]);
    prop_oneof![
        6 => (observations(), lost()).prop_map(|(events, lost)| Step::Observe(events.into(), lost)),
        1 => Just(Step::Confirm),
        1 => Just(Step::Fail),
        1 => (0_u64..5_000).prop_map(Step::StandStill),
        1 => any::<[bool; EVENTS]>().prop_map(Step::Approve),
        1 => reply.prop_map(Step::Answer),
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
    let jump_seconds = prop_oneof![8 => Just(0), 1 => -60_i64..60, 1 => -200_000_i64..200_000];
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

/// As Azure writes it.
fn document(events: &Observations, lost: Lost) -> (Document, Anomalies) {
    let event = |(index, observed): (usize, &Option<Observed>)| {
        let observed = (*observed)?;
        let or_unreadable = |value: Option<Value>| value.unwrap_or(json!({}));
        let due = |seconds| Timestamp::from_unix_seconds(1_794_906_000 + seconds).unwrap();
        let name = |is_own| json!([if is_own { "web_0" } else { "web_1" }]);
        Some(json!({
            "EventId": id(index).as_str(),
            "EventStatus": or_unreadable(observed.status.map(Into::into)),
            "EventType": observed.event_type,
            "ResourceType": "VirtualMachine",
            // What is no list contradicts itself.
            "Resources": observed.is_own.map(name),
            "NotBefore": or_unreadable(observed.not_before.map(|it| due(it).rfc1123().into())),
            "EventSource": if observed.is_user_event { "User" } else { "Platform" },
            "DurationInSeconds": or_unreadable(observed.duration.map(Into::into)),
        }))
    };
    let unreadable = match lost {
        Lost::Nothing => None,
        Lost::Unidentified => Some(json!({"EventId": 7})),
        Lost::Event(index) => Some(json!({"EventId": 7, "Id": id(index).as_str()})),
    };
    let events: Vec<_> = unreadable
        .into_iter()
        .chain(events.iter().enumerate().filter_map(event))
        .collect();
    let body = json!({"DocumentIncarnation": 1, "Events": events}).to_string();
    document::parse(body.as_bytes()).unwrap()
}

/// A process of the exporter.
struct Process {
    driven: DrivenEngine,
    boot: u32,
}

impl Process {
    fn start(boot: u32, restored: Option<SavedState>, now: Moment) -> Self {
        Self::with_policy(ApprovalPolicy::default(), boot, restored, now)
    }

    fn approving(boot: u32, restored: Option<SavedState>, now: Moment) -> Self {
        let policy = ApprovalPolicy {
            user_events: true,
            ..ApprovalPolicy::default()
        };
        Self::with_policy(policy, boot, restored, now)
    }

    fn with_policy(
        approvals: ApprovalPolicy,
        boot: u32,
        restored: Option<SavedState>,
        now: Moment,
    ) -> Self {
        let config = EngineConfig {
            approvals,
            ..config(Some("web_0"), boot)
        };
        let driven = DrivenEngine::new(config, restored, now);
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

    fn observe(&mut self, parsed: (Document, Anomalies), now: Moment) -> Vec<Transition> {
        self.polled(Ok(answer(parsed)), now)
    }

    fn polled(&mut self, result: Result<Answer, RequestError>, now: Moment) -> Vec<Transition> {
        let (took, late) = (Duration::ZERO, Lateness::default());
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

fn answer((document, anomalies): (Document, Anomalies)) -> Answer {
    Answer::Document {
        document,
        anomalies,
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
    let text = Scrape {
        snapshot,
        options: exposed,
        outputs: Arc::default(),
        now,
    }
    .text(Format::Text)
    .unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(value.is_finite(), "{line}");
        assert!(
            value >= 0.0 || line.contains("_countdown_seconds"),
            "{line}"
        );
    }
}

/// A history, and what the contract says about each of its steps.
struct History {
    now: Moment,
    process: Process,
    oracle: Oracle,
}

impl History {
    fn new() -> Self {
        let now = start();
        Self {
            now,
            process: Process::approving(0, None, now),
            oracle: Oracle::default(),
        }
    }

    fn wait(&mut self, elapse: Elapse) {
        self.now = later(self.now, elapse);
        self.oracle.elapsed += Duration::from_millis(elapse.millis);
    }

    fn take(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Observe(events, lost) => {
                for _again in 0..2 {
                    let transitions = self.process.observe(document(events, *lost), now);
                    self.oracle.observe(events, *lost, &transitions, now);
                }
            }
            // The first answer to a process is a document.
            Step::Confirm if self.oracle.has_document() => {
                let transitions = self.process.polled(Ok(Answer::Unchanged), now);
                self.oracle.confirm(&transitions, now);
            }
            Step::Fail | Step::Confirm => {
                let failed = Err(failure(FailureReason::Timeout));
                let transitions = self.process.polled(failed, now);
                self.oracle.tick(&transitions);
            }
            Step::StandStill(millis) => {
                for wait in [0, *millis] {
                    let millis = wait;
                    self.wait(Elapse {
                        millis,
                        jump_seconds: 0,
                    });
                    if self.oracle.has_document() {
                        let transitions = self.process.handle(Input::Tick, self.now);
                        self.oracle.tick(&transitions);
                    }
                }
            }
            Step::Approve(approved) => {
                let ids = (0..EVENTS)
                    .filter(|index| approved[*index])
                    .collect::<Vec<_>>();
                self.answer(&ids, Reply::Accepted);
            }
            Step::Answer(reply) => {
                let index = |asked: &EventId| (0..EVENTS).find(|index| id(*index) == *asked);
                let requested = std::mem::take(&mut self.process.driven.requested);
                for ids in requested {
                    let indices: Vec<_> = ids.iter().filter_map(index).collect();
                    self.answer(&indices, *reply);
                }
            }
            Step::Restart { rebooted, away } => self.restart(*rebooted, *away),
        }
        let requested = self.process.driven.requested.iter().flatten();
        self.oracle.request(requested);
        self.oracle.assert_shown(&self.process.events(self.now));
    }

    fn answer(&mut self, indices: &[usize], reply: Reply) {
        let ids = indices.iter().map(|index| id(*index)).collect();
        let result = match reply {
            Reply::Accepted => Ok(()),
            Reply::Refused => Err(refusal()),
            Reply::NoAnswer => Err(failure(FailureReason::Timeout)),
        };
        let took = Duration::ZERO;
        let input = Input::ApprovalSent { ids, result, took };
        let transitions = self.process.handle(input, self.now);
        self.oracle.answer(indices, reply, &transitions);
    }

    fn restart(&mut self, rebooted: bool, away: Elapse) {
        let stopped = self.now;
        let boot = self.process.boot + u32::from(rebooted);
        let process = std::mem::replace(&mut self.process, Process::approving(boot, None, stopped));
        let saved = process.stop(stopped);
        self.now = later(stopped, away);
        self.now.awake = restarted();
        self.now = saved.resume(self.now);
        self.oracle.restart(rebooted, stopped, self.now);
        self.process = Process::approving(boot, Some(saved), self.now);
    }
}

proptest! {
    // PROPTEST_CASES sets another number of cases.
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn what_happens_is_what_the_contract_says_and_nothing_is_negative(
        steps in prop::collection::vec((elapse(), step()), 1..40),
    ) {
        let mut history = History::new();
        for (elapse, step) in steps {
            history.wait(elapse);
            history.take(&step);
        }
        assert_values_are_valid(history.process.snapshot(history.now), history.now);
    }

    /// A response with the bytes of the last document is not parsed again.
    #[test]
    fn the_same_document_again_has_the_effects_of_parsing_it(
        steps in prop::collection::vec((0_u64..700, prop::option::of((observations(), lost()))), 1..40),
    ) {
        let mut now = start();
        let [mut parses, mut skips] = [(); 2].map(|()| Process::start(0, None, now));
        let mut last = document(&[None; EVENTS], Lost::Nothing);
        parses.observe(last.clone(), now);
        skips.observe(last.clone(), now);
        for (seconds, other) in steps {
            now = now.after(Duration::from_secs(seconds));
            let mut again = Answer::Unchanged;
            if let Some((events, lost)) = other {
                last = document(&events, lost);
                again = answer(last.clone());
            }
            prop_assert_eq!(parses.observe(last.clone(), now), skips.polled(Ok(again), now));
            prop_assert_eq!(parses.events(now), skips.events(now));
            prop_assert_eq!(&parses.driven.saved, &skips.driven.saved);
        }
    }

    #[test]
    fn a_restart_without_a_change_of_the_document_changes_nothing(
        before in prop::collection::vec((0_u64..30_000, observations(), host()), 1..12),
        away in 0_u64..30_000,
        after in prop::collection::vec((0_u64..30_000, observations(), host()), 1..6),
    ) {
        let mut now = start();
        let mut stayed = Process::start(0, None, now);
        for (millis, events, host) in &before {
            now = now.after(Duration::from_millis(*millis));
            stayed.driven.host.clone_from(host);
            stayed.observe(document(events, Lost::Nothing), now);
        }
        stayed.handle(Input::Shutdown, now);
        now = now.after(Duration::from_millis(away));
        let saved = through_a_file(stayed.driven.saved.as_ref().unwrap(), now.wall);
        prop_assert_eq!(&*saved.events, &*stayed.events(now));
        let there = Moment { awake: restarted(), ..now };
        prop_assert_eq!(saved.resume(there), there);
        let mut restarted = Process::start(0, Some(saved), there);
        for (millis, events, host) in &after {
            now = now.after(Duration::from_millis(*millis));
            stayed.driven.host.clone_from(host);
            restarted.driven.host.clone_from(host);
            let document = document(events, Lost::Nothing);
            prop_assert_eq!(restarted.observe(document.clone(), now), stayed.observe(document, now));
            prop_assert_eq!(restarted.events(now), stayed.events(now));
        }
    }
}
