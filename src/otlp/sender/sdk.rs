//! Converts spans, log records and resources to the types of OpenTelemetry's SDK.

use std::time::SystemTime;

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
    trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::{
    self as sdk,
    logs::{SdkLogRecord, SdkLogger, SdkLoggerProvider},
    trace::{SpanData, SpanEvents, SpanLinks},
};

use crate::otlp::{
    attribute::{Attribute, Value},
    log_record::{self, LogRecord},
    resource::{Resource, SCHEMA_URL, SERVICE},
    trace::Span,
};

/// Without the SDK's detectors, which read the environment.
pub(super) fn resource(resource: &Resource) -> sdk::Resource {
    let attributes = resource
        .iter()
        .map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    sdk::Resource::builder_empty()
        .with_schema_url(attributes, SCHEMA_URL)
        .build()
}

pub(super) fn span(span: &Span) -> SpanData {
    let mut events = SpanEvents::default();
    events.events.extend(span.events.iter().map(|event| {
        let at = SystemTime::from(event.at);
        Event::new(event.name.clone(), at, attributes(&event.attributes), 0)
    }));
    let context = SpanContext::new(
        TraceId::from_bytes(span.trace_id),
        SpanId::from_bytes(span.span_id),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    SpanData {
        span_context: context,
        parent_span_id: span
            .parent_span_id
            .map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name.clone().into(),
        start_time: span.start.into(),
        end_time: span.end.into(),
        attributes: attributes(&span.attributes),
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: match &span.error {
            Some(message) => Status::error(message.clone()),
            None => Status::Unset,
        },
        instrumentation_scope: scope(),
    }
}

pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SERVICE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// Makes empty log records; the SDK has no other way. It exports nothing.
pub(super) fn logger() -> SdkLogger {
    SdkLoggerProvider::builder().build().logger(SERVICE)
}

pub(super) fn log_record(record: &LogRecord, logger: &SdkLogger) -> SdkLogRecord {
    let mut data = logger.create_log_record();
    data.set_event_name(record.name.as_str());
    data.set_timestamp(record.at.into());
    data.set_observed_timestamp(record.at.into());
    data.set_severity_number(match record.severity {
        log_record::Severity::Info => Severity::Info,
        log_record::Severity::Warn => Severity::Warn,
        log_record::Severity::Error => Severity::Error,
    });
    data.set_body(record.body.clone().into());
    let (trace_id, span_id) = (record.trace_id, record.span_id);
    data.set_trace_context(
        TraceId::from_bytes(trace_id),
        SpanId::from_bytes(span_id),
        Some(TraceFlags::SAMPLED),
    );
    for Attribute { key, value } in &record.attributes {
        let value: AnyValue = match value {
            Value::Text(text) => text.clone().into(),
            Value::Int(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Texts(texts) => AnyValue::ListAny(Box::new(
                texts.iter().cloned().map(AnyValue::from).collect(),
            )),
        };
        data.add_attribute(key.clone(), value);
    }
    data
}

fn attributes(attributes: &[Attribute]) -> Vec<KeyValue> {
    let value = |value: &Value| -> opentelemetry::Value {
        match value {
            Value::Text(text) => text.clone().into(),
            Value::Int(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Texts(texts) => {
                let texts = texts.iter().cloned().map(StringValue::from).collect();
                opentelemetry::Value::Array(Array::String(texts))
            }
        }
    };
    attributes
        .iter()
        .map(|attribute| KeyValue::new(attribute.key.clone(), value(&attribute.value)))
        .collect()
}
