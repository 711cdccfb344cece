//! The life of an event as this exporter can know it.
//!
//! ```text
//!                 ┌───────────┐  seen as Started   ┌─────────┐
//!  first seen ──▶ │ Scheduled │ ─────────────────▶ │ Started │ ◀── first seen as Started (hardware failure)
//!                 └─────┬─────┘                    └────┬────┘
//!                       │ gone from a document          │ gone from a document
//!                       ▼                               ▼
//!             Ended: completed │ cancelled │ unknown    Ended: completed
//!                       │
//!                       └── the id comes back while it lingers: the same event goes on
//! ```
//!
//! Azure has no word for the end of an event: it vanishes. So the outcome is what the evidence allows, and `unknown`
//! where it allows nothing.
//!
//! What this room promises: it is pure (time is an argument, it does no I/O and writes no log), it cannot fail, only a
//! [`Document`](crate::document::Document) can end an event and only one whose entries were all read, an id ends once
//! for each time that it was seen going on, and no duration is negative whatever the clocks do. It must never know how
//! anything is stored, sent or shown.

mod entry;
mod tracked_event;
mod tracker;
mod transition;

pub use tracked_event::{End, Interruption, Outcome, Phase, Rescheduling, TrackedEvent};
pub use tracker::{Restored, Tracker};
pub use transition::{Transition, TransitionKind};
