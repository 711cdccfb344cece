//! The tracked events, and how documents change them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    ENDED_RETENTION, PAST_RETENTION, Transition, TransitionKind,
    entry::TrackerEntry,
    evidence::{Evidence, Fate, fate, outcome},
    poll_state::PollState,
    saved_state::SavedState,
    tracked_event::{FirstSight, Interruption, TrackedEvent},
};
use crate::{
    azure::{
        document::{Anomalies, AnomalyKind, Document, MAX_EVENTS, excerpt},
        event::{Event, EventId, EventScope, Source, Status, VmNames},
    },
    base::time::Moment,
    core::approval::ApprovalStep,
};

const MAX_ENDED: usize = 1_000;
/// The texts of ended events, and of missing ones, in bytes of their JSON. One event always fits.
const MAX_TEXT_BYTES: usize = 8 << 20;

type Listed<'a> = HashMap<&'a EventId, &'a Event>;

#[derive(Debug, Clone, Default)]
pub struct Tracker {
    pub poll: PollState,
    /// Where this VM runs; `None` if that is not known.
    pub(crate) physical_host: Option<Arc<str>>,
    /// The value of the tag of `--vm.owner-tag`; `None` if it is unknown, or this VM has no such tag.
    pub(crate) owner: Option<Arc<str>>,
    /// The anomalies of the last document that only earlier documents show.
    pub(crate) anomalies: Anomalies,
    /// Also those of this VM that are not shown any more, for [`PAST_RETENTION`].
    entries: BTreeMap<EventId, TrackerEntry>,
    /// This VM was interrupted since the last document, which may hide a start.
    was_interrupted: bool,
    /// Ended events of this VM for which there was no room, so that the end of their alerts may not have been sent.
    pub(crate) dropped_ends: u64,
}

impl Tracker {
    /// If the VM was booted since, a Reboot or Redeploy interrupted it from the last heartbeat to the next document.
    pub(crate) fn restore(mut saved: SavedState, is_rebooted: bool, now: Moment) -> Self {
        let events = std::mem::take(&mut saved.events);
        let entries = events
            .into_iter()
            .map(|event| TrackerEntry::restore(event, &saved, is_rebooted, now))
            .map(|entry| (entry.tracked.shown.id.clone(), entry));
        Self {
            entries: entries.collect(),
            ..Self::default()
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
        let evidence = Evidence {
            first_sight: self.first_sight_of_started(document, now),
            ..Evidence::new(&self.poll, self.was_interrupted, now)
        };
        let listed: Listed<'_> = document.events.iter().map(|it| (&it.id, it)).collect();
        self.see_physical_host(|id| listed.contains_key(id));
        let mut transitions = Vec::new();
        transitions.extend(self.entries.iter_mut().filter_map(|(id, entry)| {
            let is_over = if let Some(event) = listed.get(id) {
                event.status != Status::Scheduled
            } else {
                let fate = fate(&entry.tracked, entry.due_at, document, evidence, now);
                matches!(fate, Fate::End(_))
            };
            entry.record_boot(is_over, now)
        }));
        self.anomalies = Anomalies::default();
        for event in &document.events {
            let is_contradicted = document.contradicted.contains(&event.id);
            let known = self.entries.get_mut(&event.id);
            if let Some(entry) = known.filter(|entry| entry.is_shown(ENDED_RETENTION, now)) {
                entry.update(event, is_contradicted, vm, evidence, now, &mut transitions);
                entry.set_reported(event, is_contradicted);
                entry.set_owner(self.owner.as_ref(), now);
                if event.source.is_none() && entry.tracked.shown.source == Some(Source::User) {
                    let id = excerpt(event.id.as_str());
                    let detail = format!("event {id}: its EventSource was User and is missing");
                    self.anomalies.add(AnomalyKind::Contradiction, detail);
                }
            } else {
                let scope = event.scope(vm);
                let sight = self.first_sight(event, evidence.first_sight, &listed);
                let (host, owner) = (self.physical_host.as_ref(), self.owner.as_ref());
                let mut new =
                    TrackerEntry::begin(event, scope, sight, host, owner, now, &mut transitions);
                new.set_reported(event, is_contradicted);
                self.entries.insert(event.id.clone(), new);
            }
        }
        self.end_absent(document, &listed, evidence, now, &mut transitions);
        self.limit_pending(listed.len(), now, &mut transitions);
        self.poll.read(document, now);
        self.was_interrupted = false;
        self.expire_ended(now);
        transitions
    }

    /// No document can have been missed if the last one is recent, and `DocumentIncarnation` rose by at most one.
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
    fn first_sight(&self, event: &Event, started: FirstSight, listed: &Listed<'_>) -> FirstSight {
        let is_continued = |(id, entry): (&EventId, &TrackerEntry)| {
            let was = &entry.tracked;
            was.is_pending() && was.shown.event_type == event.event_type && !listed.contains_key(id)
        };
        match started {
            FirstSight::StartedUnannounced if self.entries.iter().any(is_continued) => {
                FirstSight::Started
            }
            started => started,
        }
    }

    fn end_absent(
        &mut self,
        document: &Document,
        listed: &Listed<'_>,
        evidence: Evidence,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        let pending = self
            .entries
            .iter_mut()
            .filter(|(_, it)| it.tracked.is_pending());
        for (_, entry) in pending.filter(|(id, _)| !listed.contains_key(id)) {
            match fate(&entry.tracked, entry.due_at, document, evidence, now) {
                Fate::End(outcome) => transitions.push(entry.end(outcome, now)),
                Fate::Keep { until } => {
                    entry.kept_until = until;
                    if entry.tracked.missing_since.is_none() {
                        let tracked = entry.tracked_mut();
                        tracked.last_listed_at = tracked.last_listed_at.or(evidence.last_document);
                        tracked.missing_since = Some(now.monotonic);
                    }
                }
            }
        }
    }

    /// Ends the events that have been missing for longest if more are pending, or their texts are longer, than one
    /// document can have.
    fn limit_pending(&mut self, present: usize, now: Moment, transitions: &mut Vec<Transition>) {
        let surplus = surplus_missing(&mut self.entries, present);
        if surplus.is_empty() {
            return;
        }
        let surplus = surplus.into_iter();
        transitions.extend(surplus.map(|entry| {
            let outcome = outcome(&entry.tracked, Evidence::default(), now);
            entry.end(outcome, now)
        }));
        let detail =
            "more events would be pending than one document can have; missing ones have ended";
        self.anomalies.add(AnomalyKind::Event, detail);
    }

    /// The last document still holds (304). Events that it lacks, and that did not end with it, end after a while.
    pub(crate) fn document_unchanged(&mut self, now: Moment) -> Vec<Transition> {
        let is_over = |entry: &&mut TrackerEntry| {
            entry.tracked.is_pending()
                && entry.kept_until.is_some_and(|until| until <= now.monotonic)
        };
        let evidence = Evidence::new(&self.poll, self.was_interrupted, now);
        let over = self.entries.values_mut().filter(is_over);
        let transitions = over
            .map(|entry| entry.end(outcome(&entry.tracked, evidence, now), now))
            .collect();
        self.poll.succeed(now);
        self.was_interrupted = false;
        self.expire_ended(now);
        transitions
    }

    /// Counts for each pending event that names this VM.
    pub(crate) fn record_interruption(
        &mut self,
        interruption: Interruption,
        now: Moment,
    ) -> Vec<Transition> {
        self.was_interrupted = true;
        self.entries
            .values_mut()
            .filter_map(|entry| entry.interrupt(interruption, now))
            .collect()
    }

    /// The physical host was read. `is_listed`: the document that came with it has this event.
    pub(crate) fn see_physical_host(&mut self, is_listed: impl Fn(&EventId) -> bool) {
        if let Some(host) = &self.physical_host {
            let entries = self.entries.iter_mut();
            entries.for_each(|(id, entry)| entry.see_host(host, is_listed(id)));
        }
    }

    pub(crate) fn set_owner(&mut self, owner: Option<Arc<str>>, now: Moment) {
        let entries = self.entries.values_mut();
        entries.for_each(|entry| entry.set_owner(owner.as_ref(), now));
        self.owner = owner;
    }

    /// Pending events and those that ended lately, in the order of the ids.
    pub fn events(&self, now: Moment) -> Vec<Arc<TrackedEvent>> {
        self.tracked(|entry| entry.is_shown(ENDED_RETENTION, now))
    }

    /// The events of this VM that ended earlier and are not in [`Tracker::events`] any more.
    pub(crate) fn past(&self, now: Moment) -> Vec<Arc<TrackedEvent>> {
        self.tracked(|entry| !entry.is_shown(ENDED_RETENTION, now))
    }

    pub(crate) fn saved_events(&self) -> Vec<Arc<TrackedEvent>> {
        self.tracked(|_| true)
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

    pub(crate) fn own_pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.pending()
            .filter(|tracked| tracked.scope == EventScope::Own)
    }

    /// Removes what ended long ago, and events of other VMs as soon as they are not shown any more.
    pub(crate) fn expire_ended(&mut self, now: Moment) {
        self.entries.retain(|_, entry| {
            let is_recent = || entry.is_shown(PAST_RETENTION, now);
            entry.is_shown(ENDED_RETENTION, now)
                || entry.tracked.scope != EventScope::Other && is_recent()
        });
        for id in surplus_ended(&self.entries) {
            let dropped = self.entries.remove(&id);
            let is_own = dropped.is_some_and(|entry| entry.tracked.scope != EventScope::Other);
            self.dropped_ends += u64::from(is_own);
        }
    }

    /// The restored state was another VM's.
    pub(crate) fn discard_foreign(&mut self, is_restored: impl Fn(&EventId) -> bool) {
        self.entries.retain(|id, _| !is_restored(id));
        self.owner = None;
        let poll = &mut self.poll;
        (
            poll.last_document,
            poll.last_incarnation,
            poll.warm_up_until,
        ) = (None, None, None);
    }

    /// The record of an event as it is now. `None` if another one with the same id has taken its place.
    pub(crate) fn current(&self, was: &TrackedEvent) -> Option<&Arc<TrackedEvent>> {
        let current = &self.entries.get(&was.shown.id)?.tracked;
        (current.shown.is_advisory() == was.shown.is_advisory()).then_some(current)
    }

    /// The names of this VM are known now, or have changed. Returns the changes of scope that this causes.
    pub(crate) fn set_vm_names<'a>(
        &mut self,
        vm: impl Into<VmNames<'a>>,
        now: Moment,
    ) -> Vec<Transition> {
        let vm = vm.into();
        let mut changed = Vec::new();
        let shown = self.entries.values_mut();
        for entry in shown.filter(|entry| entry.is_shown(ENDED_RETENTION, now)) {
            let was_scope = entry.tracked.scope;
            let scope = entry.tracked.shown.scope(vm);
            // The names are those of an earlier document.
            let is_outdated =
                entry.tracked.reported().resources.is_none() && scope == EventScope::Other;
            if !is_outdated {
                entry.set_scope(scope, now);
            }
            if entry.tracked.scope != was_scope {
                changed.push(entry.transition(TransitionKind::Amended { was_scope }, now));
            }
        }
        changed
    }

    /// A step of the approval of a pending event, unless IMDS has accepted one.
    pub fn record_step(
        &mut self,
        id: &EventId,
        step: ApprovalStep,
        now: Moment,
    ) -> Option<Transition> {
        let entry = self.entries.get_mut(id)?;
        let is_accepted = entry.tracked.approval.at(&ApprovalStep::Accepted).is_some();
        if !entry.tracked.is_pending() || is_accepted {
            return None;
        }
        let at = entry.tracked.time(now);
        let approved = step == ApprovalStep::Accepted;
        entry.tracked_mut().approval.push(step, at);
        approved.then(|| entry.transition(TransitionKind::Approved, now))
    }
}

/// The pending events that have been missing for longest, first, of those beyond what one document can have. `present`
/// is the number of events of the last one.
fn surplus_missing(
    entries: &mut BTreeMap<EventId, TrackerEntry>,
    present: usize,
) -> Vec<&mut TrackerEntry> {
    let mut missing: Vec<_> = entries
        .values_mut()
        .filter(|entry| entry.tracked.is_pending() && entry.tracked.missing_since.is_some())
        .collect();
    missing.sort_by_key(|entry| Reverse(entry.tracked.missing_since));
    let sizes = missing.iter().map(|entry| entry.tracked.text_bytes());
    let fitting = fitting(sizes, MAX_EVENTS.saturating_sub(present));
    missing.into_iter().skip(fitting).rev().collect()
}

/// The ended events that are not kept: those that ended first.
fn surplus_ended(entries: &BTreeMap<EventId, TrackerEntry>) -> Vec<EventId> {
    let events = entries.values().map(|entry| &entry.tracked);
    let mut ended: Vec<_> = events.filter(|event| !event.is_pending()).collect();
    ended.sort_by_key(|event| Reverse(event.end.map(|end| end.at)));
    let sizes = ended.iter().map(|event| event.text_bytes());
    let surplus = ended.iter().skip(fitting(sizes, MAX_ENDED));
    surplus.map(|event| event.shown.id.clone()).collect()
}

/// How many of the events with texts of these sizes are kept.
fn fitting(sizes: impl Iterator<Item = usize>, max_events: usize) -> usize {
    let mut bytes = 0;
    sizes
        .take(max_events)
        .take_while(|size| {
            bytes += size;
            bytes <= MAX_TEXT_BYTES || bytes == *size
        })
        .count()
}
