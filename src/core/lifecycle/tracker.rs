//! The tracked events, and how documents change them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    PAST_RETENTION,
    absence::{Absence, WarmUp},
    entry::{Sight, TrackerEntry},
    evidence::Disappearance,
    last_document::{LastDocument, max_gap},
    saved_state::SavedState,
    tracked_event::{Interruption, MissingMembers, PollGap, TrackedEvent},
    transition::Transition,
};
use crate::{
    azure::{
        document::{Anomalies, AnomalyKind, Document, MAX_EVENTS, excerpt},
        event::{EventId, EventScope, Source, VmNames},
    },
    base::time::{Moment, Timestamp},
};

/// Ended events that are kept at the same time.
const MAX_ENDED: usize = 1_000;
/// Events that are kept longer than that.
const MAX_PAST: usize = 100;
/// The texts of ended events, and of missing ones, in bytes. One event of a document of 4 MiB always fits.
const MAX_TEXT_BYTES: usize = 8 << 20;

#[derive(Debug, Clone)]
pub struct Tracker {
    retention: Duration,
    /// How long a gap between two successful polls is normal: `--imds.poll-interval`.
    pub(crate) poll_interval: Duration,
    anomalies: Anomalies,
    pub(super) entries: BTreeMap<EventId, TrackerEntry>,
    /// Events of this VM that ended longer ago than `retention`, the oldest first.
    past: Vec<Arc<TrackedEvent>>,
    /// When the state of an earlier process was restored.
    restored_at: Option<Moment>,
    last_document: Option<LastDocument>,
    /// `DocumentIncarnation` of the last document that had one.
    incarnation: Option<i64>,
    /// This VM was interrupted since the last document, which may hide a start.
    was_interrupted: bool,
    /// `None` once it is over.
    pub(crate) warm_up: Option<WarmUp>,
}

impl Tracker {
    /// An empty tracker that keeps ended events for `retention`.
    pub fn new(retention: Duration) -> Self {
        Self {
            retention,
            poll_interval: Duration::ZERO,
            anomalies: Anomalies::default(),
            entries: BTreeMap::new(),
            past: Vec::new(),
            restored_at: None,
            last_document: None,
            incarnation: None,
            was_interrupted: false,
            warm_up: None,
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
        let has_passed = |event: &Arc<TrackedEvent>| {
            event
                .end
                .is_some_and(|end| now.wall.saturating_since(end.at) >= retention)
        };
        let events = std::mem::take(&mut saved.events).into_iter();
        let (mut past, events): (Vec<_>, Vec<_>) = events.partition(has_passed);
        past.sort_by_key(|event| event.end.map(|end| end.at));
        for event in &mut past {
            Arc::make_mut(event).is_owner_unknown = saved.owner().is_some();
        }
        let entries = events
            .into_iter()
            .map(|event| TrackerEntry::restore(event, &saved, is_rebooted, retention, now))
            .map(|entry| (entry.tracked.event.id.clone(), entry));
        Self {
            last_document: saved.document_at.map(|at| LastDocument::restored(at, now)),
            incarnation: saved.document_incarnation,
            entries: entries.collect(),
            past,
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
        let (interval, last) = (self.poll_interval, self.last_document);
        let is_complete = self.is_next_document(document, now);
        let disappearance = Disappearance {
            was_watched: false,
            ..self.disappearance(now)
        };
        let mut transitions = Vec::new();
        let restored_at = self.restored_at.unwrap_or(now);
        transitions.extend(
            self.entries
                .values_mut()
                .filter_map(|entry| entry.record_boot(restored_at, now)),
        );
        self.anomalies = Anomalies::default();
        let mut present = HashSet::with_capacity(document.events.len());
        for event in &document.events {
            present.insert(&event.id);
            let gap = last.map_or(PollGap::MinimumNotice, |last| {
                last.gap(&event.event_type, interval, now)
            });
            let sight = Sight {
                gap,
                is_complete,
                disappearance,
            };
            let is_contradictory = document.contradictory.contains(&event.id);
            if let Some(entry) = self.entries.get_mut(&event.id) {
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
                let mut new = TrackerEntry::begin(event, scope, sight, now, &mut transitions);
                new.set_reported(MissingMembers::default(), is_contradictory);
                self.entries.insert(event.id.clone(), new);
            }
        }
        self.end_absent(document, &present, now, &mut transitions);
        self.limit_pending(present.len(), now, &mut transitions);
        self.incarnation = document.incarnation.or(self.incarnation);
        self.set_document(now);
        transitions
    }

    /// Whether no document can have been missed: the last one is recent, and `DocumentIncarnation`, which rises with each
    /// change, rose by at most one.
    fn is_next_document(&self, document: &Document, now: Moment) -> bool {
        let last = self.last_document;
        let is_recent = last.is_some_and(|last| last.is_watched(self.poll_interval, now));
        let rise = self.incarnation.zip(document.incarnation);
        is_recent && rise.is_some_and(|(was, is)| matches!(is.checked_sub(was), Some(0 | 1)))
    }

    /// Ends the events that the document lacks, unless something speaks against it.
    fn end_absent(
        &mut self,
        document: &Document,
        present: &HashSet<&EventId>,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        let is_absent = |entry: &TrackerEntry| {
            entry.tracked.is_pending() && !present.contains(&entry.tracked.event.id)
        };
        let absent = self.entries.iter().filter(|(_, entry)| is_absent(entry));
        let mentioned = document.unreadable.mentioned(absent.map(|(id, _)| id));
        let may_hide_any = document.unreadable.has_unidentified();
        let warm_up = self.warm_up.filter(|_| document.has_no_events());
        let last = self.last_document;
        // An event that was listed since the warm-up began had appeared.
        let had_appeared =
            |warm_up: &WarmUp| last.is_some_and(|last| last.was_read_since(warm_up.since));

        let mut disappearance = self.disappearance(now);
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
                Some(since.saturating_add(Absence::MAX_UNIDENTIFIED))
            } else {
                let was_listed = |warm_up: &WarmUp| match entry.tracked.last_listed_at {
                    Some(at) => at >= warm_up.since.wall,
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
            if absence.is_over(now) && !entry.tracked.is_owner_unknown {
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
        let (interval, last) = (self.poll_interval, self.last_document);
        let was_watched = last.is_some_and(|last| last.is_watched(interval, now));
        Disappearance {
            at: now.wall,
            last_listed_at: last.map(|last| last.at),
            max_gap: max_gap(interval),
            was_watched: was_watched && !self.was_interrupted,
        }
    }

    /// Ends the events that have been missing for longest if more are pending, or their texts are longer, than one
    /// document can have.
    fn limit_pending(&mut self, present: usize, now: Moment, transitions: &mut Vec<Transition>) {
        let mut absent: Vec<_> = self
            .entries
            .values_mut()
            .filter(|entry| entry.tracked.is_pending() && entry.absence.is_some())
            .collect();
        absent.sort_by_key(|entry| Reverse(entry.absence.map(|absence| absence.since)));
        let sizes = absent.iter().map(|entry| entry.tracked.event.text_bytes());
        let fitting = fitting(sizes, MAX_EVENTS.saturating_sub(present));
        if fitting == absent.len() {
            return;
        }
        let surplus = absent.into_iter().skip(fitting).rev();
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
            entry.tracked.is_pending()
                && !entry.tracked.is_owner_unknown
                && entry.absence.is_some_and(|absence| absence.is_over(now))
        };
        for entry in self.entries.values_mut() {
            entry.see_again();
        }
        let disappearance = self.disappearance(now);
        let over = self.entries.values_mut().filter(is_over);
        let transitions = over
            .map(|entry| entry.end(disappearance, self.retention, now))
            .collect();
        self.set_document(now);
        transitions
    }

    fn set_document(&mut self, now: Moment) {
        self.last_document = Some(LastDocument::read(now));
        self.was_interrupted = false;
        self.expire_ended(now);
    }

    /// This VM was interrupted. It counts for each pending event that names it, from [`Interruption::MIN_LENGTH`] up.
    pub(crate) fn record_interruption(
        &mut self,
        interruption: Interruption,
        now: Timestamp,
    ) -> Vec<Transition> {
        if interruption.length < Interruption::MIN_LENGTH {
            return Vec::new();
        }
        self.was_interrupted = true;
        self.entries
            .values_mut()
            .filter_map(|entry| entry.interrupt(interruption, now))
            .collect()
    }

    /// When a document was last read, or confirmed by a 304.
    pub fn document_at(&self) -> Option<Timestamp> {
        self.last_document.map(|last| last.at)
    }

    /// Every tracked event, in the order of the ids.
    pub fn events(&self) -> Vec<Arc<TrackedEvent>> {
        self.entries
            .values()
            .map(|entry| Arc::clone(&entry.tracked))
            .collect()
    }

    /// Pending events without advisories, and without those that may be another VM's.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        let events = self.entries.values().map(|entry| &*entry.tracked);
        events.filter(|tracked| tracked.is_maintenance_pending() && !tracked.may_be_foreign())
    }

    /// Those that name this VM.
    pub(crate) fn own_pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.pending()
            .filter(|tracked| tracked.scope == EventScope::Own)
    }

    /// The events of this VM that ended lately and are not in [`Tracker::events`] any more.
    pub(crate) fn past(&self) -> &[Arc<TrackedEvent>] {
        &self.past
    }

    /// The events for the state: those that have passed too, unless the wall clock was set back and shows them as recent. A
    /// restored event that is recent is listed again.
    pub(crate) fn saved_events(&self, now: Timestamp) -> Vec<Arc<TrackedEvent>> {
        let has_passed = |event: &&Arc<TrackedEvent>| {
            event
                .end
                .is_some_and(|end| now.saturating_since(end.at) >= self.retention)
        };
        let mut events = self.events();
        events.extend(self.past.iter().filter(has_passed).cloned());
        events
    }

    pub(super) fn past_mut(&mut self) -> impl Iterator<Item = &mut Arc<TrackedEvent>> {
        self.past.iter_mut()
    }

    pub(crate) fn expire_ended(&mut self, now: Moment) {
        let is_expired = |_: &EventId, entry: &mut TrackerEntry| {
            !entry.tracked.is_pending() && now.monotonic >= entry.expires_at
        };
        let expired = self.entries.extract_if(.., is_expired);
        let expired = expired.map(|(_, entry)| entry.tracked);
        self.past
            .extend(expired.filter(|event| event.scope != EventScope::Other));
        self.limit_past(now.wall);
        let mut ended: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| !entry.tracked.is_pending())
            .collect();
        ended.sort_by_key(|(_, entry)| Reverse(entry.expires_at));
        let sizes = ended
            .iter()
            .map(|(_, entry)| entry.tracked.event.text_bytes());
        let surplus = ended.iter().skip(fitting(sizes, MAX_ENDED));
        let surplus: Vec<_> = surplus.map(|(id, _)| (*id).clone()).collect();
        for id in surplus {
            self.entries.remove(&id);
        }
    }
}

impl Tracker {
    fn limit_past(&mut self, now: Timestamp) {
        let is_recent = |event: &TrackedEvent| {
            event
                .end
                .is_some_and(|end| now.saturating_since(end.at) < PAST_RETENTION)
        };
        self.past
            .retain(|event| is_recent(event) && !self.entries.contains_key(&event.event.id));
        let sizes = self.past.iter().rev().map(|event| event.event.text_bytes());
        let surplus = self.past.len() - fitting(sizes, MAX_PAST);
        self.past.drain(..surplus);
    }
}

/// How many of the events with texts of these sizes are kept.
fn fitting(sizes: impl Iterator<Item = usize>, max_events: usize) -> usize {
    let mut bytes = 0;
    sizes
        .take(max_events)
        .take_while(|size| {
            bytes += size;
            bytes <= MAX_TEXT_BYTES
        })
        .count()
}
