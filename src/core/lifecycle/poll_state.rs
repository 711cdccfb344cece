//! What polls have shown: the last document, the failures since, and whether events may still be missing.
//!
//! The first request enables Scheduled Events, and events may take five minutes to appear. After a day without a
//! request Azure disables it, and `DocumentIncarnation` starts again:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#enabling-and-disabling-scheduled-events>.

use std::time::Duration;

use super::saved_state::SavedState;
use crate::{
    azure::{RequestError, document::Document},
    base::time::{Moment, MonotonicTime, Timestamp},
};

/// Events are announced minutes ahead: after this time without a document, the last one says nothing about the present.
const STALE_AFTER: Duration = Duration::from_hours(1);

/// A Spot eviction gives 30 seconds' notice: when the next document is late by more, the last one is out of date, even
/// though its poll has not failed yet.
const OVERDUE_AFTER: Duration = Duration::from_secs(30);

/// Azure disables the feature after this time without a request.
const DISABLED_AFTER: Duration = Duration::from_hours(24);

/// How long events may take to appear after the feature was enabled.
pub(crate) const WARM_UP: Duration = Duration::from_mins(5);

/// A series of failed polls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollFailure {
    /// That of the last one.
    pub error: RequestError,
    /// When the first one failed.
    pub since: Moment,
}

/// What this process and those before it know from polling. [`Tracker`](super::Tracker) judges documents by it, and
/// every reader has it in the snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PollState {
    /// `--imds.poll-interval`: how long a gap between two successful polls is normal.
    pub(crate) interval: Duration,
    pub last_success: Option<Moment>,
    /// When the document that the tracked events are from was read, or confirmed by a 304; by an earlier process, too.
    pub(crate) last_document: Option<Moment>,
    /// By how much the clock was set back since then while the exporter did not run: it was away for at least so long.
    pub(crate) set_back: Duration,
    /// `DocumentIncarnation` of the last document that had one, also before a restart.
    pub(crate) last_incarnation: Option<i64>,
    lacks_incarnation: bool,
    /// Entries of the last document that could not be read. Each may be an event.
    pub(crate) unreadable_entries: usize,
    /// The end of the last warm-up, the time in which an event may be missing because it has not appeared yet. `None`
    /// before the first success, and where none was known within a day: the next success begins one.
    pub(crate) warm_up_until: Option<MonotonicTime>,
    pub failure: Option<PollFailure>,
}

impl PollState {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    pub(crate) fn restore(saved: &SavedState, interval: Duration, now: Moment) -> Self {
        let warm_up_until = saved.warm_up_until.unwrap_or(now.monotonic);
        let mut poll = Self {
            last_document: saved.document_at,
            set_back: saved
                .set_back
                .saturating_add(saved.heartbeat_at.saturating_since(now.wall)),
            warm_up_until: Some(warm_up_until.min(now.monotonic + WARM_UP)),
            last_incarnation: saved.document_incarnation,
            ..Self::new(interval)
        };
        if poll.age(now).is_none_or(|age| age >= DISABLED_AFTER) {
            poll.warm_up_until = None;
        }
        poll
    }

    /// `DocumentIncarnation` of the last document.
    pub(crate) fn incarnation(&self) -> Option<i64> {
        self.last_incarnation.filter(|_| !self.lacks_incarnation)
    }

    pub(crate) fn last_success_at(&self) -> Option<Timestamp> {
        let last = self.last_success.or(self.last_document)?;
        Some(last.wall)
    }

    /// The time since the last successful poll, including the time in which the VM was suspended.
    pub(crate) fn age(&self, now: Moment) -> Option<Duration> {
        let last = self.last_success.or(self.last_document)?;
        Some((now.monotonic - last.monotonic).saturating_add(self.set_back))
    }

    /// The end of the warm-up, while it lasts; `None` before the first success, too.
    pub(crate) fn warming_up_until(&self, now: Moment) -> Option<Timestamp> {
        let left = self.warm_up_until? - now.monotonic;
        (!left.is_zero()).then(|| now.wall.after(left))
    }

    /// While true, also before the first success, an empty document does not mean that no event is scheduled.
    pub(crate) fn is_warming_up(&self, now: Moment) -> bool {
        self.warm_up_until.is_none_or(|until| now.monotonic < until)
    }

    /// Not if the last poll succeeded, however long the poll interval is.
    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        !self.is_up(now) && self.age(now).is_some_and(|age| age > STALE_AFTER)
    }

    /// Whether the last poll succeeded and the next one is not overdue; false before the first.
    pub(crate) fn is_up(&self, now: Moment) -> bool {
        let max_age = self.interval.saturating_add(OVERDUE_AFTER);
        let is_recent = |last: Moment| now.monotonic - last.monotonic <= max_age;
        self.last_success.is_some_and(is_recent) && self.failure.is_none()
    }

    /// An event cannot have started and ended between two documents that are not further apart.
    pub(super) fn max_gap(&self) -> Duration {
        self.interval
            .saturating_mul(3)
            .clamp(Duration::from_secs(10), Duration::from_mins(1))
    }

    /// Whether no start can have been missed since the last document.
    pub(super) fn is_watched(&self, now: Moment) -> bool {
        self.age(now).is_some_and(|age| age <= self.max_gap())
    }

    /// Before a success: returns the end of the warm-up if it begins now. `incarnation` is `None` for the last document.
    pub(crate) fn begin_warm_up(
        &mut self,
        incarnation: Option<i64>,
        now: Moment,
    ) -> Option<Timestamp> {
        let was_disabled = self.age(now).is_some_and(|age| age >= DISABLED_AFTER);
        let incarnations = incarnation.zip(self.last_incarnation);
        let is_enabled_again = incarnations.is_some_and(|(new, last)| new < last);
        if self.warm_up_until.is_some() && !was_disabled && !is_enabled_again {
            return None;
        }
        let until = now.after(WARM_UP);
        self.warm_up_until = Some(until.monotonic);
        Some(until.wall)
    }

    pub(super) fn read(&mut self, document: &Document, now: Moment) {
        self.lacks_incarnation = document.incarnation.is_none();
        self.last_incarnation = document.incarnation.or(self.last_incarnation);
        self.unreadable_entries = document.unreadable.entries;
        self.succeed(now);
    }

    pub fn succeed(&mut self, now: Moment) {
        self.last_success = Some(now);
        self.last_document = Some(now);
        self.set_back = Duration::ZERO;
        self.failure = None;
    }

    /// A poll failed. Returns the failure if it is the first of a series, or has another cause than the last one.
    pub(crate) fn fail(&mut self, error: RequestError, now: Moment) -> Option<&PollFailure> {
        let before = self.failure.take();
        let is_new = before.as_ref().map(|it| it.error.cause()) != Some(error.cause());
        let since = before.map_or(now, |failure| failure.since);
        let failure = self.failure.insert(PollFailure { error, since });
        is_new.then_some(&*failure)
    }
}
