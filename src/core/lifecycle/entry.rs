//! The entry of one event in the tracker: how each document changes it.

use std::{sync::Arc, time::Duration};

use super::{
    difference::{APPROVAL_MARGIN, Difference, StartChange, is_started, revise},
    evidence::{Disappearance, End, outcome},
    saved_state::SavedState,
    tracked_event::{FirstSight, Interruption, MissingMembers, TrackedEvent, Trust},
    transition::{Transition, TransitionKind},
};
use crate::{
    azure::event::{Event, EventScope, Source, Status, VmNames},
    base::time::{Moment, MonotonicTime, Timestamp},
};

/// A pending event that the last document lacked, which may not be its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absence {
    /// The first document without it.
    pub(super) since: MonotonicTime,
    /// How long it stays pending; `None` while an unreadable entry mentions its id.
    pub(super) until: Option<MonotonicTime>,
}

impl Absence {
    /// An unreadable entry without an id may be any event, but only for this long.
    pub(super) const MAX_UNIDENTIFIED: Duration = Duration::from_mins(1);

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now.monotonic)
    }
}

/// What is known about the time before the document with an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    /// How an event that is Started in it is first seen.
    pub(super) started: FirstSight,
    /// The end of an event whose id becomes another one.
    pub(super) disappearance: Disappearance,
}

/// A tracked event, and what only the tracker needs.
#[derive(Debug, Clone)]
pub(super) struct TrackerEntry {
    pub(super) tracked: Arc<TrackedEvent>,
    /// `NotBefore`.
    pub(super) due_at: Option<MonotonicTime>,
    /// Until when an ended event is shown.
    pub(super) shown_until: MonotonicTime,
    /// It has ended and is not shown any more.
    pub(super) is_past: bool,
    /// Restored from a state that may be another VM's: the identity of this VM is not known yet.
    pub(super) may_be_foreign: bool,
    pub(super) absence: Option<Absence>,
}

impl TrackerEntry {
    /// For an event that is in a document for the first time.
    pub(super) fn begin(
        event: &Event,
        scope: EventScope,
        sight: Sight,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) -> Self {
        let mut tracked = TrackedEvent::begin(event.clone(), scope, now.wall);
        if is_started(event) {
            tracked.first_sight = sight.started;
        }
        let mut entry = Self {
            tracked: Arc::new(tracked),
            due_at: event.not_before.map(|due| due.on_monotonic_clock(now)),
            shown_until: MonotonicTime::default(),
            is_past: false,
            may_be_foreign: false,
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
        let was_pending = event.is_pending();
        let tracked = Arc::make_mut(&mut event);
        if is_rebooted && was_pending {
            tracked.rebooted = true;
            if tracked.event.event_type.restarts_vm() {
                tracked.down_since.get_or_insert(saved.heartbeat_at);
            }
        }
        let due = event.event.not_before;
        let mut entry = Self {
            due_at: due.map(|due| due.on_monotonic_clock(now)),
            shown_until: now.monotonic,
            is_past: false,
            may_be_foreign: saved.owner().is_some(),
            absence: None,
            tracked: event,
        };
        let ended_ago = entry.ended_ago(now.wall);
        entry.shown_until = now.monotonic + retention.saturating_sub(ended_ago);
        entry.is_past = ended_ago >= retention;
        entry
    }

    /// By the wall clock; zero for a pending event.
    pub(super) fn ended_ago(&self, now: Timestamp) -> Duration {
        let end = self.tracked.end;
        end.map_or(Duration::ZERO, |end| now.saturating_since(end.at))
    }

    /// What the last document says about the event beside its values. Without a transition of its own.
    pub(super) fn set_reported(&mut self, missing: MissingMembers, contradicts_itself: bool) {
        let tracked = &self.tracked;
        let trust = Trust {
            contradicts_itself,
            lost_user_source: missing.source && tracked.event.source == Some(Source::User),
            ..tracked.trust
        };
        if (tracked.missing, tracked.trust) != (missing, trust) {
            let tracked = self.tracked_mut();
            tracked.missing = missing;
            tracked.trust = trust;
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
        self.shown_until = now.monotonic + retention;
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
        self.transition(TransitionKind::Ended(outcome), now.wall)
    }

    pub(super) fn interrupt(
        &mut self,
        interruption: Interruption,
        now: Timestamp,
    ) -> Option<Transition> {
        let tracked = &self.tracked;
        let is_affected = tracked.is_maintenance_pending() && tracked.scope == EventScope::Own;
        if !is_affected || interruption.length < Interruption::MIN_LENGTH {
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
        let since = now.monotonic - restored_at.monotonic;
        let (until, length) = (now.wall, before.saturating_add(since));
        self.interrupt(Interruption { until, length }, until)
    }

    /// The event is in a document again.
    pub(super) fn update(
        &mut self,
        event: &Event,
        vm: VmNames<'_>,
        sight: Sight,
        at: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        self.absence = None;
        let scope = event.scope(vm);
        let revised = revise(&self.tracked.event, event);
        let is_other = self.tracked.event.is_advisory() != revised.is_advisory();
        // A document that contradicts itself does not end the event.
        if is_other && (self.tracked.trust.in_last_document() || !self.tracked.is_pending()) {
            return self.become_other(&revised, scope, sight, at, transitions);
        }
        if self.tracked.last_listed_at.is_some() {
            self.tracked_mut().last_listed_at = None;
        }
        if is_other {
            return;
        }
        let now = at.wall;
        transitions.extend(self.come_back(now));
        let was_scope = self.tracked.scope;
        self.set_scope(scope, now);
        self.see_status(event, at);
        let difference = Difference::between(&self.tracked, event, revised, self.due_at, at);
        if let Some(difference) = difference {
            self.apply(difference, was_scope, at, transitions);
        }
    }

    fn apply(
        &mut self,
        difference: Difference,
        was_scope: EventScope,
        at: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        let now = at.wall;
        let tracked = self.tracked_mut();
        tracked.was_imminent = tracked.has_been_imminent(now);
        let is_urgent_restart = tracked.urgent_type.restarts_vm() && tracked.was_imminent;
        let was = std::mem::replace(&mut tracked.event, difference.event);
        tracked.trust.changed_kind |= difference.is_other_kind;
        tracked.changed_at = now;
        tracked.times_changed = tracked.times_changed.saturating_add(1);
        tracked.record_former_kind(was.kind());
        if !is_urgent_restart {
            tracked.urgent_type = tracked.event.event_type.clone();
        }
        if let Some(rescheduling) = difference.rescheduling {
            tracked.reschedule(rescheduling);
            self.due_at = Some(rescheduling.to.on_monotonic_clock(at));
        }
        if difference.is_amended {
            transitions.push(self.transition(TransitionKind::Amended { was_scope }, now));
        }
        if let Some(rescheduling) = difference.rescheduling {
            transitions.push(self.transition(TransitionKind::Rescheduled(rescheduling), now));
        }
        if difference.is_brought_forward {
            transitions.push(self.approved_by_evidence(now));
        }
        match difference.start {
            StartChange::None => {}
            StartChange::First => transitions.push(self.start(now)),
            StartChange::Again => self.tracked_mut().started_at = Some(now),
        }
        if let Some(was) = difference.former_status {
            transitions.push(self.transition(TransitionKind::StatusChanged(was), now));
        }
    }

    /// A document shows that the event was approved. A refused attempt of this exporter did not approve it; one without
    /// an answer did.
    fn approved_by_evidence(&mut self, now: Timestamp) -> Transition {
        let approval = &mut self.tracked_mut().approval;
        let kind = if approval.sent_at.is_some() {
            approval.accept(now);
            TransitionKind::Approved
        } else {
            approval.elsewhere_at = Some(now);
            TransitionKind::ApprovedElsewhere
        };
        self.transition(kind, now)
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
    fn see_status(&mut self, event: &Event, now: Moment) {
        if event.status != Status::Scheduled {
            return;
        }
        let about_now = now.after(APPROVAL_MARGIN).wall;
        if self.tracked.rebooted {
            self.tracked_mut().rebooted = false;
        }
        self.see_scheduled(event.not_before.is_some_and(|due| due > about_now));
    }

    /// The last document still holds (304).
    pub(super) fn see_again(&mut self) {
        let tracked = &self.tracked;
        // After a restart, only the record says that the last document lacked it.
        let is_listed =
            tracked.is_pending() && self.absence.is_none() && tracked.last_listed_at.is_none();
        if is_listed && tracked.event.status == Status::Scheduled {
            self.see_scheduled(false);
        }
    }

    /// An approval that turns out to have had no effect was urgent all the same.
    fn see_scheduled(&mut self, is_later: bool) {
        let mut approval = self.tracked.approval;
        approval.see_scheduled(is_later);
        if approval != self.tracked.approval {
            let tracked = self.tracked_mut();
            tracked.was_imminent |= tracked.approval.is_approved();
            tracked.approval = approval;
        }
    }

    /// The id of an advisory has become maintenance, or the reverse. The one ends and the other is announced: notice,
    /// counters, spans and alerts are those of a new event.
    fn become_other(
        &mut self,
        event: &Event,
        scope: EventScope,
        sight: Sight,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        if self.tracked.is_pending() {
            transitions.push(self.end(sight.disappearance, Duration::ZERO, now));
        }
        let scope = self.tracked.scope.revised(scope);
        // The NotBefore of the advisory is not that of the maintenance.
        let missing = MissingMembers {
            not_before: false,
            ..self.tracked.missing
        };
        let was = Arc::clone(&self.tracked);
        let may_be_foreign = self.may_be_foreign;
        *self = Self::begin(event, scope, sight, now, transitions);
        self.may_be_foreign = may_be_foreign;
        let tracked = self.tracked_mut();
        tracked.former_kinds.clone_from(&was.former_kinds);
        tracked.record_former_kind(was.event.kind());
        tracked.missing = missing;
        tracked.trust = Trust {
            changed_kind: false,
            ..was.trust
        };
    }
}
