//! The entry of one event in the tracker: how each document changes it.

use std::{sync::Arc, time::Duration};

use super::{
    Transition, TransitionKind,
    evidence::{Evidence, explains_boot, outcome},
    saved_state::SavedState,
    tracked_event::{
        End, FirstSight, Interruption, Outcome, Phase, Rescheduling, TrackedEvent, push_bounded,
    },
};
use crate::{
    azure::event::{Event, EventScope, Status, VmNames},
    base::time::{Moment, MonotonicTime, Timestamp},
    core::approval::ApprovalStep,
};

/// By how much the clocks of this VM and of Azure may differ.
const APPROVAL_MARGIN: Duration = Duration::from_secs(10);

/// A tracked event, and what only the tracker needs.
#[derive(Debug, Clone)]
pub(super) struct TrackerEntry {
    pub(super) tracked: Arc<TrackedEvent>,
    /// `NotBefore`.
    pub(super) due_at: Option<MonotonicTime>,
    /// When it ends if documents go on to lack it; `None` while an unreadable entry has its id.
    pub(super) kept_until: Option<MonotonicTime>,
}

impl TrackerEntry {
    pub(super) fn begin(
        event: &Event,
        scope: EventScope,
        first_sight: FirstSight,
        host: Option<&Arc<str>>,
        owner: Option<&Arc<str>>,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) -> Self {
        let mut tracked = TrackedEvent::begin(event.clone(), scope, now);
        tracked.owner = owner.cloned();
        let host = host.filter(|_| scope != EventScope::Other);
        tracked.physical_hosts = host.map(|host| [Arc::clone(host), Arc::clone(host)]);
        if is_started(event) {
            tracked.first_sight = first_sight;
        }
        let mut entry = Self {
            tracked: Arc::new(tracked),
            due_at: event.not_before.map(|due| due.on_monotonic_clock(now)),
            kept_until: None,
        };
        transitions.push(entry.transition(TransitionKind::Announced, now));
        if is_started(event) {
            transitions.push(entry.start(now));
        }
        entry
    }

    pub(super) fn restore(
        mut event: Arc<TrackedEvent>,
        saved: &SavedState,
        is_rebooted: bool,
        now: Moment,
    ) -> Self {
        if is_rebooted && event.is_pending() && explains_boot(&event, saved.heartbeat_at) {
            let tracked = Arc::make_mut(&mut event);
            tracked.rebooted = true;
            if tracked.shown.event_type.restarts_vm() {
                tracked.down_since.get_or_insert(saved.monotonic);
            }
        }
        if event.approval.sent_at().is_some() && !event.approval.is_approved() {
            let at = event.time(now);
            Arc::make_mut(&mut event)
                .approval
                .push(ApprovalStep::Lost, at);
        }
        let due = event.shown.not_before;
        Self {
            due_at: due.map(|due| due.on_monotonic_clock(now)),
            kept_until: None,
            tracked: event,
        }
    }

    /// Whether it is pending, or ended less than `retention` ago.
    pub(super) fn is_shown(&self, retention: Duration, now: Moment) -> bool {
        let ended_ago = self.tracked.end.map(|end| self.tracked.since(end.at, now));
        ended_ago.is_none_or(|ago| ago < retention)
    }

    /// What the last document says about the event. Without a transition.
    pub(super) fn set_reported(&mut self, event: &Event, is_contradicted: bool) {
        let tracked = &self.tracked;
        let reported = Some(event).filter(|event| **event != tracked.shown);
        if (tracked.reported.as_deref(), tracked.is_contradicted) != (reported, is_contradicted) {
            let reported = reported.cloned().map(Box::new);
            let tracked = self.tracked_mut();
            tracked.reported = reported;
            tracked.is_contradicted = is_contradicted;
        }
    }

    pub(super) fn tracked_mut(&mut self) -> &mut TrackedEvent {
        Arc::make_mut(&mut self.tracked)
    }

    pub(super) fn transition(&self, kind: TransitionKind, at: Moment) -> Transition {
        Transition {
            at,
            kind,
            tracked: Arc::clone(&self.tracked),
        }
    }

    fn start(&mut self, now: Moment) -> Transition {
        self.tracked_mut().started_at = Some(self.tracked.time(now));
        self.transition(TransitionKind::Started, now)
    }

    pub(super) fn end(&mut self, outcome: Outcome, now: Moment) -> Transition {
        let at = self.tracked.time(now);
        let tracked = self.tracked_mut();
        tracked.end = Some(End { at, outcome });
        let is_unseen = outcome == Outcome::Completed && tracked.started_at.is_none();
        let not_before = tracked.shown.not_before.filter(|_| is_unseen);
        tracked.ran_at = not_before.map(|due| at.before(now.wall.saturating_since(due)));
        tracked.changed_at = at;
        tracked.times_ended = tracked.times_ended.saturating_add(1);
        self.transition(TransitionKind::Ended(outcome), now)
    }

    pub(super) fn interrupt(
        &mut self,
        interruption: Interruption,
        now: Moment,
    ) -> Option<Transition> {
        let tracked = &self.tracked;
        let is_affected = tracked.is_maintenance_pending() && tracked.scope == EventScope::Own;
        if !is_affected || interruption.length < Interruption::MIN_LENGTH {
            return None;
        }
        let ended_ago = now.wall.saturating_since(interruption.until);
        let interruption = Interruption {
            until: tracked.time(now).before(ended_ago),
            ..interruption
        };
        let tracked = self.tracked_mut();
        tracked.longest_interruption = tracked.longest_interruption.max(Some(interruption.length));
        push_bounded(&mut tracked.interruptions, interruption);
        Some(self.transition(TransitionKind::Interrupted(interruption), now))
    }

    /// The physical host was read. What it was before the event stays, once the event may have moved this VM.
    pub(super) fn see_host(&mut self, host: &Arc<str>, is_listed: bool) {
        let tracked = &*self.tracked;
        let may_have_moved = tracked.phase() == Phase::Started
            || tracked.rebooted
            || !tracked.interruptions.is_empty()
            || tracked.missing_since.is_some()
            || !is_listed;
        let before = tracked.physical_hosts.as_ref().map(|[before, _]| before);
        let before = before.filter(|_| may_have_moved).unwrap_or(host);
        let hosts = Some([Arc::clone(before), Arc::clone(host)]);
        let is_concerned = tracked.is_pending() && tracked.scope != EventScope::Other;
        if is_concerned && hosts != tracked.physical_hosts {
            self.tracked_mut().physical_hosts = hosts;
        }
    }

    /// An ended event keeps its owner: nobody else is notified of it.
    pub(super) fn set_owner(&mut self, owner: Option<&Arc<str>>, now: Moment) {
        if self.tracked.is_pending() && self.tracked.owner.as_ref() != owner {
            let at = self.tracked.time(now);
            let tracked = self.tracked_mut();
            let was = std::mem::replace(&mut tracked.owner, owner.cloned());
            push_bounded(&mut tracked.former_owners, was);
            tracked.former_owners.retain(|it| it.as_ref() != owner);
            tracked.owner_changed_at = Some(at);
        }
    }

    /// The first document after a boot: the VM was interrupted until now, if the event is not Scheduled any more.
    pub(super) fn record_boot(&mut self, is_over: bool, now: Moment) -> Option<Transition> {
        self.tracked.down_since?;
        let down_since = self.tracked_mut().down_since.take()?;
        if !is_over {
            return None;
        }
        let (until, length) = (now.wall, now.monotonic - down_since);
        self.interrupt(Interruption { until, length }, now)
    }

    /// The event is in a document again.
    pub(super) fn update(
        &mut self,
        event: &Event,
        is_contradicted: bool,
        vm: VmNames<'_>,
        evidence: Evidence,
        at: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        self.kept_until = None;
        if self.tracked.is_contradicted != is_contradicted {
            self.tracked_mut().is_contradicted = is_contradicted;
        }
        let scope = event.scope(vm);
        let revised = event.with_missing_members_of(&self.tracked.shown);
        let is_other = self.tracked.shown.is_advisory() != revised.is_advisory();
        // A document that contradicts itself does not end the event.
        if is_other && !(self.tracked.is_contradicted && self.tracked.is_pending()) {
            return self.become_other(event, revised, scope, evidence, at, transitions);
        }
        if self.tracked.missing_since.is_some() || self.tracked.last_listed_at.is_some() {
            let tracked = self.tracked_mut();
            (tracked.last_listed_at, tracked.missing_since) = (None, None);
        }
        if is_other {
            return;
        }
        transitions.extend(self.come_back(at));
        let was_scope = self.tracked.scope;
        self.set_scope(scope, at);
        self.see_status(event, at);
        self.revise(event, revised, was_scope, at, transitions);
    }

    /// Another version of the event, in which undocumented members alone are no change: they may differ in each document.
    fn revise(
        &mut self,
        event: &Event,
        revised: Event,
        was_scope: EventScope,
        at: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        let was = &self.tracked.shown;
        let known = Event {
            unknown_members: was.unknown_members.clone(),
            is_duration_unknown: was.is_duration_unknown,
            ..revised.clone()
        };
        if known == *was {
            if revised != *was {
                self.tracked_mut().shown = revised;
            }
            return;
        }
        // Status and NotBefore have transitions of their own.
        let amended = Event {
            status: was.status.clone(),
            not_before: was.not_before,
            ..known
        };
        let is_amended = amended != *was;
        let is_brought_forward = self.is_brought_forward(event, at);
        let starts = is_started(&revised) && self.tracked.phase() != Phase::Started;
        let is_first_start = starts && self.tracked.started_at.is_none();
        let (was, rescheduling) = self.replace_shown(revised, at);
        let changes = [
            is_amended.then_some(TransitionKind::Amended { was_scope }),
            rescheduling.map(TransitionKind::Rescheduled),
        ];
        let changes = changes.into_iter().flatten();
        transitions.extend(changes.map(|kind| self.transition(kind, at)));
        if is_brought_forward {
            transitions.push(self.approved_by_evidence(at));
        }
        if is_first_start {
            transitions.push(self.start(at));
            return;
        }
        if starts {
            self.tracked_mut().started_at = Some(self.tracked.time(at));
        }
        if self.tracked.shown.status != was.status {
            let kind = TransitionKind::StatusChanged(was.status);
            transitions.push(self.transition(kind, at));
        }
    }

    /// Returns the former version, and the change of its `NotBefore`.
    fn replace_shown(&mut self, revised: Event, at: Moment) -> (Event, Option<Rescheduling>) {
        let now = self.tracked.time(at);
        let tracked = self.tracked_mut();
        tracked.was_imminent = tracked.has_been_imminent(at.wall);
        let is_urgent_restart = tracked.urgent_type.restarts_vm() && tracked.was_imminent;
        let was = std::mem::replace(&mut tracked.shown, revised);
        tracked.changed_at = now;
        tracked.times_changed = tracked.times_changed.saturating_add(1);
        tracked.record_former_kind(was.kind());
        if !is_urgent_restart {
            tracked.urgent_type = tracked.shown.event_type.clone();
        }
        let (from, to) = (was.not_before, tracked.shown.not_before);
        let to = to.filter(|to| from != Some(*to));
        let rescheduling = to.map(|to| Rescheduling { at: now, from, to });
        if let Some(rescheduling) = rescheduling {
            push_bounded(&mut tracked.reschedulings, rescheduling);
            self.due_at = Some(rescheduling.to.on_monotonic_clock(at));
        }
        (was, rescheduling)
    }

    /// Whether a document shows that the event was approved, by somebody else or by a request that had no answer: only an
    /// approval lets it start before its `NotBefore`
    /// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>). Both clocks must
    /// show that, since the wall clock may have been set back.
    fn is_brought_forward(&self, event: &Event, now: Moment) -> bool {
        let tracked = &self.tracked;
        let is_known_scheduled =
            tracked.phase() == Phase::Scheduled && tracked.shown.status == Status::Scheduled;
        if tracked.approval.is_approved()
            || !event.starts_early_if_approved()
            || !is_known_scheduled
            || tracked.is_contradicted
        {
            return false;
        }
        let about_now = now.after(APPROVAL_MARGIN);
        let is_later = |due: Option<Timestamp>| due.is_some_and(|due| due > about_now.wall);
        let is_before_its_time = is_later(tracked.shown.not_before)
            && self.due_at.is_some_and(|due| due > about_now.monotonic);
        let may_run = match event.status {
            Status::Started => true,
            Status::Scheduled => event.not_before.is_some() && !is_later(event.not_before),
            Status::Advisory | Status::Other(_) => false,
        };
        is_before_its_time && may_run
    }

    /// A document shows that the event was approved. A refused attempt of this exporter did not approve it; one without
    /// an answer did.
    fn approved_by_evidence(&mut self, now: Moment) -> Transition {
        let at = self.tracked.time(now);
        let approval = &mut self.tracked_mut().approval;
        let (kind, step) = if approval.sent_at().is_some() {
            (TransitionKind::Approved, ApprovalStep::Accepted)
        } else {
            (TransitionKind::ApprovedElsewhere, ApprovalStep::Elsewhere)
        };
        approval.push(step, at);
        self.transition(kind, now)
    }

    /// The event had ended, and a document has it again.
    fn come_back(&mut self, now: Moment) -> Option<Transition> {
        self.tracked.end?;
        let (at, was_scope) = (self.tracked.time(now), self.tracked.scope);
        let tracked = self.tracked_mut();
        tracked.changed_at = at;
        tracked.ran_at = None;
        tracked.previous_outcome = tracked.end.take().map(|end| end.outcome);
        Some(self.transition(TransitionKind::Returned { was_scope }, now))
    }

    pub(super) fn set_scope(&mut self, scope: EventScope, now: Moment) {
        let was = self.tracked.scope;
        let scope = was.revised(scope);
        if was != scope {
            let has_left = was == EventScope::Own && scope != EventScope::Own;
            let at = self.tracked.time(now);
            let tracked = self.tracked_mut();
            tracked.scope = scope;
            tracked.left_at = has_left.then_some(at);
        }
    }

    /// An event that is still Scheduled did not end with the last boot. Nor was it approved elsewhere if it starts later,
    /// but it was urgent.
    fn see_status(&mut self, event: &Event, now: Moment) {
        if event.status != Status::Scheduled {
            return;
        }
        if self.tracked.rebooted {
            self.tracked_mut().rebooted = false;
        }
        let about_now = now.after(APPROVAL_MARGIN).wall;
        let is_later = event.not_before.is_some_and(|due| due > about_now);
        if is_later && self.tracked.approval.at(&ApprovalStep::Elsewhere).is_some() {
            let tracked = self.tracked_mut();
            tracked.was_imminent = true;
            tracked.approval.disprove();
        }
    }

    /// The id of an advisory has become maintenance, or the reverse: the one ends and the other is announced.
    fn become_other(
        &mut self,
        event: &Event,
        revised: Event,
        scope: EventScope,
        evidence: Evidence,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        if self.tracked.is_pending() {
            let unwatched = Evidence {
                was_watched: false,
                ..evidence
            };
            let outcome = outcome(&self.tracked, unwatched, now);
            transitions.push(self.end(outcome, now));
        }
        let scope = self.tracked.scope.revised(scope);
        let other = Event {
            not_before: event.not_before,
            duration_seconds: event.duration_seconds,
            is_duration_unknown: event.is_duration_unknown,
            ..revised
        };
        let was = Arc::clone(&self.tracked);
        let host = was.physical_hosts.as_ref().map(|[_, last]| last);
        let sight = evidence.first_sight;
        let owner = was.owner.as_ref();
        *self = Self::begin(&other, scope, sight, host, owner, now, transitions);
        let tracked = self.tracked_mut();
        tracked.former_owners.clone_from(&was.former_owners);
        tracked.owner_changed_at = was.owner_changed_at;
        tracked.former_kinds.clone_from(&was.former_kinds);
        tracked.record_former_kind(was.shown.kind());
    }
}

/// An advisory never starts.
fn is_started(event: &Event) -> bool {
    event.status == Status::Started && !event.is_advisory()
}
