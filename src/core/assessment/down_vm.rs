//! When an event explains that its VM is down.

use std::time::Duration;

use crate::{
    azure::event::Source,
    base::time::Timestamp,
    core::lifecycle::{Phase, TrackedEvent},
};

/// Azure usually closes an event within ten minutes of its start.
pub(super) const STUCK_AFTER: Duration = Duration::from_mins(30);
/// An event explains that its VM is down from this long before `NotBefore`, and for as long after its end.
const MARGIN: Duration = Duration::from_mins(5);

/// From five minutes before its start, for half an hour after it, and for five minutes after its end. Not an event of a
/// user that has not started.
pub(super) fn explains_down_vm(tracked: &TrackedEvent, now: Timestamp) -> bool {
    let event = &tracked.event;
    let from = match tracked.started_at {
        Some(at) if tracked.phase() != Phase::Scheduled => Some(at),
        _ if event.source == Some(Source::User) => None,
        _ => {
            let announced = event.not_before.or(Some(tracked.first_seen_at));
            tracked.approval.last_step_at().or(announced)
        }
    };
    // An event that was cancelled before that time explains nothing.
    let at = tracked.end.map_or(now, |end| end.at.min(now));
    let has_begun = |from: Timestamp| from.seconds_from(at) <= MARGIN.as_secs_f64();
    let is_recent = |from: Timestamp| now.saturating_since(from) < STUCK_AFTER;
    let is_over = tracked
        .end
        .is_some_and(|end| now.saturating_since(end.at) >= MARGIN);
    from.is_some_and(|from| has_begun(from) && is_recent(from)) && !is_over
}
