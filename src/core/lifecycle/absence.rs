//! A pending event that a document lacks, although it may not have ended.

use std::time::Duration;

use crate::base::time::Moment;

/// A pending event that the last document lacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absence {
    /// By the monotonic clock: the first document without it.
    pub(super) since: Duration,
    /// How long it stays pending, by the same clock; `None` while an unreadable entry mentions its id.
    pub(super) until: Option<Duration>,
}

impl Absence {
    /// An unreadable entry without an id may be any event, but only for this long.
    pub(super) const MAX_UNIDENTIFIED: Duration = Duration::from_mins(1);

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now.monotonic)
    }
}

/// The minutes after Scheduled Events was enabled, in which an event may be missing from a document because it has not
/// appeared yet. `engine::health` begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    pub(crate) since: Moment,
    /// Also in the past.
    pub(crate) until: Moment,
}

impl WarmUp {
    /// How long events may take to appear.
    pub(crate) const TIME: Duration = Duration::from_mins(5);

    pub(crate) fn ending(until: Moment) -> Self {
        let since = Moment {
            wall: until.wall.before(Self::TIME),
            monotonic: until.monotonic.saturating_sub(Self::TIME),
        };
        Self { since, until }
    }

    pub(crate) fn lasts(&self, now: Moment) -> bool {
        now.monotonic < self.until.monotonic
    }
}
