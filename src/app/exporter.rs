//! What the event loop knows, and what each happening does to it. No I/O but the log; time is an argument.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{anomaly_tracker::AnomalyTracker, logging};
use crate::{
    alertmanager::PushCounts,
    document::{Anomalies, Document},
    event::{EventId, EventType},
    heartbeat::Heartbeat,
    lifecycle::{Restored, TrackedEvent, Tracker, Transition},
    otlp::Counts,
    snapshot::{
        Approval, ApprovalResult, EventCounters, FailureReason, Health, Identity, OutputCounters,
        Snapshot, TypeLabel,
    },
    state::Saved,
    time::Moment,
};

/// Ended events stay visible for so long, so that every scraper sees the end once.
const ENDED_RETENTION: Duration = Duration::from_mins(10);

/// The state behind the pictures.
#[derive(Debug)]
pub(super) struct Exporter {
    tracker: Tracker,
    heartbeat: Heartbeat,
    health: Health,
    counters: Arc<EventCounters>,
    identity: Option<Arc<Identity>>,
    vm_name: Option<Arc<str>>,
    /// The name is the operator's, who knows better than instance metadata.
    is_name_given: bool,
    /// The VM's id, as instance metadata say or, until then, as the state that was taken over says.
    vm_id: Option<String>,
    was_unidentified: bool,
    has_document: bool,
    outputs: Arc<OutputCounters>,
    /// Events of which it was learnt late that they name this VM; their spans are due.
    learnt: Vec<Arc<TrackedEvent>>,
    approvals: Arc<BTreeMap<EventId, Approval>>,
    anomaly_tracker: AnomalyTracker,
    snapshot: watch::Sender<Arc<Snapshot>>,
}

/// What an earlier process left, and who that was.
#[derive(Debug, Default)]
pub(super) struct Legacy {
    pub(super) restored: Restored,
    pub(super) vm_name: Option<Arc<str>>,
    pub(super) vm_id: Option<String>,
}

impl Exporter {
    pub(super) fn new(vm_name: Option<Arc<str>>, legacy: Option<Legacy>, now: Moment) -> Self {
        let legacy = legacy.unwrap_or_default();
        let has_document = legacy.restored.document_at.is_some();
        let is_name_given = vm_name.is_some();
        let vm_name = vm_name.or(legacy.vm_name);
        let mut tracker = Tracker::restore(ENDED_RETENTION, legacy.restored, now);
        let learnt = tracker.set_vm_name(vm_name.as_deref());
        let mut exporter = Self {
            tracker,
            heartbeat: Heartbeat::default(),
            health: Health::default(),
            counters: Arc::default(),
            identity: None,
            vm_name: vm_name.clone(),
            is_name_given,
            vm_id: legacy.vm_id.filter(|id| !id.is_empty()),
            was_unidentified: false,
            has_document,
            outputs: Arc::default(),
            learnt,
            approvals: Arc::default(),
            anomaly_tracker: AnomalyTracker::default(),
            snapshot: watch::Sender::new(Arc::new(Snapshot::empty(vm_name, now))),
        };
        exporter.publish(now);
        exporter
    }

    /// Where the pictures can be had.
    pub(super) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// Whether who this VM is still has to be found out.
    pub(super) fn needs_identity(&self) -> bool {
        self.identity.is_none()
    }

    /// Whether any poll succeeded yet.
    pub(super) fn has_succeeded(&self) -> bool {
        self.health.last_success.is_some()
    }

    /// Whether the pulse is worth taking.
    pub(super) fn is_own_pending(&self) -> bool {
        self.tracker.is_own_pending()
    }

    /// Counts a request of any kind.
    pub(super) fn count_request(&mut self, took: Duration, failed: Option<FailureReason>) {
        self.health.count_request(took, failed);
    }

    /// Instance metadata have said who this VM is. Says whether the state that was taken over is another VM's.
    pub(super) fn identified(&mut self, identity: Identity) -> bool {
        // An id that is missing says nothing.
        let vm_id = Some(identity.vm_id.clone()).filter(|id| !id.is_empty());
        let is_foreign = match (&self.vm_id, &vm_id) {
            (Some(known), Some(said)) => !known.eq_ignore_ascii_case(said),
            _ => false,
        };
        self.vm_id = vm_id.or(self.vm_id.take());
        if is_foreign {
            logging::foreign_state(&identity.vm_id);
            self.tracker = Tracker::new(ENDED_RETENTION);
            self.has_document = false;
        }
        if !self.is_name_given {
            self.vm_name = Some(Arc::from(identity.name.as_str()));
        }
        logging::identified(&identity, self.vm_name.as_deref().unwrap_or_default());
        self.identity = Some(Arc::new(identity));
        self.learnt
            .extend(self.tracker.set_vm_name(self.vm_name.as_deref()));
        is_foreign
    }

    /// Instance metadata could not be had. Said once, not each time.
    pub(super) fn unidentified(&mut self, error: &str) {
        if !std::mem::replace(&mut self.was_unidentified, true) {
            logging::unidentified(error);
        }
    }

    /// A poll brought a document.
    pub(super) fn observe(
        &mut self,
        document: &Document,
        anomalies: &Anomalies,
        now: Moment,
    ) -> Vec<Transition> {
        self.has_document = true;
        self.health.incarnation = document.incarnation;
        let transitions = self.tracker.observe(document, self.vm_name.as_deref(), now);
        for (kind, count) in self.anomaly_tracker.note(anomalies, &transitions) {
            Arc::make_mut(&mut self.counters).count_anomalies(kind, count);
        }
        self.succeed(now);
        self.happened(&transitions);
        transitions
    }

    /// A poll said that the last document still holds.
    pub(super) fn confirm(&mut self, now: Moment) {
        self.tracker.document_unchanged(now);
        self.succeed(now);
    }

    /// A poll failed: what is known stays.
    pub(super) fn failed(&mut self, reason: FailureReason, message: String, now: Moment) {
        self.tracker.poll_failed(now);
        if self.health.fail(reason, message, now.wall) {
            logging::failing(&self.health, self.tracker.pending());
        }
    }

    /// One beat of the pulse that measures interruptions of this VM.
    pub(super) fn beat(&mut self, now: Moment) -> Vec<Transition> {
        if !self.is_own_pending() {
            self.heartbeat.reset();
            return Vec::new();
        }
        let interruption = self.heartbeat.tick(now);
        let transitions = interruption
            .map(|it| self.tracker.record_interruption(it, now.wall))
            .unwrap_or_default();
        self.happened(&transitions);
        transitions
    }

    /// Whether any event is not over.
    pub(super) fn is_pending(&self) -> bool {
        self.tracker.pending() > 0
    }

    /// What must survive a restart.
    pub(super) fn saved(&self, boot_id: Option<&str>, now: Moment) -> Saved {
        Saved {
            boot_id: boot_id.map(str::to_owned),
            heartbeat_at: now.wall,
            document_at: self.tracker.document_at(),
            vm_name: self.vm_name.as_deref().map(str::to_owned),
            vm_id: self.vm_id.clone(),
            events: self.tracker.events(),
        }
    }

    /// Every event that is followed.
    pub(super) fn events(&self) -> Vec<Arc<TrackedEvent>> {
        self.tracker.events()
    }

    /// This VM's name where the operator or instance metadata gave it to this process; what an earlier process knew may
    /// be that of the VM whose disk was cloned.
    pub(super) fn certain_name(&self) -> Option<Arc<str>> {
        let is_certain = self.is_name_given || self.identity.is_some();
        self.vm_name.clone().filter(|_| is_certain)
    }

    /// What was decided about the approval of each event.
    pub(super) fn show_approvals(&mut self, decided: Arc<BTreeMap<EventId, Approval>>) {
        self.approvals = decided;
    }

    /// IMDS took an approval.
    pub(super) fn approved(&mut self, id: &EventId, now: Moment) -> Vec<Transition> {
        let transitions: Vec<_> = self
            .tracker
            .record_approval(id, now.wall)
            .into_iter()
            .collect();
        self.happened(&transitions);
        transitions
    }

    /// IMDS did not take an approval.
    pub(super) fn refused(&mut self, id: &EventId, now: Moment) {
        self.tracker.record_refusal(id, now.wall);
    }

    /// Counts what came of an approval.
    pub(super) fn count_approval(&mut self, event_type: &EventType, result: ApprovalResult) {
        let label = TypeLabel::from(event_type.clone());
        let approvals = &mut Arc::make_mut(&mut self.outputs).approvals;
        *approvals.entry((label, result)).or_default() += 1;
    }

    /// How many writes to the state directory failed: of the state file, of the spool.
    pub(super) fn show_write_failures(&mut self, state: u64, spool: u64) {
        let failures = state + spool;
        // The counts are shared with the pictures for as long as they are the same.
        if self.outputs.state_write_failures != failures {
            Arc::make_mut(&mut self.outputs).state_write_failures = failures;
        }
    }

    /// Events of which it was learnt since the last call that they name this VM.
    pub(super) fn take_learnt(&mut self) -> Vec<Arc<TrackedEvent>> {
        std::mem::take(&mut self.learnt)
    }

    /// Who this VM is, as far as it is known.
    pub(super) fn who(&self) -> (Option<&Identity>, Option<&str>) {
        (self.identity.as_deref(), self.vm_name.as_deref())
    }

    /// What became of the spans.
    pub(super) fn show_spans(&mut self, counts: &Counts) {
        counts.show_in(Arc::make_mut(&mut self.outputs));
    }

    pub(super) fn show_pushes(&mut self, counts: PushCounts) {
        if self.outputs.alert_pushes != counts.pushes {
            let outputs = Arc::make_mut(&mut self.outputs);
            outputs.alert_pushes = counts.pushes;
            outputs.alert_push_failures = counts.failures;
        }
    }

    /// What follows from what happened, in this order.
    fn happened(&mut self, transitions: &[Transition]) {
        for transition in transitions {
            logging::transition(transition);
            Arc::make_mut(&mut self.counters).count(transition);
        }
    }

    fn succeed(&mut self, now: Moment) {
        let first = !self.has_succeeded();
        let ended = self.health.succeed(now);
        if first || ended.is_some() {
            logging::succeeding(
                ended.as_ref(),
                self.health.incarnation,
                self.tracker.pending(),
                now.wall,
            );
        }
    }

    /// Shows what is known now to every reader.
    pub(super) fn publish(&mut self, now: Moment) {
        let snapshot = Snapshot {
            events: self.tracker.events().into(),
            has_document: self.has_document,
            health: self.health.clone(),
            counters: Arc::clone(&self.counters),
            outputs: Arc::clone(&self.outputs),
            approvals: Arc::clone(&self.approvals),
            identity: self.identity.clone(),
            vm_name: self.vm_name.clone(),
            as_of: now,
        };
        self.snapshot.send_replace(Arc::new(snapshot));
    }
}
