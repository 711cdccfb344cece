//! When an event explains that its VM is down.

use std::time::Duration;

use crate::{
    azure::event::Source,
    base::time::Moment,
    core::lifecycle::{Phase, TrackedEvent},
};

/// Azure usually closes an event within ten minutes of its start.
pub(super) const STUCK_AFTER: Duration = Duration::from_mins(30);
/// An event explains that its VM is down from this long before `NotBefore`, and for as long after its end.
const MARGIN: Duration = Duration::from_mins(5);

/// From five minutes before its start, for half an hour after it, and for five minutes after its end. Not an event of a
/// user that has not started.
pub(super) fn explains_down_vm(tracked: &TrackedEvent, now: Moment) -> bool {
    let event = &tracked.shown;
    let seen_at = match tracked.started_at {
        Some(at) if tracked.phase() != Phase::Scheduled => Some(at),
        _ if event.source == Some(Source::User) => return false,
        _ => tracked.approval.last_step_at(),
    };
    // `NotBefore` is a time of Azure's clock, the others are times of the event.
    let (from, now_at) = match (seen_at, event.not_before) {
        (None, Some(not_before)) => (not_before, now.wall),
        (seen_at, _) => (seen_at.unwrap_or(tracked.first_seen_at), tracked.time(now)),
    };
    // An event that was cancelled before that time explains nothing.
    let at = tracked.end.map_or(now_at, |end| end.at.min(now_at));
    let has_begun = from.seconds_from(at) <= MARGIN.as_secs_f64();
    let is_recent = now_at.saturating_since(from) < STUCK_AFTER;
    let is_over = tracked
        .end
        .is_some_and(|end| tracked.since(end.at, now) >= MARGIN);
    has_begun && is_recent && !is_over
}
