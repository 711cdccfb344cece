//! When the last document was read, and which gaps between two documents are too long.

use std::time::Duration;

use crate::base::time::{Moment, Timestamp};

/// The bounds of [`max_gap`].
const MIN_POLL_GAP: Duration = Duration::from_secs(10);
const MAX_POLL_GAP: Duration = Duration::from_mins(1);

/// How long before the present document the last one may be for an event not to have started and ended in between:
/// three poll intervals, within bounds. An event that left the document before its `NotBefore` was cancelled only if
/// the gap was not longer; one that was listed until its `NotBefore`, or at most this long before, ran.
pub(super) fn max_gap(poll_interval: Duration) -> Duration {
    poll_interval
        .saturating_mul(3)
        .clamp(MIN_POLL_GAP, MAX_POLL_GAP)
}

/// When the last document was read, or confirmed by a 304.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastDocument {
    pub(crate) at: Timestamp,
    /// When it was read, or when this process restored it.
    known_since: Moment,
    /// The time that had passed when this process restored it; `None` if this process read it.
    elapsed_before_restore: Option<Duration>,
}

impl LastDocument {
    pub(super) fn read(now: Moment) -> Self {
        Self {
            at: now.wall,
            known_since: now,
            elapsed_before_restore: None,
        }
    }

    /// Read by an earlier process.
    pub(crate) fn restored(at: Timestamp, now: Moment) -> Self {
        let since = now.wall.saturating_since(at);
        Self {
            at,
            known_since: now,
            // After the clock was set back, the elapsed time is unknown but at least as long as the step.
            elapsed_before_restore: Some(since.max(at.saturating_since(now.wall))),
        }
    }

    /// Whether it was read at `since` or later. The clock of an earlier process is the wall clock.
    pub(super) fn was_read_since(&self, since: Moment) -> bool {
        if self.elapsed_before_restore.is_some() {
            self.at >= since.wall
        } else {
            let read = self.known_since;
            (read.monotonic, read.wall) >= (since.monotonic, since.wall)
        }
    }

    /// Whether an event cannot have started and ended since, whatever caused the gap: a long poll interval, failures, a
    /// restart.
    pub(super) fn is_watched(&self, poll_interval: Duration, now: Moment) -> bool {
        self.elapsed(now) <= max_gap(poll_interval)
    }

    pub(crate) fn elapsed(&self, now: Moment) -> Duration {
        self.elapsed_before_restore
            .unwrap_or_default()
            .saturating_add(now.elapsed_since(self.known_since))
    }
}
