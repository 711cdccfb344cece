//! Snapshots built from documents.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    document,
    lifecycle::Tracker,
    snapshot::Snapshot,
    time::{Moment, Timestamp},
};
use serde_json::{Value, json};

/// Seconds after 2026-11-17T09:00:00Z.
pub(crate) fn at(seconds: u64) -> Moment {
    let start = Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(1_000),
    };
    start.after(Duration::from_secs(seconds))
}

/// A freeze of `web_1` with a notice of ten minutes.
pub(crate) fn event(id: &str, description: &str) -> Value {
    json!({
        "EventId": id,
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_1"],
        "NotBefore": at(600).wall.rfc1123(),
        "Description": description,
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    })
}

/// The snapshot of the VM `web_1` after one document.
pub(crate) fn snapshot(incarnation: u64, events: &[Value]) -> Snapshot {
    let body = json!({ "DocumentIncarnation": incarnation, "Events": events }).to_string();
    let (document, _) = document::parse(body.as_bytes()).unwrap();
    let mut tracker = Tracker::new(Duration::from_mins(10));
    let mut snapshot = Snapshot::empty(Some("web_1".into()), at(0));
    tracker.observe(&document, Some("web_1"), at(0));
    snapshot.events = tracker.events().into();
    snapshot.has_document = true;
    snapshot.health.incarnation = document.incarnation;
    snapshot.health.requests = incarnation;
    snapshot.health.succeed(at(0));
    snapshot
}
