//! The log lines of what a collector has accepted.

use tracing::info;

use crate::otlp::{
    attribute::hex,
    batch::{Batch, Record},
};

/// One line per record, so that the log leads to the trace.
pub(super) fn log_sent(batch: &Batch) {
    for record in &batch.records {
        match record {
            Record::Span(span) => info!(
                trace_id = hex(span.trace_id),
                span_id = hex(span.span_id),
                span = span.name,
                start = span.start.rfc3339_millis(),
                end = span.end.rfc3339_millis(),
                "span sent"
            ),
            Record::Log(record) => info!(
                trace_id = hex(record.trace_id),
                uid = record.uid(),
                event = record.name.as_str(),
                at = record.at.rfc3339_millis(),
                "log record sent"
            ),
        }
    }
}
