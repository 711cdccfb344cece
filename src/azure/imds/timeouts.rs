//! The timeout of the next poll. Pure: reads no clock.

use std::time::Duration;

use crate::{azure::FailureReason, base::time::MonotonicTime};

/// A second poll with the long timeout follows the first after this time without a success.
const LONG_TIMEOUT_INTERVAL: Duration = Duration::from_hours(1);
/// Consecutive timeouts before a poll has the long timeout: one alone may be a lost connection.
const TIMEOUTS_BEFORE_LONG: u32 = 2;

/// Decides which polls have the long timeout.
///
/// The first response after Scheduled Events was enabled takes up to two minutes, also when it is enabled again
/// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#enabling-and-disabling-scheduled-events>).
/// So until the first success the long timeout applies to each poll that follows a timeout, and after a success to the
/// poll that follows two timeouts in a row. If that poll fails too, it applies again after an hour without a success,
/// but not before: no event is seen while a lost response is waited for, and a Spot eviction gives 30 seconds' notice.
#[derive(Debug, Default)]
pub(crate) struct PollTimeouts {
    has_succeeded: bool,
    /// The last poll with the long timeout since the last success.
    last_long: Option<MonotonicTime>,
    consecutive_timeouts: u32,
}

impl PollTimeouts {
    /// Whether a poll that starts now has the long timeout.
    pub(crate) fn is_long(&self, now: MonotonicTime) -> bool {
        if !self.has_succeeded {
            return self.consecutive_timeouts > 0;
        }
        let is_due = |last| now - last >= LONG_TIMEOUT_INTERVAL;
        self.consecutive_timeouts >= TIMEOUTS_BEFORE_LONG && self.last_long.is_none_or(is_due)
    }

    /// A poll ended at `now`, with `failure` unless it succeeded.
    pub(crate) fn record(
        &mut self,
        was_long: bool,
        failure: Option<FailureReason>,
        now: MonotonicTime,
    ) {
        if failure.is_none() {
            *self = Self {
                has_succeeded: true,
                ..Self::default()
            };
            return;
        }
        if was_long {
            self.last_long = Some(now);
        }
        self.consecutive_timeouts = match failure {
            Some(FailureReason::Timeout) => self.consecutive_timeouts.saturating_add(1),
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends one poll per row, started at these seconds; `x` exceeds its timeout, `5` fails otherwise, `.` succeeds.
    /// Returns `L` for each poll with the long timeout and `n` for each other one.
    fn timeouts(polls: impl IntoIterator<Item = (u64, char)>) -> String {
        let mut timeouts = PollTimeouts::default();
        let poll = |(second, end): (u64, char)| {
            let now = MonotonicTime::since_origin(Duration::from_secs(second));
            let is_long = timeouts.is_long(now);
            let failure = match end {
                'x' => Some(FailureReason::Timeout),
                '5' => Some(FailureReason::Status5xx),
                _ => None,
            };
            timeouts.record(is_long, failure, now);
            if is_long { 'L' } else { 'n' }
        };
        polls.into_iter().map(poll).collect()
    }

    fn every(step: u64, ends: &str) -> String {
        timeouts(
            (0..)
                .step_by(usize::try_from(step).unwrap())
                .zip(ends.chars()),
        )
    }

    /// A single connection that hangs at the start must not hide a Spot eviction either.
    #[test]
    fn the_long_timeout_applies_after_a_timeout_until_the_first_success() {
        assert_eq!(every(1, "xx5x....5."), "nLLnLnnnnn");
    }

    #[test]
    fn the_long_timeout_applies_once_after_two_timeouts_in_a_row() {
        assert_eq!(every(1, "..x..x.."), "nnnnnnnn");
        assert_eq!(every(1, ".x5x5x5."), "nnnnnnnn");
        assert_eq!(every(1, ".xxxxxx."), "nnnLnnnn", "once without a success");
        assert_eq!(every(1, ".xx5xx."), "nnnLnnn");
        assert_eq!(every(1, ".xx.xx.."), "nnnLnnLn", "again after a success");
    }

    #[test]
    fn the_long_timeout_applies_again_after_an_hour_of_timeouts() {
        let timeouts = every(60, &format!(".{}", "x".repeat(180)));
        let long: Vec<_> = timeouts.match_indices('L').map(|(at, _)| at).collect();
        assert_eq!(long, [3, 63, 123]);
        let failures = every(60, &format!(".{}", "5".repeat(180)));
        assert!(!failures.contains('L'), "a 503 is no slow answer");
        assert_eq!(
            every(3_600, "..x..x"),
            "nnnnnn",
            "the longest poll interval"
        );
    }
}
