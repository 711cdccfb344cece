//! The minutes after Scheduled Events was enabled, in which an empty document does not mean that no event is scheduled.
//!
//! The first request enables the feature, and events may take five minutes to appear. After a day without a request
//! Azure disables it, and `DocumentIncarnation` starts again:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#enabling-and-disabling-scheduled-events>.

use std::time::Duration;

use crate::{
    lifecycle::WarmUpPhase,
    time::{Moment, Timestamp},
};

/// How long events may take to appear.
pub(crate) const WARM_UP_TIME: Duration = Duration::from_mins(5);
/// Azure disables the feature after this time without a request.
const DISABLED_AFTER: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// No poll has succeeded yet, or none within a day: the next success begins the phase.
    awaits_success: bool,
    until: Option<Moment>,
    /// `DocumentIncarnation` of the last document that had one.
    incarnation: Option<i64>,
}

impl Default for WarmUp {
    /// Of an exporter that knows of no earlier success.
    fn default() -> Self {
        Self {
            awaits_success: true,
            until: None,
            incarnation: None,
        }
    }
}

impl WarmUp {
    /// Continues from an earlier process, whose last success was `age` ago.
    pub(super) fn restore(
        until: Option<Timestamp>,
        incarnation: Option<i64>,
        age: Duration,
        now: Moment,
    ) -> Self {
        let rest = until.map(|until| until.saturating_since(now.wall).min(WARM_UP_TIME));
        Self {
            awaits_success: age >= DISABLED_AFTER,
            until: rest.map(|rest| now.after(rest)),
            incarnation,
        }
    }

    /// A poll succeeded, `age` after the last one. Returns the end of the phase if it begins now.
    pub(super) fn succeed(
        &mut self,
        age: Option<Duration>,
        incarnation: Option<i64>,
        now: Moment,
    ) -> Option<Timestamp> {
        let was_disabled = self.awaits_success || age.is_some_and(|age| age >= DISABLED_AFTER);
        let is_reset =
            matches!((self.incarnation, incarnation), (Some(last), Some(new)) if new < last);
        self.incarnation = incarnation.or(self.incarnation);
        self.awaits_success = false;
        if !was_disabled && !is_reset {
            return None;
        }
        let until = now.after(WARM_UP_TIME);
        self.until = Some(until);
        Some(until.wall)
    }

    /// The end of the phase, while it lasts; `None` before the first success, too.
    pub(crate) fn until(&self, now: Moment) -> Option<Timestamp> {
        let until = self.until?;
        (now.monotonic < until.monotonic).then_some(until.wall)
    }

    /// The phase, while it lasts.
    pub(crate) fn phase(&self, now: Moment) -> Option<WarmUpPhase> {
        self.until(now)?;
        let until = self.until?;
        let since = Moment {
            wall: until.wall.before(WARM_UP_TIME),
            monotonic: until.monotonic.saturating_sub(WARM_UP_TIME),
        };
        Some(WarmUpPhase { since, until })
    }

    /// True until the end of the phase, and before the first success.
    pub(crate) fn is_active(&self, now: Moment) -> bool {
        self.awaits_success || self.until(now).is_some()
    }

    /// For the state file.
    pub(crate) fn incarnation(&self) -> Option<i64> {
        self.incarnation
    }
}
