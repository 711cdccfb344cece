//! Snapshots made by the engine from documents.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    engine::EngineConfig,
    snapshot::Snapshot,
    time::{Moment, Timestamp},
};
use serde_json::{Value, json};

use crate::support::{driven_engine::DrivenEngine, events};

/// Seconds after 2026-11-17T09:00:00Z.
pub(crate) fn at(seconds: u64) -> Moment {
    let start = Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        Duration::from_secs(1_000),
    );
    start.after(Duration::from_secs(seconds))
}

/// A freeze of `web_1` with a notice of ten minutes.
pub(crate) fn event(id: &str, description: &str) -> Value {
    events::event(&json!({
        "EventId": id,
        "Resources": ["web_1"],
        "NotBefore": at(600).wall.rfc1123(),
        "Description": description,
        "DurationInSeconds": 9,
    }))
}

/// An engine on the VM `web_1`.
pub(crate) fn engine() -> DrivenEngine {
    let config = EngineConfig {
        vm_name: Some("web_1".into()),
        ..EngineConfig::default()
    };
    DrivenEngine::new(config, None, at(0))
}

/// The snapshot after one more poll.
pub(crate) fn poll(engine: &mut DrivenEngine, incarnation: u64, events: &[Value]) -> Snapshot {
    let body = json!({ "DocumentIncarnation": incarnation, "Events": events }).to_string();
    engine.poll_body(body.as_bytes());
    engine.snapshot()
}
