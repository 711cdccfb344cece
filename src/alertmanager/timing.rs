//! When alerts are pushed again.

use std::time::Duration;

use crate::{outbound::retry::backoff, snapshot::Snapshot, time::Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushTiming {
    /// Between two pushes of an unchanged alert.
    pub resend_interval: Duration,
    /// The same while polls fail, if Alertmanager still has an alert of the event. Less than the time after which
    /// Alertmanager ends the alert, so that none ends because IMDS fails.
    pub blind_resend_interval: Duration,
    /// Polls that have failed for this long may hide the end of an event.
    pub blind_after: Duration,
    /// Between two reads of an ended alert. Every other VM that has the event pushes the alert meanwhile. Prometheus,
    /// if it has the alert, sends it at the first evaluation that is more than a minute later: after at most 120
    /// seconds if it evaluates once a minute, or more often.
    pub confirmation_interval: Duration,
    /// Between two pushes of an alert that was resolved within `resolved_resend_period`: if another sender reports it
    /// as firing after all, Alertmanager takes the latest report.
    pub resolved_resend_interval: Duration,
    pub resolved_resend_period: Duration,
    /// After a failed push; each further one doubles it.
    pub retry_interval: Duration,
    /// Upper bound of that, and of a `Retry-After`: a new alert waits too.
    pub max_retry_interval: Duration,
    pub push_timeout: Duration,
}

impl Default for PushTiming {
    fn default() -> Self {
        Self {
            resend_interval: Duration::from_secs(30),
            blind_resend_interval: Duration::from_mins(10),
            blind_after: Duration::from_mins(1),
            confirmation_interval: Duration::from_secs(130),
            resolved_resend_interval: Duration::from_secs(5),
            resolved_resend_period: Duration::from_mins(2),
            retry_interval: Duration::from_secs(1),
            max_retry_interval: Duration::from_secs(30),
            push_timeout: Duration::from_secs(4),
        }
    }
}

/// Whether this process sees the events, so that its alerts are true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// It has read no document so far. The events are those of an earlier process.
    Awaited,
    Clear,
    /// Polls have failed for too long.
    Blind,
}

impl PushTiming {
    pub(super) fn sight(&self, snapshot: &Snapshot, now: Timestamp) -> Sight {
        let failure = snapshot.health.failure.as_ref();
        let failing_for = failure.map(|failure| now.saturating_since(failure.since));
        if failing_for.is_some_and(|duration| duration >= self.blind_after) {
            Sight::Blind
        } else if snapshot.health.last_success.is_none() {
            Sight::Awaited
        } else {
            Sight::Clear
        }
    }

    /// The time until the next push, after this number of consecutive failures.
    pub(super) fn retry_delay(&self, retry_after: Option<Duration>, failures: u32) -> Duration {
        let (first, max) = (self.retry_interval, self.max_retry_interval);
        match retry_after {
            Some(delay) => delay.min(max),
            None => backoff(first, max, failures, fastrand::f64()),
        }
    }

    /// Of an alert that was resolved this long ago.
    pub(super) fn resolved_interval(&self, resolved_for: Duration) -> Duration {
        if resolved_for < self.resolved_resend_period {
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
    fn resolved_alerts_are_sent_more_often_for_two_minutes() {
        let timing = PushTiming::default();
        let interval = |seconds| timing.resolved_interval(Duration::from_secs(seconds));
        assert_eq!(interval(119), timing.resolved_resend_interval);
        assert_eq!(interval(120), timing.resend_interval);
    }

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

    #[test]
    fn a_process_without_a_document_or_with_a_minute_of_failed_polls_does_not_see_events() {
        let now = Moment {
            wall: at(0),
            monotonic: Duration::ZERO,
        };
        for (has_document, failing_since, expected) in [
            (false, None, Sight::Awaited),
            (false, Some(-59), Sight::Awaited),
            (false, Some(-60), Sight::Blind),
            (true, None, Sight::Clear),
            (true, Some(-59), Sight::Clear),
            (true, Some(-60), Sight::Blind),
        ] {
            let mut snapshot = Snapshot::empty(None, now);
            snapshot.health.last_success = has_document.then_some(now);
            snapshot.health.failure = failing_since.map(|seconds| Failure {
                reason: FailureReason::Timeout,
                message: String::new(),
                since: at(seconds),
            });
            let sight = PushTiming::default().sight(&snapshot, at(0));
            assert_eq!(sight, expected, "{has_document} {failing_since:?}");
        }
    }
}
