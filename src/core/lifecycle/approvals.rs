//! The approval of a tracked event, step by step.

use super::{
    entry::TrackerEntry,
    tracker::Tracker,
    transition::{Transition, TransitionKind},
};
use crate::{azure::event::EventId, base::time::Timestamp};

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

    pub(crate) fn record_approval_request(&mut self, id: &EventId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.tracked_mut().approval_sent_at = Some(now);
        }
    }

    /// IMDS accepted the approval of an event.
    pub fn record_approval(&mut self, id: &EventId, now: Timestamp) -> Option<Transition> {
        let entry = self.unapproved(id)?;
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
        if let Some(entry) = self.unapproved(id) {
            let tracked = entry.tracked_mut();
            tracked.approval_sent_at = tracked.approval_sent_at.filter(|_| may_be_accepted);
            tracked.approval_failed_at = Some(now);
        }
    }

    /// A pending event of which this exporter knows no approval.
    fn unapproved(&mut self, id: &EventId) -> Option<&mut TrackerEntry> {
        let entry = self.entries.get_mut(id)?;
        let tracked = &entry.tracked;
        (tracked.is_pending() && tracked.approved_at.is_none()).then_some(entry)
    }
}
