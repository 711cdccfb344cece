//! Snapshots for the tests of this module, made by the engine from documents.

use std::time::Duration;

use serde_json::{Value, json};

use super::api::{self, transitions_json};
use crate::{
    azure::document::{self, Answer},
    base::time::{Moment, Timestamp},
    core::{
        engine::{Engine, EngineConfig, Input},
        pause::Lateness,
        snapshot::Snapshot,
    },
};

/// The default of `--serving.lead-time`.
pub(crate) const LEAD_TIME: Duration = Duration::from_mins(5);

/// The given number of seconds after 2026-11-17T09:00:00Z.
pub(super) fn at(seconds: u64) -> Moment {
    let start = Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        Duration::from_secs(1_000),
    );
    start.after(Duration::from_secs(seconds))
}

/// `NotBefore`, the given number of seconds after the start.
pub(super) fn due(seconds: u64) -> String {
    at(seconds).wall.rfc1123()
}

/// A freeze of `web_1` that is due after ten minutes, with some members replaced.
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

/// The engine's snapshot after these documents on the VM `web_1`, each with its time in seconds after the start.
pub(super) fn snapshot_after(documents: &[(u64, Value)]) -> Snapshot {
    let config = EngineConfig {
        vm_name: Some("web_1".into()),
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(config, None, at(0));
    let mut snapshot = engine.snapshot(at(0));
    for (seconds, events) in documents {
        let body = json!({ "DocumentIncarnation": seconds, "Events": events }).to_string();
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        let input = Input::Polled {
            result: Ok(Answer::Document {
                document,
                anomalies,
            }),
            took: Duration::ZERO,
            late: Lateness::default(),
        };
        engine.handle(input, at(*seconds));
        snapshot = engine.snapshot(at(*seconds));
    }
    snapshot
}

/// `/api/v1/transitions`, with or without a number after which they begin.
pub(crate) fn transitions(snapshot: &Snapshot, after: Option<u64>, now: Moment) -> String {
    let query = after.map(|number| format!("after={number}"));
    let after = api::after(query.as_deref()).unwrap();
    transitions_json(snapshot, after, LEAD_TIME, now).unwrap()
}
