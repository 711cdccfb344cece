//! The limit on requests: a token bucket.

use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use serde::{Deserialize, Deserializer, de::Error as _};

/// `rate_limit` of the file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a mapping of keys to values"
)]
pub(super) struct RateLimit {
    /// After which one more request is allowed. Zero for no limit.
    #[serde(deserialize_with = "duration")]
    pub(super) interval: Duration,
    /// Requests that are allowed at once. Not zero where there is a limit.
    #[serde(deserialize_with = "number")]
    pub(super) burst: u32,
}

/// As Go writes it, such as `1m30s`; zero for null.
fn duration<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    match Option::<String>::deserialize(value)?.as_deref() {
        None | Some("0") => Ok(Duration::ZERO),
        Some(text) => SpanParser::new()
            .parse_unsigned_duration(text)
            .map_err(|_| {
                D::Error::custom(format!("{text:?} is not a duration such as 500ms or 1m30s"))
            }),
    }
}

/// Zero for null.
fn number<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    let text = Option::<String>::deserialize(value)?.unwrap_or_else(|| "0".to_owned());
    text.parse()
        .map_err(|_| D::Error::custom(format!("{text:?} is not a whole number from 0 up")))
}

/// Full at first.
#[derive(Debug, Default)]
pub(super) struct TokenBucket {
    /// The limit at the last request; another limit starts with a full bucket.
    limit: RateLimit,
    tokens: f64,
    /// When `tokens` was computed.
    at: Duration,
}

impl TokenBucket {
    /// True if a request is allowed now, a time that never decreases.
    pub(super) fn allow(&mut self, limit: RateLimit, now: Duration) -> bool {
        let burst = f64::from(limit.burst);
        if self.limit == limit {
            let elapsed = now.saturating_sub(self.at);
            self.tokens += elapsed.as_secs_f64() / limit.interval.as_secs_f64();
        } else {
            self.limit = limit;
            self.tokens = burst;
        }
        self.at = now;
        self.tokens = self.tokens.min(burst);
        let is_allowed = limit.interval.is_zero() || self.tokens >= 1.0;
        if is_allowed {
            self.tokens -= 1.0;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn limit(interval: Duration, burst: u32) -> RateLimit {
        RateLimit { interval, burst }
    }

    #[test]
    fn a_burst_is_allowed_and_then_one_request_per_interval() {
        let mut bucket = TokenBucket::default();
        let limit = limit(Duration::from_secs(2), 3);
        let mut allowed = |millis| bucket.allow(limit, Duration::from_millis(millis));
        let found: Vec<_> = [0, 0, 0, 0, 1_000, 2_000, 2_000, 3_999, 4_000, 60_000]
            .into_iter()
            .map(&mut allowed)
            .collect();
        let expected = [
            true, true, true, false, false, true, false, false, true, true,
        ];
        assert_eq!(found, expected);
        let burst: Vec<_> = (0..3).map(|_| allowed(60_000)).collect();
        assert_eq!(
            burst,
            [true, true, false],
            "no more than the burst is saved"
        );
    }

    #[test]
    fn another_limit_starts_with_a_full_bucket() {
        let mut bucket = TokenBucket::default();
        let now = Duration::from_secs(1);
        let hour = Duration::from_hours(1);
        assert!(bucket.allow(limit(hour, 1), now) && !bucket.allow(limit(hour, 1), now));
        assert!(bucket.allow(limit(hour, 2), now) && bucket.allow(limit(hour, 2), now));
        assert!(!bucket.allow(limit(hour, 2), now));
        let unlimited = RateLimit::default();
        assert!(bucket.allow(unlimited, now) && bucket.allow(unlimited, now));
        assert!(bucket.allow(limit(hour, 2), now));
    }

    #[test]
    fn durations_have_units_as_in_go() {
        let read = |text: &str| duration(serde_json::json!(text)).ok();
        let millis = Duration::from_millis;
        for (text, expected) in [
            ("0", Some(millis(0))),
            ("0s", Some(millis(0))),
            ("1s", Some(millis(1_000))),
            ("1.5s", Some(millis(1_500))),
            ("1m30s", Some(millis(90_000))),
            ("2h", Some(millis(7_200_000))),
            ("250ms", Some(millis(250))),
            ("1000us", Some(millis(1))),
            ("1000µs", Some(millis(1))),
            ("5ns", Some(Duration::from_nanos(5))),
            ("", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("1d", None),
            ("1s2", None),
            ("99999999999999999999999h", None),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }
}
