//! What the alerts of an event depend on.

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventType, Source};

/// What determines the alerts of an event, and can differ between two versions of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventKind {
    pub event_type: EventType,
    pub source: Option<Source>,
    pub duration_seconds: Option<u64>,
    #[serde(default)]
    pub is_advisory: bool,
}

impl EventKind {
    pub(crate) fn of(event: &Event) -> Self {
        Self {
            event_type: event.event_type.clone(),
            source: event.source.clone(),
            duration_seconds: event.duration_seconds,
            is_advisory: event.is_advisory(),
        }
    }
}
