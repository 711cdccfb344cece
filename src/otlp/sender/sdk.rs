//! Converts spans and resources to the types of OpenTelemetry's SDK.

use std::time::SystemTime;

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue,
    trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::{
    self as sdk,
    trace::{SpanData, SpanEvents, SpanLinks},
};

use crate::otlp::{
    resource::{Resource, SCHEMA_URL, SERVICE},
    trace::{Attribute, Span, Value},
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
        instrumentation_scope: InstrumentationScope::builder(SERVICE)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
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
