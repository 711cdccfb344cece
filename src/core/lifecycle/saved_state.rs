//! What a tracker, and the engine around it, continue from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::tracked_event::TrackedEvent;
use crate::base::time::{Moment, MonotonicTime, Timestamp};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    pub boot_id: Option<String>,
    /// When the exporter was last known to run.
    pub heartbeat_at: Timestamp,
    /// The monotonic clock then.
    pub monotonic: MonotonicTime,
    /// When a document was last read or confirmed; `None` before the first.
    pub document_at: Option<Moment>,
    /// By how much the clock was set back since then, while no exporter ran.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub set_back: Duration,
    pub document_incarnation: Option<i64>,
    /// Until then, events may take some time to appear, because the feature was just enabled.
    pub warm_up_until: Option<MonotonicTime>,
    pub vm_name: Option<Arc<str>>,
    /// The name in instance metadata, which may be another one.
    pub metadata_name: Option<Arc<str>>,
    /// `--vm.owner-tag`, and the value of this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<[Arc<str>; 2]>,
    /// The id of the VM: a state that was cloned with a disk is recognized by it.
    pub vm_id: Option<String>,
    pub journal: SavedJournal,
    pub events: Vec<Arc<TrackedEvent>>,
}

impl SavedState {
    /// `now` on the monotonic clock of the process that wrote it. The wall clock alone shows how long ago that was.
    pub fn resume(&self, now: Moment) -> Moment {
        let away = now.wall.saturating_since(self.heartbeat_at);
        Moment {
            monotonic: self.monotonic + away,
            ..now
        }
    }

    /// Whether the VM was booted after the state was written; false where a boot id is unknown.
    pub(crate) fn is_rebooted(&self, boot_id: Option<&str>) -> bool {
        match (self.boot_id.as_deref(), boot_id) {
            (Some(saved), Some(current)) => saved != current,
            _ => false,
        }
    }
}

/// What the state says about the journal beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SavedJournal {
    pub id: Arc<str>,
    /// The last number that the state counts.
    #[serde(default)]
    pub newest: u64,
    /// How far each signal was sent, by its name.
    #[serde(default)]
    pub cursors: BTreeMap<String, SavedCursor>,
}

/// How far the entries of a journal were sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SavedCursor {
    /// Up to this number, each is accepted, dropped or without records.
    pub sent: u64,
    /// Beyond `sent`.
    #[serde(default)]
    pub ahead: BTreeSet<u64>,
}
