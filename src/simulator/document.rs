//! The scheduled-events document as the service writes it: one line, members in the order of captured documents, and
//! only the event types and fields of the requested version.

use serde::Serialize;

use super::world::{PendingEvent, SimulatedStatus};
use crate::{
    azure::{
        api_version::{ApiVersion, EventField, LATEST_API_VERSION},
        event::EventType,
    },
    base::time::is_date,
};

/// The version of the Scheduled Events API in a request: a documented one, or a newer date.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedVersion {
    known: ApiVersion,
    /// Only versions newer than the documented ones have advisories; their number is not published.
    has_advisories: bool,
}

impl SimulatedVersion {
    pub fn find(name: &str) -> Option<Self> {
        let has_advisories = is_date(name) && name > LATEST_API_VERSION;
        let name = if has_advisories {
            LATEST_API_VERSION
        } else {
            name
        };
        ApiVersion::find(name).map(|known| Self {
            known,
            has_advisories,
        })
    }

    pub(super) fn is_preview(self) -> bool {
        self.known.is_preview()
    }

    fn has(self, event: &PendingEvent) -> bool {
        if event.spec.needs_newer_version() {
            return self.has_advisories;
        }
        let event_type = EventType::new(&event.spec.event_type);
        self.known.has_event_type(&event_type)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DocumentForm<'a> {
    document_incarnation: u64,
    events: Vec<EntryForm<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EntryForm<'a> {
    event_id: &'a str,
    event_status: SimulatedStatus,
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
pub fn document(incarnation: u64, events: &[PendingEvent], version: SimulatedVersion) -> String {
    let visible = events.iter().filter(|event| version.has(event));
    let document = DocumentForm {
        document_incarnation: incarnation,
        events: visible.map(|event| entry(event, version.known)).collect(),
    };
    // Infallible: the document consists of strings, numbers and lists of them.
    serde_json::to_string(&document).unwrap_or_default()
}

fn entry(event: &PendingEvent, version: ApiVersion) -> EntryForm<'_> {
    let spec = &event.spec;
    let has = |field| version.has_field(field);
    let not_before = event.not_before.map(|at| {
        if version.is_preview() {
            at.rfc3339()
        } else {
            at.rfc1123()
        }
    });
    let resources = event.resources.iter();
    EntryForm {
        event_id: event.id.as_str(),
        event_status: event.status,
        event_type: &spec.event_type,
        resource_type: "VirtualMachine",
        resources: resources.map(|name| resource_name(name, version)).collect(),
        not_before: not_before.unwrap_or_default(),
        description: has(EventField::Description).then_some(&*spec.description),
        event_source: has(EventField::EventSource).then_some(&*spec.event_source),
        duration_in_seconds: has(EventField::DurationInSeconds).then_some(spec.duration_seconds),
    }
}

/// The preview writes an underscore before each name.
fn resource_name(name: &str, version: ApiVersion) -> String {
    if version.is_preview() {
        format!("_{name}")
    } else {
        name.to_owned()
    }
}
