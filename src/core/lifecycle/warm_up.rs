//! The first minutes, in which events may be missing from a document.

use std::time::Duration;

use crate::base::time::Moment;

/// The minutes after Scheduled Events was enabled, in which an event may be missing from a document because it has not
/// appeared yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// Also in the past.
    pub(crate) until: Moment,
}

impl WarmUp {
    /// How long events may take to appear.
    pub(crate) const TIME: Duration = Duration::from_mins(5);

    pub(super) fn since(&self) -> Moment {
        Moment {
            wall: self.until.wall.before(Self::TIME),
            monotonic: self.until.monotonic - Self::TIME,
        }
    }

    pub(crate) fn lasts(&self, now: Moment) -> bool {
        now.monotonic < self.until.monotonic
    }
}
