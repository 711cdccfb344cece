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
