//! Pictures for the tests of this room: made of documents, as real ones are.

use serde_json::{Value, json};

use crate::{
    document,
    lifecycle::Tracker,
    snapshot::Snapshot,
    time::{Moment, Timestamp},
};
use std::time::Duration;

/// So many seconds after 2026-11-17T09:00:00Z.
pub(super) fn at(seconds: u64) -> Moment {
    let start = Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(1_000),
    };
    start.after(Duration::from_secs(seconds))
}

/// `NotBefore` so many seconds after the start.
pub(super) fn due(seconds: u64) -> String {
    at(seconds).wall.rfc1123()
}

/// A freeze of `web_1` that is due after ten minutes, with some members in place of others.
pub(super) fn freeze(members: &Value) -> Value {
    let mut event = json!({
        "EventId": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265",
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_1"],
        "NotBefore": due(600),
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    });
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// What is known after these documents, each so many seconds after the start, on the VM `web_1`.
pub(super) fn picture(documents: &[(u64, Value)]) -> Snapshot {
    let mut tracker = Tracker::new(Duration::from_mins(10));
    let mut snapshot = Snapshot::empty(Some("web_1".into()), at(0));
    for (seconds, events) in documents {
        let body = json!({ "DocumentIncarnation": seconds, "Events": events }).to_string();
        let (document, _) = document::parse(body.as_bytes()).unwrap();
        tracker.observe(&document, Some("web_1"), at(*seconds));
        snapshot.has_document = true;
        snapshot.health.incarnation = document.incarnation;
        snapshot.health.succeed(at(*seconds));
        snapshot.as_of = at(*seconds);
    }
    snapshot.events = tracker.events().into();
    snapshot
}
