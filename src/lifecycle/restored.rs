//! What a tracker continues from.

use std::sync::Arc;

use super::tracked_event::TrackedEvent;
use crate::time::Timestamp;

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
    /// It may have run on another VM, whose disk was copied.
    pub is_owner_unknown: bool,
}
