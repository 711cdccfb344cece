//! What becomes of an event that a document lacks: whether that is its end, and what is then taken for completed, for
//! cancelled, and for neither.

use std::time::Duration;

use super::{
    poll_state::{PollState, WARM_UP},
    tracked_event::{FirstSight, Outcome, TrackedEvent},
};
use crate::{
    azure::{
        document::Document,
        event::{EventScope, Status},
    },
    base::time::{Moment, MonotonicTime, Timestamp},
};

/// An unreadable entry without an id may be any event, but only for this long.
const MAX_UNIDENTIFIED: Duration = Duration::from_mins(1);
/// An approved event without a duration ran only if it left at least this long after its approval.
const UNKNOWN_DURATION: Duration = Duration::from_secs(10);
/// A VM that went down by so much before `NotBefore` may have been restarted by the event; its owner may have stopped
/// one that went down earlier.
const MAX_DOWN_EARLY: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays pending, if documents go on to lack it: without an end where an unreadable entry has its id.
    Keep {
        until: Option<MonotonicTime>,
    },
    End(Outcome),
}

/// What is known about the time before a document; by default nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evidence {
    pub(super) last_document: Option<Moment>,
    /// How far apart two documents may be without hiding a start.
    pub(super) max_gap: Duration,
    /// No start can have been missed between the two documents.
    pub(super) was_watched: bool,
    pub(super) warm_up_until: Option<MonotonicTime>,
    /// How an event that is Started in the document is first seen.
    pub(super) first_sight: FirstSight,
}

impl Evidence {
    pub(super) fn new(poll: &PollState, was_interrupted: bool, now: Moment) -> Self {
        Self {
            last_document: poll.last_document,
            max_gap: poll.max_gap(),
            was_watched: poll.is_watched(now) && !was_interrupted,
            warm_up_until: poll.warm_up_until.filter(|until| now.monotonic < *until),
            first_sight: FirstSight::default(),
        }
    }
}

/// An unreadable entry keeps the event whose id it has and, if it has none, every event for a minute. In the warm-up, an
/// empty document only ends an event that may have started, or that a document since its beginning has listed.
pub(super) fn fate(
    event: &TrackedEvent,
    due_at: Option<MonotonicTime>,
    document: &Document,
    mut evidence: Evidence,
    now: Moment,
) -> Fate {
    if document.unreadable.ids.contains(&event.shown.id) {
        return Fate::Keep { until: None };
    }
    let until = if document.unreadable.has_unidentified {
        event.missing_since.unwrap_or(now.monotonic) + MAX_UNIDENTIFIED
    } else {
        match evidence.warm_up_until.filter(|_| document.has_no_events()) {
            Some(until) if !event.may_have_started(now.wall) => {
                let since = until - WARM_UP;
                let listed = event.last_listed_at.or(evidence.last_document);
                // At its NotBefore it may have started, also if the document stays the same until then.
                let due_at = due_at.filter(|_| !event.shown.is_advisory());
                if listed.is_some_and(|last| last.monotonic >= since) {
                    now.monotonic
                } else {
                    due_at.map_or(until, |due_at| until.min(due_at))
                }
            }
            _ => now.monotonic,
        }
    };
    if now.monotonic < until {
        return Fate::Keep { until: Some(until) };
    }
    evidence.was_watched &= !document.unreadable.has_unidentified;
    Fate::End(outcome(event, evidence, now))
}

/// The outcome of an event that left the document. A measured interruption alone is no evidence of a start: a step of
/// the clock looks the same. An advisory has no outcome of its own, so it is unknown.
pub(super) fn outcome(event: &TrackedEvent, evidence: Evidence, now: Moment) -> Outcome {
    if event.shown.is_advisory() && event.started_at.is_none() {
        return Outcome::Unknown;
    }
    // An event that was missing before it ended may have started meanwhile.
    let was_watched = evidence.was_watched && event.last_listed_at.is_none();
    let last_listed = event.last_listed_at.or(evidence.last_document);
    let not_before = event.shown.not_before;
    let is_due = not_before.is_some_and(|due| now.wall >= due);
    let listed_until = last_listed.map(|last| last.wall.after(evidence.max_gap));
    let was_listed_until_due = not_before.is_some_and(|due| listed_until >= Some(due));
    // Also if the clock was set back afterwards.
    let is_listed_since = |due| last_listed.is_some_and(|last| last.wall >= due);
    let booted =
        event.rebooted && event.shown.event_type.restarts_vm() && event.scope == EventScope::Own;
    if event.started_at.is_some()
        || is_due && was_listed_until_due
        || booted
        || ran_after_approval(event, last_listed, now)
    {
        Outcome::Completed
    } else if was_watched
        && event.reported().status == Status::Scheduled
        && not_before.is_some_and(|due| now.wall < due && !is_listed_since(due))
        && !event.approval.may_be_approved()
    {
        Outcome::Cancelled
    } else {
        Outcome::Unknown
    }
}

/// Whether an event that was approved, and not seen as Started, ran. One that later documents still listed may have been
/// withdrawn, and so may one that left sooner than it can have run.
fn ran_after_approval(event: &TrackedEvent, last_listed: Option<Moment>, now: Moment) -> bool {
    let Some(approved_at) = event.approval.approved_at() else {
        return false;
    };
    let listed_at = last_listed.map(|last| event.time(last));
    let mut interruptions = event.interruptions.iter();
    let was_interrupted = interruptions.any(|it| Some(it.until) > listed_at);
    let is_next = listed_at <= Some(approved_at);
    let duration = event.shown.duration_seconds.map(Duration::from_secs);
    let has_run = event.since(approved_at, now) >= duration.unwrap_or(UNKNOWN_DURATION);
    was_interrupted || is_next && has_run
}

/// Whether the event can have restarted this VM, which last ran at `heartbeat_at` before a boot.
pub(super) fn explains_boot(event: &TrackedEvent, heartbeat_at: Timestamp) -> bool {
    let is_due = |due| heartbeat_at.after(MAX_DOWN_EARLY) >= due;
    event.started_at.is_some()
        || event.approval.may_be_approved()
        || event.shown.not_before.is_none_or(is_due)
}
