//! The entry of one event in the tracker: how each document changes it.

use std::{sync::Arc, time::Duration};

use super::{
    absence::Absence,
    evidence::{Disappearance, outcome},
    outcome::End,
    revision::{is_other_kind, is_rest_equal, is_started, revise},
    saved_state::SavedState,
    tracked_event::{Interruption, MissingMembers, Phase, PollGap, Rescheduling, TrackedEvent},
    transition::{Transition, TransitionKind},
};
use crate::{
    azure::event::{Event, EventScope, EventType, Impact, Status, VmNames},
    base::time::{Moment, Timestamp},
};

/// An event that starts by less than this before its `NotBefore` is not taken for approved: the clocks of this VM and
/// of Azure differ.
const APPROVAL_MARGIN: Duration = Duration::from_secs(10);

/// A tracked event, and what only the tracker needs.
#[derive(Debug, Clone)]
pub(super) struct TrackerEntry {
    pub(super) tracked: Arc<TrackedEvent>,
    /// `NotBefore` on the monotonic clock.
    pub(super) due_at: Option<Duration>,
    /// When an ended event is removed, by the monotonic clock.
    pub(super) expires_at: Duration,
    /// The last document lacked it, which may not be its end.
    pub(super) absence: Option<Absence>,
}

impl TrackerEntry {
    /// For an event that is in a document for the first time.
    pub(super) fn begin(
        event: &Event,
        scope: EventScope,
        gap: PollGap,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) -> Self {
        let tracked = TrackedEvent::begin(event.clone(), scope, gap, now.wall);
        let mut entry = Self {
            tracked: Arc::new(tracked),
            due_at: event.not_before.map(|due| due.on_monotonic_clock(now)),
            expires_at: Duration::ZERO,
            absence: None,
        };
        transitions.push(entry.transition(TransitionKind::Announced, now.wall));
        if is_started(event) {
            transitions.push(entry.start(now.wall));
        }
        entry
    }

    /// An event of an earlier process.
    pub(super) fn restore(
        mut event: Arc<TrackedEvent>,
        saved: &SavedState,
        is_rebooted: bool,
        retention: Duration,
        now: Moment,
    ) -> Self {
        let ended_ago = event
            .end
            .map_or(Duration::ZERO, |end| now.wall.saturating_since(end.at));
        let was_pending = event.is_pending();
        let tracked = Arc::make_mut(&mut event);
        if is_rebooted && was_pending {
            tracked.rebooted = true;
            if tracked.event.event_type.restarts_vm() {
                tracked.down_since.get_or_insert(saved.heartbeat_at);
            }
        }
        tracked.is_owner_unknown = saved.owner().is_some();
        let due = event.event.not_before;
        Self {
            due_at: due.map(|due| due.on_monotonic_clock(now)),
            expires_at: now
                .monotonic
                .saturating_add(retention.saturating_sub(ended_ago)),
            absence: None,
            tracked: event,
        }
    }

    /// What the last document says about the event beside its values. Without a transition of its own.
    pub(super) fn set_reported(&mut self, missing: MissingMembers, is_contradictory: bool) {
        if (self.tracked.missing, self.tracked.is_contradictory) != (missing, is_contradictory) {
            let tracked = self.tracked_mut();
            tracked.missing = missing;
            tracked.is_contradictory = is_contradictory;
        }
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

    /// An event that was missing before it ended may have started meanwhile.
    pub(super) fn end(
        &mut self,
        mut disappearance: Disappearance,
        retention: Duration,
        now: Moment,
    ) -> Transition {
        self.expires_at = now.monotonic.saturating_add(retention);
        if let Some(at) = self.tracked.last_listed_at {
            disappearance.last_listed_at = Some(at);
            disappearance.was_watched = false;
        }
        let outcome = outcome(&self.tracked, disappearance);
        let tracked = self.tracked_mut();
        tracked.end = Some(End {
            at: now.wall,
            outcome,
        });
        tracked.changed_at = now.wall;
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
        if !self.tracked.is_maintenance_pending() || self.tracked.scope != EventScope::Own {
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
        let (until, length) = (now.wall, before.saturating_add(since));
        let interruption = Interruption { until, length };
        (interruption.length >= Interruption::MIN_LENGTH)
            .then(|| self.interrupt(interruption, now.wall))?
    }

    /// The event is in a document again.
    pub(super) fn update(
        &mut self,
        event: &Event,
        vm: VmNames<'_>,
        gap: PollGap,
        at: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        self.absence = None;
        if self.tracked.last_listed_at.is_some() {
            self.tracked_mut().last_listed_at = None;
        }
        let scope = event.scope(vm);
        let revised = revise(&self.tracked.event, event);
        if self.tracked.event.is_advisory() && !revised.is_advisory() {
            return self.become_maintenance(&revised, scope, gap, at, transitions);
        }
        let now = at.wall;
        transitions.extend(self.come_back(now));
        let was_scope = self.tracked.scope;
        self.set_scope(scope, now);
        self.discard_disproved_evidence(event, at);
        let was = &self.tracked.event;
        let revised = Event {
            not_before: was.not_before,
            ..revised
        };
        let to = event.not_before.filter(|to| was.not_before != Some(*to));
        if revised == *was && to.is_none() {
            return;
        }
        let is_approved_elsewhere = self.is_approved_elsewhere(event, at);
        let tracked = self.tracked_mut();
        let is_urgent_restart = tracked.urgent_type.restarts_vm() && tracked.has_been_imminent(now);
        let was = std::mem::replace(&mut tracked.event, revised);
        tracked.has_changed_kind |= is_other_kind(&was, event);
        tracked.changed_at = now;
        tracked.times_changed = tracked.times_changed.saturating_add(1);
        tracked.record_former_kind(was.kind());
        if !is_urgent_restart {
            tracked.urgent_type = tracked.event.event_type.clone();
        }
        if !is_rest_equal(&was, &self.tracked.event) {
            transitions.push(self.transition(TransitionKind::Amended { was_scope }, now));
        }
        if let Some(to) = to {
            let rescheduling = Rescheduling {
                at: now,
                from: was.not_before,
                to,
            };
            self.due_at = Some(to.on_monotonic_clock(at));
            self.tracked_mut().reschedule(rescheduling);
            transitions.push(self.transition(TransitionKind::Rescheduled(rescheduling), now));
        }
        if is_approved_elsewhere {
            self.tracked_mut().approved_elsewhere_at = Some(now);
            transitions.push(self.transition(TransitionKind::ApprovedElsewhere, now));
        }
        if is_started(&self.tracked.event) && self.tracked.started_at.is_none() {
            transitions.push(self.start(now));
        } else if event.status != was.status {
            transitions.push(self.transition(TransitionKind::StatusChanged(was.status), now));
        }
    }

    /// The event had ended, and a document has it again.
    fn come_back(&mut self, now: Timestamp) -> Option<Transition> {
        self.tracked.end?;
        let tracked = self.tracked_mut();
        tracked.changed_at = now;
        tracked.previous_outcome = tracked.end.take().map(|end| end.outcome);
        Some(self.transition(TransitionKind::Returned, now))
    }

    /// Sets the scope by the names of VMs that are known now.
    pub(super) fn set_scope(&mut self, scope: EventScope, now: Timestamp) {
        let was = self.tracked.scope;
        let scope = was.revised(scope);
        if was != scope {
            let has_left = was == EventScope::Own && scope != EventScope::Own;
            let tracked = self.tracked_mut();
            tracked.scope = scope;
            tracked.left_at = has_left.then_some(now);
        }
    }

    /// An event that is still Scheduled did not end with the last boot. Nor was it approved if it starts later.
    fn discard_disproved_evidence(&mut self, event: &Event, now: Moment) {
        if event.status != Status::Scheduled {
            return;
        }
        let about_now = now.after(APPROVAL_MARGIN).wall;
        let is_later = event.not_before.is_some_and(|due| due > about_now);
        let was_approved = self.tracked.approved_elsewhere_at.is_some();
        if self.tracked.rebooted || is_later && was_approved {
            let tracked = self.tracked_mut();
            tracked.rebooted = false;
            tracked.approved_elsewhere_at = tracked.approved_elsewhere_at.filter(|_| !is_later);
        }
    }

    /// The id of an advisory has become maintenance. The advisory ends, and the maintenance is announced: its notice,
    /// counters, spans and alerts are those of a new event.
    fn become_maintenance(
        &mut self,
        event: &Event,
        scope: EventScope,
        gap: PollGap,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        if self.tracked.is_pending() {
            transitions.push(self.end(Disappearance::unobserved(now.wall), Duration::ZERO, now));
        }
        let scope = self.tracked.scope.revised(scope);
        let (mut missing, is_contradictory) = (self.tracked.missing, self.tracked.is_contradictory);
        // The NotBefore of the advisory is not that of the maintenance.
        missing.not_before = false;
        let was = Arc::clone(&self.tracked);
        *self = Self::begin(event, scope, gap, now, transitions);
        let tracked = self.tracked_mut();
        tracked.former_kinds.clone_from(&was.former_kinds);
        tracked.record_former_kind(was.event.kind());
        self.set_reported(missing, is_contradictory);
    }

    /// Whether the new version of a scheduled event shows that it was approved, although this exporter sent no
    /// approval.
    ///
    /// An event is guaranteed not to start before `NotBefore` unless it is approved earlier
    /// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>). So it was
    /// approved where it has started, or may start about now, before the `NotBefore` that was announced last. Both
    /// clocks must show that: the wall clock may have been set back. A Spot eviction is not approved but carried out,
    /// with a best-effort notice.
    fn is_approved_elsewhere(&self, event: &Event, now: Moment) -> bool {
        let tracked = &self.tracked;
        // A refused attempt did not approve it.
        let is_ours = tracked.approval_sent_at.is_some() || tracked.approved_at.is_some();
        let is_approvable = event.event_type != EventType::Preempt
            && matches!(
                event.impact(),
                Impact::Pause | Impact::Restart | Impact::Removal
            );
        let is_known_scheduled =
            tracked.phase() == Phase::Scheduled && tracked.event.status == Status::Scheduled;
        if is_ours
            || !is_approvable
            || !is_known_scheduled
            || tracked.is_contradictory
            || tracked.approved_elsewhere_at.is_some()
        {
            return false;
        }
        let about_now = now.after(APPROVAL_MARGIN);
        let is_before_its_time = tracked
            .event
            .not_before
            .is_some_and(|due| due > about_now.wall)
            && self.due_at.is_some_and(|due| due > about_now.monotonic);
        let may_run = match event.status {
            Status::Started => true,
            Status::Scheduled => event.not_before.is_some_and(|due| due <= about_now.wall),
            Status::Advisory | Status::Other(_) => false,
        };
        is_before_its_time && may_run
    }
}
