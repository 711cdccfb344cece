//! How an event ended: what is taken for completed, for cancelled, and for neither.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tracked_event::TrackedEvent;
use crate::{
    azure::event::{EventScope, Status},
    base::{label::label_values, time::Timestamp},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The first document without the event.
    pub at: Timestamp,
    pub outcome: Outcome,
}

label_values! {
    /// How an event ended, as far as the evidence shows: the values of the label `outcome`.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        /// It left the document before `NotBefore`, and polls were frequent enough to see a start.
        Cancelled = "cancelled",
        /// It was seen as Started, was listed until its `NotBefore`, was approved, or ended with a boot of this VM.
        Completed = "completed",
        /// The evidence shows neither.
        Unknown = "unknown",
    }
}

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
}

/// The outcome of an event that left the document. A measured interruption is no evidence of a start: a step of the
/// clock looks the same. An advisory has no outcome of its own, so it is unknown.
pub(super) fn outcome(tracked: &TrackedEvent, disappearance: Disappearance) -> Outcome {
    if tracked.event.is_advisory() && tracked.started_at.is_none() {
        return Outcome::Unknown;
    }
    let not_before = tracked.event.not_before;
    let is_due = not_before.is_some_and(|due| disappearance.at >= due);
    let listed_until = disappearance
        .last_listed_at
        .map(|at| at.after(disappearance.max_gap));
    let was_listed_until_due = not_before.is_some_and(|due| listed_until >= Some(due));
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
