//! Decides when consecutive empty bodies are accepted as "no events". Pure.

use std::time::Duration;

use crate::base::time::{Moment, MonotonicTime};

/// Empty bodies are accepted after this time without any other response.
const MIN_DURATION: Duration = Duration::from_mins(1);
/// A longer gap between two empty bodies starts a new series: nothing was observed in between.
const MAX_GAP: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EmptyBodies {
    /// The times of the first and the last of consecutive empty bodies.
    series: Option<(MonotonicTime, MonotonicTime)>,
}

impl EmptyBodies {
    /// Adds an empty body. Returns true if the series is long enough to be accepted.
    pub(super) fn record(&mut self, now: Moment) -> bool {
        let now = now.monotonic;
        let first = self
            .series
            .filter(|(_, last)| now - *last <= MAX_GAP)
            .map_or(now, |(first, _)| first);
        self.series = Some((first, now));
        now - first >= MIN_DURATION
    }

    /// Called for every other result of a poll.
    pub(super) fn reset(&mut self) {
        self.series = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Timestamp;

    fn moment(seconds: u64) -> Moment {
        let start = Moment::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        start.after(Duration::from_secs(seconds))
    }

    fn accepted_at(seconds: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut empty_bodies = EmptyBodies::default();
        seconds
            .into_iter()
            .find(|at| empty_bodies.record(moment(*at)))
    }

    #[test]
    fn empty_bodies_are_accepted_after_a_minute() {
        assert_eq!(accepted_at(0..200), Some(60));
        assert_eq!(accepted_at((5..200).step_by(15)), Some(65));
    }

    #[test]
    fn empty_bodies_with_long_gaps_are_not_accepted() {
        assert_eq!(accepted_at([0, 61, 122, 183]), None);
    }

    #[test]
    fn another_response_restarts_the_minute() {
        let mut empty_bodies = EmptyBodies::default();
        assert!(!(0..60).any(|at| empty_bodies.record(moment(at))));
        empty_bodies.reset();
        assert!(!(60..120).any(|at| empty_bodies.record(moment(at))));
        assert!(empty_bodies.record(moment(120)));
        assert!(empty_bodies.record(moment(121)), "it stays accepted");
    }
}
