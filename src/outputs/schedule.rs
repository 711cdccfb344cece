//! When the metrics are sent or written: at an interval, and when the events change.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    base::time::{Clock, MonotonicTime},
    core::{lifecycle::TrackedEvent, snapshot::Snapshot},
};

/// Between two pushes of which the second is caused by a change of the events: a fault may change them with each poll.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Duration,
    /// The next push if nothing changes.
    next_at: MonotonicTime,
    /// The next push if the events change.
    next_change_at: MonotonicTime,
    /// As last pushed, also if the push failed.
    events: Arc<[Arc<TrackedEvent>]>,
    is_identified: bool,
}

impl Schedule {
    /// The identity of the VM starts the first push, since its series are those of another resource.
    pub(crate) fn new(interval: Duration, now: MonotonicTime) -> Self {
        Self {
            interval,
            next_at: now + interval,
            next_change_at: MonotonicTime::default(),
            events: Arc::from([]),
            is_identified: false,
        }
    }

    /// Waits until the newest snapshot is to be pushed. `None` when `stop` is cancelled, or no snapshot follows.
    pub(crate) async fn due(
        &self,
        snapshots: &mut watch::Receiver<Arc<Snapshot>>,
        clock: Clock,
        stop: &CancellationToken,
    ) -> Option<Arc<Snapshot>> {
        while !stop.is_cancelled() {
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let wait = self.due_at(&snapshot) - clock.now().monotonic;
            if wait.is_zero() {
                return Some(snapshot);
            }
            if !wait_for_change(snapshots, wait, stop).await {
                break;
            }
        }
        None
    }

    fn due_at(&self, snapshot: &Snapshot) -> MonotonicTime {
        let is_changed =
            snapshot.events != self.events || snapshot.identity.is_some() != self.is_identified;
        if is_changed {
            self.next_change_at
        } else {
            self.next_at
        }
    }

    /// The snapshot was pushed. The next push is due after the interval, or after the delay of a failed push; a change
    /// ends that delay.
    pub(crate) fn pushed(
        &mut self,
        snapshot: &Snapshot,
        now: MonotonicTime,
        delay: Option<Duration>,
    ) {
        self.events = Arc::clone(&snapshot.events);
        self.is_identified = snapshot.identity.is_some();
        let delay = delay.unwrap_or(self.interval);
        self.next_at = now + delay;
        self.next_change_at = now + delay.min(MIN_INTERVAL);
    }
}

/// Waits for another snapshot, for up to `wait`, and until `stop` is cancelled. False when no snapshot follows.
pub(crate) async fn wait_for_change(
    snapshots: &mut watch::Receiver<Arc<Snapshot>>,
    wait: Duration,
    stop: &CancellationToken,
) -> bool {
    tokio::select! {
        changed = snapshots.changed() => changed.is_ok(),
        () = stop.cancelled() => true,
        () = sleep(wait) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        azure::document,
        base::time::{Moment, Timestamp},
        core::lifecycle::Tracker,
    };

    const MINUTE: Duration = Duration::from_mins(1);

    fn seconds(seconds: u64) -> MonotonicTime {
        MonotonicTime::since_origin(Duration::from_secs(seconds))
    }

    /// The snapshot with these events.
    fn snapshot(ids: &[&str]) -> Snapshot {
        let now = Moment::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        let event = |id: &&str| format!(r#"{{"EventId":"{id}","EventType":"Freeze"}}"#);
        let events: Vec<_> = ids.iter().map(event).collect();
        let body = format!(
            r#"{{"DocumentIncarnation":1,"Events":[{}]}}"#,
            events.join(",")
        );
        let (document, _) = document::parse(body.as_bytes()).unwrap();
        let mut tracker = Tracker::default();
        tracker.observe(&document, None, now);
        Snapshot {
            events: tracker.events(now).into(),
            ..Snapshot::empty(None, now)
        }
    }

    #[test]
    fn a_change_ends_the_backoff() {
        let (known, changed) = (snapshot(&["a"]), snapshot(&["a", "b"]));
        let mut schedule = Schedule::new(MINUTE, seconds(0));
        schedule.pushed(&known, seconds(100), Some(Duration::from_secs(30)));
        assert_eq!(schedule.due_at(&known), seconds(130));
        assert_eq!(schedule.due_at(&changed), seconds(101));
        schedule.pushed(&changed, seconds(131), None);
        assert_eq!(schedule.due_at(&known), seconds(132));
    }

    #[test]
    fn an_interval_shorter_than_a_second_is_kept() {
        let mut schedule = Schedule::new(Duration::from_millis(100), seconds(0));
        schedule.pushed(&snapshot(&[]), seconds(10), None);
        let next_at = seconds(10) + Duration::from_millis(100);
        assert_eq!(schedule.due_at(&snapshot(&["a"])), next_at);
        assert_eq!(schedule.due_at(&snapshot(&[])), next_at);
    }
}
