//! What a document changes about an event that is known.

use std::time::Duration;

use super::tracked_event::{Phase, Rescheduling, TrackedEvent};
use crate::{
    azure::event::{Event, Status},
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
    /// `None` if nothing differs but undocumented members, which may differ in each document.
    pub(super) fn between(
        tracked: &TrackedEvent,
        event: &Event,
        revised: Event,
        due_at: Option<MonotonicTime>,
        now: Moment,
    ) -> Option<Self> {
        let was = &tracked.shown;
        let known = Event {
            unknown_members: was.unknown_members.clone(),
            is_duration_unknown: was.is_duration_unknown,
            ..revised.clone()
        };
        if known == *was {
            return None;
        }
        let to = revised.not_before.filter(|to| was.not_before != Some(*to));
        let rescheduling = to.map(|to| Rescheduling {
            at: tracked.time(now),
            from: was.not_before,
            to,
        });
        // Status and NotBefore have transitions of their own.
        let amended = Event {
            status: was.status.clone(),
            not_before: was.not_before,
            ..known
        };
        let is_other_start = is_started(&revised) && tracked.phase() != Phase::Started;
        let start = match tracked.started_at {
            None if is_other_start => StartChange::First,
            Some(_) if is_other_start => StartChange::Again,
            _ => StartChange::None,
        };
        let has_status_change = start != StartChange::First && revised.status != was.status;
        Some(Self {
            rescheduling,
            is_amended: *was != amended,
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
        tracked.phase() == Phase::Scheduled && tracked.shown.status == Status::Scheduled;
    if approval.is_approved()
        || !event.starts_early_if_approved()
        || !is_known_scheduled
        || tracked.is_contradicted
    {
        return false;
    }
    let about_now = now.after(APPROVAL_MARGIN);
    let is_later = |due: Option<Timestamp>| due.is_some_and(|due| due > about_now.wall);
    let is_before_its_time =
        is_later(tracked.shown.not_before) && due_at.is_some_and(|due| due > about_now.monotonic);
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
