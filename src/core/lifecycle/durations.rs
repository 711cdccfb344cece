//! The durations of one event: notice, impact, interruption.

use std::time::Duration;

use super::{
    outcome::Outcome,
    tracked_event::{PollGap, TrackedEvent},
};

impl TrackedEvent {
    /// The time from the first document with the event to its start. For an event that ran but was never seen as
    /// Started: to `NotBefore`, or to its end if that came first. `None` while it is unknown, for a cancelled event,
    /// and for one that had started before the first poll.
    pub(crate) fn notice(&self) -> Option<Duration> {
        if self.is_start_unseen() {
            return None;
        }
        let ran_before = self.end.filter(|end| end.outcome == Outcome::Completed);
        let inferred = || Some(self.event.not_before?.min(ran_before?.at));
        let started_at = self.started_at.or_else(inferred)?;
        Some(started_at.saturating_since(self.first_seen_at))
    }

    /// The time from start to end, where both were seen.
    pub(crate) fn impact(&self) -> Option<Duration> {
        if self.is_start_unseen() {
            return None;
        }
        Some(self.end?.at.saturating_since(self.started_at?))
    }

    /// It had started before the first poll.
    fn is_start_unseen(&self) -> bool {
        self.gap != PollGap::Normal && self.started_at == Some(self.first_seen_at)
    }

    /// Whether this is its first end after it started.
    pub(crate) fn is_first_impact(&self) -> bool {
        self.times_ended == self.times_ended_unstarted.saturating_add(1)
    }

    /// The longest interruption. `DurationInSeconds` announces a single interruption, so the two are comparable.
    pub(crate) fn observed_interruption(&self) -> Option<Duration> {
        self.longest_interruption
    }
}
