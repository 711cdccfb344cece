//! Follows events from document to document.

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

/// Between two polls that are no further apart than this, no started phase was missed, even if polls between failed.
const MAX_POLL_GAP: Duration = Duration::from_mins(1);
/// Ended events that stay visible at the same time.
const MAX_ENDED: usize = 1_000;

/// Follows every event that a document names.
#[derive(Debug, Clone)]
pub struct Tracker {
    retention: Duration,
    entries: BTreeMap<EventId, TrackerEntry>,
    /// The last document; `None` before the first.
    last_document: Option<LastDocument>,
}

#[derive(Debug, Clone, Copy)]
struct LastDocument {
    at: Timestamp,
    /// By the monotonic clock: when it came, or when this process took over from an earlier one that had it.
    monotonic: Duration,
    /// What had passed already when this process took over.
    before: Duration,
    /// A poll failed since.
    failed_since: bool,
}

/// What an earlier process of this exporter left.
#[derive(Debug, Clone, Default)]
pub struct Restored {
    /// The lives that it followed.
    pub events: Vec<Arc<TrackedEvent>>,
    /// When it last knew what the document says.
    pub document_at: Option<Timestamp>,
    /// When it last knew that it was alive.
    pub heartbeat_at: Option<Timestamp>,
    /// The VM was booted since, as its boot id says.
    pub rebooted: bool,
}

impl Tracker {
    /// Knows nothing yet; ended events stay visible for `linger`.
    pub fn new(retention: Duration) -> Self {
        Self {
            retention,
            entries: BTreeMap::new(),
            last_document: None,
        }
    }

    /// Goes on where an earlier process stopped. For a VM that was booted since, the time from its last sign of life to
    /// the first document after the boot is what a reboot or redeploy of it cost.
    pub fn restore(retention: Duration, restored: Restored, now: Moment) -> Self {
        let mut tracker = Self::new(retention);
        tracker.last_document = restored.document_at.map(|at| LastDocument {
            at,
            monotonic: now.monotonic,
            // A clock that was set back hides how long it was: not less than by how much it was set back.
            before: now
                .wall
                .saturating_since(at)
                .max(at.saturating_since(now.wall)),
            failed_since: true,
        });
        for mut tracked in restored.events {
            let ended_ago = tracked
                .end
                .map_or(Duration::ZERO, |end| now.wall.saturating_since(end.at));
            if ended_ago >= retention && !tracked.is_pending() {
                continue;
            }
            if restored.rebooted && tracked.is_pending() {
                let tracked = Arc::make_mut(&mut tracked);
                tracked.rebooted = true;
                let heartbeat_at = restored.heartbeat_at.filter(|_| tracked.ends_with_boot());
                tracked.down_since = tracked.down_since.or(heartbeat_at);
            }
            let expires_at = now
                .monotonic
                .saturating_add(retention.saturating_sub(ended_ago));
            let id = tracked.event.id.clone();
            let entry = TrackerEntry {
                tracked,
                expires_at,
                maybe_unreadable: false,
            };
            tracker.entries.insert(id, entry);
        }
        tracker
    }

    /// Takes a document in. This alone begins, changes and ends events. `own_name` is the name that was learnt last.
    pub fn observe(
        &mut self,
        document: &Document,
        vm_name: Option<&str>,
        now: Moment,
    ) -> Vec<Transition> {
        let watched = self.last_document.is_some_and(|last| last.is_watched(now));
        let mut happened = Vec::new();
        happened.extend(
            self.entries
                .values_mut()
                .filter_map(|entry| entry.record_boot(now.wall)),
        );
        let mut present = HashSet::with_capacity(document.events.len());
        for event in &document.events {
            present.insert(&event.id);
            if let Some(entry) = self.entries.get_mut(&event.id) {
                entry.update(event, vm_name, now.wall, &mut happened);
            } else {
                let new = TrackerEntry::begin(event, vm_name, !watched, now.wall, &mut happened);
                self.entries.insert(event.id.clone(), new);
            }
        }
        let missing = self.entries.values_mut().filter(|entry| {
            entry.tracked.is_pending() && !present.contains(&entry.tracked.event.id)
        });
        for entry in missing {
            if document.is_complete() {
                happened.push(entry.end(now, self.retention, watched));
            } else {
                entry.maybe_unreadable = true;
            }
        }
        self.document_unchanged(now);
        happened
    }

    /// The last document still holds (304), or says nothing new.
    pub fn document_unchanged(&mut self, now: Moment) {
        self.last_document = Some(LastDocument {
            at: now.wall,
            monotonic: now.monotonic,
            before: Duration::ZERO,
            failed_since: false,
        });
        self.expire_ended(now);
    }

    /// A poll failed: nothing is known to have changed. Ended events may have been shown for long enough.
    pub fn poll_failed(&mut self, now: Moment) {
        if let Some(last) = &mut self.last_document {
            last.failed_since = true;
        }
        self.expire_ended(now);
    }

    /// This VM stood still. It counts for each event that names it, from one second up.
    pub fn record_interruption(
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
    pub fn record_approval_request(&mut self, id: &EventId, now: Timestamp) {
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
    pub fn record_refusal(&mut self, id: &EventId, now: Timestamp) {
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

    /// When a document was read, or confirmed by a 304, for the last time.
    pub fn document_at(&self) -> Option<Timestamp> {
        self.last_document.map(|last| last.at)
    }

    /// Every life that is followed, in the order of the ids.
    pub fn events(&self) -> Vec<Arc<TrackedEvent>> {
        self.entries
            .values()
            .map(|entry| Arc::clone(&entry.tracked))
            .collect()
    }

    /// How many events are not over.
    pub fn pending(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| entry.tracked.is_pending())
            .count()
    }

    /// Our own name is known now, or another than before: whom each event names can be said. Returns the events of which
    /// it turns out now that they name this VM.
    pub fn set_vm_name(&mut self, vm_name: Option<&str>) -> Vec<Arc<TrackedEvent>> {
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

    /// Whether an event that names this VM is pending, so that its pulse is worth taking.
    pub fn is_own_pending(&self) -> bool {
        self.entries
            .values()
            .any(|entry| entry.tracked.is_pending() && entry.tracked.scope == EventScope::Own)
    }

    /// What ended long ago is forgotten.
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
    fn is_watched(&self, now: Moment) -> bool {
        !self.failed_since
            || self
                .before
                .saturating_add(now.monotonic.saturating_sub(self.monotonic))
                <= MAX_POLL_GAP
    }
}
