//! The approval of a tracked event, step by step.

use super::{
    tracker::Tracker,
    transition::{Transition, TransitionKind},
};
use crate::{event::EventId, time::Timestamp};

impl Tracker {
    /// The approval policy decided that an event is to be approved, or took that back, which stays on record for the
    /// trace.
    pub(crate) fn record_intention(&mut self, id: &EventId, is_intended: bool, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            let tracked = entry.tracked_mut();
            if is_intended {
                tracked.approval_decided_at = Some(at);
            }
            tracked.approval_withdrawn_at = (!is_intended).then_some(at);
        }
    }

    /// The approval of an event is about to be sent.
    pub(crate) fn record_approval_request(&mut self, id: &EventId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.tracked_mut().approval_sent_at = Some(now);
        }
    }

    /// IMDS accepted the approval of an event.
    pub fn record_approval(&mut self, id: &EventId, now: Timestamp) -> Option<Transition> {
        let entry = self
            .entries
            .get_mut(id)
            .filter(|entry| entry.tracked.is_pending() && entry.tracked.approved_at.is_none())?;
        let tracked = entry.tracked_mut();
        tracked.approved_at = Some(now);
        tracked.approval_failed_at = None;
        Some(entry.transition(TransitionKind::Approved, now))
    }

    /// The approval of an event failed. `may_be_accepted`: this attempt or an earlier one had no answer.
    pub(crate) fn record_failed_approval(
        &mut self,
        id: &EventId,
        may_be_accepted: bool,
        now: Timestamp,
    ) {
        let pending = self
            .entries
            .get_mut(id)
            .filter(|entry| entry.tracked.is_pending());
        if let Some(entry) = pending.filter(|entry| entry.tracked.approved_at.is_none()) {
            let tracked = entry.tracked_mut();
            tracked.approval_sent_at = tracked.approval_sent_at.filter(|_| may_be_accepted);
            tracked.approval_failed_at = Some(now);
        }
    }
}
