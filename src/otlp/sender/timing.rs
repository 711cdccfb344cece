//! When a batch is sent again.

use std::time::Duration;

use crate::outbound::retry::backoff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryTiming {
    /// After the first failure; each further one doubles it.
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// The same after a status whose cause is usually the configuration, such as 401.
    pub initial_slow_backoff: Duration,
    pub max_slow_backoff: Duration,
    /// How often an idle sender expires old spans and retries failed disk writes.
    pub maintenance_interval: Duration,
    /// How long the remaining spans are exported at shutdown.
    pub flush_timeout: Duration,
}

impl Default for RetryTiming {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
            initial_slow_backoff: Duration::from_mins(1),
            max_slow_backoff: Duration::from_mins(5),
            maintenance_interval: Duration::from_secs(30),
            flush_timeout: Duration::from_secs(5),
        }
    }
}

/// The batch has to be sent again.
pub(super) struct Retry {
    /// The collector's `Retry-After`.
    pub(super) after: Option<Duration>,
    pub(super) is_slow: bool,
}

impl RetryTiming {
    /// The time until the next attempt, after this number of consecutive failures.
    pub(super) fn delay(&self, retry: &Retry, failures: u32) -> Duration {
        retry.after.unwrap_or_else(|| {
            let (first, max) = if retry.is_slow {
                (self.initial_slow_backoff, self.max_slow_backoff)
            } else {
                (self.initial_backoff, self.max_backoff)
            };
            backoff(first, max, failures, fastrand::f64())
        })
    }
}
