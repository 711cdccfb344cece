//! Log records as plain data.

use crate::{otlp::attribute::Attribute, time::Timestamp};

/// An event of OpenTelemetry (<https://opentelemetry.io/docs/specs/semconv/general/events/>): a log record with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    pub name: EventName,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Alerts of severity `info`, no alert, or the event has ended.
    Info,
    /// `warning`
    Warn,
    /// `critical`
    Error,
}

impl Severity {
    pub(crate) const ALL: [Self; 3] = [Self::Info, Self::Warn, Self::Error];

    /// The number in OTLP (<https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber>).
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Info => 9,
            Self::Warn => 13,
            Self::Error => 17,
        }
    }
}

/// What happened: the closed set of names of log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventName {
    Advisory,
    Amended,
    Announced,
    Approved,
    ApprovedElsewhere,
    Ended,
    Interrupted,
    Rescheduled,
    Returned,
    Started,
    StatusChanged,
}

impl EventName {
    pub(crate) const ALL: [Self; 11] = [
        Self::Advisory,
        Self::Amended,
        Self::Announced,
        Self::Approved,
        Self::ApprovedElsewhere,
        Self::Ended,
        Self::Interrupted,
        Self::Rescheduled,
        Self::Returned,
        Self::Started,
        Self::StatusChanged,
    ];

    /// The value of `EventName` in OTLP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Advisory => "azure.scheduled_event.advisory",
            Self::Amended => "azure.scheduled_event.amended",
            Self::Announced => "azure.scheduled_event.announced",
            Self::Approved => "azure.scheduled_event.approved",
            Self::ApprovedElsewhere => "azure.scheduled_event.approved_elsewhere",
            Self::Ended => "azure.scheduled_event.ended",
            Self::Interrupted => "azure.scheduled_event.interrupted",
            Self::Rescheduled => "azure.scheduled_event.rescheduled",
            Self::Returned => "azure.scheduled_event.returned",
            Self::Started => "azure.scheduled_event.started",
            Self::StatusChanged => "azure.scheduled_event.status_changed",
        }
    }

    /// The beginning of the body.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Advisory => "Advisory",
            Self::Amended => "Amended",
            Self::Announced => "Announced",
            Self::Approved => "Approved",
            Self::ApprovedElsewhere => "Approved elsewhere",
            Self::Ended => "Ended",
            Self::Interrupted => "Interrupted",
            Self::Rescheduled => "Rescheduled",
            Self::Returned => "Returned",
            Self::Started => "Started",
            Self::StatusChanged => "Status changed",
        }
    }
}
