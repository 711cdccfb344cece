//! The delay before the next poll, and its timeout. Pure: reads no clock, and jitter is an argument.
//!
//! The limits are Microsoft's,
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#rate-limiting> and
//! `#errors-and-debugging`: five requests per second and VM for all clients together, 410 for at most 70 seconds, 429
//! to slow down, 500 to retry after some time. Delays between polls are short: a Spot eviction gives 30 seconds'
//! notice.

use std::time::Duration;

use crate::{
    azure::{FailureReason, RequestError},
    base::{
        backoff::{backoff, exponential},
        time::MonotonicTime,
    },
};

pub(crate) const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(200);
/// Upper bound after any failure, also of a `Retry-After`.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(15);
pub(super) const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Upper bound during the first 70 seconds of 410.
const MAX_GONE_BACKOFF: Duration = Duration::from_secs(8);
/// Consecutive 410 within 70 seconds: 1 + 2 + 4 + 7 × 8.
const GONE_IN_70_SECONDS: u32 = 10;
/// A second poll with the long timeout follows the first after this time without a success.
const LONG_TIMEOUT_INTERVAL: Duration = Duration::from_hours(1);
/// Consecutive timeouts before a poll has the long timeout: one alone may be a lost connection.
const TIMEOUTS_BEFORE_LONG: u32 = 2;

/// Delay from the end of a poll that took `took` to the start of the next one. `failed` is the error of the poll, and
/// the number of consecutive failures with this one.
///
/// After an answer the interval counts from the start of the request, so that polls do not drift; after a failure the
/// delay counts from its end. `jitter`, from 0 to 1, spreads the requests of many VMs.
pub(crate) fn next_delay(
    failed: Option<(&RequestError, u32)>,
    took: Duration,
    interval: Duration,
    jitter: f64,
) -> Duration {
    let delay = failed.map_or_else(
        || interval.saturating_sub(took),
        |(error, failures)| match error.reason {
            FailureReason::Throttled => error
                .retry_after
                .unwrap_or_else(|| exponential(interval, MAX_BACKOFF, failures.saturating_add(1)))
                .max(interval)
                .min(MAX_BACKOFF),
            reason => match reason {
                FailureReason::Gone if failures <= GONE_IN_70_SECONDS => {
                    exponential(FIRST_BACKOFF, MAX_GONE_BACKOFF, failures)
                }
                // Without jitter: no server is overloaded.
                FailureReason::Status4xx => exponential(FIRST_BACKOFF, MAX_BACKOFF, failures),
                _ => backoff(FIRST_BACKOFF, MAX_BACKOFF, failures, jitter),
            }
            .max(error.retry_after.unwrap_or_default().min(MAX_BACKOFF)),
        },
    );
    delay.max(MIN_REQUEST_INTERVAL.saturating_sub(took))
}

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
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(reason: FailureReason, failures: u32) -> Duration {
        delay_after(&RequestError::new(reason, ""), failures, 1.0)
    }

    fn delay_after(error: &RequestError, failures: u32, jitter: f64) -> Duration {
        next_delay(Some((error, failures)), Duration::ZERO, SECOND, jitter)
    }

    #[test]
    fn polls_do_not_drift() {
        let took = Duration::from_millis(300);
        let next = next_delay(None, took, SECOND, 0.5);
        assert_eq!(took + next, SECOND);
        let slow = Duration::from_mins(1);
        assert_eq!(
            next_delay(None, slow, SECOND, 0.5),
            Duration::ZERO,
            "a poll slower than the interval is followed immediately"
        );
    }

    #[test]
    fn temporary_failures_are_retried_within_the_notice_of_a_spot_eviction() {
        for reason in [
            FailureReason::Status5xx,
            FailureReason::Connect,
            FailureReason::Timeout,
            FailureReason::Tls,
            FailureReason::Body,
            FailureReason::Json,
            FailureReason::Shape,
            FailureReason::Redirect,
        ] {
            let delays = [1, 2, 3, 4, 5, 99].map(|row| after(reason, row).as_secs());
            assert_eq!(delays, [1, 2, 4, 8, 15, 15], "{reason:?}");
            let least = delay_after(&RequestError::new(reason, ""), 5, 0.0);
            assert_eq!(least, Duration::from_millis(7_500), "{reason:?}");
        }
    }

    #[test]
    fn a_410_is_retried_quickly_for_70_seconds_and_then_like_other_failures() {
        let delays: Vec<_> = (1..=12)
            .map(|row| after(FailureReason::Gone, row).as_secs())
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 15, 15]);
        assert!(delays.iter().take(10).sum::<u64>() <= 70);
    }

    /// One refusal, for example by a proxy agent that restarts, must not hide a Preempt.
    #[test]
    fn a_client_error_is_retried_within_the_notice_of_a_spot_eviction() {
        for jitter in [0.0, 1.0] {
            let delays = [1, 2, 3, 4, 5, 99].map(|row| {
                let error = RequestError::new(FailureReason::Status4xx, "");
                delay_after(&error, row, jitter).as_millis()
            });
            assert_eq!(delays, [1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
        }
    }

    #[test]
    fn throttled_polls_obey_retry_after_or_halve_their_rate() {
        let throttled = |retry_after: Option<u64>, failures| {
            let error = RequestError {
                retry_after: retry_after.map(Duration::from_secs),
                ..RequestError::new(FailureReason::Throttled, "")
            };
            delay_after(&error, failures, 0.5).as_secs()
        };
        assert_eq!(throttled(Some(7), 1), 7);
        assert_eq!(throttled(Some(45), 1), 15);
        assert_eq!(throttled(Some(86_400), 1), 15);
        assert_eq!(throttled(Some(0), 1), 1);
        assert_eq!(
            [1, 2, 3, 4, 40].map(|row| throttled(None, row)),
            [2, 4, 8, 15, 15]
        );
    }

    proptest! {
        #[test]
        fn requests_start_200_ms_apart_and_at_most_15_seconds_after_a_failure(
            failed in prop::option::of((prop::sample::select(FailureReason::ALL.to_vec()), any::<u32>())),
            retry_after in prop::option::of(any::<u64>().prop_map(Duration::from_secs)),
            took in 0_u64..200_000,
            interval in 0_u64..3_600_000,
            jitter in 0.0..1.0_f64,
        ) {
            let (took, interval) = (Duration::from_millis(took), Duration::from_millis(interval));
            let failed = failed.map(|(reason, failures)| {
                (RequestError { retry_after, ..RequestError::new(reason, "") }, failures)
            });
            let failed = failed.as_ref().map(|(error, failures)| (error, *failures));
            let delay = next_delay(failed, took, interval, jitter);
            prop_assert!(took + delay >= MIN_REQUEST_INTERVAL, "{took:?} + {delay:?}");
            let longest = failed.map_or(interval.max(MIN_REQUEST_INTERVAL), |_| MAX_BACKOFF);
            prop_assert!(delay <= longest, "{failed:?}: {delay:?}");
        }
    }

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
