//! The sans-I/O engine: the state machine that maps inputs to effects.
//!
//! The engine owns the tracked events, the counters, the state of polling, the identity of the VM and the approval
//! decisions. [`Engine::handle`] takes one [`Input`] and the time, and returns [`Effect`]s for the caller to perform in
//! their order. It never awaits, reads no clock, and touches no file and no socket; it logs with `tracing`. The event
//! loop in `app` and the tests drive the same engine.
//!
//! Invariants: an input that carries an error ends no event; what is sent of a change comes before the state that
//! counts it, and the state before the snapshot, so that a crash between two effects repeats and loses nothing; an
//! approval is part of the state before its request is sent.

mod anomalies;
mod approvals;
mod interface;
mod log;
mod requests;
mod save_schedule;

use std::{sync::Arc, time::Duration};

pub(crate) use self::anomalies::log_anomaly;
pub use self::interface::{Changes, Effect, EngineConfig, Input};
use self::{anomalies::AnomalyTracker, log::log_transition, save_schedule::SaveSchedule};
pub use crate::core::lifecycle::SavedState;
use crate::{
    azure::{
        Identity, RequestError,
        event::{EventId, EventScope, VmNames},
    },
    base::time::Moment,
    core::{
        approval::Approvals,
        assessment::Start,
        lifecycle::{ENDED_RETENTION, PollState, TrackedEvent, Tracker, Transition},
        pause::PauseDetector,
        snapshot::{EventCounters, RequestCounters, Snapshot, TransitionHistory},
    },
};

/// An event that can start within this time is about to interrupt the VM.
const SOON: Duration = Duration::from_mins(5);

/// Transitions of restored events that wait for the identity of this VM. Further ones are not logged, counted or sent.
const MAX_HELD: usize = 1_000;

#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    tracker: Tracker,
    pauses: PauseDetector,
    requests: RequestCounters,
    counters: Arc<EventCounters>,
    identity: Option<Arc<Identity>>,
    vm_name: Option<Arc<str>>,
    /// From instance metadata or, until they answer, from the restored state.
    metadata_name: Option<Arc<str>>,
    /// From instance metadata or, until they answer, from the restored state.
    vm_id: Option<String>,
    started_at: Moment,
    /// Transitions of restored events until it is known that the state is that of this VM.
    held: Vec<Transition>,
    /// The error of the last request for the identity, if it failed.
    identity_error: Option<Arc<RequestError>>,
    approvals: Approvals,
    anomalies: AnomalyTracker,
    saves: SaveSchedule,
    /// Transitions since the last effects, which have not been emitted.
    transitions: Vec<Transition>,
    /// Changes of scope since the last effects, by the name of this VM. Only [`TransitionHistory`] has them.
    scope_changes: Vec<Transition>,
    /// The numbered transitions, for readers.
    history: Arc<TransitionHistory>,
    /// Restored events, until it is known that the state is that of this VM.
    restored: Vec<Arc<TrackedEvent>>,
    /// Events that were found late to name this VM; their past has not been emitted.
    newly_own: Vec<Arc<TrackedEvent>>,
    effects: Vec<Effect>,
    publish: bool,
    approve: Option<EventId>,
}

impl Engine {
    /// An engine that continues from `restored`, the state of an earlier process.
    pub fn new(config: EngineConfig, restored: Option<SavedState>, now: Moment) -> Self {
        let saved = restored.as_ref();
        let saved_name = saved.and_then(|saved| saved.vm_name.as_deref());
        let vm_name = config.vm_name.clone().or(saved_name.map(Arc::from));
        let metadata_name = saved.and_then(|saved| saved.metadata_name.as_deref());
        let metadata_name = metadata_name.map(Arc::from);
        let vm_id = saved.and_then(SavedState::owner).map(str::to_owned);
        let interval = config.poll_interval;
        let poll = saved.map_or_else(
            || PollState::new(interval),
            |saved| PollState::restore(saved, interval, now),
        );
        let mut tracker = match restored {
            Some(saved) => {
                let is_rebooted = saved.is_rebooted(config.boot_id.as_deref());
                Tracker::restore(ENDED_RETENTION, saved, is_rebooted, now)
            }
            None => Tracker::new(ENDED_RETENTION),
        };
        tracker.poll = poll;
        let vm = VmNames::new(vm_name.as_deref(), metadata_name.as_deref());
        let changed = tracker.set_vm_names(vm, now.wall);
        let newly_own = changed.into_iter().map(|(_, tracked)| tracked);
        let newly_own = newly_own.filter(|tracked| tracked.scope == EventScope::Own);
        let mut history = TransitionHistory::new(now.wall);
        let mut restored = tracker.events();
        if !tracker.is_owner_unknown() {
            history.restore(&std::mem::take(&mut restored));
        }
        Self {
            newly_own: newly_own.collect(),
            history: Arc::new(history),
            restored,
            scope_changes: Vec::new(),
            tracker,
            pauses: PauseDetector::default(),
            requests: RequestCounters::default(),
            counters: Arc::default(),
            identity: None,
            vm_name,
            metadata_name,
            vm_id,
            started_at: now,
            held: Vec::new(),
            identity_error: None,
            approvals: Approvals::new(config.approvals),
            anomalies: AnomalyTracker::default(),
            saves: SaveSchedule::new(config.is_persistent),
            transitions: Vec::new(),
            effects: Vec::new(),
            publish: false,
            approve: None,
            config,
        }
    }

    pub fn handle(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        match input {
            Input::Polled { result, took } => self.polled(result, took, now),
            Input::Identified { result, took } => self.identified(result, took, now),
            Input::ApprovalSent { id, result, took } => {
                self.approval_sent(&id, result.err().as_ref(), took, now);
            }
            Input::Delayed(delay) => self.pauses.delay(delay),
            Input::Tick => self.tick(now),
            Input::StateWritten(result) => self.publish |= self.saves.written(result),
            Input::Shutdown => {
                self.saves.mark_urgent();
                self.publish = true;
            }
        }
        if !self.looks_for_pauses() {
            self.pauses.reset();
        }
        self.publish |= self.saves.check_stall(now);
        self.take_effects(now)
    }

    /// Whether heartbeat ticks are needed: an event that names this VM is pending.
    pub fn looks_for_pauses(&self) -> bool {
        self.tracker.own_pending().next().is_some()
    }

    /// `--imds.poll-interval`.
    pub(crate) fn poll_interval(&self) -> Duration {
        self.tracker.poll.interval
    }

    /// The time until an approval becomes due: the next poll should not be later. A document precedes each approval.
    pub(crate) fn approval_due_in(&self, now: Moment) -> Option<Duration> {
        self.approvals.due_in(now)
    }

    pub fn snapshot(&self, now: Moment) -> Snapshot {
        Snapshot {
            events: self.tracker.shown().into(),
            past: self.tracker.past().into(),
            transitions: Arc::clone(&self.history),
            poll: self.tracker.poll.clone(),
            requests: self.requests.clone(),
            counters: Arc::clone(&self.counters),
            state_write_failures: self.saves.failures(),
            approvals: self.approvals.decisions(),
            identity: self.identity.clone(),
            identity_error: self.identity_error.clone(),
            vm_name: self.vm_name.clone(),
            as_of: now,
        }
    }

    fn tick(&mut self, now: Moment) {
        if let Some(interruption) = self.pauses.tick(now) {
            let transitions = self.tracker.record_interruption(interruption, now.wall);
            self.publish |= !transitions.is_empty();
            self.apply(transitions);
        }
    }

    /// Transitions of restored events wait until it is known whose they are.
    fn apply(&mut self, transitions: Vec<Transition>) {
        let is_held = |transition: &Transition| {
            let id = &transition.tracked.event.id;
            self.tracker.is_owner_unknown_of(id)
        };
        let (held, transitions): (Vec<_>, Vec<_>) = transitions.into_iter().partition(is_held);
        let free = MAX_HELD.saturating_sub(self.held.len());
        self.held.extend(held.into_iter().take(free));
        self.emit(transitions);
    }

    /// Counts and logs transitions, and lets the outputs send them.
    fn emit(&mut self, transitions: Vec<Transition>) {
        for transition in &transitions {
            Arc::make_mut(&mut self.counters).count(transition);
            log_transition(transition);
        }
        if !transitions.is_empty() {
            self.saves.mark();
        }
        self.transitions.extend(transitions);
    }

    fn take_effects(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        let transitions = std::mem::take(&mut self.transitions);
        self.record(&transitions);
        let mut newly_own = Vec::new();
        if !self.tracker.is_owner_unknown() {
            newly_own.append(&mut self.newly_own);
        }
        let emits = !transitions.is_empty() || !newly_own.is_empty();
        let publishes = std::mem::take(&mut self.publish);
        let snapshot = (emits || publishes).then(|| Arc::new(self.snapshot(now)));
        effects.extend(snapshot.clone().filter(|_| emits).map(|snapshot| {
            Effect::Emit(Changes {
                newly_own,
                transitions,
                snapshot,
            })
        }));
        if self.saves.begin(self.heartbeat(now), now) {
            effects.push(Effect::SaveState(Box::new(self.saved_state(now))));
        }
        effects.extend(snapshot.filter(|_| publishes).map(Effect::Publish));
        effects.extend(self.approve.take().map(Effect::Approve));
        effects
    }

    /// The decisions about approvals have been made: what is recorded shows them.
    fn record(&mut self, transitions: &[Transition]) {
        let scope_changes = std::mem::take(&mut self.scope_changes);
        if !transitions.is_empty() || !scope_changes.is_empty() {
            let approvals = self.approvals.decisions();
            let history = Arc::make_mut(&mut self.history);
            history.record(transitions, &approvals);
            history.record(&scope_changes, &approvals);
            self.publish = true;
        }
    }

    /// How often the state is written although nothing changes. The last write before a reboot is the beginning of the
    /// interruption.
    fn heartbeat(&self, now: Moment) -> Duration {
        let interval = |tracked| {
            if Start::of(tracked, now.wall).is_within(SOON, now.wall) {
                save_schedule::SOON_INTERVAL
            } else {
                save_schedule::PENDING_INTERVAL
            }
        };
        let intervals = self.tracker.own_pending().map(interval);
        intervals.min().unwrap_or(save_schedule::IDLE_INTERVAL)
    }

    fn saved_state(&self, now: Moment) -> SavedState {
        SavedState {
            boot_id: self.config.boot_id.clone(),
            heartbeat_at: now.wall,
            document_at: self.tracker.poll.document_at(),
            document_incarnation: self.tracker.poll.last_incarnation,
            warming_up_until: self.tracker.poll.warming_up_until(now),
            vm_name: self.vm_name.as_deref().map(str::to_owned),
            metadata_name: self.metadata_name.as_deref().map(str::to_owned),
            vm_id: self.vm_id.clone(),
            journal: None,
            events: self.tracker.saved_events(now.wall),
        }
    }
}
