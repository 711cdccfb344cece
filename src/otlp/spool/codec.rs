//! How a batch is written: JSON of a version of its own, read by this file alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Batch;
use crate::{
    otlp::trace::{Attribute, Span, SpanEvent, Value},
    time::Timestamp,
};

/// Raised when the form changes so that an older reader would misread it.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct BatchForm {
    version: u32,
    resource: BTreeMap<String, String>,
    spans: Vec<SpanForm>,
}

#[derive(Deserialize)]
struct VersionForm {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct SpanForm {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    start: i64,
    end: i64,
    attributes: Vec<(String, ValueForm)>,
    events: Vec<EventForm>,
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct EventForm {
    name: String,
    at: i64,
    attributes: Vec<(String, ValueForm)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ValueForm {
    Text(String),
    Int(i64),
    Float(f64),
    Texts(Vec<String>),
}

/// Why a batch cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// Torn, or written by somebody else.
    #[error("it is no batch of spans: {0}")]
    Form(#[from] serde_json::Error),
    /// Written by a newer exporter.
    #[error("it is of version {0}, and this exporter reads version {VERSION}")]
    Version(u32),
    /// An id or a time that cannot be.
    #[error("it has an id or a time that cannot be")]
    Content,
}

pub(super) fn write(batch: &Batch) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&BatchForm {
        version: VERSION,
        resource: batch.resource.clone(),
        spans: batch.spans.iter().map(SpanForm::from).collect(),
    })
}

pub(super) fn read(bytes: &[u8]) -> Result<Batch, Unreadable> {
    let VersionForm { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    let form: BatchForm = serde_json::from_slice(bytes)?;
    let spans: Option<Vec<_>> = form.spans.into_iter().map(SpanForm::into_span).collect();
    Ok(Batch {
        resource: form.resource,
        spans: spans.ok_or(Unreadable::Content)?,
    })
}

impl From<&Span> for SpanForm {
    fn from(span: &Span) -> Self {
        Self {
            trace_id: span.trace_id_hex(),
            span_id: span.span_id_hex(),
            parent_span_id: span.parent_span_id.map(hex),
            name: span.name.clone(),
            start: nanos(span.start),
            end: nanos(span.end),
            attributes: attributes(&span.attributes),
            events: span.events.iter().map(EventForm::from).collect(),
            error: span.error.clone(),
        }
    }
}

impl SpanForm {
    fn into_span(self) -> Option<Span> {
        let parent_span_id = match self.parent_span_id {
            Some(digits) => Some(id(&digits)?),
            None => None,
        };
        Some(Span {
            trace_id: u128::from_str_radix(&self.trace_id, 16).ok()?.to_be_bytes(),
            span_id: id(&self.span_id)?,
            parent_span_id,
            name: self.name,
            start: at(self.start)?,
            end: at(self.end)?,
            attributes: known(self.attributes),
            events: self
                .events
                .into_iter()
                .map(EventForm::into_event)
                .collect::<Option<_>>()?,
            error: self.error,
        })
    }
}

impl From<&SpanEvent> for EventForm {
    fn from(event: &SpanEvent) -> Self {
        Self {
            name: event.name.clone(),
            at: nanos(event.at),
            attributes: attributes(&event.attributes),
        }
    }
}

impl EventForm {
    fn into_event(self) -> Option<SpanEvent> {
        Some(SpanEvent {
            name: self.name,
            at: at(self.at)?,
            attributes: known(self.attributes),
        })
    }
}

fn attributes(attributes: &[Attribute]) -> Vec<(String, ValueForm)> {
    let form = |value: &Value| match value {
        Value::Text(text) => ValueForm::Text(text.clone()),
        Value::Int(number) => ValueForm::Int(*number),
        Value::Float(number) => ValueForm::Float(*number),
        Value::Texts(texts) => ValueForm::Texts(texts.clone()),
    };
    attributes
        .iter()
        .map(|attribute| (attribute.key.clone(), form(&attribute.value)))
        .collect()
}

fn known(attributes: Vec<(String, ValueForm)>) -> Vec<Attribute> {
    let value = |form| match form {
        ValueForm::Text(text) => Value::Text(text),
        ValueForm::Int(number) => Value::Int(number),
        ValueForm::Float(number) => Value::Float(number),
        ValueForm::Texts(texts) => Value::Texts(texts),
    };
    attributes
        .into_iter()
        .map(|(key, form)| Attribute {
            key,
            value: value(form),
        })
        .collect()
}

fn hex(id: [u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(id))
}

fn id(digits: &str) -> Option<[u8; 8]> {
    Some(u64::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

/// Good for the years 1678 to 2262; OTLP has no others.
fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_unix_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn at(nanos: i64) -> Option<Timestamp> {
    Timestamp::from_unix_nanos(i128::from(nanos))
}
