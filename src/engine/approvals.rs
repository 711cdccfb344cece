//! Selects the event to approve next, and describes each decision for the snapshot and the log.
//!
//! An approval follows a document that shows the event as Scheduled, at most one for each poll, and counts when
//! IMDS answers 200. After any other answer the document is read again before the next attempt, attempts become rarer,
//! and `NotBefore` ends them. The attempt is part of the saved state before it is sent: when a process ends between the
//! request and its answer, the next process does not send it again.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::LogEntry;
use crate::{
    approval::{self, ApprovalPolicy, Decision},
    document::Document,
    event::{EventId, EventScope, EventType, Source},
    imds::cadence::{self, PollResult},
    lifecycle::{Phase, TrackedEvent},
    snapshot::{Approval, RequestError, SkipReason},
    time::{Moment, Timestamp},
};

/// Failed attempts after which an event is no longer approved: with the delays between them about 9 minutes.
const MAX_ATTEMPTS: u32 = 40;

/// The policy, and the results of its attempts.
#[derive(Debug)]
pub(super) struct Approvals {
    policy: ApprovalPolicy,
    /// The events of the last document. A pending event that is not among them could not be read, and is not approved.
    in_document: HashSet<EventId>,
    attempts: BTreeMap<EventId, Attempt>,
    in_flight: Option<(EventId, EventType)>,
    decided: Arc<BTreeMap<EventId, Approval>>,
}

#[derive(Debug, Clone)]
enum Attempt {
    DryRun(Timestamp),
    Failed {
        attempts: u32,
        error: Box<str>,
        retry: Moment,
    },
}

/// The result of one evaluation.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    /// The event whose approval is to be sent.
    pub(super) send: Option<EventId>,
    /// The types of the events that a dry run would have approved now.
    pub(super) dry_runs: Vec<EventType>,
    pub(super) log: Vec<LogEntry>,
}

impl Approvals {
    pub(super) fn new(policy: ApprovalPolicy) -> Self {
        Self {
            policy,
            in_document: HashSet::new(),
            attempts: BTreeMap::new(),
            in_flight: None,
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

    /// Decides about every pending event.
    pub(super) fn evaluate(
        &mut self,
        events: &[Arc<TrackedEvent>],
        vm_name: Option<&str>,
        may_send: bool,
        now: Moment,
    ) -> Evaluation {
        let mut evaluation = Evaluation::default();
        // The due event with the fewest failed attempts is next, so that a refused one does not delay the others.
        let mut next: Option<(u32, &TrackedEvent)> = None;
        let mut decided = BTreeMap::new();
        for tracked in events.iter().filter(|tracked| tracked.is_pending()) {
            let id = &tracked.event.id;
            let decision = approval::decide(tracked, &self.policy, vm_name, now);
            let mut approval = self.with_attempts(tracked, decision, now);
            if let Approval::Due(reason) = approval
                && may_send
                && self.in_document.contains(id)
            {
                if self.policy.dry_run {
                    let at = now.wall;
                    self.attempts.insert(id.clone(), Attempt::DryRun(at));
                    evaluation.dry_runs.push(tracked.event.event_type.clone());
                    approval = Approval::DryRun { reason, at };
                } else if next.is_none_or(|(fewest, _)| self.failed_attempts(id) < fewest) {
                    next = Some((self.failed_attempts(id), tracked));
                }
            }
            if should_log(self.decided.get(id), &approval, tracked) {
                evaluation.log.push(LogEntry::Approval {
                    approval: approval.clone(),
                    tracked: Arc::clone(tracked),
                });
            }
            decided.insert(id.clone(), approval);
        }
        if let Some((_, tracked)) = next.filter(|_| self.in_flight.is_none()) {
            let event = &tracked.event;
            self.in_flight = Some((event.id.clone(), event.event_type.clone()));
            evaluation.send = Some(event.id.clone());
        }
        self.attempts.retain(|id, _| decided.contains_key(id));
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
        if let Some(error) = error {
            let attempts = self.failed_attempts(id).saturating_add(1);
            let result = PollResult::Failed {
                reason: error.reason,
                retry_after: error.retry_after,
                consecutive_failures: attempts,
            };
            let interval = cadence::MIN_REQUEST_INTERVAL;
            // No jitter: only one VM approves an event.
            let delay = cadence::next_delay(result, Duration::ZERO, interval, 1.0);
            let attempt = Attempt::Failed {
                attempts,
                error: error.message.as_str().into(),
                retry: now.after(delay),
            };
            self.attempts.insert(id.clone(), attempt);
        }
        Some(event_type)
    }

    fn failed_attempts(&self, id: &EventId) -> u32 {
        match self.attempts.get(id) {
            Some(Attempt::Failed { attempts, .. }) => *attempts,
            Some(Attempt::DryRun(_)) | None => 0,
        }
    }

    /// The decision of the policy, adjusted for earlier attempts.
    fn with_attempts(&self, tracked: &TrackedEvent, decision: Decision, now: Moment) -> Approval {
        let id = &tracked.event.id;
        let reason = match decision {
            Decision::Withhold(why) => return Approval::Withheld(why),
            Decision::Approved(at) => return Approval::Approved { at },
            Decision::Wait {
                reason,
                leader,
                until,
            } => {
                return Approval::Waiting {
                    reason,
                    leader,
                    until,
                };
            }
            Decision::Approve(reason) => reason,
        };
        let is_in_flight = matches!(&self.in_flight, Some((in_flight, _)) if in_flight == id);
        if tracked.approval_sent_at.is_some() && !is_in_flight {
            return Approval::Withheld(SkipReason::ResultUnknown);
        }
        match self.attempts.get(id) {
            None => Approval::Due(reason),
            Some(Attempt::DryRun(at)) => Approval::DryRun { reason, at: *at },
            Some(Attempt::Failed { attempts, .. }) if *attempts >= MAX_ATTEMPTS => {
                Approval::Withheld(SkipReason::GaveUp)
            }
            Some(Attempt::Failed { retry, .. }) if retry.monotonic <= now.monotonic => {
                Approval::Due(reason)
            }
            Some(Attempt::Failed {
                attempts,
                error,
                retry,
            }) => Approval::Failed {
                reason,
                attempts: *attempts,
                error: error.clone(),
                retry_at: retry.wall,
            },
        }
    }
}

/// Whether to log a decision. Skips events of other VMs, approvals and starts (the transition is logged), advisories, and
/// events of the platform while approvals are off.
fn should_log(before: Option<&Approval>, now: &Approval, tracked: &TrackedEvent) -> bool {
    if tracked.scope == EventScope::Other || tracked.event.is_advisory() {
        return false;
    }
    let words = |approval: &Approval| (approval.decision(), approval.reason());
    match (before, now) {
        (None, Approval::Withheld(SkipReason::Off)) => {
            tracked.event.source == Some(Source::User) && tracked.phase() == Phase::Scheduled
        }
        // The transition logs an approval and a start.
        (
            Some(Approval::Withheld(_)),
            Approval::Withheld(SkipReason::NotScheduled | SkipReason::NotBeforePassed),
        )
        | (Some(_), Approval::Withheld(SkipReason::Off))
        | (_, Approval::Approved { .. }) => false,
        (Some(before), now) => words(before) != words(now),
        (None, _) => true,
    }
}
