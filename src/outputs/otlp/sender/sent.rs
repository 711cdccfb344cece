//! What the log says of spans and log records that were sent.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::logs::AnyValue;
use opentelemetry_sdk::{logs::SdkLogRecord, trace::SpanData};
use tracing::info;

use super::Records;
use crate::{base::time::Timestamp, outputs::otlp::attribute::Key};

/// One line for each that a receiver has accepted, so that the log leads to the trace.
pub(super) fn log_sent(records: &Records) {
    match records {
        Records::Spans(spans) => spans.iter().for_each(log_span),
        Records::Logs(records) => records.iter().for_each(log_record),
    }
}

fn log_span(span: &SpanData) {
    info!(
        trace_id = %span.span_context.trace_id(),
        span_id = %span.span_context.span_id(),
        span = %span.name,
        start = time(span.start_time),
        end = time(span.end_time),
        "span sent"
    );
}

fn log_record(record: &SdkLogRecord) {
    let mut attributes = record.attributes_iter();
    let uid = attributes.find_map(|(key, value)| match value {
        AnyValue::String(uid) if key.as_str() == Key::Uid.as_str() => Some(uid.as_str()),
        _ => None,
    });
    info!(
        trace_id = record.trace_context().map(|it| it.trace_id.to_string()),
        uid,
        event = record.event_name(),
        at = record.timestamp().and_then(time),
        "log record sent"
    );
}

fn time(at: SystemTime) -> Option<String> {
    let nanos = at.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Timestamp::from_unix_nanos(nanos.try_into().ok()?).map(Timestamp::rfc3339_millis)
}
