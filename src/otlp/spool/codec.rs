//! The file format of a batch: versioned JSON, private to this file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    otlp::{
        attribute::{Attribute, Value, hex},
        batch::{Batch, Record},
        log_record::{EventName, LogRecord, Severity},
        resource::Resource,
        trace::{Span, SpanEvent},
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spans: Vec<StoredSpan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log_records: Vec<StoredLogRecord>,
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
struct StoredLogRecord {
    name: String,
    at: i64,
    severity: u8,
    body: String,
    trace_id: String,
    span_id: String,
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
    #[error("not a batch: {0}")]
    Json(#[from] serde_json::Error),
    #[error("version {0}, but this exporter reads version {VERSION}")]
    Version(u32),
    #[error("empty, or an invalid id, name or time")]
    InvalidField,
}

/// `None` if the batch has more than `max` bytes.
pub fn encode(
    resource: &Resource,
    records: &[Record],
    max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let stored = StoredBatch {
        version: VERSION,
        resource: resource.clone(),
        spans: records
            .iter()
            .filter_map(Record::as_span)
            .map(StoredSpan::from)
            .collect(),
        log_records: records
            .iter()
            .filter_map(Record::as_log)
            .map(StoredLogRecord::from)
            .collect(),
    };
    json::to_vec_up_to(&stored, max)
}

pub fn decode(bytes: &[u8]) -> Result<Batch, DecodeError> {
    let StoredVersion { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let stored: StoredBatch = serde_json::from_slice(bytes)?;
    let spans = stored.spans.into_iter();
    let spans = spans.map(|span| span.into_span().map(Record::Span));
    let logs = stored.log_records.into_iter();
    let logs = logs.map(|record| record.into_log_record().map(Record::Log));
    let records: Option<Vec<_>> = spans.chain(logs).collect();
    let records = records.filter(|records| !records.is_empty());
    Ok(Batch {
        resource: stored.resource,
        records: records.ok_or(DecodeError::InvalidField)?,
    })
}

impl From<&Span> for StoredSpan {
    fn from(span: &Span) -> Self {
        Self {
            trace_id: hex(span.trace_id),
            span_id: hex(span.span_id),
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
            trace_id: trace_id(&self.trace_id)?,
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

impl From<&LogRecord> for StoredLogRecord {
    fn from(record: &LogRecord) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            at: nanos(record.at),
            severity: record.severity.number(),
            body: record.body.clone(),
            trace_id: hex(record.trace_id),
            span_id: hex(record.span_id),
            attributes: store_attributes(&record.attributes),
        }
    }
}

impl StoredLogRecord {
    fn into_log_record(self) -> Option<LogRecord> {
        let mut names = EventName::ALL.into_iter();
        let mut severities = Severity::ALL.into_iter();
        Some(LogRecord {
            name: names.find(|name| name.as_str() == self.name)?,
            at: at(self.at)?,
            severity: severities.find(|severity| severity.number() == self.severity)?,
            body: self.body,
            trace_id: trace_id(&self.trace_id)?,
            span_id: id(&self.span_id)?,
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

fn trace_id(digits: &str) -> Option<[u8; 16]> {
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
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
