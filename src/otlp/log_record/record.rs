//! Log records as plain data.

use serde::{Deserialize, Serialize};

use crate::{
    otlp::attribute::{Attribute, closed_set, nanos},
    time::Timestamp,
};

/// An event of OpenTelemetry (<https://opentelemetry.io/docs/specs/semconv/general/events/>): a log record with a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    pub name: EventName,
    #[serde(with = "nanos")]
    pub at: Timestamp,
    pub severity: Severity,
    /// For people; one line.
    pub body: String,
    /// Identifies the event; the same on each VM.
    pub trace_id: [u8; 16],
    /// The span that belongs to the record; it may not have been sent yet.
    pub span_id: [u8; 8],
    /// With `log.record.uid`.
    pub attributes: Vec<Attribute>,
}

/// The highest severity of the alerts that the event has at that time, in OpenTelemetry's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Alerts of severity `info`, no alert, or the event has ended.
    Info,
    /// `warning`
    Warn,
    /// `critical`
    Error,
}

closed_set! {
    /// What happened: the names of log records, which are the values of `EventName` in OTLP.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum EventName {
        Advisory = "azure.scheduled_event.advisory",
        Amended = "azure.scheduled_event.amended",
        Announced = "azure.scheduled_event.announced",
        Approved = "azure.scheduled_event.approved",
        ApprovedElsewhere = "azure.scheduled_event.approved_elsewhere",
        Ended = "azure.scheduled_event.ended",
        Interrupted = "azure.scheduled_event.interrupted",
        Rescheduled = "azure.scheduled_event.rescheduled",
        Returned = "azure.scheduled_event.returned",
        Started = "azure.scheduled_event.started",
        StatusChanged = "azure.scheduled_event.status_changed",
    }
}

impl EventName {
    /// The beginning of the body, such as `Status changed`.
    pub(super) fn title(self) -> String {
        let name = self.as_str().rsplit('.').next().unwrap_or_default();
        let mut letters = name.chars().map(|c| if c == '_' { ' ' } else { c });
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect()
    }
}
