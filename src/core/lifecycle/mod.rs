//! Tracks events from document to document.
//!
//! ```text
//!                 ┌───────────┐  seen as Started   ┌─────────┐
//!  first seen ──▶ │ Scheduled │ ─────────────────▶ │ Started │ ◀── first seen as Started
//!                 └─────┬─────┘                    └────┬────┘
//!                       │ gone from a document          │ gone from a document
//!                       ▼                               ▼
//!             Ended: completed │ cancelled │ unknown    Ended: completed
//!                       │
//!                       └── the id comes back while the ended event is still shown: the same event continues
//! ```
//!
//! Azure has no status for the end of an event: it leaves the document. So the outcome follows from the evidence, and
//! is `unknown` without any, and for an advisory, which never starts.
//!
//! Invariants: time is an argument; an event ends only if a [`Document`](crate::azure::document::Document) lacks it and
//! none of the document's unreadable entries can be it, and once each time that it was announced or returned; no duration
//! is negative, whatever the clocks do.

mod entry;
mod evidence;
mod poll_state;
mod saved_state;
mod tracked_event;
mod tracker;

use std::{sync::Arc, time::Duration};

pub(crate) use poll_state::WARM_UP;
pub use poll_state::{PollFailure, PollState};
pub use saved_state::{SavedCursor, SavedJournal, SavedState};
use serde::{Deserialize, Serialize};
pub(crate) use tracked_event::IMMINENT_SECONDS;
pub use tracked_event::{
    End, FirstSight, Interruption, Outcome, Phase, Rescheduling, TrackedEvent,
};
pub use tracker::Tracker;

use crate::{
    azure::event::{EventScope, Status},
    base::time::Moment,
};

/// How long an event that has ended or has left this VM stays in the snapshot, so that every scraper sees its end.
pub(crate) const ENDED_RETENTION: Duration = Duration::from_mins(10);
/// How long an ended event of this VM is kept: the alert of a restart fires for two hours without another message.
pub(crate) const PAST_RETENTION: Duration = Duration::from_hours(2);

/// A change of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub at: Moment,
    pub kind: TransitionKind,
    /// The event after the change.
    pub tracked: Arc<TrackedEvent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionKind {
    /// A document has it for the first time, or for the first time as maintenance after an advisory of the same id.
    Announced,
    Started,
    /// Its `NotBefore` changed, or was given for the first time.
    Rescheduled(Rescheduling),
    /// Its status changed otherwise than from Scheduled to Started; the value is the former status.
    StatusChanged(Status),
    /// Its type, resources, duration, description or source changed.
    Amended {
        /// Whether it named this VM before the change.
        was_scope: EventScope,
    },
    /// IMDS accepted the approval of this exporter.
    Approved,
    /// The document shows that it was approved, but this exporter sent no approval.
    ApprovedElsewhere,
    /// This VM was interrupted while it was pending.
    Interrupted(Interruption),
    Ended(Outcome),
    /// It had ended, and a document has it again.
    Returned {
        /// Whether it named this VM before. A change of that follows as [`Self::Amended`].
        was_scope: EventScope,
    },
}

impl Transition {
    /// What it changes for this VM, with the time of each: nothing if the event names other VMs. An event that was found
    /// to name this VM after it was first seen has its announcement, start and end so far.
    pub(crate) fn own_changes(&self) -> Vec<(TransitionKind, Moment)> {
        let tracked = self.tracked.as_ref();
        match (self.was_scope(), tracked.scope) {
            _ if self.is_before_change_of_scope() => Vec::new(),
            (EventScope::Own, _) => vec![(self.kind.clone(), self.at)],
            (_, EventScope::Own) => {
                let started = tracked.started_at.map(|at| (TransitionKind::Started, at));
                let ended = tracked.end;
                let ended = ended.map(|end| (TransitionKind::Ended(end.outcome), end.at));
                let before = tracked.time(self.at);
                let earlier = started.into_iter().chain(ended);
                let earlier = earlier.filter(|(_, at)| *at < before);
                let announced = (TransitionKind::Announced, tracked.first_seen_at);
                let changes = [announced].into_iter().chain(earlier);
                let moments = changes.map(|(kind, at)| (kind, tracked.moment(at)));
                moments.collect()
            }
            _ => Vec::new(),
        }
    }

    /// The scope of the event before this transition.
    pub(crate) fn was_scope(&self) -> EventScope {
        match self.kind {
            TransitionKind::Amended { was_scope } => was_scope,
            _ => self.tracked.scope,
        }
    }

    /// The event is back with another scope, which has a transition of its own.
    pub(crate) fn is_before_change_of_scope(&self) -> bool {
        matches!(self.kind, TransitionKind::Returned { was_scope } if was_scope != self.tracked.scope)
    }
}

impl TransitionKind {
    /// The event name of its log record in OpenTelemetry, except for a new advisory.
    pub fn event_name(&self) -> &'static str {
        match self {
            Self::Announced => "azure.scheduled_event.announced",
            Self::Started => "azure.scheduled_event.started",
            Self::Rescheduled(_) => "azure.scheduled_event.rescheduled",
            Self::StatusChanged(_) => "azure.scheduled_event.status_changed",
            Self::Amended { .. } => "azure.scheduled_event.amended",
            Self::Approved => "azure.scheduled_event.approved",
            Self::ApprovedElsewhere => "azure.scheduled_event.approved_elsewhere",
            Self::Interrupted(_) => "azure.scheduled_event.interrupted",
            Self::Ended(_) => "azure.scheduled_event.ended",
            Self::Returned { .. } => "azure.scheduled_event.returned",
        }
    }
}

/// The words of an event name, as the value of `transition` in the log: `status changed`.
pub fn words_of(event_name: &str) -> String {
    let (_, name) = event_name.rsplit_once('.').unwrap_or(("", event_name));
    name.replace('_', " ")
}
