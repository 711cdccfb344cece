//! When to ask again: from how the last request went to the pause before the next. Pure; it reads no clock and rolls no
//! dice.
//!
//! The limits are Microsoft's, <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#rate-limiting>
//! and `#errors-and-debugging`: five requests a second per VM for all its readers together, 410 for at most 70 seconds,
//! 429 to slow down, 500 to come back after some time. No pause is long: a Spot eviction gives 30 seconds, and may be
//! announced in any of them.

use std::time::Duration;

use crate::{
    outbound::retry::{backoff, exponential},
    snapshot::{FailureReason, RequestError},
};

/// Two requests never start closer together: five a second is what IMDS allows.
pub const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(200);
/// The longest pause after a fault that can pass at any moment.
pub const MAX_BACKOFF: Duration = Duration::from_secs(15);
/// The longest `Retry-After` that is honoured.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// The pause after an answer that only a change of configuration can mend.
pub const AFTER_CLIENT_ERROR: Duration = Duration::from_mins(1);

/// The first step of the exponential backoff.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause while a 410 is fresh.
const MAX_WHILE_GONE: Duration = Duration::from_secs(8);
/// So many 410 in a row fit into the 70 seconds: 1 + 2 + 4 + 7 × 8.
const GONE_IN_70_SECONDS: u32 = 10;

/// When `/metadata/instance` is requested again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityTiming {
    pub retry_interval: Duration,
    /// Upper bound of the backoff while instance metadata is unavailable.
    pub max_retry_interval: Duration,
}

impl Default for IdentityTiming {
    fn default() -> Self {
        Self {
            retry_interval: Duration::from_secs(5),
            max_retry_interval: Duration::from_mins(5),
        }
    }
}

/// Delay before `/metadata/instance` is requested again. `unavailable_in_a_row` counts consecutive failures, this one
/// included, for which [`is_identity_unavailable`] holds.
pub fn identity_retry_delay(
    error: &RequestError,
    unavailable_in_a_row: u32,
    timing: IdentityTiming,
) -> Duration {
    if is_identity_unavailable(error) {
        let (first, max) = (timing.retry_interval, timing.max_retry_interval);
        return exponential(first, max, unavailable_in_a_row);
    }
    let retry_after = error.retry_after.unwrap_or_default();
    retry_after.min(MAX_RETRY_AFTER).max(timing.retry_interval)
}

/// True for 400 and 404: a classic VM has no instance metadata. This is not a failure of polling.
pub fn is_identity_unavailable(error: &RequestError) -> bool {
    matches!(error.status, Some(400 | 404))
}

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollResult {
    /// It was answered, with a document or with "unchanged".
    Answered,
    /// It failed.
    Failed {
        /// Why.
        reason: FailureReason,
        /// The pause that IMDS asked for.
        retry_after: Option<Duration>,
        /// How many requests in a row have failed, with this one.
        in_a_row: u32,
    },
}

/// The pause from the end of a request that took `took` to the start of the next.
///
/// After an answer the interval counts from the start of the request, so that polls do not drift; after a failure the
/// pause counts from its end, since a request that timed out has taken long enough. `jitter` is a number from 0 to 1,
/// which spreads the readers of many VMs.
pub fn next_delay(
    outcome: PollResult,
    took: Duration,
    interval: Duration,
    jitter: f64,
) -> Duration {
    let pause = match outcome {
        PollResult::Answered => interval.saturating_sub(took),
        PollResult::Failed {
            reason,
            retry_after,
            in_a_row,
        } => after_failure(reason, retry_after, in_a_row, interval, jitter),
    };
    pause.max(MIN_REQUEST_INTERVAL.saturating_sub(took))
}

fn after_failure(
    reason: FailureReason,
    retry_after: Option<Duration>,
    in_a_row: u32,
    interval: Duration,
    jitter: f64,
) -> Duration {
    match reason {
        FailureReason::Throttled => {
            let asked = retry_after.map(|asked| asked.min(MAX_RETRY_AFTER));
            let doubled = exponential(interval, MAX_BACKOFF, in_a_row.saturating_add(1));
            asked.unwrap_or(doubled).max(interval.min(MAX_RETRY_AFTER))
        }
        FailureReason::Gone if in_a_row <= GONE_IN_70_SECONDS => {
            exponential(FIRST_BACKOFF, MAX_WHILE_GONE, in_a_row)
        }
        FailureReason::Status4xx => AFTER_CLIENT_ERROR,
        FailureReason::Gone
        | FailureReason::Body
        | FailureReason::Connect
        | FailureReason::Json
        | FailureReason::Redirect
        | FailureReason::Shape
        | FailureReason::Status5xx
        | FailureReason::Timeout
        | FailureReason::Tls => backoff(FIRST_BACKOFF, MAX_BACKOFF, in_a_row, jitter),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failed(reason: FailureReason, in_a_row: u32) -> PollResult {
        PollResult::Failed {
            reason,
            retry_after: None,
            in_a_row,
        }
    }

    fn after(reason: FailureReason, in_a_row: u32) -> Duration {
        next_delay(failed(reason, in_a_row), Duration::ZERO, SECOND, 1.0)
    }

    #[test]
    fn polls_do_not_drift() {
        let took = Duration::from_millis(300);
        let next = next_delay(PollResult::Answered, took, SECOND, 0.5);
        assert_eq!(took + next, SECOND);
        let slow = Duration::from_mins(1);
        assert_eq!(
            next_delay(PollResult::Answered, slow, SECOND, 0.5),
            Duration::ZERO,
            "a poll that took longer than the interval is followed at once"
        );
    }

    #[test]
    fn faults_that_pass_are_retried_faster_than_a_spot_eviction_is_over() {
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
            let pauses = [1, 2, 3, 4, 5, 99].map(|row| after(reason, row).as_secs());
            assert_eq!(pauses, [1, 2, 4, 8, 15, 15], "{reason:?}");
            let least = next_delay(failed(reason, 5), Duration::ZERO, SECOND, 0.0);
            assert_eq!(least, Duration::from_millis(7_500), "{reason:?}");
        }
    }

    #[test]
    fn a_410_is_retried_quickly_for_70_seconds_and_then_as_any_fault() {
        let pauses: Vec<_> = (1..=12)
            .map(|row| after(FailureReason::Gone, row).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 15, 15]);
        assert!(pauses.iter().take(10).sum::<u64>() <= 70);
    }

    #[test]
    fn what_only_a_person_can_mend_is_retried_once_a_minute() {
        assert_eq!(after(FailureReason::Status4xx, 1), Duration::from_mins(1));
        assert_eq!(after(FailureReason::Status4xx, 50), Duration::from_mins(1));
    }

    #[test]
    fn a_throttled_reader_obeys_retry_after_or_halves_its_pace() {
        let throttled = |retry_after: Option<u64>, in_a_row| {
            let outcome = PollResult::Failed {
                reason: FailureReason::Throttled,
                retry_after: retry_after.map(Duration::from_secs),
                in_a_row,
            };
            next_delay(outcome, Duration::ZERO, SECOND, 0.5).as_secs()
        };
        assert_eq!(throttled(Some(7), 1), 7);
        assert_eq!(throttled(Some(45), 1), 45);
        assert_eq!(throttled(Some(86_400), 1), 60);
        assert_eq!(throttled(Some(0), 1), 1);
        assert_eq!(
            [1, 2, 3, 4, 40].map(|row| throttled(None, row)),
            [2, 4, 8, 15, 15]
        );
    }

    fn identity_error(reason: FailureReason, status: u16, retry_after: u64) -> RequestError {
        RequestError {
            reason,
            status: Some(status),
            message: String::new(),
            retry_after: Some(Duration::from_secs(retry_after)).filter(|after| !after.is_zero()),
        }
    }

    #[test]
    fn unavailable_identity_backs_off_to_five_minutes() {
        let timing = IdentityTiming::default();
        for status in [400, 404] {
            let error = identity_error(FailureReason::Status4xx, status, 0);
            assert!(is_identity_unavailable(&error));
            let delays = [1, 2, 3, 6, 7, 8, u32::MAX]
                .map(|count| identity_retry_delay(&error, count, timing).as_secs());
            assert_eq!(delays, [5, 10, 20, 160, 300, 300, 300]);
        }
    }

    #[test]
    fn other_identity_failures_are_retried_at_a_constant_interval() {
        let timing = IdentityTiming::default();
        for status in [403, 405, 410, 500, 503] {
            let error = identity_error(FailureReason::Status4xx, status, 0);
            assert!(!is_identity_unavailable(&error));
            assert_eq!(identity_retry_delay(&error, 0, timing).as_secs(), 5);
        }
    }

    #[test]
    fn throttled_identity_obeys_retry_after_up_to_a_minute() {
        let delay = |retry_after| {
            let error = identity_error(FailureReason::Throttled, 429, retry_after);
            identity_retry_delay(&error, 0, IdentityTiming::default()).as_secs()
        };
        assert_eq!([0, 1, 20, 86_400].map(delay), [5, 5, 20, 60]);
    }

    fn any_outcome() -> impl Strategy<Value = PollResult> {
        let reason = prop::sample::select(FailureReason::ALL.to_vec());
        let retry_after = prop::option::of(any::<u64>().prop_map(Duration::from_secs));
        let failed =
            (reason, retry_after, any::<u32>()).prop_map(|(reason, retry_after, in_a_row)| {
                PollResult::Failed {
                    reason,
                    retry_after,
                    in_a_row,
                }
            });
        prop_oneof![Just(PollResult::Answered), failed]
    }

    proptest! {
        #[test]
        fn requests_never_start_within_200_ms_of_each_other(
            outcome in any_outcome(),
            took in 0_u64..200_000,
            interval in 0_u64..3_600_000,
            jitter in 0.0..1.0_f64,
        ) {
            let took = Duration::from_millis(took);
            let pause = next_delay(outcome, took, Duration::from_millis(interval), jitter);
            prop_assert!(took + pause >= MIN_REQUEST_INTERVAL, "{took:?} + {pause:?}");
        }

        #[test]
        fn no_pause_after_a_failure_is_longer_than_a_minute(
            outcome in any_outcome(),
            took in 0_u64..200_000,
            interval in 200_u64..3_600_000,
            jitter in 0.0..1.0_f64,
        ) {
            let interval = Duration::from_millis(interval);
            let pause = next_delay(outcome, Duration::from_millis(took), interval, jitter);
            let longest = match outcome {
                PollResult::Answered => interval,
                PollResult::Failed { .. } => Duration::from_mins(1),
            };
            prop_assert!(pause <= longest, "{outcome:?}: {pause:?}");
        }
    }
}
