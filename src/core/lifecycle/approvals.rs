//! The approval of a tracked event, step by step.

use super::{
    tracker::Tracker,
    transition::{Transition, TransitionKind},
};
use crate::{azure::event::EventId, base::time::Timestamp, core::approval::ApprovalRecord};

impl Tracker {
    /// Changes the record of the approval of an event.
    pub(crate) fn record_step(&mut self, id: &EventId, step: impl FnOnce(&mut ApprovalRecord)) {
        if let Some(entry) = self.entries.get_mut(id) {
            step(&mut entry.tracked_mut().approval);
        }
    }

    /// IMDS accepted the approval of an event.
    pub fn record_approval(&mut self, id: &EventId, now: Timestamp) -> Option<Transition> {
        if !self.is_unapproved(id) {
            return None;
        }
        let entry = self.entries.get_mut(id)?;
        entry.tracked_mut().approval.accept(now);
        Some(entry.transition(TransitionKind::Approved, now))
    }

    /// The approval of an event failed. `may_be_accepted`: this attempt or an earlier one had no answer.
    pub(crate) fn record_failed_approval(
        &mut self,
        id: &EventId,
        may_be_accepted: bool,
        now: Timestamp,
    ) {
        if self.is_unapproved(id) {
            self.record_step(id, |approval| approval.fail(may_be_accepted, now));
        }
    }

    /// A pending event of which this exporter knows no approval.
    fn is_unapproved(&self, id: &EventId) -> bool {
        self.entries.get(id).is_some_and(|entry| {
            entry.tracked.is_pending() && entry.tracked.approval.accepted_at.is_none()
        })
    }
}
