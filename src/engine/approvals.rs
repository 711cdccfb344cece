//! Selects the event to approve next, and describes each decision for the snapshot and the log.
//!
//! An approval follows a document that shows the event as Scheduled, at most one for each poll, and counts when IMDS
//! answers 200. With a drain, the event counts as due for that long before the first attempt; the drain and the delay
//! of the policy are measured by the monotonic clock.
//!
//! After any answer but 200 the document is read again before the next attempt, attempts become rarer, and
//! `NotBefore` ends them. An attempt without an answer may have been accepted: it is repeated too, but only by the
//! same process. Each attempt is part of the saved state before it is sent, so that the next process does not send it
//! again. That process drains again what this one was draining.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{LogEntry, attempts::Attempts, log::should_log};
use crate::{
    approval::{self, ApprovalPolicy, limits::retry_delay},
    document::Document,
    event::{EventId, EventType},
    lifecycle::{Phase, TrackedEvent},
    snapshot::{Approval, ApprovalReason, FailureReason, RequestError, SkipReason},
    time::Moment,
};

/// The policy, and the results of its attempts.
#[derive(Debug)]
pub(super) struct Approvals {
    policy: ApprovalPolicy,
    /// The events of the last document. A pending event that is not among them could not be read, and is not approved.
    in_document: HashSet<EventId>,
    attempts: Attempts,
    timers: BTreeMap<EventId, Timers>,
    in_flight: Option<(EventId, EventType)>,
    /// Consecutive attempts without an answer, of all events.
    unanswered: u32,
    /// No approval is sent before, by the monotonic clock: IMDS does not answer, and polls wait for each attempt.
    hold_until: Duration,
    decided: Arc<BTreeMap<EventId, Approval>>,
}

/// The waiting times of one pending event.
#[derive(Debug, Clone, Copy)]
struct Timers {
    /// The end of [`ApprovalPolicy::delay`].
    delay_until: Moment,
    /// The end of [`ApprovalPolicy::drain`], while the policy approves the event.
    drain_until: Option<Moment>,
}

impl Timers {
    /// For an event that this process sees for the first time. The time before that, in an earlier process, counts by
    /// the wall clock: the delay ends no later than one delay from now, even after the clock was set back.
    fn start(tracked: &TrackedEvent, policy: &ApprovalPolicy, now: Moment) -> Self {
        let seen_for = now.wall.saturating_since(tracked.first_seen_at);
        Self {
            delay_until: now.after(policy.delay.saturating_sub(seen_for)),
            drain_until: None,
        }
    }
}

/// The result of one evaluation.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    /// The event whose approval is to be sent.
    pub(super) send: Option<EventId>,
    /// The events whose approval was decided now (true), or for which the decision was taken back (false).
    pub(super) decisions: Vec<(EventId, bool)>,
    /// The types of the events that a dry run would have approved now.
    pub(super) dry_runs: Vec<EventType>,
    pub(super) log: Vec<LogEntry>,
}

impl Approvals {
    pub(super) fn new(policy: ApprovalPolicy) -> Self {
        Self {
            policy,
            in_document: HashSet::new(),
            attempts: Attempts::default(),
            timers: BTreeMap::new(),
            in_flight: None,
            unanswered: 0,
            hold_until: Duration::ZERO,
            decided: Arc::default(),
        }
    }

    pub(super) fn set_document(&mut self, document: &Document) {
        let ids = document.events.iter().map(|event| event.id.clone());
        self.in_document = ids.collect();
    }

    /// The decision about each pending event.
    pub(super) fn decided(&self) -> Arc<BTreeMap<EventId, Approval>> {
        Arc::clone(&self.decided)
    }

    /// The time until the next delay or drain ends: a poll then lets the approval be sent on time.
    pub(super) fn due_in(&self, now: Moment) -> Option<Duration> {
        let ends = self.timers.iter().filter_map(|(id, timers)| {
            let end = match self.decided.get(id)? {
                Approval::Waiting { .. } => timers.delay_until,
                Approval::Draining { .. } => timers.drain_until?,
                _ => return None,
            };
            Some(end.monotonic.saturating_sub(now.monotonic))
        });
        ends.min()
    }

    /// Decides about every pending event.
    pub(super) fn evaluate(
        &mut self,
        events: &[Arc<TrackedEvent>],
        vm_name: Result<&str, SkipReason>,
        may_send: bool,
        now: Moment,
    ) -> Evaluation {
        let mut evaluation = Evaluation::default();
        // The due event with the fewest failed attempts is next, so that a refused one does not delay the others.
        let mut next: Option<(u32, &TrackedEvent, ApprovalReason)> = None;
        let mut decided = BTreeMap::new();
        let pending = || events.iter().filter(|tracked| tracked.is_pending());
        for tracked in pending() {
            let id = &tracked.event.id;
            let mut approval = self.decide(tracked, vm_name, now);
            if let Approval::Due(reason) = approval
                && may_send
                && self.hold_until <= now.monotonic
                && self.in_document.contains(id)
            {
                if self.policy.dry_run {
                    let at = now.wall;
                    self.attempts.record_dry_run(id, at);
                    evaluation.dry_runs.push(tracked.event.event_type.clone());
                    approval = Approval::DryRun { reason, at };
                } else if next.is_none_or(|(fewest, ..)| self.attempts.failed(id) < fewest) {
                    next = Some((self.attempts.failed(id), tracked, reason));
                }
            }
            decided.insert(id.clone(), approval);
        }
        if let Some((_, tracked, reason)) = next.filter(|_| self.in_flight.is_none()) {
            let event = &tracked.event;
            let at = now.wall;
            decided.insert(event.id.clone(), Approval::Sent { reason, at });
            self.in_flight = Some((event.id.clone(), event.event_type.clone()));
            evaluation.send = Some(event.id.clone());
        }
        for tracked in pending() {
            self.report(tracked, &decided, &mut evaluation);
        }
        self.attempts.retain(|id| decided.contains_key(id));
        self.timers.retain(|id, _| decided.contains_key(id));
        if *self.decided != decided {
            self.decided = Arc::new(decided);
        }
        evaluation
    }

    /// The request of an approval ended. Returns the type of the event.
    pub(super) fn sent(
        &mut self,
        id: &EventId,
        error: Option<&RequestError>,
        now: Moment,
    ) -> Option<EventType> {
        let (_, event_type) = self.in_flight.take_if(|(in_flight, _)| in_flight == id)?;
        self.unanswered = match error {
            Some(error) if error.reason == FailureReason::Timeout => {
                let unanswered = self.unanswered.saturating_add(1);
                let hold = retry_delay(error, unanswered);
                self.hold_until = now.monotonic.saturating_add(hold);
                unanswered
            }
            Some(_) | None => 0,
        };
        if let Some(error) = error {
            self.attempts.record_failure(id, error, now);
        }
        Some(event_type)
    }

    /// Adds to `evaluation` what changed about one event.
    fn report(
        &self,
        tracked: &Arc<TrackedEvent>,
        decided: &BTreeMap<EventId, Approval>,
        evaluation: &mut Evaluation,
    ) {
        let id = &tracked.event.id;
        let Some(approval) = decided.get(id) else {
            return;
        };
        if should_log(self.decided.get(id), approval, tracked, &self.policy) {
            evaluation.log.push(LogEntry::Approval {
                approval: approval.clone(),
                tracked: Arc::clone(tracked),
            });
        }
        if let Some(is_decided) = self.is_decided(approval, tracked)
            && is_decided != tracked.approval_decision_at().is_some()
        {
            evaluation.decisions.push((id.clone(), is_decided));
        }
    }

    /// Whether the event counts as due by this decision; `None` where an earlier decision stays on record.
    fn is_decided(&self, approval: &Approval, tracked: &TrackedEvent) -> Option<bool> {
        match approval {
            Approval::Draining { .. } | Approval::Due(_) | Approval::Sent { .. } => {
                Some(!self.policy.dry_run)
            }
            // The first resource may approve it at any moment, and a retry is not drained again.
            Approval::Waiting { reason, .. } | Approval::Failed { reason, .. } => {
                Some(self.policy.drains(*reason))
            }
            Approval::DryRun { .. } => Some(false),
            // The name will be known, and after NotBefore the event is due anyway.
            Approval::Withheld(SkipReason::IdentityUnknown | SkipReason::NotBeforePassed)
            | Approval::Approved { .. }
            | Approval::ApprovedElsewhere { .. } => None,
            Approval::Withheld(_) => {
                let is_open =
                    tracked.phase() == Phase::Scheduled && tracked.approval_sent_at.is_none();
                is_open.then_some(false)
            }
        }
    }

    /// Whether an attempt of this process had no answer.
    pub(super) fn may_be_accepted(&self, id: &EventId) -> bool {
        self.attempts.may_be_accepted(id)
    }

    /// The decision of the policy, adjusted for the drain and for earlier attempts.
    fn decide(
        &mut self,
        tracked: &TrackedEvent,
        vm_name: Result<&str, SkipReason>,
        now: Moment,
    ) -> Approval {
        let policy = &self.policy;
        let id = &tracked.event.id;
        let timers = self
            .timers
            .entry(id.clone())
            .or_insert_with(|| Timers::start(tracked, policy, now));
        let decision = approval::decide(tracked, policy, vm_name.ok(), timers.delay_until, now);
        timers.drain_until = match decision {
            Approval::Due(reason) if policy.drains(reason) => {
                timers.drain_until.or(Some(now.after(policy.drain)))
            }
            _ => None,
        };
        let drain_until = timers.drain_until;
        let reason = match decision {
            Approval::Due(reason) => reason,
            Approval::Withheld(SkipReason::IdentityUnknown) => {
                let why = vm_name.err().unwrap_or(SkipReason::IdentityUnknown);
                return Approval::Withheld(why);
            }
            decision => return decision,
        };
        let is_in_flight = matches!(&self.in_flight, Some((in_flight, _)) if in_flight == id);
        match tracked.approval_sent_at {
            Some(at) if is_in_flight => return Approval::Sent { reason, at },
            // Sent by an earlier process.
            Some(_) if !self.attempts.may_be_accepted(id) => {
                return Approval::Withheld(SkipReason::ResultUnknown);
            }
            _ => {}
        }
        if let Some(until) = drain_until.filter(|until| now.monotonic < until.monotonic) {
            let until = until.wall;
            return Approval::Draining { reason, until };
        }
        self.attempts.decision(id, reason, now)
    }
}
