//! The client of one signal: OpenTelemetry's exporter on the shared reqwest client.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::{
    logs::{LogBatch, LogExporter as _, SdkLogger},
    trace::SpanExporter as _,
};
use prost::Message as _;
use reqwest::{
    Url,
    header::{self, HeaderMap, HeaderValue},
};

use super::{disposition::ExportAttempt, sdk, shared_client::SharedClient};
use crate::{
    metrics::negotiation::gzip,
    otlp::{
        batch::{Batch, Record},
        resource::Resource,
        settings::ExporterSettings,
        signal::Signal,
    },
    outbound::{
        error::{causes, is_tls, root_cause},
        http::{USER_AGENT, read_up_to},
        retry::retry_after,
    },
    snapshot::ExportFailure,
    time::Clock,
};

const MAX_BODY_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct CollectorClient {
    exporter: Exporter,
    last_attempt: LastAttempt,
    resource: Option<Resource>,
}

impl CollectorClient {
    pub(super) fn new(
        settings: &ExporterSettings,
        client: Arc<SharedClient>,
        clock: Clock,
    ) -> Result<Self, ExporterBuildError> {
        let last_attempt = LastAttempt::default();
        let http_client = RecordingHttpClient {
            client,
            endpoint: settings.endpoint.clone(),
            headers: settings.headers.clone(),
            timeout: settings.timeout,
            gzip: settings.gzip,
            clock,
            last_attempt: Arc::clone(&last_attempt),
        };
        Ok(Self {
            exporter: Exporter::new(settings, http_client)?,
            last_attempt,
            resource: None,
        })
    }

    /// Sends a batch, or the metrics, in one request.
    pub(super) async fn send(&mut self, payload: Payload<'_>) -> ExportAttempt {
        if let Payload::Batch(batch) = payload
            && self.resource.as_ref() != Some(&batch.resource)
        {
            self.exporter.set_resource(&batch.resource);
            self.resource = Some(batch.resource.clone());
        }
        let exported = self.exporter.export(payload).await;
        let attempt = lock(&self.last_attempt).take();
        // Without an attempt, the exporter failed before the request.
        attempt.unwrap_or_else(|| ExportAttempt::NoResponse {
            reason: ExportFailure::Connect,
            message: match exported {
                Ok(()) => "no request was made".to_owned(),
                Err(error) => error.to_string(),
            },
        })
    }
}

/// What one request contains.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    Batch(&'a Batch),
    Metrics(&'a ExportMetricsServiceRequest),
}

/// OpenTelemetry's exporter of one signal. That of the metrics accepts only those of the SDK's own instruments, so the
/// client alone takes its place.
#[derive(Debug)]
enum Exporter {
    Traces(SpanExporter),
    Logs(LogExporter, SdkLogger),
    Metrics(RecordingHttpClient),
}

impl Exporter {
    fn new(
        settings: &ExporterSettings,
        client: RecordingHttpClient,
    ) -> Result<Self, ExporterBuildError> {
        Ok(match settings.signal {
            Signal::Traces => {
                let builder = SpanExporter::builder().with_http();
                Self::Traces(configure(builder, settings, client).build()?)
            }
            Signal::Logs => {
                let builder = LogExporter::builder().with_http();
                Self::Logs(configure(builder, settings, client).build()?, sdk::logger())
            }
            Signal::Metrics => Self::Metrics(client),
        })
    }

    fn set_resource(&mut self, resource: &Resource) {
        let resource = sdk::resource(resource);
        match self {
            Self::Traces(exporter) => exporter.set_resource(&resource),
            Self::Logs(exporter, _) => exporter.set_resource(&resource),
            // A request with metrics contains its resource.
            Self::Metrics(_) => {}
        }
    }

    async fn export(&self, payload: Payload<'_>) -> Result<(), HttpError> {
        match (self, payload) {
            (Self::Traces(exporter), Payload::Batch(batch)) => {
                let spans = batch.records.iter().filter_map(Record::as_span);
                exporter.export(spans.map(sdk::span).collect()).await?;
            }
            (Self::Logs(exporter, logger), Payload::Batch(batch)) => {
                let records = batch.records.iter().filter_map(Record::as_log);
                let records: Vec<_> = records
                    .map(|record| sdk::log_record(record, logger))
                    .collect();
                let scope = sdk::scope();
                let scoped: Vec<_> = records.iter().map(|record| (record, &scope)).collect();
                exporter.export(LogBatch::new(&scoped)).await?;
            }
            (Self::Metrics(client), Payload::Metrics(message)) => {
                let request = Request::post(client.endpoint.as_str())
                    .header(header::CONTENT_TYPE, "application/x-protobuf");
                let body = message.encode_to_vec();
                client.send_bytes(request.body(body.into())?).await?;
            }
            (Self::Metrics(_), Payload::Batch(_)) | (_, Payload::Metrics(_)) => {
                return Err("the payload is that of another signal".into());
            }
        }
        Ok(())
    }
}

fn configure<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    settings: &ExporterSettings,
    client: RecordingHttpClient,
) -> B {
    builder
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        // The spool retries, also over restarts.
        .with_retry_policy(RetryPolicy::disabled())
        .with_timeout(settings.timeout)
        .with_endpoint(settings.endpoint.as_str())
}

type LastAttempt = Arc<Mutex<Option<ExportAttempt>>>;

fn lock(last_attempt: &LastAttempt) -> MutexGuard<'_, Option<ExportAttempt>> {
    last_attempt.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records what the exporter does not return: status, `Retry-After` and body.
#[derive(Debug)]
struct RecordingHttpClient {
    client: Arc<SharedClient>,
    endpoint: Url,
    headers: HeaderMap,
    /// From the connection to the last byte of the response.
    timeout: Duration,
    /// As `/metrics`: the exporter's own gzip has a large state, whatever the size of the body.
    gzip: bool,
    clock: Clock,
    last_attempt: LastAttempt,
}

impl RecordingHttpClient {
    fn no_response(&self, reason: ExportFailure, message: String) {
        *lock(&self.last_attempt) = Some(ExportAttempt::NoResponse { reason, message });
    }
}

#[async_trait]
impl HttpClient for RecordingHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, mut body) = request.into_parts();
        let mut headers = parts.headers;
        if self.gzip {
            body = gzip(&body)?.into();
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let library = headers
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let agent = format!("{USER_AGENT} {}", library.unwrap_or_default());
        headers.insert(header::USER_AGENT, HeaderValue::from_str(agent.trim_end())?);
        // The exporter reads the variables of the headers too, but does not decode all values.
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        let client = match self.client.get(self.clock.now().monotonic).await {
            Ok(client) => client,
            Err(error) => {
                self.no_response(error.reason(), error.to_string());
                return Err(error.into());
            }
        };
        // With the URL of the settings: reqwest takes basic authentication from it, but not from a ready request.
        let request = client.post(self.endpoint.clone()).timeout(self.timeout);
        let mut response = match request.headers(headers).body(body).send().await {
            Ok(response) => response,
            Err(error) => {
                // The URL may hold a secret.
                let error = error.without_url();
                let reason = reason(&error);
                self.no_response(reason, root_cause(&error));
                if reason == ExportFailure::Tls {
                    drop(client);
                    let now = self.clock.now().monotonic;
                    self.client.discard_if_stale(now).await;
                }
                return Err(error.into());
            }
        };
        let body = read_up_to(&mut response, MAX_BODY_BYTES).await;
        *lock(&self.last_attempt) = Some(ExportAttempt::Response {
            status: response.status(),
            retry_after: retry_after(response.headers(), self.clock.now().wall),
            body: body.clone(),
        });
        Ok(Response::builder().status(response.status()).body(body)?)
    }
}

fn reason(error: &reqwest::Error) -> ExportFailure {
    if error.is_timeout() {
        ExportFailure::Timeout
    } else if causes(error).any(is_tls) {
        ExportFailure::Tls
    } else {
        ExportFailure::Connect
    }
}
