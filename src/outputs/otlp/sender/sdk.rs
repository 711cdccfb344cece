//! Encodes batches with OpenTelemetry's exporters, which take the types of its SDK.

use std::{
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use async_trait::async_trait;
use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
    trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{LogExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    self as sdk,
    logs::{LogBatch, LogExporter as _, SdkLogRecord, SdkLogger, SdkLoggerProvider},
    trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks},
};

use crate::outputs::otlp::{
    attribute::{Attribute, Key, Value},
    batch::Batch,
    log_record::{self, LogRecord},
    resource::{Resource, SCHEMA_URL, SERVICE},
    signal::Signal,
    trace::Span,
};

/// Keeps the body of the request that an exporter makes: [`Connection`](super::Connection) sends it, with the status
/// and `Retry-After` that the exporter does not return.
#[derive(Debug, Clone, Default)]
struct CapturedBody(Arc<OnceLock<Bytes>>);

#[async_trait]
impl HttpClient for CapturedBody {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.0.set(request.into_body()).ok();
        Ok(Response::new(Bytes::new()))
    }
}

impl CapturedBody {
    fn configure<B: WithExportConfig + WithHttpConfig>(&self, builder: B) -> B {
        builder
            .with_http_client(self.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint("http://localhost")
    }
}

/// The body of a request.
pub(super) async fn encode(batch: &Batch, signal: Signal) -> Result<Bytes, HttpError> {
    let body = CapturedBody::default();
    let resource = resource(&batch.resource);
    if signal == Signal::Logs {
        let mut exporter = body.configure(LogExporter::builder().with_http()).build()?;
        exporter.set_resource(&resource);
        // Makes empty log records; the SDK has no other way. It exports nothing.
        let logger = SdkLoggerProvider::builder().build().logger(SERVICE);
        let records = batch.log_records();
        let records: Vec<_> = records.map(|it| log_record(it, &logger)).collect();
        let scope = scope();
        let scoped: Vec<_> = records.iter().map(|record| (record, &scope)).collect();
        exporter.export(LogBatch::new(&scoped)).await?;
    } else {
        let mut exporter = body
            .configure(SpanExporter::builder().with_http())
            .build()?;
        exporter.set_resource(&resource);
        exporter.export(batch.spans().map(span).collect()).await?;
    }
    let body = body.0.get().cloned();
    body.ok_or_else(|| "the exporter made no request".into())
}

/// Without the SDK's detectors, which read the environment.
pub(super) fn resource(resource: &Resource) -> sdk::Resource {
    let attributes = resource
        .iter()
        .map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    sdk::Resource::builder_empty()
        .with_schema_url(attributes, SCHEMA_URL)
        .build()
}

fn span(span: &Span) -> SpanData {
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

fn log_record(record: &LogRecord, logger: &SdkLogger) -> SdkLogRecord {
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
    data.add_attribute(Key::Uid.as_str(), record.uid.clone());
    for Attribute { key, value } in &record.attributes {
        let value: AnyValue = match value {
            Value::Text(text) => text.clone().into(),
            Value::Int(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Texts(texts) => texts.iter().cloned().collect(),
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
