//! What a document changes about an event that is known.

use std::time::Duration;

use super::tracked_event::{Phase, Rescheduling, TrackedEvent};
use crate::{
    azure::event::{Event, Status, UNREADABLE},
    base::time::{Moment, MonotonicTime, Timestamp},
};

/// An event that starts by less than this before its `NotBefore` is not taken for approved: the clocks of this VM and
/// of Azure differ.
pub(super) const APPROVAL_MARGIN: Duration = Duration::from_secs(10);

/// The difference between a tracked event and its entry in a document.
#[derive(Debug)]
pub(super) struct Difference {
    /// The event as it is now.
    pub(super) event: Event,
    pub(super) rescheduling: Option<Rescheduling>,
    /// Its type, resources, duration, description or source differs.
    pub(super) is_amended: bool,
    pub(super) is_other_kind: bool,
    pub(super) is_brought_forward: bool,
    pub(super) start: StartChange,
    /// The former status, where it is another one and this is not the first start.
    pub(super) former_status: Option<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartChange {
    None,
    First,
    /// It was Started, then Scheduled, and is Started again.
    Again,
}

impl Difference {
    /// `revised` is `event` with the members that it lacks; `due_at` is the known `NotBefore` on the monotonic clock.
    /// `None` if nothing differs.
    pub(super) fn between(
        tracked: &TrackedEvent,
        event: &Event,
        revised: Event,
        due_at: Option<MonotonicTime>,
        now: Moment,
    ) -> Option<Self> {
        let was = &tracked.event;
        let to = event.not_before.filter(|to| was.not_before != Some(*to));
        let rescheduling = to.map(|to| Rescheduling {
            at: now.wall,
            from: was.not_before,
            to,
        });
        let revised = Event {
            not_before: to.or(was.not_before),
            ..revised
        };
        if revised == *was {
            return None;
        }
        // Status and NotBefore have transitions of their own.
        let amended = Event {
            status: was.status.clone(),
            not_before: was.not_before,
            ..revised.clone()
        };
        let is_other_source =
            matches!((&was.source, &event.source), (Some(was), Some(now)) if was != now);
        let start = match tracked.started_at {
            _ if !is_started(&revised) => StartChange::None,
            None => StartChange::First,
            Some(_) if tracked.phase() == Phase::Scheduled => StartChange::Again,
            Some(_) => StartChange::None,
        };
        let has_status_change = start != StartChange::First && event.status != was.status;
        Some(Self {
            rescheduling,
            is_amended: *was != amended,
            is_other_kind: was.event_type != event.event_type || is_other_source,
            is_brought_forward: is_brought_forward(tracked, event, due_at, now),
            start,
            former_status: has_status_change.then(|| was.status.clone()),
            event: revised,
        })
    }
}

/// Whether the new version of a scheduled event shows that it was approved, which this exporter did not know: by
/// somebody else, or by an approval of this exporter that had no answer.
///
/// An event is guaranteed not to start before `NotBefore` unless it is approved earlier
/// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>). So it was approved
/// where it has started, or may start about now, before the `NotBefore` that was announced last. Both clocks must show
/// that: the wall clock may have been set back. A Spot eviction is not approved but carried out, with a best-effort
/// notice.
fn is_brought_forward(
    tracked: &TrackedEvent,
    event: &Event,
    due_at: Option<MonotonicTime>,
    now: Moment,
) -> bool {
    let approval = &tracked.approval;
    let is_known_scheduled =
        tracked.phase() == Phase::Scheduled && tracked.event.status == Status::Scheduled;
    if approval.is_approved()
        || !event.starts_early_if_approved()
        || !is_known_scheduled
        || !tracked.trust.in_last_document()
    {
        return false;
    }
    let about_now = now.after(APPROVAL_MARGIN);
    let is_later = |due: Option<Timestamp>| due.is_some_and(|due| due > about_now.wall);
    let is_before_its_time =
        is_later(tracked.event.not_before) && due_at.is_some_and(|due| due > about_now.monotonic);
    let may_run = match event.status {
        Status::Started => true,
        Status::Scheduled => event.not_before.is_some() && !is_later(event.not_before),
        Status::Advisory | Status::Other(_) => false,
    };
    is_before_its_time && may_run
}

/// An advisory never starts.
pub(super) fn is_started(event: &Event) -> bool {
    event.status == Status::Started && !event.is_advisory()
}

/// The current values; members that the current document lacks keep their last values, and are listed in
/// `MissingMembers`. `not_before` is that of the current document.
pub(super) fn revise(was: &Event, now: &Event) -> Event {
    let named = if now.resources.is_some() { now } else { was };
    let is_type_known = now.event_type.as_str() != UNREADABLE;
    let described = if now.description_text().is_none() && was.description.is_some() {
        was
    } else {
        now
    };
    let resource_type = now.resource_type.as_ref().or(was.resource_type.as_ref());
    Event {
        id: was.id.clone(),
        event_type: if is_type_known { now } else { was }.event_type.clone(),
        resources: named.resources.clone(),
        has_more_resources: named.has_more_resources,
        source: now.source.as_ref().or(was.source.as_ref()).cloned(),
        resource_type: resource_type.cloned(),
        description: described.description.clone(),
        ..now.clone()
    }
}
