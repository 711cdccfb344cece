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

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    ApprovalDecision, ApprovalPolicy, ApprovalReason, SkipReason,
    policy::{self, MAX_ATTEMPTS, retry_delay},
};
use crate::{
    azure::{
        FailureReason, RequestError,
        event::{EventId, EventScope, EventType, Source},
    },
    base::time::{Moment, MonotonicTime, Timestamp},
    core::lifecycle::{Phase, TrackedEvent},
};

/// The policy, and the results of its attempts.
#[derive(Debug)]
pub(crate) struct Approvals {
    policy: ApprovalPolicy,
    progress: BTreeMap<EventId, Progress>,
    in_flight: Option<(EventId, EventType)>,
    /// Consecutive attempts without an answer, of all events.
    unanswered: u32,
    /// No approval is sent before: IMDS does not answer, and polls wait for each attempt.
    hold_until: MonotonicTime,
    /// About each pending event.
    decisions: Arc<BTreeMap<EventId, ApprovalDecision>>,
}

/// What this process waits for, and has tried, to approve one pending event.
#[derive(Debug, Clone)]
struct Progress {
    /// The end of [`ApprovalPolicy::delay`].
    delay_until: Moment,
    /// The end of [`ApprovalPolicy::drain`], while the policy approves the event.
    drain_until: Option<Moment>,
    dry_run_at: Option<Timestamp>,
    /// Failed attempts.
    failed: u32,
    /// The error of the last one.
    error: Box<str>,
    /// The earliest time of the next attempt.
    retry_at: Moment,
    /// An attempt had no answer.
    may_be_accepted: bool,
}

impl Progress {
    /// For an event that this process sees for the first time. The time before that, in an earlier process, counts by
    /// the wall clock: the delay ends no later than one delay from now, even after the clock was set back.
    fn start(tracked: &TrackedEvent, policy: &ApprovalPolicy, now: Moment) -> Self {
        let seen_for = now.wall.saturating_since(tracked.first_seen_at);
        Self {
            delay_until: now.after(policy.delay.saturating_sub(seen_for)),
            drain_until: None,
            dry_run_at: None,
            failed: 0,
            error: Box::default(),
            retry_at: now,
            may_be_accepted: false,
        }
    }

    fn record_failure(&mut self, error: &RequestError, now: Moment) {
        self.failed = self.failed.saturating_add(1);
        self.error = error.message.as_str().into();
        self.retry_at = now.after(retry_delay(error, self.failed));
        self.may_be_accepted |= !error.is_refusal();
    }

    /// The decision about an event that the policy approves now.
    fn decision(&self, reason: ApprovalReason, now: Moment) -> ApprovalDecision {
        if let Some(at) = self.dry_run_at {
            ApprovalDecision::DryRun { reason, at }
        } else if self.failed >= MAX_ATTEMPTS {
            ApprovalDecision::Withheld(SkipReason::GaveUp)
        } else if self.retry_at.monotonic <= now.monotonic {
            ApprovalDecision::Due(reason)
        } else {
            ApprovalDecision::Failed {
                reason,
                attempts: self.failed,
                error: self.error.clone(),
                may_be_accepted: self.may_be_accepted,
                retry_at: self.retry_at.wall,
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    /// The event whose approval is to be sent.
    pub(crate) send: Option<EventId>,
    /// The events that count as due from now on (true) or no longer (false) because they are to be approved.
    pub(crate) intentions: Vec<(EventId, bool)>,
    /// The types of the events that a dry run would have approved now.
    pub(crate) dry_runs: Vec<EventType>,
    /// The decisions that are new and worth a line in the log.
    pub(crate) news: Vec<(ApprovalDecision, Arc<TrackedEvent>)>,
}

impl Approvals {
    pub(crate) fn new(policy: ApprovalPolicy) -> Self {
        Self {
            policy,
            progress: BTreeMap::new(),
            in_flight: None,
            unanswered: 0,
            hold_until: MonotonicTime::default(),
            decisions: Arc::default(),
        }
    }

    pub(crate) fn decisions(&self) -> Arc<BTreeMap<EventId, ApprovalDecision>> {
        Arc::clone(&self.decisions)
    }

    /// The time until the next delay or drain ends: a poll then lets the approval be sent on time.
    pub(crate) fn due_in(&self, now: Moment) -> Option<Duration> {
        let ends = self.progress.iter().filter_map(|(id, progress)| {
            let end = match self.decisions.get(id)? {
                ApprovalDecision::Waiting { .. } => progress.delay_until,
                ApprovalDecision::Draining { .. } => progress.drain_until?,
                _ => return None,
            };
            Some(end.monotonic - now.monotonic)
        });
        ends.min()
    }

    /// Decides about every pending event.
    pub(crate) fn evaluate(
        &mut self,
        events: &[Arc<TrackedEvent>],
        vm_name: Result<&str, SkipReason>,
        may_send: bool,
        now: Moment,
    ) -> Evaluation {
        let mut evaluation = Evaluation::default();
        // The due event with the fewest failed attempts is next, so that a refused one does not delay the others.
        let mut next: Option<(u32, &TrackedEvent, ApprovalReason)> = None;
        let may_send = may_send && self.hold_until <= now.monotonic;
        let mut known = std::mem::take(&mut self.progress);
        let mut decisions = BTreeMap::new();
        let pending = || events.iter().filter(|tracked| tracked.is_pending());
        for tracked in pending() {
            let id = &tracked.shown.id;
            let mut progress = known
                .remove(id)
                .unwrap_or_else(|| Progress::start(tracked, &self.policy, now));
            let mut approval = self.decide(tracked, &mut progress, vm_name, now);
            // An event that the last document lacks could not be read, and is not approved.
            let is_listed = tracked.last_listed_at.is_none();
            if let ApprovalDecision::Due(reason) = approval
                && may_send
                && is_listed
            {
                if self.policy.dry_run {
                    progress.dry_run_at = Some(now.wall);
                    evaluation.dry_runs.push(tracked.shown.event_type.clone());
                    approval = progress.decision(reason, now);
                } else if next.is_none_or(|(fewest, ..)| progress.failed < fewest) {
                    next = Some((progress.failed, tracked, reason));
                }
            }
            decisions.insert(id.clone(), approval);
            self.progress.insert(id.clone(), progress);
        }
        if let Some((_, tracked, reason)) = next.filter(|_| self.in_flight.is_none()) {
            let event = &tracked.shown;
            let at = now.wall;
            decisions.insert(event.id.clone(), ApprovalDecision::Sent { reason, at });
            self.in_flight = Some((event.id.clone(), event.event_type.clone()));
            evaluation.send = Some(event.id.clone());
        }
        for tracked in pending() {
            self.report(tracked, &decisions, &mut evaluation);
        }
        if *self.decisions != decisions {
            self.decisions = Arc::new(decisions);
        }
        evaluation
    }

    /// The request of an approval ended. Returns the type of the event.
    pub(crate) fn sent(
        &mut self,
        id: &EventId,
        error: Option<&RequestError>,
        now: Moment,
    ) -> Option<EventType> {
        let (_, event_type) = self.in_flight.take_if(|(in_flight, _)| in_flight == id)?;
        let timeout = error.filter(|error| error.reason == FailureReason::Timeout);
        self.unanswered = timeout.map_or(0, |_| self.unanswered.saturating_add(1));
        if let Some(error) = timeout {
            self.hold_until = now.monotonic + retry_delay(error, self.unanswered);
        }
        if let (Some(error), Some(progress)) = (error, self.progress.get_mut(id)) {
            progress.record_failure(error, now);
        }
        Some(event_type)
    }

    /// Adds to `evaluation` what changed about one event.
    fn report(
        &self,
        tracked: &Arc<TrackedEvent>,
        decisions: &BTreeMap<EventId, ApprovalDecision>,
        evaluation: &mut Evaluation,
    ) {
        let id = &tracked.shown.id;
        let Some(approval) = decisions.get(id) else {
            return;
        };
        if should_log(self.decisions.get(id), approval, tracked, &self.policy) {
            let news = (approval.clone(), Arc::clone(tracked));
            evaluation.news.push(news);
        }
        if let Some(is_intended) = self.is_intended(approval, tracked)
            && is_intended != tracked.approval.decision_at().is_some()
        {
            evaluation.intentions.push((id.clone(), is_intended));
        }
    }

    /// Whether the event counts as due by this decision; `None` where an earlier one stays on record.
    fn is_intended(&self, approval: &ApprovalDecision, tracked: &TrackedEvent) -> Option<bool> {
        match approval {
            ApprovalDecision::Draining { .. }
            | ApprovalDecision::Due(_)
            | ApprovalDecision::Sent { .. } => Some(!self.policy.dry_run),
            // The first resource may approve it at any moment, and a retry is not drained again.
            ApprovalDecision::Waiting { reason, .. } | ApprovalDecision::Failed { reason, .. } => {
                Some(self.policy.drains(*reason))
            }
            ApprovalDecision::DryRun { .. } => Some(false),
            // The name will be known, and after NotBefore the event is due anyway.
            ApprovalDecision::Withheld(
                SkipReason::IdentityUnknown | SkipReason::NotBeforePassed,
            )
            | ApprovalDecision::Approved { .. }
            | ApprovalDecision::ApprovedElsewhere { .. } => None,
            ApprovalDecision::Withheld(_) => {
                let is_open =
                    tracked.phase() == Phase::Scheduled && tracked.approval.sent_at.is_none();
                is_open.then_some(false)
            }
        }
    }

    /// Whether an attempt of this process had no answer.
    pub(crate) fn may_be_accepted(&self, id: &EventId) -> bool {
        let progress = self.progress.get(id);
        progress.is_some_and(|progress| progress.may_be_accepted)
    }

    /// The decision of the policy, adjusted for the drain and for earlier attempts.
    fn decide(
        &self,
        tracked: &TrackedEvent,
        progress: &mut Progress,
        vm_name: Result<&str, SkipReason>,
        now: Moment,
    ) -> ApprovalDecision {
        let policy = &self.policy;
        let decision = policy::decide(tracked, policy, vm_name, progress.delay_until, now);
        let drain_until = progress.drain_until.take();
        let ApprovalDecision::Due(reason) = decision else {
            return decision;
        };
        if policy.drains(reason) {
            progress.drain_until = drain_until.or(Some(now.after(policy.drain)));
        }
        let in_flight = self.in_flight.as_ref().map(|(id, _)| id);
        match tracked.approval.sent_at {
            Some(at) if in_flight == Some(&tracked.shown.id) => {
                ApprovalDecision::Sent { reason, at }
            }
            // Sent by an earlier process.
            Some(_) if !progress.may_be_accepted => {
                ApprovalDecision::Withheld(SkipReason::ResultUnknown)
            }
            _ => match progress.drain_until {
                Some(until) if now.monotonic < until.monotonic => {
                    let until = until.wall;
                    ApprovalDecision::Draining { reason, until }
                }
                _ => progress.decision(reason, now),
            },
        }
    }
}

/// Whether to log a decision about an approval. Left out is what a transition logs: an approval, and a start. So are
/// decisions not to approve an advisory, an event of other VMs that the policy never approves and, while approvals are
/// off, an event that no user requested; but not one that takes back a decision to approve.
fn should_log(
    before: Option<&ApprovalDecision>,
    now: &ApprovalDecision,
    tracked: &TrackedEvent,
    policy: &ApprovalPolicy,
) -> bool {
    let label = |approval: &ApprovalDecision| (approval.decision(), approval.reason());
    if before.map(label) == Some(label(now)) {
        return false;
    }
    match now {
        ApprovalDecision::Approved { .. } | ApprovalDecision::ApprovedElsewhere { .. } => false,
        ApprovalDecision::Withheld(_) => {
            let is_taken_back =
                before.is_some_and(|before| !matches!(before, ApprovalDecision::Withheld(_)));
            let is_user_event = tracked.shown.source == Some(Source::User);
            let is_of_interest = match tracked.scope {
                EventScope::Other => policy.for_group && is_user_event,
                EventScope::Own | EventScope::Unknown => policy.is_on() || is_user_event,
            };
            is_taken_back || (is_of_interest && tracked.phase() == Phase::Scheduled)
        }
        _ => true,
    }
}
