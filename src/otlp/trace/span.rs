//! Spans as plain data.

use crate::{otlp::resource::Resource, time::Timestamp};

/// Spans that are exported together, with their resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    pub resource: Resource,
    pub spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Identifies the event; the same on each VM.
    pub trace_id: [u8; 16],
    /// Identifies event, VM and phase.
    pub span_id: [u8; 8],
    /// The span of the whole event on this VM; none for that span itself.
    pub parent_span_id: Option<[u8; 8]>,
    pub name: String,
    /// Never after `end`.
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: Vec<Attribute>,
    /// In the order of time.
    pub events: Vec<SpanEvent>,
    /// The message of the status `Error`; without one the status is unset.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    pub key: String,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Texts(Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// `rescheduled`, `approval_decided`, `approval_sent`, `approved`, `approved_elsewhere` or `interrupted`.
    pub name: String,
    pub at: Timestamp,
    pub attributes: Vec<Attribute>,
}

impl Batch {
    /// The size in memory, roughly: text, and a constant for each value.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        const VALUE: usize = 48;
        let attributes = |attributes: &[Attribute]| -> usize {
            let bytes = |attribute: &Attribute| {
                let value = match &attribute.value {
                    Value::Text(text) => text.len(),
                    Value::Int(_) | Value::Float(_) => 0,
                    Value::Texts(texts) => texts.iter().map(|text| text.len() + VALUE).sum(),
                };
                attribute.key.len() + value + VALUE
            };
            attributes.iter().map(bytes).sum()
        };
        let events = |events: &[SpanEvent]| -> usize {
            let bytes = |event: &SpanEvent| attributes(&event.attributes) + VALUE;
            events.iter().map(bytes).sum()
        };
        let spans = self.spans.iter();
        let bytes = spans.map(|span| attributes(&span.attributes) + events(&span.events) + VALUE);
        bytes.sum::<usize>() as u64
    }
}

impl Span {
    pub(crate) fn trace_id_hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }

    pub fn span_id_hex(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.span_id))
    }
}
