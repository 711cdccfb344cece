//! The timeout of the next poll. Pure: reads no clock.

use std::time::Duration;

use crate::snapshot::FailureReason;

/// After this time without a success, one poll has the long timeout: Scheduled Events may have been disabled.
const LONG_TIMEOUT_INTERVAL: Duration = Duration::from_hours(1);

/// Decides which polls have the long timeout.
///
/// The first response after Scheduled Events was enabled takes up to two minutes, also when it is enabled again
/// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#enabling-and-disabling-scheduled-events>).
/// So the long timeout applies until the first success, to the poll after one that exceeded the normal timeout, and to
/// one poll an hour without a success. It never applies to two polls in a row after that: no event is seen while a lost
/// response is waited for, and a Spot eviction gives 30 seconds' notice.
#[derive(Debug, Default)]
pub(crate) struct PollTimeouts {
    has_succeeded: bool,
    /// Monotonic time of the last success or of the last poll with the long timeout.
    last_success_or_long: Duration,
    /// The last poll exceeded the normal timeout.
    exceeded_normal: bool,
}

impl PollTimeouts {
    /// Whether a poll that starts now has the long timeout. `now` is monotonic.
    pub(crate) fn is_long(&self, now: Duration) -> bool {
        !self.has_succeeded
            || self.exceeded_normal
            || now.saturating_sub(self.last_success_or_long) >= LONG_TIMEOUT_INTERVAL
    }

    /// A poll ended at `now`, with `failure` unless it succeeded.
    pub(crate) fn record(&mut self, was_long: bool, failure: Option<FailureReason>, now: Duration) {
        self.has_succeeded |= failure.is_none();
        self.exceeded_normal = !was_long && failure == Some(FailureReason::Timeout);
        if was_long || failure.is_none() {
            self.last_success_or_long = now;
        }
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
            let now = Duration::from_secs(second);
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

    #[test]
    fn the_long_timeout_applies_until_the_first_success() {
        assert_eq!(every(1, "xx5x....5."), "LLLLLnnnnn");
    }

    #[test]
    fn the_long_timeout_applies_once_after_each_normal_timeout() {
        assert_eq!(every(1, "..x..x.."), "LnnLnnLn");
        assert_eq!(every(1, ".xxxxxx."), "LnLnLnLn", "never twice in a row");
        assert_eq!(every(1, ".x5x5x5."), "LnLnLnLn");
    }

    #[test]
    fn the_long_timeout_applies_once_an_hour_without_a_success() {
        // A failure every minute; polls 0 and 60 are an hour apart.
        let failures = every(60, &format!(".{}", "5".repeat(180)));
        let long: Vec<_> = failures.match_indices('L').map(|(at, _)| at).collect();
        assert_eq!(long, [0, 60, 120, 180]);
        assert_eq!(every(3_600, "...."), "LLLL", "the longest poll interval");
        assert_eq!(every(3_599, "...."), "Lnnn");
    }
}
