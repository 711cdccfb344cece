//! Compares two versions of an event.

use crate::event::{Event, EventType, Source, Status};

/// What determines the alerts of an event, and can differ between two versions of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventKind {
    pub event_type: EventType,
    pub source: Option<Source>,
    pub duration_seconds: Option<u64>,
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

/// An advisory never starts.
pub(super) fn is_started(event: &Event) -> bool {
    event.status == Status::Started && !event.is_advisory()
}

/// The current values; members that the current document lacks keep their last values, and are listed in
/// `MissingMembers`.
pub(super) fn known_rest(was: &Event, now: &Event) -> Event {
    let named = if now.resources.is_some() { now } else { was };
    Event {
        resources: named.resources.clone(),
        has_more_resources: named.has_more_resources,
        source: now.source.clone().or_else(|| was.source.clone()),
        resource_type: now
            .resource_type
            .clone()
            .or_else(|| was.resource_type.clone()),
        description: match now.description_text() {
            Some(text) => Some(text.into()),
            None => was.description.clone().or_else(|| now.description.clone()),
        },
        ..now.clone()
    }
}

/// Whether the type or the source of an event differs from the one that an earlier document had.
pub(super) fn is_other_kind(was: &Event, now: &Event) -> bool {
    let is_other_source =
        matches!((&was.source, &now.source), (Some(was), Some(now)) if was != now);
    was.event_type != now.event_type || is_other_source
}

/// Whether two versions of an event agree in all but status and `NotBefore`, which have transitions of their own.
pub(super) fn is_rest_equal(was: &Event, now: &Event) -> bool {
    was.event_type == now.event_type
        && was.source == now.source
        && was.resource_type == now.resource_type
        && was.resources == now.resources
        && was.has_more_resources == now.has_more_resources
        && was.duration_seconds == now.duration_seconds
        && was.description == now.description
        && was.unknown_members == now.unknown_members
}
