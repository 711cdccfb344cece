//! Events for unit tests.

use std::{sync::Arc, time::Duration};

use crate::{
    azure::event::{Event, EventId, EventScope, EventType, Source, Status},
    base::time::{Moment, Timestamp},
    core::{
        lifecycle::{End, FirstSight, Outcome, TrackedEvent},
        snapshot::Snapshot,
    },
};

const SEEN: i64 = 1_000_000;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(SEEN + seconds).unwrap()
}

pub(crate) fn moment(seconds: i64) -> Moment {
    let elapsed = Duration::from_secs((SEEN + seconds).unsigned_abs());
    Moment::new(at(seconds), elapsed)
}

/// An event of this VM, first seen at zero.
pub(crate) fn tracked(event_type: &str, source: &str, not_before: Option<i64>) -> TrackedEvent {
    let event = Event {
        id: EventId::new("A1B2C3D4-0000-4000-8000-000000000001"),
        event_type: EventType::new(event_type),
        status: Status::Scheduled,
        source: (!source.is_empty()).then(|| Source::new(source)),
        resource_type: None,
        resources: Some(vec!["web_1".into()]),
        has_more_resources: false,
        not_before: not_before.map(at),
        duration_seconds: None,
        is_duration_unknown: false,
        description: None,
        unknown_members: Vec::new(),
    };
    TrackedEvent::begin(event, EventScope::Own, moment(0))
}

pub(crate) fn started(mut tracked: TrackedEvent, seconds: i64) -> TrackedEvent {
    tracked.started_at = Some(at(seconds));
    tracked.shown.status = Status::Started;
    if seconds == 0 {
        tracked.first_sight = FirstSight::StartedUnannounced;
    }
    tracked
}

pub(crate) fn ended(mut tracked: TrackedEvent, seconds: i64) -> TrackedEvent {
    let outcome = Outcome::Completed;
    tracked.end = Some(End {
        at: at(seconds),
        outcome,
    });
    tracked
}

pub(crate) fn snapshot(events: impl IntoIterator<Item = TrackedEvent>) -> Snapshot {
    let mut snapshot = Snapshot::empty(Some(Arc::from("web_1")), moment(0));
    snapshot.events = events.into_iter().map(Arc::new).collect();
    snapshot
}

pub(crate) fn platform(event_type: &str, not_before: Option<i64>) -> TrackedEvent {
    tracked(event_type, "Platform", not_before)
}

pub(crate) fn freeze(duration: Option<u64>, not_before: Option<i64>) -> TrackedEvent {
    let mut tracked = platform("Freeze", not_before);
    tracked.shown.duration_seconds = duration;
    tracked
}
