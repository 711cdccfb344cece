//! When the last document was read, and which gaps between two documents are too long.

use std::time::Duration;

use super::tracked_event::PollGap;
use crate::{
    event::EventType,
    time::{Moment, Timestamp},
};

/// An event that left the document before its `NotBefore` was cancelled only if no start can have been missed: the last
/// successful poll was at most [`MIN_POLL_GAP`] ago, or three poll intervals if that is longer, but no more than
/// [`MAX_POLL_GAP`].
const MIN_POLL_GAP: Duration = Duration::from_secs(10);
const MAX_POLL_GAP: Duration = Duration::from_mins(1);

/// Azure announces an event at least this long ahead, so it cannot have been announced and started in a shorter gap
/// unless it was approved
/// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>, "Minimum Notice").
/// For Preempt and Terminate, whose notice is shorter, nothing depends on it.
fn minimum_notice(event_type: &EventType) -> Duration {
    match event_type {
        EventType::Redeploy => Duration::from_mins(10),
        _ => Duration::from_mins(15),
    }
}

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

    /// The gap before a document with a new event of this type.
    pub(super) fn gap(
        &self,
        event_type: &EventType,
        poll_interval: Duration,
        now: Moment,
    ) -> PollGap {
        let elapsed = self.elapsed(now);
        let normal = poll_interval.saturating_mul(3).max(MAX_POLL_GAP);
        PollGap::new(elapsed > normal, elapsed >= minimum_notice(event_type))
    }

    fn elapsed(&self, now: Moment) -> Duration {
        self.elapsed_before_restore
            .saturating_add(now.monotonic.saturating_sub(self.monotonic))
    }
}
