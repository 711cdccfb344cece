//! The tracked events, and how documents change them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    entry::{Absence, TrackerEntry},
    last_document::LastDocument,
    tracked_event::{Interruption, MissingMembers, PollGap, TrackedEvent},
    transition::{Transition, TransitionKind},
};
use crate::{
    document::{Anomalies, AnomalyKind, Document, MAX_EVENTS, excerpt},
    event::{EventId, EventScope},
    time::{Moment, Timestamp},
};

/// Ended events that are kept at the same time.
const MAX_ENDED: usize = 1_000;
/// The texts of ended events, and of missing ones, in bytes. One event of a document of 4 MiB always fits.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// Tracks every event of the documents.
#[derive(Debug, Clone)]
pub struct Tracker {
    retention: Duration,
    poll_interval: Duration,
    anomalies: Anomalies,
    entries: BTreeMap<EventId, TrackerEntry>,
    /// When the state of an earlier process was restored.
    restored_at: Option<Moment>,
    /// The last document; `None` before the first.
    last_document: Option<LastDocument>,
}

/// What an earlier process saved.
#[derive(Debug, Clone, Default)]
pub struct Restored {
    pub events: Vec<Arc<TrackedEvent>>,
    /// When a document was last read or confirmed.
    pub document_at: Option<Timestamp>,
    /// When that process was last known to run.
    pub heartbeat_at: Option<Timestamp>,
    /// The VM was booted since.
    pub rebooted: bool,
}

impl Tracker {
    /// An empty tracker that keeps ended events for `retention`.
    pub fn new(retention: Duration) -> Self {
        Self {
            retention,
            poll_interval: Duration::ZERO,
            anomalies: Anomalies::default(),
            entries: BTreeMap::new(),
            restored_at: None,
            last_document: None,
        }
    }

    /// `--imds.poll-interval`: how long a gap between two successful polls is normal.
    pub(crate) fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Continues from an earlier process. For a VM that was booted since, the time from the last heartbeat to the first
    /// document after the boot is the interruption by a Reboot or Redeploy. Until now it is known by the wall clock
    /// alone, because no other clock continues over a boot; from now on it is measured by the monotonic clock, so that
    /// a correction of the wall clock after the boot does not count.
    pub(crate) fn restore(retention: Duration, restored: Restored, now: Moment) -> Self {
        let mut tracker = Self::new(retention);
        let document_at = restored.document_at;
        tracker.last_document = document_at.map(|at| LastDocument::restored(at, now));
        let (rebooted, heartbeat_at) = (restored.rebooted, restored.heartbeat_at);
        let entries = restored.events.into_iter().filter_map(|event| {
            TrackerEntry::restore(event, rebooted, heartbeat_at, retention, now)
        });
        tracker.entries = entries
            .map(|entry| (entry.tracked.event.id.clone(), entry))
            .collect();
        tracker.restored_at = Some(now);
        tracker
    }

    /// Applies a document. Only this announces, changes and ends events.
    pub fn observe(
        &mut self,
        document: &Document,
        vm_name: Option<&str>,
        now: Moment,
    ) -> Vec<Transition> {
        let (interval, last) = (self.poll_interval, self.last_document);
        let was_watched = last.is_some_and(|last| last.is_watched(interval, now));
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
            let gap = last.map_or(PollGap::Notice, |last| {
                last.gap(&event.event_type, interval, now)
            });
            let is_contradictory = document.contradictory.contains(&event.id);
            if let Some(entry) = self.entries.get_mut(&event.id) {
                let missing = MissingMembers::between(&entry.tracked.event, event);
                entry.set_reported(missing, is_contradictory);
                entry.update(event, vm_name, gap, now, &mut transitions);
                if entry.tracked.has_lost_user_source() {
                    let id = excerpt(event.id.as_str());
                    let detail = format!("event {id}: its EventSource was User and is missing");
                    self.anomalies.add(AnomalyKind::Contradiction, detail);
                }
            } else {
                let scope = event.scope(vm_name);
                let mut new = TrackerEntry::begin(event, scope, gap, now, &mut transitions);
                new.set_reported(MissingMembers::default(), is_contradictory);
                self.entries.insert(event.id.clone(), new);
            }
        }
        self.end_absent(document, &present, was_watched, now, &mut transitions);
        self.limit_pending(present.len(), now, &mut transitions);
        self.set_document(now);
        transitions
    }

    /// Ends the events that the document lacks, unless they may be among its unreadable entries.
    fn end_absent(
        &mut self,
        document: &Document,
        present: &HashSet<&EventId>,
        was_watched: bool,
        now: Moment,
        transitions: &mut Vec<Transition>,
    ) {
        let is_absent = |entry: &TrackerEntry| {
            entry.tracked.is_pending() && !present.contains(&entry.tracked.event.id)
        };
        let absent = self.entries.iter().filter(|(_, entry)| is_absent(entry));
        let mentioned = document.unreadable.mentioned(absent.map(|(id, _)| id));
        let has_unidentified = document.unreadable.has_unidentified();
        // An event that an entry without an id may be is not known to be cancelled.
        let was_watched = was_watched && !has_unidentified;
        for (id, entry) in &mut self.entries {
            if !is_absent(entry) {
                continue;
            }
            let absence = Absence {
                since: entry.absence.map_or(now.monotonic, |absence| absence.since),
                is_mentioned: mentioned.contains(id),
            };
            if absence.is_mentioned || has_unidentified && !absence.is_over(now) {
                entry.absence = Some(absence);
            } else {
                transitions.push(entry.end(now, self.retention, was_watched));
            }
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
        transitions.extend(surplus.map(|entry| entry.end(now, self.retention, false)));
        let detail =
            "more events would be pending than one document can have; missing ones have ended";
        self.anomalies.add(AnomalyKind::Event, detail);
    }

    /// The anomalies of the last document that only its predecessors reveal.
    pub(crate) fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// The last document still holds (304). Events that may have been unreadable entries of it end after a while.
    pub(crate) fn document_unchanged(&mut self, now: Moment) -> Vec<Transition> {
        let is_over = |entry: &&mut TrackerEntry| {
            entry.tracked.is_pending() && entry.absence.is_some_and(|absence| absence.is_over(now))
        };
        let over = self.entries.values_mut().filter(is_over);
        let transitions = over
            .map(|entry| entry.end(now, self.retention, false))
            .collect();
        self.set_document(now);
        transitions
    }

    fn set_document(&mut self, now: Moment) {
        self.last_document = Some(LastDocument::read(now));
        self.expire_ended(now);
    }

    /// A poll failed: no event changes, but ended events may expire.
    pub(crate) fn poll_failed(&mut self, now: Moment) {
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
        self.entries
            .values_mut()
            .filter_map(|entry| entry.interrupt(interruption, now))
            .collect()
    }

    /// The approval policy decided that an event is to be approved, or took that back.
    pub(crate) fn record_decision(&mut self, id: &EventId, is_decided: bool, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.record_decision(is_decided, at);
        }
    }

    /// The approval of an event is about to be sent.
    pub(crate) fn record_approval_request(&mut self, id: &EventId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.tracked_mut().approval_sent_at = Some(now);
        }
    }

    /// IMDS accepted the approval of an event.
    pub fn record_approval(&mut self, id: &EventId, now: Timestamp) -> Option<Transition> {
        let entry = self
            .entries
            .get_mut(id)
            .filter(|entry| entry.tracked.is_pending() && entry.tracked.approved_at.is_none())?;
        let tracked = entry.tracked_mut();
        tracked.approved_at = Some(now);
        tracked.refused_at = None;
        Some(entry.transition(TransitionKind::Approved, now))
    }

    /// The approval of an event failed. `may_be_accepted`: this attempt or an earlier one had no answer.
    pub(crate) fn record_failed_approval(
        &mut self,
        id: &EventId,
        may_be_accepted: bool,
        now: Timestamp,
    ) {
        let pending = self
            .entries
            .get_mut(id)
            .filter(|entry| entry.tracked.is_pending());
        if let Some(entry) = pending.filter(|entry| entry.tracked.approved_at.is_none()) {
            let tracked = entry.tracked_mut();
            tracked.approval_sent_at = tracked.approval_sent_at.filter(|_| may_be_accepted);
            tracked.refused_at = Some(now);
        }
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

    /// The number of pending events without advisories.
    pub(crate) fn pending(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| entry.tracked.is_maintenance_pending())
            .count()
    }

    /// The name of this VM is known now, or has changed. Returns the events that name this VM and did not before.
    pub(crate) fn set_vm_name(&mut self, vm_name: Option<&str>) -> Vec<Arc<TrackedEvent>> {
        let mut own = Vec::new();
        for entry in self.entries.values_mut() {
            let scope = entry.tracked.event.scope(vm_name);
            if entry.tracked.scope != scope {
                entry.tracked_mut().scope = scope;
                if scope == EventScope::Own {
                    own.push(Arc::clone(&entry.tracked));
                }
            }
        }
        own
    }

    /// Whether an event that names this VM and is no advisory is pending.
    pub(crate) fn is_own_pending(&self) -> bool {
        self.entries.values().any(|entry| {
            entry.tracked.is_maintenance_pending() && entry.tracked.scope == EventScope::Own
        })
    }

    fn expire_ended(&mut self, now: Moment) {
        self.entries
            .retain(|_, entry| entry.tracked.is_pending() || now.monotonic < entry.expires_at);
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
