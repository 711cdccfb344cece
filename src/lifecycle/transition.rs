//! What happened, as values: the effects are carried out elsewhere, in one place and one order.

use std::sync::Arc;

use super::tracked_event::{Interruption, Outcome, Rescheduling, TrackedEvent};
use crate::{
    event::{EventScope, Status},
    time::Timestamp,
};

/// One thing that happened to one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// When it was seen.
    pub at: Timestamp,
    /// What happened.
    pub kind: TransitionKind,
    /// The event's life with this in it.
    pub tracked: Arc<TrackedEvent>,
}

/// What can happen to an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransitionKind {
    /// It is in a document for the first time.
    Announced,
    /// It has started.
    Started,
    /// Its `NotBefore` was moved, or given for the first time.
    Rescheduled(Rescheduling),
    /// Its status became a word other than the next one of a life; this is what it was.
    StatusChanged(Status),
    /// Something else about it was changed: type, resources, duration, description, source.
    Amended {
        /// Whether it named this VM before.
        was_scope: EventScope,
    },
    /// This exporter approved it.
    Approved,
    /// This VM stood still under it.
    Interrupted(Interruption),
    /// It is gone.
    Ended(Outcome),
    /// It was gone, and is here again.
    Returned,
}

impl TransitionKind {
    /// The word for it in logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Started => "started",
            Self::Rescheduled(_) => "rescheduled",
            Self::StatusChanged(_) => "status changed",
            Self::Amended { .. } => "amended",
            Self::Approved => "approved",
            Self::Interrupted(_) => "interrupted",
            Self::Ended(_) => "ended",
            Self::Returned => "returned",
        }
    }
}
