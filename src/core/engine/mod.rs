//! The sans-I/O engine: [`Engine::handle`] takes one [`Input`] and the time, and returns [`Effect`]s for the caller to
//! perform in their order. It reads no clock, and touches no file and no socket; it logs with `tracing`.
//!
//! Invariants: an input that carries an error ends no event; the journal is written before the state that counts it, and
//! both before the snapshot is published, so that a crash between two effects repeats and loses nothing; an approval is part of
//! the state before its request is sent.

mod anomalies;
mod approvals;
mod log;
mod requests;
mod save_schedule;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tracing::info;

pub(crate) use self::anomalies::log_anomaly;
use self::{
    anomalies::AnomalyTracker,
    approvals::Approvals,
    log::{LogLimit, log_transition},
    save_schedule::SaveSchedule,
};
pub use crate::core::lifecycle::SavedState;
use crate::{
    azure::{
        Identity, RequestError,
        document::Answer,
        event::{EventId, EventScope, VmNames},
    },
    base::{
        log_id,
        time::{Moment, MonotonicTime},
    },
    core::{
        approval::ApprovalPolicy,
        assessment::Start,
        journal::{Entry, Journal},
        lifecycle::{Interruption, PollState, SavedJournal, TrackedEvent, Tracker, Transition},
        ownership::Ownership,
        pause::{Lateness, PauseDetector, ProcessDelay},
        snapshot::{EventCounters, RequestCounters, Snapshot},
    },
};

/// An event that can start within this time can interrupt the VM soon.
const SOON: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub struct EngineConfig {
    /// `--vm.name`: takes precedence over the name in instance metadata.
    pub vm_name: Option<Arc<str>>,
    /// `--vm.owner-tag`.
    pub owner_tag: Option<Arc<str>>,
    pub poll_interval: Duration,
    pub approvals: ApprovalPolicy,
    pub boot_id: Option<String>,
    /// Emit [`Effect::Write`].
    pub is_persistent: bool,
    pub journal: Journal,
    /// The id of the journal that begins if the restored one is another VM's.
    pub next_journal_id: Arc<str>,
}

#[derive(Debug)]
pub enum Input {
    Polled {
        result: Result<Answer, RequestError>,
        took: Duration,
        /// By how much the wait before the request was longer than asked for.
        late: Lateness,
    },
    Identified {
        result: Result<Identity, RequestError>,
        took: Duration,
    },
    /// The request of an [`Effect::Approve`] ended.
    ApprovalSent {
        ids: Vec<EventId>,
        result: Result<(), RequestError>,
        took: Duration,
    },
    /// Due as [`Engine::ticks_in`] says.
    Tick,
    /// The write of an [`Effect::Write`] ended.
    StateWritten(Result<(), String>),
    /// More entries of the journal were sent: the state is to say so soon.
    Sent,
    /// The process is about to end: the state is saved and the snapshot published once more.
    Shutdown,
}

impl Input {
    /// Whether [`Engine::set_physical_host`] is due before it: no event starts or ends without another document.
    pub fn needs_physical_host(&self) -> bool {
        match self {
            Self::Identified { .. } => true,
            Self::Polled { result, .. } => matches!(result, Ok(Answer::Document { .. })),
            _ => false,
        }
    }
}

/// The order within one list is part of the contract.
#[derive(Debug)]
pub enum Effect {
    /// The next poll is to ask for the whole document, since restored events are another VM's.
    ForgetDocument,
    /// The new entries of the journal, then the state. At most one is outstanding; [`Input::StateWritten`] ends it.
    Write {
        journal: Arc<Journal>,
        state: Box<SavedState>,
    },
    /// Wait until the write before it is on disk, but not for a late one.
    Publish {
        snapshot: Arc<Snapshot>,
        /// Entries that have fallen off its journal since the last publication.
        dropped: Vec<Arc<Entry>>,
    },
    /// The state before it records the attempt: wait until that is on disk, but not for a late write.
    /// [`Input::ApprovalSent`] ends it.
    Approve(Vec<EventId>),
}

#[derive(Debug, Default)]
pub struct Engine {
    policy: ApprovalPolicy,
    boot_id: Option<String>,
    owner_tag: Option<Arc<str>>,
    next_journal_id: Arc<str>,
    tracker: Tracker,
    pauses: PauseDetector,
    requests: RequestCounters,
    counters: Arc<EventCounters>,
    identity: Option<Arc<Identity>>,
    vm_name: Option<Arc<str>>,
    /// The name is the value of `--vm.name`.
    is_name_configured: bool,
    /// From instance metadata or, until they answer, from the restored state.
    metadata_name: Option<Arc<str>>,
    /// Whether an event has named this VM since the start; `None` while no event names a VM, or instance metadata do.
    is_name_matched: Option<bool>,
    started_at: MonotonicTime,
    identity_error: Option<Arc<RequestError>>,
    approvals: Approvals,
    anomalies: AnomalyTracker,
    saves: SaveSchedule,
    log: LogLimit,
    /// The transitions since the last effects, which have no entry yet.
    transitions: Vec<Transition>,
    journal: Arc<Journal>,
    /// Entries that fell off the journal since the last publication.
    dropped: Vec<Arc<Entry>>,
    /// The last number of the outstanding write.
    written_newest: u64,
    effects: Vec<Effect>,
    publish: bool,
    approve: Vec<EventId>,
}

impl Engine {
    /// An engine that continues from `restored`, the state of an earlier process.
    pub fn new(config: EngineConfig, mut restored: Option<SavedState>, now: Moment) -> Self {
        let mut journal = config.journal;
        if let Some(saved) = &mut restored {
            journal.replay(saved);
        }
        journal.ownership = restored
            .as_ref()
            .map_or_else(Ownership::default, Ownership::of_restored);
        let saved = restored.as_ref();
        let saved_name = saved.and_then(|saved| saved.vm_name.clone());
        let is_name_configured = config.vm_name.is_some();
        let vm_name = config.vm_name.or(saved_name);
        let metadata_name = saved.and_then(|saved| saved.metadata_name.clone());
        let saved_owner = saved.and_then(|saved| saved.owner.clone());
        let owner = saved_owner.filter(|[tag, _]| config.owner_tag.as_ref() == Some(tag));
        let interval = config.poll_interval;
        let poll = saved.map_or_else(
            || PollState::new(interval),
            |saved| PollState::restore(saved, interval, now),
        );
        let mut tracker = match restored {
            Some(saved) => {
                let is_rebooted = saved.is_rebooted(config.boot_id.as_deref());
                Tracker::restore(saved, is_rebooted, now)
            }
            None => Tracker::default(),
        };
        tracker.poll = poll;
        tracker.set_owner(owner.map(|[_, owner]| owner), now);
        let vm = VmNames::new(vm_name.as_deref(), metadata_name.as_deref());
        let transitions = tracker.set_vm_names(vm, now);
        let mut engine = Self {
            transitions,
            written_newest: journal.newest,
            journal: Arc::new(journal),
            tracker,
            vm_name,
            is_name_configured,
            metadata_name,
            started_at: now.monotonic,
            saves: SaveSchedule::new(config.is_persistent),
            policy: config.approvals,
            boot_id: config.boot_id,
            owner_tag: config.owner_tag,
            next_journal_id: config.next_journal_id,
            ..Self::default()
        };
        engine.record();
        engine
    }

    pub fn handle(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        self.publish |= !matches!(input, Input::Tick | Input::StateWritten(_) | Input::Sent);
        let is_last = matches!(input, Input::Shutdown);
        self.log.begin_minute(now.monotonic, is_last);
        match input {
            Input::Polled { result, took, late } => {
                self.record_unannounced(late.by_monotonic, now);
                let interruption = self.pauses.poll(late.by_any_clock, took, now);
                self.record_interruption(interruption, now);
                self.polled(result, took, now);
            }
            Input::Identified { result, took } => self.identified(result, took, now),
            Input::ApprovalSent { ids, result, took } => {
                self.approval_sent(&ids, result.err().as_ref(), took, now);
            }
            Input::Tick => {
                let interruption = self.pauses.tick(now);
                self.record_interruption(interruption, now);
            }
            Input::StateWritten(result) => self.written(result),
            Input::Sent => self.saves.mark_sent(),
            Input::Shutdown => self.saves.mark_urgent(),
        }
        match self.ticks_in(now) {
            Some(Duration::ZERO) => {}
            Some(_) => self.pauses.stop_ticks(),
            None => self.pauses.reset(),
        }
        self.publish |= self.saves.check_stall(now);
        self.take_effects(now)
    }

    /// The first effects, before there is an input: the journal and the state say that this process runs in this boot.
    pub fn begin(&mut self, now: Moment) -> Vec<Effect> {
        self.take_effects(now)
    }

    /// To be called before the input that ends a request to IMDS, with the number of further requests that it took.
    pub(crate) fn repeated(&mut self, count: u64) {
        self.requests.requests += count;
    }

    /// To be called before a tick or a poll.
    pub(crate) fn delayed(&mut self, delay: ProcessDelay) {
        self.pauses.delay(delay);
    }

    pub fn set_physical_host(&mut self, host: Option<Arc<str>>) {
        self.tracker.physical_host = host;
    }

    /// Whether a pause of this VM is one of an event: one that names it is pending.
    pub fn looks_for_pauses(&self) -> bool {
        self.tracker.own_pending().next().is_some()
    }

    /// The time until [`Input::Tick`] is due: zero while it is due every [`pause::PERIOD`](crate::core::pause::PERIOD),
    /// since an event that names this VM has started or can start soon. `None`: none is pending.
    pub fn ticks_in(&self, now: Moment) -> Option<Duration> {
        let seconds = self.tracker.own_pending().filter_map(|tracked| {
            let seconds = Start::of(tracked, now.wall).seconds_from(now.wall)?;
            Some(seconds - SOON.as_secs_f64())
        });
        let seconds = seconds.min_by(f64::total_cmp)?;
        let until_soon = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Some(until_soon.min(save_schedule::PENDING_INTERVAL))
    }

    pub(crate) fn poll(&self) -> &PollState {
        &self.tracker.poll
    }

    pub fn snapshot(&self, now: Moment) -> Snapshot {
        Snapshot {
            events: self.tracker.events(now).into(),
            past: self.tracker.past(now).into(),
            dropped_ends: self.tracker.dropped_ends,
            journal: Arc::clone(&self.journal),
            poll: self.tracker.poll.clone(),
            requests: self.requests.clone(),
            counters: Arc::clone(&self.counters),
            state_write_failures: self.saves.failures,
            approvals: Arc::clone(&self.approvals.decisions),
            identity: self.identity.clone(),
            identity_error: self.identity_error.clone(),
            physical_host: self.tracker.physical_host.clone(),
            owner: self.tracker.owner.clone(),
            vm_name: self.vm_name.clone(),
            is_vm_name_unmatched: self.is_name_matched == Some(false),
            as_of: now,
        }
    }

    /// A pause that ends with an answer is recorded before its document is judged.
    fn record_interruption(&mut self, interruption: Option<Interruption>, now: Moment) {
        if let Some(interruption) = interruption.filter(|_| self.looks_for_pauses()) {
            let transitions = self.tracker.record_interruption(interruption, now);
            self.emit(transitions);
        }
    }

    /// A wait that was longer than asked for, while no event is known that could explain it. Nothing is said of a time in
    /// which polls failed, or in which an event may not have appeared yet.
    fn record_unannounced(&mut self, gap: Duration, now: Moment) {
        let may_be_own = |it: &TrackedEvent| it.scope != EventScope::Other;
        let poll = &self.tracker.poll;
        if poll.last_success.is_some()
            && poll.failure.is_none()
            && !poll.is_warming_up(now)
            && !self.tracker.pending().any(may_be_own)
            && let Some(length) = self.pauses.length(gap)
        {
            Arc::make_mut(&mut self.counters)
                .unannounced
                .observe(length);
            info!(
                name: log_id::UNANNOUNCED,
                seconds = length.as_secs_f64(),
                "this VM was interrupted, and no event had announced it"
            );
        }
    }

    fn emit(&mut self, transitions: Vec<Transition>) {
        for transition in &transitions {
            Arc::make_mut(&mut self.counters).count(transition);
            log_transition(&mut self.log, transition);
        }
        self.transitions.extend(transitions);
    }

    fn take_effects(&mut self, now: Moment) -> Vec<Effect> {
        self.record();
        let mut effects = std::mem::take(&mut self.effects);
        if self.saves.begin(self.heartbeat(now), now) {
            self.written_newest = self.journal.newest;
            effects.push(Effect::Write {
                journal: Arc::clone(&self.journal),
                state: Box::new(self.saved_state(now)),
            });
        }
        if std::mem::take(&mut self.publish) {
            effects.push(Effect::Publish {
                snapshot: Arc::new(self.snapshot(now)),
                dropped: std::mem::take(&mut self.dropped),
            });
        }
        let approve = std::mem::take(&mut self.approve);
        effects.extend((!approve.is_empty()).then_some(Effect::Approve(approve)));
        effects
    }

    /// Makes entries of the transitions, each with the event as it is now, since the decisions about approvals have been
    /// made. What a document ends comes before what it announces.
    fn record(&mut self) {
        if self.transitions.is_empty() {
            return;
        }
        let mut transitions = std::mem::take(&mut self.transitions);
        let tracker = &self.tracker;
        transitions.sort_by_key(|it| {
            let current = tracker.current(&it.tracked);
            current.is_some_and(|it| it.is_pending())
        });
        let approvals = &self.approvals.decisions;
        let entries = transitions.into_iter().map(|mut transition| {
            let is_pending = transition.tracked.is_pending();
            let current = tracker.current(&transition.tracked);
            if let Some(current) = current.filter(|it| it.is_pending() == is_pending) {
                transition.tracked = Arc::clone(current);
            }
            let id = &transition.tracked.shown.id;
            let approval = approvals.get(id).cloned();
            let mut entry = Entry::new(transition, self.vm_name.as_ref());
            entry.approval = approval;
            entry
        });
        let dropped = Arc::make_mut(&mut self.journal).append(entries);
        self.dropped.extend(dropped);
        self.saves.mark();
        self.publish = true;
    }

    fn written(&mut self, result: Result<(), String>) {
        if result.is_ok() && self.journal.on_disk < self.written_newest {
            Arc::make_mut(&mut self.journal).on_disk = self.written_newest;
            self.publish = true;
        }
        self.publish |= self.saves.written(result);
    }

    /// How often the state is written although nothing changes: the last write before a reboot begins the interruption.
    fn heartbeat(&self, now: Moment) -> Duration {
        match self.ticks_in(now) {
            Some(Duration::ZERO) => save_schedule::SOON_INTERVAL,
            Some(_) => save_schedule::PENDING_INTERVAL,
            None => save_schedule::IDLE_INTERVAL,
        }
    }

    fn saved_state(&self, now: Moment) -> SavedState {
        SavedState {
            boot_id: self.boot_id.clone(),
            heartbeat_at: now.wall,
            monotonic: now.monotonic,
            document_at: self.tracker.poll.last_document,
            set_back: self.tracker.poll.set_back,
            document_incarnation: self.tracker.poll.last_incarnation,
            warm_up_until: self.tracker.poll.warm_up_until,
            vm_name: self.vm_name.clone(),
            metadata_name: self.metadata_name.clone(),
            owner: (self.owner_tag.clone().zip(self.tracker.owner.clone())).map(Into::into),
            vm_id: self.journal.ownership.vm_id.clone(),
            journal: SavedJournal {
                id: Arc::clone(&self.journal.id),
                newest: self.journal.newest,
                cursors: BTreeMap::new(),
            },
            events: self.tracker.saved_events(),
        }
    }
}
