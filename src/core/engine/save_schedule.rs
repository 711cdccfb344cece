//! When the state is saved: after each change, at each heartbeat, and once a second after a failure. The heartbeat on
//! disk shows after a restart how old the last document is, and when the VM went down.

use std::time::Duration;

use tracing::{info, warn};

use crate::base::{
    log_id,
    time::{Moment, MonotonicTime},
};

/// A write that takes longer is reported and counted as a failure.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The heartbeat while an event that names this VM has started, or can start within five minutes.
pub(super) const SOON_INTERVAL: Duration = Duration::from_secs(1);
/// The heartbeat while one is pending further ahead, and until the state says how far the journal was sent.
pub(super) const PENDING_INTERVAL: Duration = Duration::from_secs(30);
/// The heartbeat otherwise.
pub(super) const IDLE_INTERVAL: Duration = Duration::from_mins(10);

/// One write is outstanding at a time; the changes during it are saved by the next one.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent")]
pub(super) struct SaveSchedule {
    is_persistent: bool,
    /// Something changed since the last write began, or that write failed.
    is_dirty: bool,
    /// The state does not say yet how far the journal was sent.
    is_behind: bool,
    is_failing: bool,
    outstanding_since: Option<MonotonicTime>,
    /// The outstanding write is late, and was counted as failed.
    is_stalled: bool,
    /// When the last write began; `None` if the next one is not to wait.
    begun_at: Option<MonotonicTime>,
    /// Writes that failed or stalled.
    pub(super) failures: u64,
}

impl SaveSchedule {
    /// A first write is due at once: it shows whether the directory can be written to.
    pub(super) fn new(is_persistent: bool) -> Self {
        Self {
            is_persistent,
            is_dirty: true,
            ..Self::default()
        }
    }

    pub(super) fn mark(&mut self) {
        self.is_dirty = true;
    }

    pub(super) fn mark_sent(&mut self) {
        self.is_behind = true;
    }

    /// The next write does not wait, even while writes fail.
    pub(super) fn mark_urgent(&mut self) {
        self.is_dirty = true;
        self.begun_at = None;
    }

    /// Whether a write is due; it counts as begun then.
    pub(super) fn begin(&mut self, heartbeat: Duration, now: Moment) -> bool {
        if !self.is_persistent || self.outstanding_since.is_some() {
            return false;
        }
        let interval = if self.is_failing {
            RETRY_INTERVAL
        } else if self.is_dirty {
            Duration::ZERO
        } else if self.is_behind {
            heartbeat.min(PENDING_INTERVAL)
        } else {
            heartbeat
        };
        let elapsed = self.begun_at.map(|at| now.monotonic - at);
        let is_due = elapsed.is_none_or(|elapsed| elapsed >= interval);
        if is_due {
            (self.is_dirty, self.is_behind) = (false, false);
            self.begun_at = Some(now.monotonic);
            self.outstanding_since = self.begun_at;
        }
        is_due
    }

    /// The outstanding write ended. Only a change is logged. Returns whether it is a further failure.
    pub(super) fn written(&mut self, result: Result<(), String>) -> bool {
        self.outstanding_since = None;
        let was_stalled = std::mem::take(&mut self.is_stalled);
        // After a late write the next one may be late too, even if this one succeeded.
        let is_failing = result.is_err() || was_stalled;
        let was_failing = std::mem::replace(&mut self.is_failing, is_failing);
        if was_failing && !is_failing {
            info!(name: log_id::STATE_WRITE_RECOVERED, "state write recovered");
        }
        let is_failure = result.is_err() && !was_stalled;
        self.failures += u64::from(is_failure);
        if let Err(error) = result {
            self.is_dirty = true;
            if !was_failing {
                warn!(
                    name: log_id::STATE_WRITE_FAILED,
                    error,
                    "state write failed: continuing in memory, retrying"
                );
            }
        }
        is_failure
    }

    /// Checks whether the outstanding write takes too long. It is counted as failed, once; returns whether it is now.
    pub(super) fn check_stall(&mut self, now: Moment) -> bool {
        let begun_at = self.outstanding_since.filter(|_| !self.is_stalled);
        if begun_at.is_none_or(|begun_at| now.monotonic - begun_at < STALL_TIMEOUT) {
            return false;
        }
        self.is_stalled = true;
        self.failures += 1;
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!(
                name: log_id::STATE_WRITE_FAILED,
                "state write stalled: continuing in memory, the write is still in progress"
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Timestamp;

    fn at(millis: u64) -> Moment {
        let start = Moment::new(Timestamp::UNIX_EPOCH, Duration::from_secs(100));
        start.after(Duration::from_millis(millis))
    }

    /// Whether this changed what the log says.
    fn is_logged(saves: &mut SaveSchedule, change: impl FnOnce(&mut SaveSchedule) -> bool) -> bool {
        let was_failing = saves.is_failing;
        change(saves);
        saves.is_failing != was_failing
    }

    fn failed() -> Result<(), String> {
        Err("disk full".to_owned())
    }

    #[test]
    fn a_change_is_written_at_once_and_a_pending_event_once_a_second() {
        let mut saves = SaveSchedule::new(true);
        assert!(saves.begin(IDLE_INTERVAL, at(0)));
        saves.written(Ok(()));
        assert!(
            !saves.begin(IDLE_INTERVAL, at(5_000)),
            "nothing has changed"
        );
        assert!(saves.begin(SOON_INTERVAL, at(5_000)));
        saves.written(Ok(()));
        assert!(!saves.begin(SOON_INTERVAL, at(5_999)));
        saves.mark();
        assert!(saves.begin(SOON_INTERVAL, at(5_999)));
    }

    #[test]
    fn without_a_pending_event_the_state_is_written_every_ten_minutes() {
        let mut saves = SaveSchedule::new(true);
        assert!(saves.begin(IDLE_INTERVAL, at(0)));
        saves.written(Ok(()));
        assert!(!saves.begin(IDLE_INTERVAL, at(599_999)));
        assert!(saves.begin(IDLE_INTERVAL, at(600_000)));
    }

    #[test]
    fn a_change_during_a_write_is_written_after_it() {
        let mut saves = SaveSchedule::new(true);
        assert!(saves.begin(IDLE_INTERVAL, at(0)));
        saves.mark();
        assert!(!saves.begin(IDLE_INTERVAL, at(0)), "one write at a time");
        saves.written(Ok(()));
        assert!(saves.begin(IDLE_INTERVAL, at(1)));
    }

    #[test]
    fn a_failing_disk_is_tried_once_a_second_and_logged_on_change() {
        let mut saves = SaveSchedule::new(true);
        let mut attempts = 0;
        let mut logged = 0;
        for tenth in 0..30 {
            saves.mark();
            if saves.begin(SOON_INTERVAL, at(100 * tenth)) {
                attempts += 1;
                logged += u32::from(is_logged(&mut saves, |it| it.written(failed())));
            }
        }
        assert_eq!((attempts, logged, saves.failures), (3, 1, 3));
        assert!(
            saves.begin(IDLE_INTERVAL, at(3_000)),
            "what was not written is due"
        );
        assert!(is_logged(&mut saves, |it| it.written(Ok(()))));
        assert_eq!(saves.failures, 3);
    }

    #[test]
    fn a_stalled_write_is_one_failure_and_two_log_lines() {
        let mut saves = SaveSchedule::new(true);
        assert!(saves.begin(IDLE_INTERVAL, at(0)));
        assert!(!is_logged(&mut saves, |it| it.check_stall(at(4_999))));
        assert!(is_logged(&mut saves, |it| it.check_stall(at(5_000))));
        assert!(!is_logged(&mut saves, |it| it.check_stall(at(6_000))));
        assert!(
            !saves.begin(SOON_INTERVAL, at(60_000)),
            "it is still outstanding"
        );
        let is_recovered = is_logged(&mut saves, |it| it.written(Ok(())));
        assert!(!is_recovered, "it was late");
        assert!(saves.begin(SOON_INTERVAL, at(60_000)));
        assert!(is_logged(&mut saves, |it| it.written(Ok(()))));
        assert_eq!(saves.failures, 1);
    }

    #[test]
    fn an_urgent_change_during_a_write_hides_no_stall() {
        let mut saves = SaveSchedule::new(true);
        assert!(saves.begin(IDLE_INTERVAL, at(0)));
        saves.mark_urgent();
        assert!(!saves.begin(SOON_INTERVAL, at(4_000)));
        assert!(is_logged(&mut saves, |it| it.check_stall(at(5_000))));
        assert_eq!(saves.failures, 1);
    }

    #[test]
    fn a_disk_that_is_always_late_is_logged_once() {
        let mut saves = SaveSchedule::new(true);
        let mut logged = 0;
        for minute in 0..10 {
            assert!(saves.begin(SOON_INTERVAL, at(60_000 * minute)));
            let late = at(60_000 * minute + 7_000);
            logged += usize::from(is_logged(&mut saves, |it| it.check_stall(late)));
            logged += usize::from(is_logged(&mut saves, |it| it.written(Ok(()))));
        }
        assert_eq!((logged, saves.failures), (1, 10));
    }

    #[test]
    fn a_write_that_is_only_slow_is_not_a_failure() {
        let mut saves = SaveSchedule::new(true);
        for minute in 0..10 {
            assert!(saves.begin(SOON_INTERVAL, at(60_000 * minute)));
            saves.check_stall(at(60_000 * minute + 3_000));
            saves.written(Ok(()));
        }
        assert_eq!(saves.failures, 0);
    }

    #[test]
    fn nothing_is_written_without_a_state_directory() {
        let mut saves = SaveSchedule::new(false);
        saves.mark_urgent();
        assert!(!saves.begin(SOON_INTERVAL, at(0)));
    }

    #[test]
    fn the_last_write_does_not_wait_for_the_interval() {
        let mut saves = SaveSchedule::new(true);
        assert!(saves.begin(IDLE_INTERVAL, at(0)));
        saves.written(failed());
        assert!(!saves.begin(IDLE_INTERVAL, at(10)));
        saves.mark_urgent();
        assert!(saves.begin(IDLE_INTERVAL, at(10)));
    }
}
