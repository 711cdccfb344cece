//! When alerts are pushed again.

use std::time::Duration;

use crate::{snapshot::Snapshot, time::Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushTiming {
    /// Between two pushes of an unchanged alert.
    pub resend_interval: Duration,
    /// The same while polls have failed for longer than `stale_after`. Less than `ALERT_TTL`, so that no
    /// alert expires because IMDS fails; long, so that a VM that can still see the end of the event takes precedence.
    pub stale_resend_interval: Duration,
    pub stale_after: Duration,
    /// The same for an alert that was resolved within `resolved_resend_period`: Prometheus reports it as firing until
    /// its next scrape and evaluation, and Alertmanager takes the latest report.
    pub resolved_resend_interval: Duration,
    /// Prometheus' default scrape interval and its default evaluation interval.
    pub resolved_resend_period: Duration,
    /// From a failed push to the next.
    pub retry_interval: Duration,
    pub push_timeout: Duration,
}

impl Default for PushTiming {
    fn default() -> Self {
        Self {
            resend_interval: Duration::from_secs(30),
            stale_resend_interval: Duration::from_mins(10),
            stale_after: Duration::from_mins(1),
            resolved_resend_interval: Duration::from_secs(5),
            resolved_resend_period: Duration::from_mins(2),
            // With the timeout, at least one attempt every five seconds.
            retry_interval: Duration::from_secs(1),
            push_timeout: Duration::from_secs(4),
        }
    }
}

impl PushTiming {
    /// Until an alert is sent again, which may be resolved.
    pub(super) fn resend_interval(
        &self,
        snapshot: &Snapshot,
        resolved_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Duration {
        let failure = snapshot.health.failure.as_ref();
        let failing_for = failure.map(|failure| now.saturating_since(failure.since));
        if failing_for.is_some_and(|duration| duration > self.stale_after) {
            self.stale_resend_interval
        } else if resolved_at
            .is_some_and(|at| now.saturating_since(at) < self.resolved_resend_period)
        {
            self.resolved_resend_interval
        } else {
            self.resend_interval
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        snapshot::{Failure, FailureReason},
        time::Moment,
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn resend_interval_depends_on_resolved_alerts_and_failing_polls() {
        let timing = PushTiming::default();
        let interval = |resolved_at: Option<i64>, failing_since: Option<i64>| {
            let now = Moment {
                wall: at(0),
                monotonic: Duration::ZERO,
            };
            let mut snapshot = Snapshot::empty(None, now);
            snapshot.health.failure = failing_since.map(|seconds| Failure {
                reason: FailureReason::Timeout,
                message: String::new(),
                since: at(seconds),
            });
            timing.resend_interval(&snapshot, resolved_at.map(at), at(0))
        };
        for (resolved_at, failing_since, expected) in [
            (None, None, timing.resend_interval),
            (None, Some(-60), timing.resend_interval),
            (None, Some(-61), timing.stale_resend_interval),
            (Some(-119), None, timing.resolved_resend_interval),
            (Some(-120), None, timing.resend_interval),
            (Some(-119), Some(-61), timing.stale_resend_interval),
        ] {
            let actual = interval(resolved_at, failing_since);
            assert_eq!(actual, expected, "{resolved_at:?} {failing_since:?}");
        }
    }
}
