//! Which approvals are sent, and what a result changes.
//!
//! All that are due after a document go in one request; one that IMDS has answered with an error goes alone, so that it
//! cannot make others fail. Each attempt is part of the saved state before it is sent, so that the next process does not
//! send it again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Engine, log::log_approval};
use crate::{
    azure::{
        RequestError,
        event::{EventId, EventScope, EventType, Source},
    },
    base::time::{Moment, MonotonicTime},
    core::{
        approval::{
            ApprovalDecision, ApprovalPolicy, ApprovalReason, ApprovalStep, SkipReason, verdict,
        },
        lifecycle::{Phase, TrackedEvent},
        snapshot::ApprovalResult,
    },
};

#[derive(Debug, Default)]
pub(super) struct Approvals {
    pub(super) decisions: Arc<BTreeMap<EventId, ApprovalDecision>>,
    /// The types of those in the outstanding request.
    in_flight: BTreeMap<EventId, EventType>,
    /// When the next delay or drain ends.
    due_at: Option<MonotonicTime>,
}

impl Engine {
    /// The time until the next delay or drain ends: a poll then lets the approval be sent on time.
    pub(crate) fn approval_due_in(&self, now: Moment) -> Option<Duration> {
        self.approvals.due_at.map(|due_at| due_at - now.monotonic)
    }

    pub(super) fn approval_sent(
        &mut self,
        ids: &[EventId],
        error: Option<&RequestError>,
        took: Duration,
        now: Moment,
    ) {
        self.requests.count(took, error.map(|error| error.reason));
        self.saves.mark();
        let in_flight = std::mem::take(&mut self.approvals.in_flight);
        for id in ids {
            let (result, step) = match error {
                None => (ApprovalResult::Approved, ApprovalStep::Accepted),
                Some(error) => (ApprovalResult::Failed, ApprovalStep::failed(error)),
            };
            let transition = self.tracker.record_step(id, step, now);
            self.emit(transition.into_iter().collect());
            if let Some(event_type) = in_flight.get(id) {
                self.count_approval(event_type, result);
            }
        }
        self.evaluate_approvals(false, now);
    }

    /// Decides about every event. `may_send`: a poll has just succeeded.
    pub(super) fn evaluate_approvals(&mut self, may_send: bool, now: Moment) {
        let vm_name = self.certain_name();
        let vm_name = vm_name.as_deref().map_err(|why| *why);
        let mut decided = Vec::new();
        for tracked in self.tracker.events(now) {
            if tracked.is_pending() {
                let vm_name = vm_name.and_then(|name| match tracked.reported().scope(Some(name)) {
                    // The name was derived from that of the host.
                    EventScope::Other if tracked.scope == EventScope::Own => {
                        Err(SkipReason::IdentityUnknown)
                    }
                    _ => Ok(name),
                });
                let decision = verdict(&tracked, &self.policy, vm_name, now);
                self.record_intention(&tracked, &decision, now);
                decided.push((tracked, decision));
            }
        }
        if may_send && self.approvals.in_flight.is_empty() {
            for (tracked, reason, decision) in next(&mut decided) {
                *decision = self.approve(tracked, reason, now);
            }
        }
        for (tracked, decision) in &decided {
            let before = self.approvals.decisions.get(&tracked.shown.id);
            let own = (tracked.scope != EventScope::Other).then_some(&tracked.shown);
            let is_new = should_log(before, decision, tracked, &self.policy);
            if is_new && self.log.admits(own) {
                log_approval(decision, tracked);
            }
        }
        let ends = decided
            .iter()
            .filter_map(|(tracked, decision)| match decision {
                ApprovalDecision::Waiting { until, .. }
                | ApprovalDecision::Draining { until, .. } => {
                    Some(tracked.moment(*until).monotonic)
                }
                _ => None,
            });
        self.approvals.due_at = ends.min();
        let decided = decided.into_iter();
        let decisions = decided.map(|(tracked, decision)| (tracked.shown.id.clone(), decision));
        let decisions = decisions.collect();
        if *self.approvals.decisions != decisions {
            self.approvals.decisions = Arc::new(decisions);
        }
    }

    /// Records that an event counts as due because it is to be approved, or no longer does.
    fn record_intention(
        &mut self,
        tracked: &TrackedEvent,
        decision: &ApprovalDecision,
        now: Moment,
    ) {
        let step = match is_intended(decision, tracked, &self.policy) {
            Some(true) if tracked.approval.intended_at().is_none() => ApprovalStep::Intended,
            Some(false) if tracked.approval.intended_at().is_some() => ApprovalStep::Withdrawn,
            _ => return,
        };
        self.tracker.record_step(&tracked.shown.id, step, now);
        self.saves.mark();
    }

    fn approve(
        &mut self,
        tracked: &TrackedEvent,
        reason: ApprovalReason,
        now: Moment,
    ) -> ApprovalDecision {
        let (event, at) = (&tracked.shown, tracked.time(now));
        if self.policy.dry_run {
            self.tracker
                .record_step(&event.id, ApprovalStep::DryRun, now);
            self.saves.mark();
            self.count_approval(&event.event_type, ApprovalResult::DryRun);
            return ApprovalDecision::DryRun { reason, at };
        }
        self.tracker.record_step(&event.id, ApprovalStep::Sent, now);
        self.saves.mark_urgent();
        let (id, event_type) = (event.id.clone(), event.event_type.clone());
        self.approvals.in_flight.insert(id.clone(), event_type);
        self.approve.push(id);
        ApprovalDecision::Sent { reason, at }
    }

    /// From the operator or instance metadata: the name in a restored state may be that of the VM whose disk was cloned.
    fn certain_name(&self) -> Result<Arc<str>, SkipReason> {
        let vm_name = self.vm_name.clone().ok_or(SkipReason::IdentityUnknown)?;
        match &self.identity {
            Some(identity) if identity.contradicts(Some(&vm_name)) => {
                Err(SkipReason::NameContradiction)
            }
            None if !self.is_name_configured => Err(SkipReason::IdentityUnknown),
            Some(_) | None => Ok(vm_name),
        }
    }

    fn count_approval(&mut self, event_type: &EventType, result: ApprovalResult) {
        let approvals = &mut Arc::make_mut(&mut self.counters).approvals;
        *approvals.entry((event_type.into(), result)).or_default() += 1;
    }
}

/// The events whose approval is sent now. None before the retry of one that had no answer: IMDS does not answer, and
/// polls wait for each attempt. An event that the last document lacks could not be read, and is not approved.
fn next(
    decided: &mut [(Arc<TrackedEvent>, ApprovalDecision)],
) -> Vec<(&TrackedEvent, ApprovalReason, &mut ApprovalDecision)> {
    let is_held = |(tracked, decision): &(Arc<TrackedEvent>, _)| {
        matches!(decision, ApprovalDecision::Failed { .. }) && tracked.approval.is_unanswered()
    };
    if decided.iter().any(is_held) {
        return Vec::new();
    }
    let due = decided
        .iter_mut()
        .filter_map(|(tracked, decision)| match decision {
            ApprovalDecision::Due(reason) if tracked.last_listed_at.is_none() => {
                Some((&**tracked, *reason, decision))
            }
            _ => None,
        });
    let (alone, mut due): (Vec<_>, Vec<_>) = due.partition(|(it, ..)| it.approval.had_error());
    if due.is_empty() {
        let alone = alone.into_iter();
        due.extend(alone.min_by_key(|(it, ..)| it.approval.failures().0));
    }
    due
}

/// Whether the event counts as due by this decision; `None` where an earlier one stays on record.
fn is_intended(
    decision: &ApprovalDecision,
    tracked: &TrackedEvent,
    policy: &ApprovalPolicy,
) -> Option<bool> {
    match decision {
        ApprovalDecision::Draining { .. }
        | ApprovalDecision::Due(_)
        | ApprovalDecision::Sent { .. } => Some(!policy.dry_run),
        // The first resource may approve it at any moment, and a retry is not drained again.
        ApprovalDecision::Waiting { reason, .. } | ApprovalDecision::Failed { reason, .. } => {
            Some(policy.drains(*reason))
        }
        ApprovalDecision::DryRun { .. } => Some(false),
        // The name will be known, and after NotBefore the event is due anyway.
        ApprovalDecision::Withheld(SkipReason::IdentityUnknown | SkipReason::NotBeforePassed)
        | ApprovalDecision::Approved { .. }
        | ApprovalDecision::ApprovedElsewhere { .. } => None,
        ApprovalDecision::Withheld(_) => {
            let is_open =
                tracked.phase() == Phase::Scheduled && tracked.approval.sent_at().is_none();
            is_open.then_some(false)
        }
    }
}

/// Left out are approvals and starts, which a transition logs, and decisions not to approve an event that nobody expects
/// to be approved, unless they take back a decision to approve.
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
