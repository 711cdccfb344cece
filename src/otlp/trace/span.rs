//! Spans as plain data.

use serde::{Deserialize, Serialize};

use crate::{
    otlp::attribute::{Attribute, closed_set, nanos},
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Identifies the event; the same on each VM.
    pub trace_id: [u8; 16],
    /// Identifies event, VM and phase.
    pub span_id: [u8; 8],
    /// The span of the whole event on this VM; none for that span itself.
    pub parent_span_id: Option<[u8; 8]>,
    pub name: String,
    /// Before `end`.
    #[serde(with = "nanos")]
    pub start: Timestamp,
    #[serde(with = "nanos")]
    pub end: Timestamp,
    pub attributes: Vec<Attribute>,
    /// In the order of time.
    pub events: Vec<SpanEvent>,
    /// The message of the status `Error`; without one the status is unset.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanEvent {
    pub name: String,
    #[serde(with = "nanos")]
    pub at: Timestamp,
    pub attributes: Vec<Attribute>,
}

closed_set! {
    pub(in crate::otlp) enum SpanEventName {
        Rescheduled = "rescheduled",
        ApprovalDecided = "approval_decided",
        ApprovalWithdrawn = "approval_withdrawn",
        ApprovalSent = "approval_sent",
        Approved = "approved",
        ApprovedElsewhere = "approved_elsewhere",
        Interrupted = "interrupted",
    }
}
