//! When alerts are pushed again.

use std::time::Duration;

use crate::{outbound::retry::backoff, snapshot::Snapshot, time::Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushTiming {
    /// Between two pushes of an alert that fires.
    pub resend_interval: Duration,
    /// Polls that have failed for this long may hide the end of an event.
    pub blind_after: Duration,
    /// From the end of an event to the push that resolves its alert. Until then Alertmanager shows how it ended. Longer
    /// than Prometheus can send the alert: 150 s after the last evaluation before the scrape that sees the end, for
    /// scrapes once a minute and evaluations every 30 s (150 + 60 + 30 s). A later message of Prometheus would fire the
    /// alert again.
    pub resolve_after: Duration,
    /// After a failed push; each further one doubles it.
    pub retry_interval: Duration,
    /// Upper bound of that, and of a `Retry-After`.
    pub max_retry_interval: Duration,
    pub push_timeout: Duration,
}

impl Default for PushTiming {
    fn default() -> Self {
        Self {
            resend_interval: Duration::from_secs(30),
            blind_after: Duration::from_mins(1),
            resolve_after: Duration::from_mins(4),
            retry_interval: Duration::from_secs(1),
            max_retry_interval: Duration::from_secs(30),
            push_timeout: Duration::from_secs(4),
        }
    }
}

impl PushTiming {
    /// Whether polls have failed for so long that an event may have ended.
    pub(super) fn is_blind(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let failure = snapshot.health.failure.as_ref();
        failure.is_some_and(|failure| now.saturating_since(failure.since) >= self.blind_after)
    }

    /// The time until the next push, after this number of consecutive failures.
    pub(super) fn retry_delay(&self, retry_after: Option<Duration>, failures: u32) -> Duration {
        let (first, max) = (self.retry_interval, self.max_retry_interval);
        match retry_after {
            Some(delay) => delay.min(max),
            None => backoff(first, max, failures, fastrand::f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_pushes_are_retried_within_a_second_at_first_and_within_30_seconds_later() {
        let timing = PushTiming::default();
        for (failures, max) in [(1, 1), (2, 2), (5, 16), (6, 30), (u32::MAX, 30)] {
            let (delay, max) = (timing.retry_delay(None, failures), Duration::from_secs(max));
            assert!((max / 2..=max).contains(&delay), "{failures}: {delay:?}");
        }
        for (requested, expected) in [(1, 1), (20, 20), (86_400, 30)] {
            let delay = timing.retry_delay(Some(Duration::from_secs(requested)), 1);
            assert_eq!(delay, Duration::from_secs(expected));
        }
    }
}
