//! When to send a request again. Pure.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::base::time::Timestamp;

/// The delay that `Retry-After` asks for, in seconds or as a date (RFC 9110, section 10.2.3). The caller limits it.
///
/// Zero or past values are ignored, a date may be past because the clocks differ: the caller's own backoff applies.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = value.parse().ok().map(Duration::from_secs);
    let delay = seconds.or_else(|| Some(Timestamp::parse(value)?.saturating_since(now)))?;
    (!delay.is_zero()).then_some(delay)
}

/// The delay after the given number of consecutive failures: `first`, doubled with each further failure up to `max`.
pub(crate) fn exponential(first: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    first.saturating_mul(factor).min(max)
}

/// [`exponential`] with jitter: between half of it and all of it, for `random` from 0 to 1, so that a fleet that lost
/// its server does not reconnect at one instant.
pub(crate) fn backoff(first: Duration, max: Duration, failures: u32, random: f64) -> Duration {
    exponential(first, max, failures).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse("Tue, 17 Nov 2026 09:15:42 GMT").unwrap()
    }

    fn parse(value: &str) -> Option<Duration> {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]), now())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(parse("7"), Some(Duration::from_secs(7)));
        assert_eq!(parse(" 86400 "), Some(Duration::from_hours(24)));
        let date = "Tue, 17 Nov 2026 09:16:00 GMT";
        assert_eq!(parse(date), Some(Duration::from_secs(18)));
        assert_eq!(retry_after(&HeaderMap::new(), now()), None);
    }

    #[test]
    fn zero_past_and_invalid_retry_after_is_ignored() {
        for value in [
            "0",
            "Tue, 17 Nov 2026 09:15:42 GMT",
            "Tue, 17 Nov 2026 09:00:00 GMT",
            "",
            "soon",
            "-1",
            "1.5",
            "7, 8",
            "99999999999999999999999",
            "é",
        ] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn backoff_doubles_up_to_the_maximum_with_jitter() {
        let millis = |failures, random| {
            backoff(
                Duration::from_secs(1),
                Duration::from_mins(1),
                failures,
                random,
            )
            .as_millis()
        };
        assert_eq!(
            [0, 1, 2, 3, 7, u32::MAX].map(|n| millis(n, 1.0)),
            [1_000, 1_000, 2_000, 4_000, 60_000, 60_000]
        );
        assert_eq!(
            [1, 2, 3, 7, u32::MAX].map(|n| millis(n, 0.0)),
            [500, 1_000, 2_000, 30_000, 30_000]
        );
    }

    proptest! {
        #[test]
        fn any_header_value_is_read_without_panic_and_never_as_zero(value in "[ -~]{0,40}") {
            prop_assert_ne!(parse(&value), Some(Duration::ZERO));
        }

        #[test]
        fn any_number_of_seconds_above_zero_is_read(seconds in 1..=u64::MAX) {
            prop_assert_eq!(parse(&seconds.to_string()), Some(Duration::from_secs(seconds)));
        }
    }
}
