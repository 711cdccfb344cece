//! The tracked events, and how documents change them.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    entry::TrackerEntry,
    tracked_event::{Interruption, TrackedEvent},
    transition::{Transition, TransitionKind},
};
use crate::{
    document::Document,
    event::{EventId, EventScope},
    time::{Moment, Timestamp},
};

/// No event can start and end between two successful polls that are at most this far apart.
const MAX_POLL_GAP: Duration = Duration::from_mins(1);
/// Ended events that are kept at the same time.
const MAX_ENDED: usize = 1_000;

/// Tracks every event of the documents.
#[derive(Debug, Clone)]
pub struct Tracker {
    retention: Duration,
    entries: BTreeMap<EventId, TrackerEntry>,
    /// When the state of an earlier process was restored.
    restored_at: Option<Moment>,
    /// The last document; `None` before the first.
    last_document: Option<LastDocument>,
}

#[derive(Debug, Clone, Copy)]
struct LastDocument {
    at: Timestamp,
    /// By the monotonic clock: when it was read, or when this process restored it.
    monotonic: Duration,
    /// The time that had passed when this process restored it.
    elapsed_before_restore: Duration,
    failed_since: bool,
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
            entries: BTreeMap::new(),
            restored_at: None,
            last_document: None,
        }
    }

    /// Continues from an earlier process. For a VM that was booted since, the time from the last heartbeat to the first
    /// document after the boot is the interruption by a Reboot or Redeploy. Until now it is known by the wall clock alone,
    /// because no other clock continues over a boot; from now on it is measured by the monotonic clock, so that a
    /// correction of the wall clock after the boot does not count.
    pub(crate) fn restore(retention: Duration, restored: Restored, now: Moment) -> Self {
        let mut tracker = Self::new(retention);
        tracker.last_document = restored.document_at.map(|at| LastDocument {
            at,
            monotonic: now.monotonic,
            // After the clock was set back, the elapsed time is unknown but at least as long as the step.
            elapsed_before_restore: now
                .wall
                .saturating_since(at)
                .max(at.saturating_since(now.wall)),
            failed_since: true,
        });
        for mut event in restored.events {
            let ended_ago = event
                .end
                .map_or(Duration::ZERO, |end| now.wall.saturating_since(end.at));
            if ended_ago >= retention && !event.is_pending() {
                continue;
            }
            if restored.rebooted && event.is_pending() {
                let event = Arc::make_mut(&mut event);
                event.rebooted = true;
                let heartbeat_at = restored.heartbeat_at.filter(|_| event.ends_with_boot());
                event.down_since = event.down_since.or(heartbeat_at);
            }
            let expires_at = now
                .monotonic
                .saturating_add(retention.saturating_sub(ended_ago));
            let id = event.event.id.clone();
            let entry = TrackerEntry {
                tracked: event,
                expires_at,
                maybe_unreadable: false,
            };
            tracker.entries.insert(id, entry);
        }
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
        let has_no_poll_gap = self
            .last_document
            .is_some_and(|last| last.has_no_poll_gap(now));
        let mut transitions = Vec::new();
        let restored_at = self.restored_at.unwrap_or(now);
        transitions.extend(
            self.entries
                .values_mut()
                .filter_map(|entry| entry.record_boot(restored_at, now)),
        );
        let mut present = HashSet::with_capacity(document.events.len());
        for event in &document.events {
            present.insert(&event.id);
            if let Some(entry) = self.entries.get_mut(&event.id) {
                entry.update(event, vm_name, now.wall, &mut transitions);
            } else {
                let new = TrackerEntry::begin(
                    event,
                    vm_name,
                    !has_no_poll_gap,
                    now.wall,
                    &mut transitions,
                );
                self.entries.insert(event.id.clone(), new);
            }
        }
        let missing = self.entries.values_mut().filter(|entry| {
            entry.tracked.is_pending() && !present.contains(&entry.tracked.event.id)
        });
        for entry in missing {
            if document.is_complete() {
                transitions.push(entry.end(now, self.retention, has_no_poll_gap));
            } else {
                entry.maybe_unreadable = true;
            }
        }
        self.document_unchanged(now);
        transitions
    }

    /// The last document still holds (304).
    pub(crate) fn document_unchanged(&mut self, now: Moment) {
        self.last_document = Some(LastDocument {
            at: now.wall,
            monotonic: now.monotonic,
            elapsed_before_restore: Duration::ZERO,
            failed_since: false,
        });
        self.expire_ended(now);
    }

    /// A poll failed: no event changes, but ended events may expire.
    pub(crate) fn poll_failed(&mut self, now: Moment) {
        if let Some(last) = &mut self.last_document {
            last.failed_since = true;
        }
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

    /// IMDS did not accept the approval of an event.
    pub(crate) fn record_refusal(&mut self, id: &EventId, now: Timestamp) {
        let pending = self
            .entries
            .get_mut(id)
            .filter(|entry| entry.tracked.is_pending());
        if let Some(entry) = pending.filter(|entry| entry.tracked.approved_at.is_none()) {
            let tracked = entry.tracked_mut();
            tracked.approval_sent_at = None;
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

    /// The number of pending events.
    pub(crate) fn pending(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| entry.tracked.is_pending())
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

    /// Whether an event that names this VM is pending.
    pub(crate) fn is_own_pending(&self) -> bool {
        self.entries
            .values()
            .any(|entry| entry.tracked.is_pending() && entry.tracked.scope == EventScope::Own)
    }

    fn expire_ended(&mut self, now: Moment) {
        self.entries
            .retain(|_, entry| entry.tracked.is_pending() || now.monotonic < entry.expires_at);
        let mut ended: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| !entry.tracked.is_pending())
            .collect();
        if ended.len() > MAX_ENDED {
            ended.sort_by_key(|(_, entry)| entry.expires_at);
            let surplus: Vec<_> = ended
                .iter()
                .take(ended.len() - MAX_ENDED)
                .map(|(id, _)| (*id).clone())
                .collect();
            for id in surplus {
                self.entries.remove(&id);
            }
        }
    }
}

impl LastDocument {
    fn has_no_poll_gap(&self, now: Moment) -> bool {
        !self.failed_since
            || self
                .elapsed_before_restore
                .saturating_add(now.monotonic.saturating_sub(self.monotonic))
                <= MAX_POLL_GAP
    }
}
