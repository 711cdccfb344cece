//! How polls change the health of polling, and begin the warm-up.
//!
//! The first request enables Scheduled Events, and events may take five minutes to appear. After a day without a
//! request Azure disables it, and `DocumentIncarnation` starts again:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#enabling-and-disabling-scheduled-events>.

use std::time::Duration;

use crate::{
    azure::FailureReason,
    base::time::{Moment, Timestamp},
    core::{
        lifecycle::{LastDocument, SavedState, WarmUp},
        snapshot::{Failure, Health},
    },
};

/// Azure disables the feature after this time without a request.
const DISABLED_AFTER: Duration = Duration::from_hours(24);

impl Health {
    /// Continues from an earlier process.
    pub(super) fn restore(saved: &SavedState, now: Moment) -> Self {
        let restored = saved.document_at.map(|at| LastDocument::restored(at, now));
        let is_enabled = restored.is_some_and(|last| last.elapsed(now) < DISABLED_AFTER);
        let until = saved.warming_up_until.unwrap_or(now.wall);
        let rest = until.saturating_since(now.wall).min(WarmUp::TIME);
        Self {
            restored,
            warm_up: is_enabled.then(|| WarmUp::ending(now.after(rest))),
            incarnation: saved.document_incarnation,
            known_incarnation: saved.document_incarnation,
            ..Self::default()
        }
    }

    /// What was restored belongs to another VM.
    pub(super) fn discard_restored(&mut self) {
        self.restored = None;
        self.incarnation = None;
        self.known_incarnation = None;
        self.warm_up = None;
    }

    pub(crate) fn count_request(&mut self, took: Duration, failed: Option<FailureReason>) {
        self.requests += 1;
        self.request_duration.observe(took);
        let index =
            failed.and_then(|reason| FailureReason::ALL.iter().position(|known| *known == reason));
        if let Some(count) = index.and_then(|index| self.failures.get_mut(index)) {
            *count += 1;
        }
    }

    /// A poll succeeded. Returns the series of failures that it ends, and the end of a warm-up that it begins.
    pub fn succeed(&mut self, now: Moment) -> (Option<Failure>, Option<Timestamp>) {
        let warming_up = self.begin_warm_up(now);
        self.last_success = Some(now);
        (self.failure.take(), warming_up)
    }

    /// A poll failed. Returns whether it is the first of a series or has another reason than the last one.
    pub(crate) fn fail(&mut self, reason: FailureReason, message: String, now: Timestamp) -> bool {
        let before = self.failure.take();
        let should_log = before
            .as_ref()
            .is_none_or(|failure| failure.reason != reason);
        let since = before.map_or(now, |failure| failure.since);
        self.failure = Some(Failure {
            reason,
            message,
            since,
        });
        should_log
    }

    /// Returns the end of the warm-up if it begins with the present success.
    fn begin_warm_up(&mut self, now: Moment) -> Option<Timestamp> {
        let was_disabled =
            self.warm_up.is_none() || self.age(now).is_some_and(|age| age >= DISABLED_AFTER);
        let is_reset = matches!(
            (self.known_incarnation, self.incarnation),
            (Some(last), Some(new)) if new < last
        );
        self.known_incarnation = self.incarnation.or(self.known_incarnation);
        if !was_disabled && !is_reset {
            return None;
        }
        let until = now.after(WarmUp::TIME);
        self.warm_up = Some(WarmUp { since: now, until });
        Some(until.wall)
    }
}
