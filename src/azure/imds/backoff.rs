//! The delay before the next request. Pure: reads no clock, and jitter is an argument.
//!
//! The limits are Microsoft's,
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#rate-limiting> and
//! `#errors-and-debugging`: five requests per second and VM for all clients together, 410 for at most 70 seconds, 429
//! to slow down, 500 to retry after some time. Delays between polls are short: a Spot eviction gives 30 seconds'
//! notice.

use std::time::Duration;

use crate::{
    azure::{FailureReason, Identity, RequestError},
    base::{
        backoff::{backoff, exponential},
        time::MonotonicTime,
    },
};

/// IMDS allows five requests per second and VM, for all its clients together.
pub(crate) const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(200);
/// Upper bound after any failure, also of a `Retry-After`.
const MAX_BACKOFF: Duration = Duration::from_secs(15);
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Upper bound during the first 70 seconds of 410.
const MAX_GONE_BACKOFF: Duration = Duration::from_secs(8);
/// Consecutive 410 within 70 seconds: 1 + 2 + 4 + 7 × 8.
const GONE_IN_70_SECONDS: u32 = 10;

/// When `/metadata/instance` is requested again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityTiming {
    /// After a failure that is none of polling, doubled with each further one.
    pub retry_interval: Duration,
    pub max_retry_interval: Duration,
    /// While a member that this kind of VM has is missing.
    pub partial_interval: Duration,
    pub refresh_interval: Duration,
}

impl Default for IdentityTiming {
    fn default() -> Self {
        Self {
            retry_interval: Duration::from_secs(5),
            max_retry_interval: Duration::from_mins(5),
            partial_interval: Duration::from_secs(30),
            refresh_interval: Duration::from_hours(1),
        }
    }
}

/// Decides when instance metadata are requested. Pure.
#[derive(Debug)]
pub(crate) struct IdentitySchedule {
    timing: IdentityTiming,
    /// The name of this VM is known, from `--vm.name` or from instance metadata, which then only add labels.
    is_name_known: bool,
    due: MonotonicTime,
    /// Consecutive failures, counted apart while the metadata are unavailable.
    failures: u32,
    was_unavailable: bool,
}

impl IdentitySchedule {
    pub(crate) fn new(timing: IdentityTiming, is_name_known: bool) -> Self {
        Self {
            timing,
            is_name_known,
            due: MonotonicTime::default(),
            failures: 0,
            was_unavailable: false,
        }
    }

    pub(crate) fn is_due(&self, now: MonotonicTime) -> bool {
        now >= self.due
    }

    /// A request ended at `now`. A transient failure is retried as a poll is; `jitter` is that of [`next_delay`].
    pub(crate) fn record(
        &mut self,
        result: &Result<Identity, RequestError>,
        jitter: f64,
        now: MonotonicTime,
    ) {
        let timing = self.timing;
        let delay = match result {
            Ok(identity) => {
                self.failures = 0;
                self.is_name_known = true;
                if identity.is_partial {
                    timing.partial_interval
                } else {
                    timing.refresh_interval
                }
            }
            Err(error) => {
                let is_unavailable = error.is_identity_unavailable(self.is_name_known);
                if self.was_unavailable != is_unavailable {
                    self.failures = 0;
                }
                self.was_unavailable = is_unavailable;
                self.failures = self.failures.saturating_add(1);
                if is_unavailable {
                    let (first, max) = (timing.retry_interval, timing.max_retry_interval);
                    let retry_after = error.retry_after.unwrap_or_default().min(MAX_BACKOFF);
                    retry_after.max(exponential(first, max, self.failures))
                } else {
                    let failed = Some((error, self.failures));
                    next_delay(failed, Duration::ZERO, FIRST_BACKOFF, jitter)
                }
            }
        };
        self.due = now + delay;
    }
}

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

    /// The delays in seconds after these results of consecutive requests for the identity.
    fn identity_delays(
        is_name_known: bool,
        results: impl IntoIterator<Item = Result<Identity, RequestError>>,
    ) -> Vec<u64> {
        let mut schedule = IdentitySchedule::new(IdentityTiming::default(), is_name_known);
        let now = MonotonicTime::since_origin(SECOND);
        assert!(schedule.is_due(now));
        let delay = |result| {
            schedule.record(&result, 1.0, now);
            (schedule.due - now).as_secs()
        };
        results.into_iter().map(delay).collect()
    }

    fn refused(status: u16, retry_after: u64) -> Result<Identity, RequestError> {
        let reason = match status {
            429 => FailureReason::Throttled,
            500.. => FailureReason::Status5xx,
            _ => FailureReason::Status4xx,
        };
        Err(RequestError {
            status: Some(status),
            retry_after: Some(Duration::from_secs(retry_after)).filter(|after| !after.is_zero()),
            ..RequestError::new(reason, "")
        })
    }

    #[test]
    fn a_transient_failure_of_the_identity_is_retried_as_a_poll_is() {
        for status in [403, 405, 500, 503] {
            let failures = (0..6).map(|_| refused(status, 0));
            assert_eq!(
                identity_delays(false, failures),
                [1, 2, 4, 8, 15, 15],
                "{status}"
            );
        }
        let throttled = [0, 1, 12, 86_400].map(|retry_after| refused(429, retry_after));
        assert_eq!(identity_delays(false, throttled), [2, 1, 12, 15]);
    }

    #[test]
    fn unavailable_identity_backs_off_to_five_minutes() {
        for (status, is_name_known) in [(400, false), (404, false), (503, true), (404, true)] {
            let failures = (0..8).map(|_| refused(status, 0));
            let expected = [5, 10, 20, 40, 80, 160, 300, 300];
            assert_eq!(
                identity_delays(is_name_known, failures),
                expected,
                "{status}"
            );
        }
        let mixed = [
            refused(503, 0),
            refused(503, 0),
            refused(404, 0),
            refused(503, 0),
        ];
        assert_eq!(identity_delays(false, mixed), [1, 2, 5, 1]);
    }

    #[test]
    fn a_known_identity_is_requested_again_each_hour_and_a_partial_one_after_30_seconds() {
        let known = |is_partial| {
            Ok(Identity {
                is_partial,
                ..Identity::default()
            })
        };
        let results = [known(true), refused(503, 0), known(true), known(false)];
        assert_eq!(identity_delays(false, results), [30, 5, 30, 3_600]);
    }

    fn any_failure() -> impl Strategy<Value = Option<(RequestError, u32)>> {
        let reason = prop::sample::select(FailureReason::ALL.to_vec());
        let retry_after = prop::option::of(any::<u64>().prop_map(Duration::from_secs));
        let error = (reason, retry_after).prop_map(|(reason, retry_after)| RequestError {
            retry_after,
            ..RequestError::new(reason, "")
        });
        prop::option::of((error, any::<u32>()))
    }

    fn delay_of(
        failed: Option<&(RequestError, u32)>,
        took: Duration,
        interval: Duration,
        jitter: f64,
    ) -> Duration {
        let failed = failed.map(|(error, failures)| (error, *failures));
        next_delay(failed, took, interval, jitter)
    }

    proptest! {
        #[test]
        fn requests_start_at_least_200_ms_apart(
            failed in any_failure(),
            took in 0_u64..200_000,
            interval in 0_u64..3_600_000,
            jitter in 0.0..1.0_f64,
        ) {
            let took = Duration::from_millis(took);
            let delay = delay_of(failed.as_ref(), took, Duration::from_millis(interval), jitter);
            prop_assert!(took + delay >= MIN_REQUEST_INTERVAL, "{took:?} + {delay:?}");
        }

        #[test]
        fn no_delay_after_a_failure_exceeds_15_seconds(
            failed in any_failure(),
            took in 0_u64..200_000,
            interval in 200_u64..3_600_000,
            jitter in 0.0..1.0_f64,
        ) {
            let interval = Duration::from_millis(interval);
            let took = Duration::from_millis(took);
            let delay = delay_of(failed.as_ref(), took, interval, jitter);
            let longest = failed.as_ref().map_or(interval, |_| Duration::from_secs(15));
            prop_assert!(delay <= longest, "{failed:?}: {delay:?}");
        }
    }
}
