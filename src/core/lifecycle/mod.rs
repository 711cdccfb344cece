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
//! An advisory never starts and has the outcome `unknown`. If its id becomes maintenance, or that of maintenance an
//! advisory, the one ends and the other is announced as a new event.
//!
//! Azure has no status for the end of an event: it leaves the document. So the outcome follows from the evidence, and
//! is `unknown` without any.
//!
//! Invariants: time is an argument; nothing here does I/O, logs or fails; an event ends only if a
//! [`Document`](crate::azure::document::Document) lacks it and none of the document's unreadable entries can be it, those
//! without an id for a minute at most; an empty document of the warm-up ends a known event only if it may have started;
//! an event ends once each time that it was announced or returned;
//! no duration is negative, whatever the clocks do.

mod difference;
mod entry;
mod evidence;
mod poll_state;
mod saved_state;
mod tracked_event;
mod tracker;
mod transition;

pub(crate) use poll_state::WARM_UP;
pub use poll_state::{PollFailure, PollState};
pub use saved_state::{SavedCursor, SavedJournal, SavedState};
pub(crate) use tracked_event::IMMINENT_SECONDS;
pub use tracked_event::{
    End, FirstSight, Interruption, Outcome, Phase, Rescheduling, TrackedEvent,
};
pub use tracker::Tracker;
pub use transition::{Transition, TransitionKind};

/// How long an event that has ended or has left this VM stays in the snapshot, so that every scraper sees its end.
pub(crate) const ENDED_RETENTION: std::time::Duration = std::time::Duration::from_mins(10);
/// How long an event is kept after its end for those that could not be told of it: the alert of a restart fires for two
/// hours without another message.
pub(crate) const PAST_RETENTION: std::time::Duration = std::time::Duration::from_hours(2);
