//! Compares two versions of an event.

use crate::azure::event::{Event, Status, UNREADABLE};

/// An advisory never starts.
pub(super) fn is_started(event: &Event) -> bool {
    event.status == Status::Started && !event.is_advisory()
}

/// The current values; members that the current document lacks keep their last values, and are listed in
/// `MissingMembers`. `not_before` is that of the current document.
pub(super) fn revise(was: &Event, now: &Event) -> Event {
    let named = if now.resources.is_some() { now } else { was };
    let is_type_known = now.event_type.as_str() != UNREADABLE;
    Event {
        id: was.id.clone(),
        event_type: if is_type_known { now } else { was }.event_type.clone(),
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
    let rest = Event {
        status: was.status.clone(),
        not_before: was.not_before,
        ..now.clone()
    };
    *was == rest
}
