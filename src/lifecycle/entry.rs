//! The entry of one event in the tracker: how each document changes it.

use std::{sync::Arc, time::Duration};

use super::{
    tracked_event::{End, Interruption, Rescheduling, TrackedEvent},
    transition::{Transition, TransitionKind},
};
use crate::{
    event::{Event, EventScope, Status},
    time::{Moment, Timestamp},
};

/// A tracked event, and what only the tracker needs.
#[derive(Debug, Clone)]
pub(super) struct TrackerEntry {
    pub(super) tracked: Arc<TrackedEvent>,
    /// When an ended event is removed, by the monotonic clock.
    pub(super) expires_at: Duration,
    /// The last document lacked it, but had unreadable entries: it may be one of them.
    pub(super) maybe_unreadable: bool,
}

impl TrackerEntry {
    /// For an event that is in a document for the first time.
    pub(super) fn begin(
        event: &Event,
        vm_name: Option<&str>,
        seen_late: bool,
        now: Timestamp,
        transitions: &mut Vec<Transition>,
    ) -> Self {
        let tracked = TrackedEvent::begin(event.clone(), event.scope(vm_name), seen_late, now);
        let mut entry = Self {
            tracked: Arc::new(tracked),
            expires_at: Duration::ZERO,
            maybe_unreadable: false,
        };
        transitions.push(entry.transition(TransitionKind::Announced, now));
        if event.status == Status::Started {
            transitions.push(entry.start(now));
        }
        entry
    }

    pub(super) fn tracked_mut(&mut self) -> &mut TrackedEvent {
        Arc::make_mut(&mut self.tracked)
    }

    pub(super) fn transition(&self, kind: TransitionKind, at: Timestamp) -> Transition {
        Transition {
            at,
            kind,
            tracked: Arc::clone(&self.tracked),
        }
    }

    fn start(&mut self, now: Timestamp) -> Transition {
        self.tracked_mut().started_at = Some(now);
        self.transition(TransitionKind::Started, now)
    }

    pub(super) fn end(
        &mut self,
        now: Moment,
        retention: Duration,
        has_no_poll_gap: bool,
    ) -> Transition {
        self.expires_at = now.monotonic.saturating_add(retention);
        let outcome = self
            .tracked
            .outcome(now.wall, has_no_poll_gap && !self.maybe_unreadable);
        let tracked = self.tracked_mut();
        tracked.end = Some(End {
            at: now.wall,
            outcome,
        });
        tracked.times_ended = tracked.times_ended.saturating_add(1);
        if tracked.started_at.is_none() {
            tracked.times_ended_unstarted = tracked.times_ended;
        }
        self.transition(TransitionKind::Ended(outcome), now.wall)
    }

    pub(super) fn interrupt(
        &mut self,
        interruption: Interruption,
        now: Timestamp,
    ) -> Option<Transition> {
        if !self.tracked.is_pending() || self.tracked.scope != EventScope::Own {
            return None;
        }
        self.tracked_mut().interrupt(interruption);
        Some(self.transition(TransitionKind::Interrupted(interruption), now))
    }

    /// The first document after a boot: the VM was interrupted until now.
    pub(super) fn record_boot(&mut self, restored_at: Moment, now: Moment) -> Option<Transition> {
        self.tracked.down_since?;
        let down_since = self.tracked_mut().down_since.take()?;
        let before = restored_at.wall.saturating_since(down_since);
        let since = now.monotonic.saturating_sub(restored_at.monotonic);
        let interruption = Interruption {
            until: now.wall,
            length: before.saturating_add(since),
        };
        (interruption.length >= Interruption::MIN_LENGTH)
            .then(|| self.interrupt(interruption, now.wall))?
    }

    /// The event is in a document again.
    pub(super) fn update(
        &mut self,
        event: &Event,
        vm_name: Option<&str>,
        now: Timestamp,
        transitions: &mut Vec<Transition>,
    ) {
        self.maybe_unreadable = false;
        if !self.tracked.is_pending() {
            self.tracked_mut().end = None;
            transitions.push(self.transition(TransitionKind::Returned, now));
        }
        let is_same = {
            let known = &self.tracked.event;
            (event.not_before.is_none() || event.not_before == known.not_before)
                && event.status == known.status
                && is_rest_equal(known, event)
        };
        if is_same {
            return;
        }
        let was = self.tracked.event.clone();
        let was_scope = self.tracked.scope;
        let scope = event.scope(vm_name);
        let tracked = self.tracked_mut();
        tracked.event = Event {
            id: was.id.clone(),
            not_before: was.not_before,
            ..known_rest(&was, event)
        };
        tracked.scope = scope;
        if !is_rest_equal(&was, &self.tracked.event) {
            transitions.push(self.transition(TransitionKind::Amended { was_scope }, now));
        }
        if let Some(to) = event.not_before.filter(|to| was.not_before != Some(*to)) {
            let rescheduling = Rescheduling {
                at: now,
                from: was.not_before,
                to,
            };
            self.tracked_mut().reschedule(rescheduling);
            transitions.push(self.transition(TransitionKind::Rescheduled(rescheduling), now));
        }
        if event.status == Status::Started && self.tracked.started_at.is_none() {
            transitions.push(self.start(now));
        } else if event.status != was.status {
            transitions.push(self.transition(TransitionKind::StatusChanged(was.status), now));
        }
    }
}

/// The current values; members that the current document lacks keep their last values.
fn known_rest(was: &Event, now: &Event) -> Event {
    Event {
        resources: now.resources.clone().or_else(|| was.resources.clone()),
        source: now.source.clone().or_else(|| was.source.clone()),
        resource_type: now
            .resource_type
            .clone()
            .or_else(|| was.resource_type.clone()),
        description: now.description.clone().or_else(|| was.description.clone()),
        ..now.clone()
    }
}

/// Whether two versions of an event agree in all but status and `NotBefore`, which have transitions of their own.
fn is_rest_equal(was: &Event, now: &Event) -> bool {
    was.event_type == now.event_type
        && was.source == now.source
        && was.resource_type == now.resource_type
        && was.resources == now.resources
        && was.duration_seconds == now.duration_seconds
        && was.description == now.description
        && was.unknown_members == now.unknown_members
}
