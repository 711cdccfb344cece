//! The file format of a batch: versioned JSON, private to this file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    otlp::{
        resource::Resource,
        trace::{Attribute, Batch, Span, SpanEvent, Value},
    },
    outbound::json,
    time::Timestamp,
};

/// Raised when an older reader would misread the format.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct StoredBatch {
    version: u32,
    resource: BTreeMap<String, String>,
    spans: Vec<StoredSpan>,
}

#[derive(Deserialize)]
struct StoredVersion {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredSpan {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    start: i64,
    end: i64,
    attributes: Vec<(String, StoredValue)>,
    events: Vec<StoredEvent>,
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredEvent {
    name: String,
    at: i64,
    attributes: Vec<(String, StoredValue)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredValue {
    Text(String),
    Int(i64),
    Float(f64),
    Texts(Vec<String>),
}

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("not a batch of spans: {0}")]
    Json(#[from] serde_json::Error),
    #[error("version {0}, but this exporter reads version {VERSION}")]
    Version(u32),
    #[error("invalid id or time")]
    InvalidField,
}

/// `None` if the batch has more than `max` bytes.
pub fn encode(
    resource: &Resource,
    spans: &[Span],
    max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let stored = StoredBatch {
        version: VERSION,
        resource: resource.clone(),
        spans: spans.iter().map(StoredSpan::from).collect(),
    };
    json::to_vec_up_to(&stored, max)
}

pub fn decode(bytes: &[u8]) -> Result<Batch, DecodeError> {
    let StoredVersion { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let stored: StoredBatch = serde_json::from_slice(bytes)?;
    let spans: Option<Vec<_>> = stored
        .spans
        .into_iter()
        .map(StoredSpan::into_span)
        .collect();
    Ok(Batch {
        resource: stored.resource,
        spans: spans.ok_or(DecodeError::InvalidField)?,
    })
}

impl From<&Span> for StoredSpan {
    fn from(span: &Span) -> Self {
        Self {
            trace_id: span.trace_id_hex(),
            span_id: span.span_id_hex(),
            parent_span_id: span.parent_span_id.map(hex),
            name: span.name.clone(),
            start: nanos(span.start),
            end: nanos(span.end),
            attributes: store_attributes(&span.attributes),
            events: span.events.iter().map(StoredEvent::from).collect(),
            error: span.error.clone(),
        }
    }
}

impl StoredSpan {
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
            attributes: load_attributes(self.attributes),
            events: self
                .events
                .into_iter()
                .map(StoredEvent::into_event)
                .collect::<Option<_>>()?,
            error: self.error,
        })
    }
}

impl From<&SpanEvent> for StoredEvent {
    fn from(event: &SpanEvent) -> Self {
        Self {
            name: event.name.clone(),
            at: nanos(event.at),
            attributes: store_attributes(&event.attributes),
        }
    }
}

impl StoredEvent {
    fn into_event(self) -> Option<SpanEvent> {
        Some(SpanEvent {
            name: self.name,
            at: at(self.at)?,
            attributes: load_attributes(self.attributes),
        })
    }
}

fn store_attributes(attributes: &[Attribute]) -> Vec<(String, StoredValue)> {
    let store = |value: &Value| match value {
        Value::Text(text) => StoredValue::Text(text.clone()),
        Value::Int(number) => StoredValue::Int(*number),
        Value::Float(number) => StoredValue::Float(*number),
        Value::Texts(texts) => StoredValue::Texts(texts.clone()),
    };
    attributes
        .iter()
        .map(|attribute| (attribute.key.clone(), store(&attribute.value)))
        .collect()
}

fn load_attributes(attributes: Vec<(String, StoredValue)>) -> Vec<Attribute> {
    let load = |value| match value {
        StoredValue::Text(text) => Value::Text(text),
        StoredValue::Int(number) => Value::Int(number),
        StoredValue::Float(number) => Value::Float(number),
        StoredValue::Texts(texts) => Value::Texts(texts),
    };
    attributes
        .into_iter()
        .map(|(key, value)| Attribute {
            key,
            value: load(value),
        })
        .collect()
}

fn hex(id: [u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(id))
}

fn id(digits: &str) -> Option<[u8; 8]> {
    Some(u64::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

/// Saturates outside the years 1678 to 2262, which OTLP cannot express either.
fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_unix_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn at(nanos: i64) -> Option<Timestamp> {
    Timestamp::from_unix_nanos(i128::from(nanos))
}
