//! The tracked events, and how documents change them.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    PAST_RETENTION,
    entry::{Absence, Sight, TrackerEntry},
    evidence::Disappearance,
    limits,
    poll_state::{PollState, WarmUp},
    saved_state::SavedState,
    tracked_event::{FirstSight, Interruption, MissingMembers, TrackedEvent},
    transition::{Transition, TransitionKind},
};
use crate::{
    azure::{
        document::{Anomalies, AnomalyKind, Document, excerpt},
        event::{Event, EventId, EventScope, Source, VmNames},
    },
    base::time::{Moment, Timestamp},
    core::approval::ApprovalRecord,
};

#[derive(Debug, Clone)]
pub struct Tracker {
    /// How long ended events are shown.
    retention: Duration,
    pub poll: PollState,
    anomalies: Anomalies,
    /// Also those of this VM that are not shown any more, for [`PAST_RETENTION`].
    entries: BTreeMap<EventId, TrackerEntry>,
    /// When the state of an earlier process was restored.
    restored_at: Option<Moment>,
    /// This VM was interrupted since the last document, which may hide a start.
    was_interrupted: bool,
}

impl Tracker {
    /// An empty tracker that shows ended events for `retention`.
    pub fn new(retention: Duration) -> Self {
        Self {
            retention,
            poll: PollState::default(),
            anomalies: Anomalies::default(),
            entries: BTreeMap::new(),
            restored_at: None,
            was_interrupted: false,
        }
    }

    /// Continues from an earlier process. For a VM that was booted since, the time from the last heartbeat to the first
    /// document after the boot is the interruption by a Reboot or Redeploy. Until now it is known by the wall clock
    /// alone, because no other clock continues over a boot; from now on it is measured by the monotonic clock, so that
    /// a correction of the wall clock after the boot does not count.
    pub(crate) fn restore(
        retention: Duration,
        mut saved: SavedState,
        is_rebooted: bool,
        now: Moment,
    ) -> Self {
        let events = std::mem::take(&mut saved.events);
        let entries = events
            .into_iter()
            .map(|event| TrackerEntry::restore(event, &saved, is_rebooted, retention, now))
            .map(|entry| (entry.tracked.event.id.clone(), entry));
        Self {
            entries: entries.collect(),
            restored_at: Some(now),
            ..Self::new(retention)
        }
    }

    /// Applies a document. Only this announces, changes and ends events.
    pub fn observe<'a>(
        &mut self,
        document: &Document,
        vm: impl Into<VmNames<'a>>,
        now: Moment,
    ) -> Vec<Transition> {
        let vm = vm.into();
        let disappearance = self.disappearance(now);
        let sight = Sight {
            started: self.first_sight_of_started(document, now),
            disappearance: Disappearance {
                was_watched: false,
                ..disappearance
            },
        };
        let mut transitions = Vec::new();
        let restored_at = self.restored_at.unwrap_or(now);
        transitions.extend(
            self.entries
                .values_mut()
                .filter_map(|entry| entry.record_boot(restored_at, now)),
        );
        self.anomalies = Anomalies::default();
        let present: HashSet<_> = document.events.iter().map(|event| &event.id).collect();
        for event in &document.events {
            let is_contradictory = document.contradictory.contains(&event.id);
            let known = self.entries.get_mut(&event.id);
            if let Some(entry) = known.filter(|entry| !entry.is_past) {
                let missing = MissingMembers::between(&entry.tracked.event, event);
                entry.set_reported(missing, is_contradictory);
                entry.update(event, vm, sight, now, &mut transitions);
                if missing.source && entry.tracked.event.source == Some(Source::User) {
                    let id = excerpt(event.id.as_str());
                    let detail = format!("event {id}: its EventSource was User and is missing");
                    self.anomalies.add(AnomalyKind::Contradiction, detail);
                }
            } else {
                let scope = event.scope(vm);
                let sight = self.sight_of_new(event, sight, &present);
                let mut new = TrackerEntry::begin(event, scope, sight, now, &mut transitions);
                new.set_reported(MissingMembers::default(), is_contradictory);
                self.entries.insert(event.id.clone(), new);
            }
        }
        self.end_absent(document, &present, disappearance, now, &mut transitions);
        self.limit_pending(present.len(), now, &mut transitions);
        self.poll.read(document, now);
        self.was_interrupted = false;
        self.expire_ended(now);
        transitions
    }

    /// How an event is first seen that is Started in this document. No document can have been missed if the last one is
    /// recent, and `DocumentIncarnation`, which rises with each change, rose by at most one.
    fn first_sight_of_started(&self, document: &Document, now: Moment) -> FirstSight {
        if !self.poll.is_watched(now) {
            return FirstSight::StartUnseen;
        }
        let rise = self.poll.last_incarnation.zip(document.incarnation);
        match rise.and_then(|(was, is)| is.checked_sub(was)) {
            Some(0 | 1) => FirstSight::StartedUnannounced,
            _ => FirstSight::Started,
        }
    }

    /// An event may be the continuation of one of its type that is gone: Microsoft's mock server gives it another id when
    /// it starts.
    fn sight_of_new(&self, event: &Event, sight: Sight, present: &HashSet<&EventId>) -> Sight {
        let is_continued = |(id, entry): (&EventId, &TrackerEntry)| {
            let was = &entry.tracked;
            was.is_pending() && was.event.event_type == event.event_type && !present.contains(id)
        };
        match sight.started {
            FirstSight::StartedUnannounced if self.entries.iter().any(is_continued) => Sight {
                started: FirstSight::Started,
                ..sight
            },
            _ => sight,
        }
    }

    /// Ends the events that the document lacks, unless something speaks against it.
    fn end_absent(
        &mut self,
        document: &Document,
        present: &HashSet<&EventId>,
        mut disappearance: Disappearance,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        let is_absent = |entry: &TrackerEntry| {
            entry.tracked.is_pending() && !present.contains(&entry.tracked.event.id)
        };
        let absent = self.entries.iter().filter(|(_, entry)| is_absent(entry));
        let mentioned = document.unreadable.mentioned(absent.map(|(id, _)| id));
        let may_hide_any = document.unreadable.has_unidentified();
        let warm_up = self.poll.current_warm_up(now);
        let warm_up = warm_up.filter(|_| document.has_no_events());
        let last = self.poll.last_document;
        // An event that was listed since the warm-up began had appeared.
        let had_appeared =
            |warm_up: &WarmUp| last.is_some_and(|last| last.was_read_since(warm_up.since()));

        // An event that the document may list without its id is not known to be cancelled.
        disappearance.was_watched &= !may_hide_any;
        for (id, entry) in &mut self.entries {
            if !is_absent(entry) {
                continue;
            }
            let since = entry.absence.map_or(now.monotonic, |absence| absence.since);
            let until = if mentioned.contains(id) {
                None
            } else if may_hide_any {
                Some(since + Absence::MAX_UNIDENTIFIED)
            } else {
                let was_listed = |warm_up: &WarmUp| match entry.tracked.last_listed_at {
                    Some(at) => at >= warm_up.since().wall,
                    None => had_appeared(warm_up),
                };
                let may_appear = warm_up.filter(|warm_up| {
                    !entry.tracked.may_have_started(now.wall) && !was_listed(warm_up)
                });
                // At its NotBefore it may have started, also if the document stays the same until then.
                let due_at = entry.due_at.filter(|_| !entry.tracked.event.is_advisory());
                Some(may_appear.map_or(now.monotonic, |warm_up| {
                    let until = warm_up.until.monotonic;
                    due_at.map_or(until, |due_at| until.min(due_at))
                }))
            };
            let absence = Absence { since, until };
            if absence.is_over(now) {
                transitions.push(entry.end(disappearance, self.retention, now));
            } else {
                if entry.tracked.last_listed_at.is_none() {
                    entry.tracked_mut().last_listed_at = disappearance.last_listed_at;
                }
                entry.absence = Some(absence);
            }
        }
    }

    /// The evidence about an event that the last document had, and the present one lacks.
    fn disappearance(&self, now: Moment) -> Disappearance {
        Disappearance {
            at: now.wall,
            last_listed_at: self.poll.document_at(),
            max_gap: self.poll.max_gap(),
            was_watched: self.poll.is_watched(now) && !self.was_interrupted,
        }
    }

    /// Ends the events that have been missing for longest if more are pending, or their texts are longer, than one
    /// document can have.
    fn limit_pending(&mut self, present: usize, now: Moment, transitions: &mut Vec<Transition>) {
        let surplus = limits::surplus_missing(&mut self.entries, present);
        if surplus.is_empty() {
            return;
        }
        let surplus = surplus.into_iter();
        let disappearance = Disappearance::unobserved(now.wall);
        transitions.extend(surplus.map(|entry| entry.end(disappearance, self.retention, now)));
        let detail =
            "more events would be pending than one document can have; missing ones have ended";
        self.anomalies.add(AnomalyKind::Event, detail);
    }

    /// The anomalies of the last document that only its predecessors reveal.
    pub(crate) fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// The last document still holds (304). Events that it lacks, and that did not end with it, end after a while.
    pub(crate) fn document_unchanged(&mut self, now: Moment) -> Vec<Transition> {
        let is_over = |entry: &&mut TrackerEntry| {
            entry.tracked.is_pending() && entry.absence.is_some_and(|absence| absence.is_over(now))
        };
        for entry in self.entries.values_mut() {
            entry.see_again();
        }
        let disappearance = self.disappearance(now);
        let over = self.entries.values_mut().filter(is_over);
        let transitions = over
            .map(|entry| entry.end(disappearance, self.retention, now))
            .collect();
        self.poll.succeed(now);
        self.was_interrupted = false;
        self.expire_ended(now);
        transitions
    }

    /// This VM was interrupted. It counts for each pending event that names it.
    pub(crate) fn record_interruption(
        &mut self,
        interruption: Interruption,
        now: Timestamp,
    ) -> Vec<Transition> {
        self.was_interrupted = true;
        self.entries
            .values_mut()
            .filter_map(|entry| entry.interrupt(interruption, now))
            .collect()
    }

    /// Pending events and those that ended lately, in the order of the ids.
    pub fn events(&self) -> Vec<Arc<TrackedEvent>> {
        self.tracked(|entry| !entry.is_past)
    }

    /// The events of this VM that ended earlier and are not in [`Tracker::events`] any more.
    pub(crate) fn past(&self) -> Vec<Arc<TrackedEvent>> {
        self.tracked(|entry| entry.is_past)
    }

    /// The events for the state. Without past ones that the wall clock, which was set back, shows as recent: the next
    /// process would show them again.
    pub(crate) fn saved_events(&self, now: Timestamp) -> Vec<Arc<TrackedEvent>> {
        self.tracked(|entry| !entry.is_past || entry.ended_ago(now) >= self.retention)
    }

    fn tracked(&self, is_included: impl Fn(&TrackerEntry) -> bool) -> Vec<Arc<TrackedEvent>> {
        let entries = self.entries.values().filter(|entry| is_included(entry));
        entries.map(|entry| Arc::clone(&entry.tracked)).collect()
    }

    /// Pending events without advisories.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        let events = self.entries.values().map(|entry| &*entry.tracked);
        events.filter(|tracked| tracked.is_maintenance_pending())
    }

    /// Those that name this VM.
    pub(crate) fn own_pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.pending()
            .filter(|tracked| tracked.scope == EventScope::Own)
    }

    /// Stops to show what ended long ago, and to keep what ended longer ago.
    pub(crate) fn expire_ended(&mut self, now: Moment) {
        self.entries.retain(|_, entry| {
            entry.is_past |= !entry.tracked.is_pending() && now.monotonic >= entry.shown_until;
            let is_recent = entry.ended_ago(now.wall) < PAST_RETENTION;
            !entry.is_past || entry.tracked.scope != EventScope::Other && is_recent
        });
        for id in limits::surplus_ended(&self.entries) {
            self.entries.remove(&id);
        }
    }

    /// The restored state is that of this VM.
    pub(crate) fn confirm_owner(&mut self) {
        for entry in self.entries.values_mut() {
            entry.may_be_foreign = false;
        }
    }

    /// The restored state is another VM's.
    pub(crate) fn discard_foreign(&mut self) {
        self.entries.retain(|_, entry| !entry.may_be_foreign);
        self.poll.discard_document();
    }

    /// Whether the event was restored from a state that may be another VM's.
    pub(crate) fn may_be_foreign(&self, id: &EventId) -> bool {
        self.entries
            .get(id)
            .is_some_and(|entry| entry.may_be_foreign)
    }

    /// The record of an event as it is now. `None` if another one with the same id has taken its place.
    pub(crate) fn current(&self, was: &TrackedEvent) -> Option<&Arc<TrackedEvent>> {
        let current = &self.entries.get(&was.event.id)?.tracked;
        (current.event.is_advisory() == was.event.is_advisory()).then_some(current)
    }

    /// The names of this VM are known now, or have changed. Returns the changes of scope that this causes.
    pub(crate) fn set_vm_names<'a>(
        &mut self,
        vm: impl Into<VmNames<'a>>,
        now: Timestamp,
    ) -> Vec<Transition> {
        let vm = vm.into();
        let mut changed = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| !entry.is_past) {
            let was_scope = entry.tracked.scope;
            let scope = entry.tracked.event.scope(vm);
            // The names are those of an earlier document.
            let is_outdated = entry.tracked.missing.resources && scope == EventScope::Other;
            if !is_outdated {
                entry.set_scope(scope, now);
            }
            if entry.tracked.scope != was_scope {
                changed.push(entry.transition(TransitionKind::Amended { was_scope }, now));
            }
        }
        changed
    }

    /// Changes the record of the approval of an event.
    pub(crate) fn record_step(&mut self, id: &EventId, step: impl FnOnce(&mut ApprovalRecord)) {
        if let Some(entry) = self.entries.get_mut(id) {
            step(&mut entry.tracked_mut().approval);
        }
    }

    /// IMDS accepted the approval of an event.
    pub fn record_approval(&mut self, id: &EventId, now: Timestamp) -> Option<Transition> {
        let entry = self.unapproved(id)?;
        entry.tracked_mut().approval.accept(now);
        Some(entry.transition(TransitionKind::Approved, now))
    }

    /// The approval of an event failed. `may_be_accepted`: this attempt or an earlier one had no answer.
    pub(crate) fn record_failed_approval(
        &mut self,
        id: &EventId,
        may_be_accepted: bool,
        now: Timestamp,
    ) {
        if let Some(entry) = self.unapproved(id) {
            entry.tracked_mut().approval.fail(may_be_accepted, now);
        }
    }

    /// A pending event of which this exporter knows no approval.
    fn unapproved(&mut self, id: &EventId) -> Option<&mut TrackerEntry> {
        let entry = self.entries.get_mut(id)?;
        let tracked = &entry.tracked;
        (tracked.is_pending() && tracked.approval.accepted_at.is_none()).then_some(entry)
    }
}
