//! The attempts of this process to approve the pending events: those that failed, and those of a dry run.

use std::collections::BTreeMap;

use crate::{
    approval::limits::{MAX_ATTEMPTS, retry_delay},
    event::EventId,
    snapshot::{Approval, ApprovalReason, RequestError, SkipReason},
    time::{Moment, Timestamp},
};

#[derive(Debug, Default)]
pub(super) struct Attempts(BTreeMap<EventId, Attempt>);

#[derive(Debug, Clone)]
enum Attempt {
    DryRun(Timestamp),
    Failed {
        attempts: u32,
        error: Box<str>,
        retry: Moment,
        /// One of the attempts had no answer.
        may_be_accepted: bool,
    },
}

impl Attempts {
    pub(super) fn record_dry_run(&mut self, id: &EventId, at: Timestamp) {
        self.0.insert(id.clone(), Attempt::DryRun(at));
    }

    pub(super) fn record_failure(&mut self, id: &EventId, error: &RequestError, now: Moment) {
        let attempts = self.failed(id).saturating_add(1);
        let attempt = Attempt::Failed {
            attempts,
            error: error.message.as_str().into(),
            retry: now.after(retry_delay(error, attempts)),
            may_be_accepted: self.may_be_accepted(id) || !error.is_refusal(),
        };
        self.0.insert(id.clone(), attempt);
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&EventId) -> bool) {
        self.0.retain(|id, _| is_kept(id));
    }

    /// Whether an attempt had no answer.
    pub(super) fn may_be_accepted(&self, id: &EventId) -> bool {
        let attempt = self.0.get(id);
        matches!(attempt, Some(Attempt::Failed { may_be_accepted, .. }) if *may_be_accepted)
    }

    /// The number of failed attempts.
    pub(super) fn failed(&self, id: &EventId) -> u32 {
        match self.0.get(id) {
            Some(Attempt::Failed { attempts, .. }) => *attempts,
            Some(Attempt::DryRun(_)) | None => 0,
        }
    }

    /// The decision about an event that the policy approves now.
    pub(super) fn decision(&self, id: &EventId, reason: ApprovalReason, now: Moment) -> Approval {
        match self.0.get(id) {
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
                ..
            }) => Approval::Failed {
                reason,
                attempts: *attempts,
                error: error.clone(),
                retry_at: retry.wall,
            },
        }
    }
}
