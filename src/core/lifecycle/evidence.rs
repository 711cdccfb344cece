//! How an event ended: what is taken for completed, for cancelled, and for neither.

use std::time::Duration;

use super::{outcome::Outcome, tracked_event::TrackedEvent};
use crate::{
    azure::event::{EventScope, Status},
    base::time::Timestamp,
};

/// What the documents show about the moment at which an event left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disappearance {
    /// The first document without the event.
    pub(super) at: Timestamp,
    /// The last document with it.
    pub(super) last_listed_at: Option<Timestamp>,
    /// How far apart two documents may be without hiding a start.
    pub(super) max_gap: Duration,
    /// No start can have been missed between the two documents.
    pub(super) was_watched: bool,
}

impl Disappearance {
    /// Nothing is known about the time before.
    pub(super) fn unobserved(at: Timestamp) -> Self {
        Self {
            at,
            last_listed_at: None,
            max_gap: Duration::ZERO,
            was_watched: false,
        }
    }

    /// Whether the event was listed until `due`, or until shortly before.
    pub(super) fn was_listed_until(self, due: Timestamp) -> bool {
        self.last_listed_at
            .is_some_and(|listed| listed.after(self.max_gap) >= due)
    }
}

/// The outcome of an event that left the document. A measured interruption is no evidence of a start: a step of the
/// clock looks the same. An advisory has no outcome of its own, so it is unknown.
pub(super) fn outcome(tracked: &TrackedEvent, disappearance: Disappearance) -> Outcome {
    if tracked.event.is_advisory() && tracked.started_at.is_none() {
        return Outcome::Unknown;
    }
    let not_before = tracked.event.not_before;
    let is_due = not_before.is_some_and(|due| disappearance.at >= due);
    let was_listed_until_due = not_before.is_some_and(|due| disappearance.was_listed_until(due));
    let booted = tracked.rebooted
        && tracked.event.event_type.restarts_vm()
        && tracked.scope == EventScope::Own;
    let is_before_its_time =
        tracked.event.status == Status::Scheduled && not_before.is_some() && !is_due;
    let has_run = tracked.started_at.is_some()
        || tracked.approval.is_approved() && !tracked.approval.is_scheduled_since
        || is_due && was_listed_until_due
        || booted;
    if has_run {
        Outcome::Completed
    } else if disappearance.was_watched && is_before_its_time && !tracked.approval.may_be_approved()
    {
        Outcome::Cancelled
    } else {
        Outcome::Unknown
    }
}
