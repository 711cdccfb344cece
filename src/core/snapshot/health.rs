//! The health of polling, and how polls change it.
//!
//! The first request enables Scheduled Events, and events may take five minutes to appear. After a day without a
//! request Azure disables it, and `DocumentIncarnation` starts again:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#enabling-and-disabling-scheduled-events>.

use std::time::Duration;

use super::Histogram;
use crate::{
    azure::FailureReason,
    base::time::{Moment, Timestamp},
    core::lifecycle::{LastDocument, SavedState, WarmUp},
};

/// Upper bounds of the duration of a request to IMDS: usually milliseconds, up to two minutes for the first.
const REQUEST_BOUNDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 130.0,
];

/// Events are announced minutes ahead: after this time without a document, the last one says nothing about the present.
const STALE_AFTER: Duration = Duration::from_hours(1);

/// A Spot eviction gives 30 seconds' notice: when the next document is late by more, the last one is out of date, even
/// though its poll has not failed yet.
const OVERDUE_AFTER: Duration = Duration::from_secs(30);

/// Azure disables the feature after this time without a request.
const DISABLED_AFTER: Duration = Duration::from_hours(24);

/// A series of failed polls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollFailure {
    /// The reason of the last failed poll.
    pub reason: FailureReason,
    /// A sentence for the log and the status page.
    pub message: String,
    /// The first failed poll of the series.
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// The last successful poll of this process.
    pub last_success: Option<Moment>,
    /// `--imds.poll-interval`.
    pub(crate) poll_interval: Duration,
    /// The last successful poll of an earlier process.
    pub(crate) restored: Option<LastDocument>,
    /// The last warm-up. `None` before the first success, and where none was known within a day: the next success
    /// begins one.
    pub(crate) warm_up: Option<WarmUp>,
    /// The current series of failed polls.
    pub failure: Option<PollFailure>,
    /// `DocumentIncarnation` of the last document, also before a restart.
    pub incarnation: Option<i64>,
    /// Entries of the last document that could not be read. Each may be an event.
    pub unreadable_entries: usize,
    /// Requests to IMDS of every kind.
    pub requests: u64,
    /// By reason, in the order of [`FailureReason::ALL`].
    pub failures: [u64; FailureReason::ALL.len()],
    pub request_duration: Histogram,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            last_success: None,
            poll_interval: Duration::ZERO,
            restored: None,
            warm_up: None,
            failure: None,
            incarnation: None,
            unreadable_entries: 0,
            requests: 0,
            failures: [0; FailureReason::ALL.len()],
            request_duration: Histogram::new(REQUEST_BOUNDS),
        }
    }
}

impl Health {
    /// The last successful poll of this process or an earlier one.
    pub(crate) fn last_success_at(&self) -> Option<Timestamp> {
        let own = self.last_success.map(|at| at.wall);
        own.or(self.restored.map(|restored| restored.at))
    }

    /// The time since the last successful poll, including the time in which the VM was suspended.
    pub(crate) fn age(&self, now: Moment) -> Option<Duration> {
        let own = self.last_success.map(|last| now.elapsed_since(last));
        own.or_else(|| Some(self.restored?.elapsed(now)))
    }

    /// The end of the warm-up, while it lasts; `None` before the first success, too.
    pub(crate) fn warming_up_until(&self, now: Moment) -> Option<Timestamp> {
        let warm_up = self.warm_up.filter(|warm_up| warm_up.lasts(now));
        warm_up.map(|warm_up| warm_up.until.wall)
    }

    /// True until the end of the warm-up, and before the first success: an empty document does not mean that no event
    /// is scheduled.
    pub(crate) fn is_warming_up(&self, now: Moment) -> bool {
        self.warm_up.is_none_or(|warm_up| warm_up.lasts(now))
    }

    /// Whether the last document is too old to say anything about the present. It is not if the last poll succeeded,
    /// however long the poll interval is.
    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        !self.is_up(now) && self.age(now).is_some_and(|age| age > STALE_AFTER)
    }

    /// Whether the last poll succeeded and the next one is not overdue; false before the first.
    pub(crate) fn is_up(&self, now: Moment) -> bool {
        let max_age = self.poll_interval.saturating_add(OVERDUE_AFTER);
        self.last_success
            .is_some_and(|last| now.elapsed_since(last) <= max_age)
            && self.failure.is_none()
    }

    /// By reason, zeros included.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (FailureReason, u64)> {
        FailureReason::ALL.into_iter().zip(self.failures)
    }

    /// Continues from an earlier process.
    pub(crate) fn restore(saved: &SavedState, now: Moment) -> Self {
        let restored = saved.document_at.map(|at| LastDocument::restored(at, now));
        let is_enabled = restored.is_some_and(|last| last.elapsed(now) < DISABLED_AFTER);
        let until = saved.warming_up_until.unwrap_or(now.wall);
        let rest = until.saturating_since(now.wall).min(WarmUp::TIME);
        Self {
            restored,
            warm_up: is_enabled.then(|| WarmUp {
                until: now.after(rest),
            }),
            incarnation: saved.document_incarnation,
            ..Self::default()
        }
    }

    /// What was restored belongs to another VM.
    pub(crate) fn discard_restored(&mut self) {
        self.restored = None;
        self.incarnation = None;
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
    pub fn succeed(&mut self, now: Moment) -> (Option<PollFailure>, Option<Timestamp>) {
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
        self.failure = Some(PollFailure {
            reason,
            message,
            since,
        });
        should_log
    }

    /// Returns the end of the warm-up if it begins with the present success.
    fn begin_warm_up(&mut self, now: Moment) -> Option<Timestamp> {
        let was_disabled = self.age(now).is_some_and(|age| age >= DISABLED_AFTER);
        if self.warm_up.is_some() && !was_disabled {
            return None;
        }
        let until = now.after(WarmUp::TIME);
        self.warm_up = Some(WarmUp { until });
        Some(until.wall)
    }
}
