//! When an approval is sent, and what its result changes.

use std::{sync::Arc, time::Duration};

use super::{Engine, log::log_approval};
use crate::{
    azure::{
        RequestError,
        event::{EventId, EventType},
    },
    base::time::Moment,
    core::{
        approval::{ApprovalRecord, SkipReason},
        snapshot::ApprovalResult,
    },
};

impl Engine {
    pub(super) fn approval_sent(
        &mut self,
        id: &EventId,
        error: Option<&RequestError>,
        took: Duration,
        now: Moment,
    ) {
        self.publish = true;
        self.requests.count(took, error.map(|error| error.reason));
        let event_type = self.approvals.sent(id, error, now);
        let result = if error.is_none() {
            let transitions = self.tracker.record_approval(id, now);
            self.emit(transitions.into_iter().collect());
            ApprovalResult::Approved
        } else {
            let may_be_accepted = self.approvals.may_be_accepted(id);
            self.tracker
                .record_failed_approval(id, may_be_accepted, now);
            self.saves.mark();
            ApprovalResult::Failed
        };
        if let Some(event_type) = event_type {
            self.count_approval(&event_type, result);
        }
        self.evaluate_approvals(false, now);
    }

    /// Decides about every event. `may_send`: a poll has just succeeded, so one approval may be sent.
    pub(super) fn evaluate_approvals(&mut self, may_send: bool, now: Moment) {
        let vm_name = self.certain_name();
        let events = self.tracker.events(now);
        let vm_name = vm_name.as_deref().map_err(|why| *why);
        let evaluation = self.approvals.evaluate(&events, vm_name, may_send, now);
        for (approval, tracked) in evaluation.news {
            log_approval(&approval, &tracked);
        }
        for event_type in evaluation.dry_runs {
            self.count_approval(&event_type, ApprovalResult::DryRun);
        }
        for (id, is_intended) in evaluation.intentions {
            let step = |approval: &mut ApprovalRecord| approval.intend(is_intended, now.wall);
            self.tracker.record_step(&id, step);
            self.saves.mark();
        }
        if let Some(id) = evaluation.send {
            let step = |approval: &mut ApprovalRecord| approval.sent_at = Some(now.wall);
            self.tracker.record_step(&id, step);
            self.saves.mark_urgent();
            self.approve = Some(id);
        }
    }

    /// The name of this VM where this process got it from the operator or from instance metadata, and they do not
    /// contradict each other. The name in a restored state may be that of the VM whose disk was cloned.
    fn certain_name(&self) -> Result<Arc<str>, SkipReason> {
        let vm_name = self.vm_name.clone().ok_or(SkipReason::IdentityUnknown)?;
        match &self.identity {
            Some(identity) if identity.contradicts(Some(&vm_name)) => {
                Err(SkipReason::NameContradiction)
            }
            None if self.config.vm_name.is_none() => Err(SkipReason::IdentityUnknown),
            Some(_) | None => Ok(vm_name),
        }
    }

    pub(super) fn count_approval(&mut self, event_type: &EventType, result: ApprovalResult) {
        self.publish = true;
        Arc::make_mut(&mut self.counters).count_approval(event_type, result);
    }
}
