//! Batches as bodies of requests: OpenTelemetry's exporters encode them, and the spool keeps them.

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{LogExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    logs::v1::LogRecord,
    trace::v1::Span,
};
use opentelemetry_sdk::{
    logs::{LogBatch, LogExporter as _},
    trace::SpanExporter as _,
};
use prost::{DecodeError, Message as _};

use super::{batch::Batch, resource::scope, signal::Signal};

/// Keeps the body of the request that an exporter makes: the sender's `Connection` sends it, with the status and
/// `Retry-After` that the exporter does not return.
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

/// The body of the request with this batch.
pub(super) fn encode(batch: &Batch, signal: Signal) -> Result<Bytes, HttpError> {
    let body = CapturedBody::default();
    // The exporters wait for nothing but the client, which is ready at once.
    let exported = pin!(export(batch, signal, &body));
    match exported.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result?,
        Poll::Pending => {}
    }
    let body = body.0.get().cloned();
    body.ok_or_else(|| "the exporter made no request".into())
}

async fn export(batch: &Batch, signal: Signal, body: &CapturedBody) -> Result<(), HttpError> {
    if signal == Signal::Logs {
        let mut exporter = body.configure(LogExporter::builder().with_http()).build()?;
        exporter.set_resource(&batch.resource);
        let scope = scope();
        let records: Vec<_> = batch.log_records().map(|record| (record, &scope)).collect();
        exporter.export(LogBatch::new(&records)).await?;
    } else {
        let mut exporter = body
            .configure(SpanExporter::builder().with_http())
            .build()?;
        exporter.set_resource(&batch.resource);
        exporter.export(batch.spans().cloned().collect()).await?;
    }
    Ok(())
}

/// An encoded batch, and what it has.
#[derive(Debug)]
pub struct EncodedBatch {
    pub body: Bytes,
    pub spans: Vec<Span>,
    pub log_records: Vec<LogRecord>,
}

impl EncodedBatch {
    pub fn decode(signal: Signal, body: Bytes) -> Result<Self, DecodeError> {
        let (mut spans, mut log_records) = (Vec::new(), Vec::new());
        if signal == Signal::Logs {
            let resources = ExportLogsServiceRequest::decode(&*body)?.resource_logs;
            let scopes = resources.into_iter().flat_map(|it| it.scope_logs);
            log_records.extend(scopes.flat_map(|it| it.log_records));
        } else {
            let resources = ExportTraceServiceRequest::decode(&*body)?.resource_spans;
            let scopes = resources.into_iter().flat_map(|it| it.scope_spans);
            spans.extend(scopes.flat_map(|it| it.spans));
        }
        Ok(Self {
            body,
            spans,
            log_records,
        })
    }

    /// The number of spans or log records.
    pub(super) fn count(&self) -> u64 {
        (self.spans.len() + self.log_records.len()) as u64
    }
}
