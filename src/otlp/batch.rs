//! What is exported in one request.

use serde::{Deserialize, Serialize};

use super::{log_record::LogRecord, resource::Resource, trace::Span};

/// Spans, or log records, that are exported together, with their resource.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Batch {
    pub resource: Resource,
    /// All of the same signal.
    pub records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    Span(Span),
    Log(LogRecord),
}

impl Batch {
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.records.iter().filter_map(Record::as_span)
    }

    pub fn log_records(&self) -> impl Iterator<Item = &LogRecord> {
        self.records.iter().filter_map(Record::as_log)
    }
}

impl Record {
    pub fn as_span(&self) -> Option<&Span> {
        match self {
            Self::Span(span) => Some(span),
            Self::Log(_) => None,
        }
    }

    pub fn as_log(&self) -> Option<&LogRecord> {
        match self {
            Self::Span(_) => None,
            Self::Log(record) => Some(record),
        }
    }
}
