//! The sans-I/O engine: everything that is known, and what each input does to it.
//!
//! The engine owns the tracked events, the counters, the health of polling, the identity of the VM and the approval
//! decisions. [`Engine::handle`] takes one [`Input`] and the time, and returns [`Effect`]s for the caller to perform in
//! their order. It never awaits, reads no clock, and touches no file and no socket. The event loop in `app` and the tests
//! drive the same engine.
//!
//! Invariants: an input that carries an error ends no event; spans come before the state that counts them, and the
//! state before the snapshot, so that a crash between two effects repeats and loses nothing; an approval is part of the
//! state before its request is sent.

mod anomalies;
mod approvals;
mod log;
mod save_schedule;

use std::{sync::Arc, time::Duration};

pub use self::log::LogEntry;
use self::{anomalies::AnomalyTracker, approvals::Approvals, save_schedule::SaveSchedule};
use crate::{
    approval::ApprovalPolicy,
    document::{Anomalies, Answer, Document},
    event::{EventId, EventType},
    heartbeat::Heartbeat,
    imds::cadence,
    lifecycle::{Restored, TrackedEvent, Tracker, Transition},
    otlp::{
        resource,
        settings::OtlpSettings,
        trace::{self, Batch, VmKey},
    },
    snapshot::{
        ApprovalResult, EventCounters, Health, Identity, OutputCounters, PushCounts, RequestError,
        Snapshot, SpanCounts, TypeLabel,
    },
    time::{Moment, Timestamp},
};

/// How long an ended event stays in the snapshot, so that every scraper sees its end.
const ENDED_RETENTION: Duration = Duration::from_mins(10);

/// What the engine is configured with.
#[derive(Debug, Default)]
pub struct EngineConfig {
    /// `--vm.name`: takes precedence over the name in instance metadata.
    pub vm_name: Option<Arc<str>>,
    /// Which events are approved.
    pub approvals: ApprovalPolicy,
    /// The boot id of the running system, where it has one.
    pub boot_id: Option<String>,
    /// The source of resource attributes; `None` makes no spans.
    pub traces: Option<OtlpSettings>,
    /// Whether [`Effect::SaveState`] is wanted.
    pub is_persistent: bool,
}

/// Something that happened outside of the engine.
#[derive(Debug)]
pub enum Input {
    /// A request for the scheduled-events document ended.
    Polled {
        /// The document or the error.
        result: Result<Answer, RequestError>,
        /// The duration of the request.
        took: Duration,
    },
    /// A request for the instance metadata ended.
    Identified {
        /// The identity or the error.
        result: Result<Identity, RequestError>,
        /// The duration of the request.
        took: Duration,
    },
    /// The request of an [`Effect::Approve`] ended.
    ApprovalSent {
        /// The event.
        id: EventId,
        /// Whether IMDS accepted the approval.
        result: Result<(), RequestError>,
        /// The duration of the request.
        took: Duration,
    },
    /// A tick of the heartbeat, due every [`heartbeat::PERIOD`](crate::heartbeat::PERIOD) while
    /// [`Engine::wants_heartbeat`].
    Tick,
    /// The write of an [`Effect::SaveState`] ended.
    StateWritten(Result<(), String>),
    /// The write of an [`Effect::SaveState`] has not ended in time. It may still end.
    StateWriteStalled,
    /// The counters of the span spool and its sender changed.
    SpanCounts(SpanCounts),
    /// The counters of the Alertmanager push changed.
    PushCounts(PushCounts),
    /// The process is about to end: what is known is saved and published once more.
    Shutdown,
}

/// Something for the caller to do. The order within one list is part of the contract.
#[derive(Debug)]
pub enum Effect {
    /// Write a log line.
    Log(LogEntry),
    /// The restored state belongs to another VM: keep its file under another name, and let the next poll ask for a whole
    /// document.
    DiscardForeignState,
    /// Append spans to the spool.
    AppendSpans(Batch),
    /// Replace the state file. At most one is outstanding; [`Input::StateWritten`] ends it.
    SaveState(Box<SavedState>),
    /// Show this snapshot to every reader.
    Publish(Arc<Snapshot>),
    /// Send the approval of an event, after the state before it is on disk. [`Input::ApprovalSent`] ends it.
    Approve(EventId),
}

/// What must survive a restart.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedState {
    /// The boot in which it was written.
    pub boot_id: Option<String>,
    /// When the exporter was last known to run.
    pub heartbeat_at: Timestamp,
    /// When a document was last read or confirmed; `None` before the first.
    pub document_at: Option<Timestamp>,
    /// The name of the VM.
    pub vm_name: Option<String>,
    /// The id of the VM: a state that was cloned with a disk is recognized by it.
    pub vm_id: Option<String>,
    /// Every tracked event.
    pub events: Vec<Arc<TrackedEvent>>,
}

/// See the module documentation.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    tracker: Tracker,
    heartbeat: Heartbeat,
    health: Health,
    counters: Arc<EventCounters>,
    outputs: Arc<OutputCounters>,
    identity: Option<Arc<Identity>>,
    vm_name: Option<Arc<str>>,
    /// From instance metadata or, until they answer, from the restored state.
    vm_id: Option<String>,
    identity_failed: bool,
    has_document: bool,
    approvals: Approvals,
    anomalies: AnomalyTracker,
    saves: SaveSchedule,
    spool_write_failures: u64,
    /// Transitions since the last effects; their spans are due.
    transitions: Vec<Transition>,
    /// Events found late to name this VM; the spans of their past are due.
    newly_own: Vec<Arc<TrackedEvent>>,
    effects: Vec<Effect>,
    publish: bool,
    approve: Option<EventId>,
}

impl Engine {
    /// An engine that continues from `restored`, the state of an earlier process.
    pub fn new(config: EngineConfig, restored: Option<SavedState>, now: Moment) -> Self {
        let has_document = restored
            .as_ref()
            .is_some_and(|saved| saved.document_at.is_some());
        let saved_name = restored.as_ref().and_then(|saved| saved.vm_name.as_deref());
        let vm_name = config.vm_name.clone().or(saved_name.map(Arc::from));
        let vm_id = restored
            .as_ref()
            .and_then(|saved| saved.vm_id.clone())
            .filter(|id| !id.is_empty());
        let mut tracker = match restored {
            Some(saved) => {
                let rebooted = is_rebooted(&saved, config.boot_id.as_deref());
                let restored = Restored {
                    events: saved.events,
                    document_at: saved.document_at,
                    heartbeat_at: Some(saved.heartbeat_at),
                    rebooted,
                };
                Tracker::restore(ENDED_RETENTION, restored, now)
            }
            None => Tracker::new(ENDED_RETENTION),
        };
        let newly_own = tracker.set_vm_name(vm_name.as_deref());
        Self {
            tracker,
            heartbeat: Heartbeat::default(),
            health: Health::default(),
            counters: Arc::default(),
            outputs: Arc::default(),
            identity: None,
            vm_name,
            vm_id,
            identity_failed: false,
            has_document,
            approvals: Approvals::new(config.approvals),
            anomalies: AnomalyTracker::default(),
            saves: SaveSchedule::new(config.is_persistent),
            spool_write_failures: 0,
            transitions: Vec::new(),
            newly_own,
            effects: Vec::new(),
            publish: false,
            approve: None,
            config,
        }
    }

    /// Applies one input and returns its effects, to be performed in this order.
    pub fn handle(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        match input {
            Input::Polled { result, took } => self.polled(result, took, now),
            Input::Identified { result, took } => self.identified(result, took, now),
            Input::ApprovalSent { id, result, took } => {
                self.approval_sent(&id, result, took, now);
            }
            Input::Tick => self.tick(now),
            Input::StateWritten(result) => {
                let log = self.saves.written(result);
                self.set_write_failures(log);
            }
            Input::StateWriteStalled => {
                let log = self.saves.stalled();
                self.set_write_failures(log);
            }
            Input::SpanCounts(counts) => self.set_span_counts(&counts),
            Input::PushCounts(counts) => {
                let outputs = Arc::make_mut(&mut self.outputs);
                outputs.alert_pushes = counts.pushes;
                outputs.alert_push_failures = counts.failures;
                self.publish = true;
            }
            Input::Shutdown => {
                self.saves.mark_urgent();
                self.publish = true;
            }
        }
        if !self.wants_heartbeat() {
            self.heartbeat.reset();
        }
        self.take_effects(now)
    }

    /// Whether [`Input::Tick`] is of use: an event that names this VM is pending.
    pub fn wants_heartbeat(&self) -> bool {
        self.tracker.is_own_pending()
    }

    /// Whether the instance metadata have not answered yet.
    pub fn needs_identity(&self) -> bool {
        self.identity.is_none()
    }

    /// Whether any poll succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.health.last_success.is_some()
    }

    /// What is known now.
    pub fn snapshot(&self, now: Moment) -> Snapshot {
        Snapshot {
            events: self.tracker.events().into(),
            has_document: self.has_document,
            health: self.health.clone(),
            counters: Arc::clone(&self.counters),
            outputs: Arc::clone(&self.outputs),
            approvals: self.approvals.decided(),
            identity: self.identity.clone(),
            vm_name: self.vm_name.clone(),
            as_of: now,
        }
    }

    fn polled(&mut self, result: Result<Answer, RequestError>, took: Duration, now: Moment) {
        self.publish = true;
        let reason = result.as_ref().err().map(|error| error.reason);
        self.health.count_request(took, reason);
        match result {
            Ok(Answer::Document {
                document,
                anomalies,
            }) => self.observe(&document, &anomalies, now),
            Ok(Answer::Unchanged) => {
                self.tracker.document_unchanged(now);
                self.poll_succeeded(now);
            }
            Err(error) => {
                self.tracker.poll_failed(now);
                if self.health.fail(error.reason, error.message, now.wall) {
                    self.log_failure();
                }
                return;
            }
        }
        self.evaluate_approvals(true, now);
    }

    fn observe(&mut self, document: &Document, anomalies: &Anomalies, now: Moment) {
        self.has_document = true;
        self.health.incarnation = document.incarnation;
        self.approvals.set_document(document);
        let transitions = self.tracker.observe(document, self.vm_name.as_deref(), now);
        let found = self.anomalies.compare(anomalies, &transitions);
        for (kind, count) in found.counts {
            Arc::make_mut(&mut self.counters).count_anomalies(kind, count);
        }
        self.effects.extend(found.log.into_iter().map(Effect::Log));
        self.poll_succeeded(now);
        self.apply(transitions);
    }

    fn poll_succeeded(&mut self, now: Moment) {
        let is_first = !self.has_succeeded();
        let ended = self.health.succeed(now);
        if is_first || ended.is_some() {
            self.log(LogEntry::PollingRecovered {
                failed_for: ended.map(|failure| now.wall.saturating_since(failure.since)),
                incarnation: self.health.incarnation,
                pending: self.tracker.pending(),
            });
        }
    }

    fn identified(&mut self, result: Result<Identity, RequestError>, took: Duration, now: Moment) {
        self.publish = true;
        // Classic cloud services have no `compute` metadata: their 400 and 404 are no failure of polling.
        let error = result.as_ref().err();
        let counted = error.filter(|error| !cadence::is_identity_unavailable(error));
        let reason = counted.map(|error| error.reason);
        self.health.count_request(took, reason);
        match result {
            Ok(identity) => {
                self.set_identity(identity);
                self.saves.mark();
                self.evaluate_approvals(false, now);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.identity_failed, true) {
                    self.log(LogEntry::IdentityUnavailable {
                        error: error.message,
                        is_name_known: self.config.vm_name.is_some(),
                    });
                }
            }
        }
    }

    fn set_identity(&mut self, identity: Identity) {
        // An empty id is a missing one.
        let vm_id = Some(identity.vm_id.clone()).filter(|id| !id.is_empty());
        let is_foreign = match (&self.vm_id, &vm_id) {
            (Some(known), Some(current)) => !known.eq_ignore_ascii_case(current),
            _ => false,
        };
        self.vm_id = vm_id.or(self.vm_id.take());
        if is_foreign {
            self.log(LogEntry::ForeignState {
                vm_id: identity.vm_id.clone(),
            });
            self.tracker = Tracker::new(ENDED_RETENTION);
            self.has_document = false;
            self.effects.push(Effect::DiscardForeignState);
        }
        if self.config.vm_name.is_none() {
            self.vm_name = Some(Arc::from(identity.name.as_str()));
        }
        let identity = Arc::new(identity);
        self.log(LogEntry::Identified {
            identity: Arc::clone(&identity),
            vm_name: self.vm_name.clone(),
        });
        self.identity = Some(identity);
        self.newly_own
            .extend(self.tracker.set_vm_name(self.vm_name.as_deref()));
    }

    fn approval_sent(
        &mut self,
        id: &EventId,
        result: Result<(), RequestError>,
        took: Duration,
        now: Moment,
    ) {
        self.publish = true;
        let reason = result.as_ref().err().map(|error| error.reason);
        self.health.count_request(took, reason);
        let outcome = match &result {
            Ok(()) => ApprovalResult::Approved,
            Err(_) => ApprovalResult::Failed,
        };
        if let Some(event_type) = self.approvals.sent(id, result.as_ref().err(), now) {
            self.count_approval(event_type, outcome);
        }
        match outcome {
            ApprovalResult::Approved => {
                let transitions = self.tracker.record_approval(id, now.wall);
                self.apply(transitions.into_iter().collect());
            }
            ApprovalResult::Failed | ApprovalResult::DryRun => {
                self.tracker.record_refusal(id, now.wall);
                self.saves.mark();
            }
        }
        self.evaluate_approvals(false, now);
    }

    /// Decides about every event. `may_send`: a poll has just succeeded, so one approval may be sent.
    fn evaluate_approvals(&mut self, may_send: bool, now: Moment) {
        let vm_name = self.certain_name();
        let events = self.tracker.events();
        let evaluation = self
            .approvals
            .evaluate(&events, vm_name.as_deref(), may_send, now);
        self.effects
            .extend(evaluation.log.into_iter().map(Effect::Log));
        for event_type in evaluation.dry_runs {
            self.count_approval(event_type, ApprovalResult::DryRun);
        }
        if let Some(id) = evaluation.send {
            self.tracker.record_approval_request(&id, now.wall);
            self.saves.mark();
            self.approve = Some(id);
        }
    }

    /// The name of this VM where this process got it from the operator or from instance metadata. The name in a restored
    /// state may be that of the VM whose disk was cloned.
    fn certain_name(&self) -> Option<Arc<str>> {
        let is_certain = self.config.vm_name.is_some() || self.identity.is_some();
        self.vm_name.clone().filter(|_| is_certain)
    }

    fn count_approval(&mut self, event_type: EventType, result: ApprovalResult) {
        let approvals = &mut Arc::make_mut(&mut self.outputs).approvals;
        *approvals
            .entry((TypeLabel::from(event_type), result))
            .or_default() += 1;
    }

    fn tick(&mut self, now: Moment) {
        if !self.wants_heartbeat() {
            return;
        }
        if let Some(interruption) = self.heartbeat.tick(now) {
            let transitions = self.tracker.record_interruption(interruption, now.wall);
            self.publish = !transitions.is_empty();
            self.apply(transitions);
        }
    }

    fn set_span_counts(&mut self, counts: &SpanCounts) {
        counts.show_in(Arc::make_mut(&mut self.outputs));
        self.spool_write_failures = counts.write_failures;
        self.set_write_failures(None);
        self.publish = true;
    }

    fn set_write_failures(&mut self, log: Option<LogEntry>) {
        self.effects.extend(log.map(Effect::Log));
        let failures = self.saves.failures() + self.spool_write_failures;
        // The snapshots share the counters as long as they are equal.
        if self.outputs.state_write_failures != failures {
            Arc::make_mut(&mut self.outputs).state_write_failures = failures;
            self.publish = true;
        }
    }

    fn apply(&mut self, transitions: Vec<Transition>) {
        for transition in &transitions {
            Arc::make_mut(&mut self.counters).count(transition);
            self.log(LogEntry::Transition(transition.clone()));
        }
        if !transitions.is_empty() {
            self.saves.mark();
        }
        self.transitions.extend(transitions);
    }

    fn log(&mut self, entry: LogEntry) {
        self.effects.push(Effect::Log(entry));
    }

    fn log_failure(&mut self) {
        if let Some(failure) = self.health.failure.clone() {
            let pending = self.tracker.pending();
            self.log(LogEntry::PollingFailed { failure, pending });
        }
    }

    fn take_effects(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        effects.extend(self.take_spans().map(Effect::AppendSpans));
        if self.saves.begin(self.tracker.pending() > 0, now) {
            effects.push(Effect::SaveState(Box::new(self.saved_state(now))));
        }
        if std::mem::take(&mut self.publish) {
            effects.push(Effect::Publish(Arc::new(self.snapshot(now))));
        }
        effects.extend(self.approve.take().map(Effect::Approve));
        effects
    }

    fn take_spans(&mut self) -> Option<Batch> {
        let transitions = std::mem::take(&mut self.transitions);
        let newly_own = std::mem::take(&mut self.newly_own);
        let settings = self.config.traces.as_ref()?;
        let vm = VmKey::of(self.identity.as_deref(), self.vm_name.as_deref());
        let spans: Vec<_> = newly_own
            .iter()
            .flat_map(|tracked| trace::backfill(tracked, &vm))
            .chain(
                transitions
                    .iter()
                    .flat_map(|transition| trace::spans(transition, &vm)),
            )
            .collect();
        (!spans.is_empty()).then(|| Batch {
            resource: resource::of(settings, self.identity.as_deref(), self.vm_name.as_deref()),
            spans,
        })
    }

    fn saved_state(&self, now: Moment) -> SavedState {
        SavedState {
            boot_id: self.config.boot_id.clone(),
            heartbeat_at: now.wall,
            document_at: self.tracker.document_at(),
            vm_name: self.vm_name.as_deref().map(str::to_owned),
            vm_id: self.vm_id.clone(),
            events: self.tracker.events(),
        }
    }
}

/// Whether the VM was booted after the state was written. Unknown boot ids say that it was not.
pub fn is_rebooted(saved: &SavedState, boot_id: Option<&str>) -> bool {
    match (saved.boot_id.as_deref(), boot_id) {
        (Some(saved), Some(current)) => saved != current,
        _ => false,
    }
}
