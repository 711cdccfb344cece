//! The limit on requests: a token bucket.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateLimit {
    /// After which one more request is allowed. Not zero.
    pub(super) interval: Duration,
    /// Requests that are allowed at once. Not zero.
    pub(super) burst: u32,
}

/// Full at first.
#[derive(Debug, Default)]
pub(super) struct TokenBucket {
    /// Of the last request; another one starts with a full bucket.
    limit: Option<RateLimit>,
    tokens: f64,
    /// When `tokens` was computed.
    at: Duration,
}

impl TokenBucket {
    /// True if a request is allowed now, a time that never decreases.
    pub(super) fn allow(&mut self, limit: Option<RateLimit>, now: Duration) -> bool {
        let Some(RateLimit { interval, burst }) = limit else {
            self.limit = None;
            return true;
        };
        let burst = f64::from(burst);
        if self.limit == limit {
            let elapsed = now.saturating_sub(self.at);
            self.tokens += elapsed.as_secs_f64() / interval.as_secs_f64();
        } else {
            self.limit = limit;
            self.tokens = burst;
        }
        self.at = now;
        self.tokens = self.tokens.min(burst);
        let is_allowed = self.tokens >= 1.0;
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
        let limit = Some(limit(Duration::from_secs(2), 3));
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
        assert!(
            bucket.allow(Some(limit(hour, 1)), now) && !bucket.allow(Some(limit(hour, 1)), now)
        );
        assert!(bucket.allow(Some(limit(hour, 2)), now) && bucket.allow(Some(limit(hour, 2)), now));
        assert!(!bucket.allow(Some(limit(hour, 2)), now));
        assert!(bucket.allow(None, now) && bucket.allow(None, now));
        assert!(bucket.allow(Some(limit(hour, 2)), now));
    }
}
