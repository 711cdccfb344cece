//! When the last document was read, and which gaps between two documents are too long.

use std::time::Duration;

use crate::time::{Moment, Timestamp};

/// An event that left the document before its `NotBefore` was cancelled only if no start can have been missed: the last
/// successful poll was at most [`MIN_POLL_GAP`] ago, or three poll intervals if that is longer, but no more than
/// [`MAX_POLL_GAP`].
const MIN_POLL_GAP: Duration = Duration::from_secs(10);
const MAX_POLL_GAP: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct LastDocument {
    pub(super) at: Timestamp,
    /// By the monotonic clock: when it was read, or when this process restored it.
    monotonic: Duration,
    /// The time that had passed when this process restored it.
    elapsed_before_restore: Duration,
}

impl LastDocument {
    pub(super) fn read(now: Moment) -> Self {
        Self {
            at: now.wall,
            monotonic: now.monotonic,
            elapsed_before_restore: Duration::ZERO,
        }
    }

    /// Read by an earlier process.
    pub(super) fn restored(at: Timestamp, now: Moment) -> Self {
        Self {
            at,
            monotonic: now.monotonic,
            // After the clock was set back, the elapsed time is unknown but at least as long as the step.
            elapsed_before_restore: now
                .wall
                .saturating_since(at)
                .max(at.saturating_since(now.wall)),
        }
    }

    /// Whether an event cannot have started and ended since, whatever caused the gap: a long poll interval, failures, a
    /// restart.
    pub(super) fn is_watched(&self, poll_interval: Duration, now: Moment) -> bool {
        let limit = poll_interval.saturating_mul(3);
        self.elapsed(now) <= limit.clamp(MIN_POLL_GAP, MAX_POLL_GAP)
    }

    /// Whether a new event may have been announced, and started, much earlier: polls are missing.
    pub(super) fn is_late(&self, poll_interval: Duration, now: Moment) -> bool {
        let limit = poll_interval.saturating_mul(3);
        self.elapsed(now) > limit.max(MAX_POLL_GAP)
    }

    fn elapsed(&self, now: Moment) -> Duration {
        self.elapsed_before_restore
            .saturating_add(now.monotonic.saturating_sub(self.monotonic))
    }
}
