//! Follows events from document to document.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    followed::Followed,
    life::{Interruption, Life},
    transition::{Transition, What},
};
use crate::{
    document::Document,
    event::{EventId, Scope},
    time::{Moment, Timestamp},
};

/// Between two polls that are no further apart than this, no started phase was missed, even if polls between failed.
const STILL_WATCHED: Duration = Duration::from_mins(1);
/// Ended events that stay visible at the same time.
const MOST_ENDED: usize = 1_000;

/// Follows every event that a document names.
#[derive(Debug, Clone)]
pub struct Tracker {
    linger: Duration,
    followed: BTreeMap<EventId, Followed>,
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
    pub lives: Vec<Arc<Life>>,
    /// When it last knew what the document says.
    pub document_at: Option<Timestamp>,
    /// When it last knew that it was alive.
    pub heartbeat_at: Option<Timestamp>,
    /// The VM was booted since, as its boot id says.
    pub rebooted: bool,
}

impl Tracker {
    /// Knows nothing yet; ended events stay visible for `linger`.
    pub fn new(linger: Duration) -> Self {
        Self {
            linger,
            followed: BTreeMap::new(),
            last_document: None,
        }
    }

    /// Goes on where an earlier process stopped. For a VM that was booted since, the time from its last sign of life to
    /// the first document after the boot is what a reboot or redeploy of it cost.
    pub fn restore(linger: Duration, restored: Restored, now: Moment) -> Self {
        let mut tracker = Self::new(linger);
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
        for mut life in restored.lives {
            let ended_ago = life.ending.map_or(Duration::ZERO, |ending| {
                now.wall.saturating_since(ending.at)
            });
            if ended_ago >= linger && !life.is_pending() {
                continue;
            }
            if restored.rebooted && life.is_pending() {
                let life = Arc::make_mut(&mut life);
                life.rebooted = true;
                let heartbeat_at = restored.heartbeat_at.filter(|_| life.ends_with_boot());
                life.down_since = life.down_since.or(heartbeat_at);
            }
            let forget_at = now
                .monotonic
                .saturating_add(linger.saturating_sub(ended_ago));
            let id = life.event.id.clone();
            let followed = Followed {
                life,
                forget_at,
                is_hidden: false,
            };
            tracker.followed.insert(id, followed);
        }
        tracker
    }

    /// Takes a document in. This alone begins, changes and ends events. `own_name` is the name that was learnt last.
    pub fn observe(
        &mut self,
        document: &Document,
        own_name: Option<&str>,
        now: Moment,
    ) -> Vec<Transition> {
        let watched = self.last_document.is_some_and(|last| last.is_watched(now));
        let mut happened = Vec::new();
        happened.extend(
            self.followed
                .values_mut()
                .filter_map(|followed| followed.up_again(now.wall)),
        );
        let mut present = HashSet::with_capacity(document.events.len());
        for event in &document.events {
            present.insert(&event.id);
            if let Some(followed) = self.followed.get_mut(&event.id) {
                followed.update(event, own_name, now.wall, &mut happened);
            } else {
                let new = Followed::begin(event, own_name, !watched, now.wall, &mut happened);
                self.followed.insert(event.id.clone(), new);
            }
        }
        let missing = self
            .followed
            .values_mut()
            .filter(|f| f.life.is_pending() && !present.contains(&f.life.event.id));
        for followed in missing {
            if document.is_complete() {
                happened.push(followed.end(now, self.linger, watched));
            } else {
                followed.is_hidden = true;
            }
        }
        self.confirm(now);
        happened
    }

    /// The last document still holds (304), or says nothing new.
    pub fn confirm(&mut self, now: Moment) {
        self.last_document = Some(LastDocument {
            at: now.wall,
            monotonic: now.monotonic,
            before: Duration::ZERO,
            failed_since: false,
        });
        self.forget(now);
    }

    /// A poll failed: nothing is known to have changed. Ended events may have been shown for long enough.
    pub fn advance(&mut self, now: Moment) {
        if let Some(last) = &mut self.last_document {
            last.failed_since = true;
        }
        self.forget(now);
    }

    /// This VM stood still. It counts for each event that names it, from one second up.
    pub fn interrupted(&mut self, interruption: Interruption, now: Timestamp) -> Vec<Transition> {
        if interruption.length < Interruption::SHORTEST {
            return Vec::new();
        }
        self.followed
            .values_mut()
            .filter_map(|followed| followed.interrupt(interruption, now))
            .collect()
    }

    /// This exporter approved an event.
    pub fn approved(&mut self, id: &EventId, now: Timestamp) -> Option<Transition> {
        let followed = self
            .followed
            .get_mut(id)
            .filter(|f| f.life.is_pending() && f.life.approved_at.is_none())?;
        let life = followed.life_mut();
        life.approved_at = Some(now);
        life.refused_at = None;
        Some(followed.happened(What::Approved, now))
    }

    /// IMDS did not take an approval.
    pub fn refused(&mut self, id: &EventId, now: Timestamp) {
        let pending = self.followed.get_mut(id).filter(|f| f.life.is_pending());
        if let Some(followed) = pending.filter(|f| f.life.approved_at.is_none()) {
            followed.life_mut().refused_at = Some(now);
        }
    }

    /// When a document was read, or confirmed by a 304, for the last time.
    pub fn document_at(&self) -> Option<Timestamp> {
        self.last_document.map(|last| last.at)
    }

    /// Every life that is followed, in the order of the ids.
    pub fn lives(&self) -> Vec<Arc<Life>> {
        self.followed
            .values()
            .map(|followed| Arc::clone(&followed.life))
            .collect()
    }

    /// How many events are not over.
    pub fn pending(&self) -> usize {
        self.followed
            .values()
            .filter(|followed| followed.life.is_pending())
            .count()
    }

    /// Our own name is known now, or another than before: whom each event names can be said. Returns the events of which
    /// it turns out now that they name this VM.
    pub fn learn(&mut self, own_name: Option<&str>) -> Vec<Arc<Life>> {
        let mut own = Vec::new();
        for followed in self.followed.values_mut() {
            let scope = followed.life.event.scope(own_name);
            if followed.life.scope != scope {
                followed.life_mut().scope = scope;
                if scope == Scope::Own {
                    own.push(Arc::clone(&followed.life));
                }
            }
        }
        own
    }

    /// Whether an event that names this VM is pending, so that its pulse is worth taking.
    pub fn is_own_pending(&self) -> bool {
        self.followed
            .values()
            .any(|followed| followed.life.is_pending() && followed.life.scope == Scope::Own)
    }

    /// What ended long ago is forgotten.
    fn forget(&mut self, now: Moment) {
        self.followed
            .retain(|_, f| f.life.is_pending() || now.monotonic < f.forget_at);
        let mut ended: Vec<_> = self
            .followed
            .iter()
            .filter(|(_, f)| !f.life.is_pending())
            .collect();
        if ended.len() > MOST_ENDED {
            ended.sort_by_key(|(_, followed)| followed.forget_at);
            let surplus: Vec<_> = ended
                .iter()
                .take(ended.len() - MOST_ENDED)
                .map(|(id, _)| (*id).clone())
                .collect();
            for id in surplus {
                self.followed.remove(&id);
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
                <= STILL_WATCHED
    }
}
