//! The scheduled-events document as the service writes it: one line, members in the order of captured answers, and only
//! the members and event types of the version that was asked for.

use serde::Serialize;

use super::world::{Pending, World};
use crate::time::Timestamp;

/// The versions of the Scheduled Events API:
/// <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#version-and-region-availability>.
pub(super) const VERSIONS: [&str; 7] = [
    "2017-03-01",
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
];

/// The preview: ISO 8601 times, and an underscore before the name of a VM.
const PREVIEW: &str = "2017-03-01";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    document_incarnation: u64,
    events: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    event_id: &'a str,
    event_status: &'static str,
    event_type: &'a str,
    resource_type: &'static str,
    resources: Vec<String>,
    not_before: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_in_seconds: Option<i64>,
}

/// The document in one of the versions of the Scheduled Events API.
pub fn document(world: &World, version: &str) -> String {
    let visible = world
        .pending()
        .iter()
        .filter(|event| is_known(&event.planned.event_type, version));
    let document = Document {
        document_incarnation: world.incarnation(),
        events: visible.map(|event| wire(event, version)).collect(),
    };
    // Strings, numbers and lists of them: nothing here can fail to be written.
    serde_json::to_string(&document).unwrap_or_default()
}

/// Versions are dates, so that later is greater.
fn is_known(event_type: &str, version: &str) -> bool {
    match event_type {
        "Preempt" => version >= "2017-11-01",
        "Terminate" => version >= "2019-01-01",
        _ => true,
    }
}

fn wire<'a>(event: &'a Pending, version: &str) -> Entry<'a> {
    let is_preview = version == PREVIEW;
    let time = if is_preview {
        Timestamp::rfc3339
    } else {
        Timestamp::rfc1123
    };
    let prefix = if is_preview { "_" } else { "" };
    Entry {
        event_id: event.id.as_str(),
        event_status: if event.is_started() {
            "Started"
        } else {
            "Scheduled"
        },
        event_type: &event.planned.event_type,
        resource_type: "VirtualMachine",
        resources: event
            .resources
            .iter()
            .map(|name| format!("{prefix}{name}"))
            .collect(),
        not_before: event.not_before.map(time).unwrap_or_default(),
        description: (version >= "2019-04-01").then_some(&*event.planned.description),
        event_source: (version >= "2019-08-01").then_some(&*event.planned.event_source),
        duration_in_seconds: (version >= "2020-07-01").then_some(event.planned.duration_seconds),
    }
}
