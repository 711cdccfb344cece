//! What is exported in one request.

use super::{
    attribute::{Attribute, Value},
    log_record::LogRecord,
    resource::Resource,
    trace::Span,
};

/// Spans, or log records, that are exported together, with their resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    pub resource: Resource,
    /// All of the same signal.
    pub records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq)]
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
        let span = |span: &Span| {
            let events = span.events.iter();
            let events: usize = events
                .map(|event| attributes(&event.attributes) + VALUE)
                .sum();
            attributes(&span.attributes) + events
        };
        let records = self.records.iter().map(|record| match record {
            Record::Span(record) => span(record) + VALUE,
            Record::Log(record) => attributes(&record.attributes) + record.body.len() + VALUE,
        });
        records.sum::<usize>() as u64
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
