//! What the log says of spans and log records that were sent.

use opentelemetry_proto::tonic::{common::v1::any_value::Value, logs::v1::LogRecord};
use tracing::info;

use crate::{
    base::time::Timestamp,
    outputs::otlp::{attribute::Key, request::EncodedBatch},
};

/// One line per record that a collector has accepted, so that the log leads to the trace.
pub(super) fn log_sent(batch: &EncodedBatch) {
    for span in &batch.spans {
        info!(
            trace_id = hex(&span.trace_id),
            span_id = hex(&span.span_id),
            span = span.name,
            start = time(span.start_time_unix_nano),
            end = time(span.end_time_unix_nano),
            "span sent"
        );
    }
    for record in &batch.log_records {
        info!(
            trace_id = hex(&record.trace_id),
            uid = uid(record),
            event = record.event_name,
            at = time(record.time_unix_nano),
            "log record sent"
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

fn time(nanos: u64) -> Option<String> {
    Timestamp::from_unix_nanos(nanos.into()).map(Timestamp::rfc3339_millis)
}

fn uid(record: &LogRecord) -> Option<&str> {
    let mut attributes = record.attributes.iter();
    let uid = attributes.find(|it| it.key == Key::Uid.as_str())?;
    match uid.value.as_ref()?.value.as_ref()? {
        Value::StringValue(uid) => Some(uid),
        _ => None,
    }
}
