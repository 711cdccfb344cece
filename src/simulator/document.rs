//! The scheduled-events document as the service writes it: one line, members in the order of captured documents, and only
//! the event types and fields of the requested version.

use serde::Serialize;

use super::world::{PendingEvent, World};
use crate::{
    api_version::{ApiVersion, EventField},
    event::EventType,
    time::Timestamp,
};

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

/// Renders the document in one version of the Scheduled Events API.
pub fn document(world: &World, version: &ApiVersion) -> String {
    let visible = world
        .pending()
        .iter()
        .filter(|event| version.has_event_type(&EventType::new(&event.spec.event_type)));
    let document = Document {
        document_incarnation: world.incarnation(),
        events: visible.map(|event| entry(event, version)).collect(),
    };
    // Infallible: the document consists of strings, numbers and lists of them.
    serde_json::to_string(&document).unwrap_or_default()
}

fn entry<'a>(event: &'a PendingEvent, version: &ApiVersion) -> Entry<'a> {
    let (format_time, prefix): (fn(Timestamp) -> String, _) = if version.is_preview {
        (Timestamp::rfc3339, "_")
    } else {
        (Timestamp::rfc1123, "")
    };
    let spec = &event.spec;
    Entry {
        event_id: event.id.as_str(),
        event_status: event.status(),
        event_type: &spec.event_type,
        resource_type: "VirtualMachine",
        resources: event
            .resources
            .iter()
            .map(|name| format!("{prefix}{name}"))
            .collect(),
        not_before: event.not_before.map(format_time).unwrap_or_default(),
        description: version
            .has_field(EventField::Description)
            .then_some(&*spec.description),
        event_source: version
            .has_field(EventField::EventSource)
            .then_some(&*spec.event_source),
        duration_in_seconds: version
            .has_field(EventField::DurationInSeconds)
            .then_some(spec.duration_seconds),
    }
}
