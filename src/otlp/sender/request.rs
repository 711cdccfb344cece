//! One request: OpenTelemetry's exporter on an HTTP client that keeps what the exporter does not return.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    LogExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::{
    logs::{LogBatch, LogExporter as _},
    trace::SpanExporter as _,
};
use prost::Message as _;
use reqwest::{
    Client,
    header::{self, HeaderValue},
};

use super::{
    response::{Disposition, Retry},
    sdk,
};
use crate::{
    metrics::negotiation::gzip,
    otlp::{batch::Batch, settings::ExporterSettings, signal::Signal},
    outbound::{
        error::{causes, is_tls, root_cause},
        http::{USER_AGENT, read_up_to},
        retry::retry_after,
        url::Secrets,
    },
    snapshot::ExportFailure,
    time::Clock,
};

const MAX_BODY_BYTES: usize = 64 << 10;

/// What each request needs.
pub(super) struct Endpoint {
    pub(super) settings: ExporterSettings,
    pub(super) secrets: Secrets,
    pub(super) clock: Clock,
}

/// Without the secrets.
impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.settings.redacted_endpoint())
    }
}

/// What one request contains. OpenTelemetry's exporter of metrics accepts only those of the SDK's own instruments, so
/// the HTTP client alone takes its place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    Batch(&'a Batch),
    Metrics(&'a ExportMetricsServiceRequest),
}

pub(super) async fn send(
    endpoint: &Arc<Endpoint>,
    client: Client,
    payload: Payload<'_>,
) -> Disposition {
    let disposition = Arc::new(OnceLock::new());
    let client = RecordingClient {
        endpoint: Arc::clone(endpoint),
        client,
        disposition: Arc::clone(&disposition),
    };
    let exported = export(endpoint, client, payload).await;
    // Without one, the exporter failed before the request.
    disposition.get().cloned().unwrap_or_else(|| {
        let error = exported.err();
        let message = error.map_or_else(String::new, |error| error.to_string());
        let message = endpoint.secrets.mask(&message);
        Disposition::Retry(Retry::new(ExportFailure::Connect, message))
    })
}

async fn export(
    endpoint: &Endpoint,
    client: RecordingClient,
    payload: Payload<'_>,
) -> Result<(), HttpError> {
    match (payload, endpoint.settings.signal) {
        (Payload::Metrics(message), _) => {
            let request = Request::post(endpoint.settings.endpoint.as_str())
                .header(header::CONTENT_TYPE, "application/x-protobuf");
            let body = message.encode_to_vec();
            client.send_bytes(request.body(body.into())?).await?;
        }
        (Payload::Batch(batch), Signal::Logs) => {
            let builder = LogExporter::builder().with_http();
            let mut exporter = configure(builder, endpoint, client).build()?;
            exporter.set_resource(&sdk::resource(&batch.resource));
            let logger = sdk::logger();
            let records = batch.log_records();
            let records: Vec<_> = records.map(|it| sdk::log_record(it, &logger)).collect();
            let scope = sdk::scope();
            let scoped: Vec<_> = records.iter().map(|record| (record, &scope)).collect();
            exporter.export(LogBatch::new(&scoped)).await?;
        }
        (Payload::Batch(batch), _) => {
            let builder = SpanExporter::builder().with_http();
            let mut exporter = configure(builder, endpoint, client).build()?;
            exporter.set_resource(&sdk::resource(&batch.resource));
            exporter
                .export(batch.spans().map(sdk::span).collect())
                .await?;
        }
    }
    Ok(())
}

fn configure<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    endpoint: &Endpoint,
    client: RecordingClient,
) -> B {
    builder
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        // The spool retries, also over restarts.
        .with_retry_policy(RetryPolicy::disabled())
        .with_timeout(endpoint.settings.timeout)
        .with_endpoint(endpoint.settings.endpoint.as_str())
}

/// Records what the exporter does not return: status, `Retry-After` and body.
#[derive(Debug)]
struct RecordingClient {
    endpoint: Arc<Endpoint>,
    client: Client,
    disposition: Arc<OnceLock<Disposition>>,
}

impl RecordingClient {
    fn record(&self, disposition: Disposition) {
        // The exporter makes one request.
        self.disposition.set(disposition).ok();
    }
}

#[async_trait]
impl HttpClient for RecordingClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let Endpoint {
            settings,
            secrets,
            clock,
        } = &*self.endpoint;
        let (parts, mut body) = request.into_parts();
        let mut headers = parts.headers;
        if settings.gzip {
            // As `/metrics`: the exporter's own gzip has a large state, whatever the size of the body.
            body = gzip(&body)?.into();
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let library = headers
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let agent = format!("{USER_AGENT} {}", library.unwrap_or_default());
        headers.insert(header::USER_AGENT, HeaderValue::from_str(agent.trim_end())?);
        // The exporter reads the variables of the headers too, but does not decode all values.
        for (name, value) in &settings.headers {
            headers.insert(name.clone(), value.clone());
        }
        // With the URL of the settings: reqwest takes basic authentication from it, but not from a ready request.
        let request = self.client.post(settings.endpoint.clone());
        let request = request.timeout(settings.timeout).headers(headers);
        let mut response = match request.body(body).send().await {
            Ok(response) => response,
            Err(error) => {
                // The URL may hold a secret.
                let error = error.without_url();
                let message = secrets.mask(&root_cause(&error));
                self.record(Disposition::Retry(Retry::new(reason(&error), message)));
                return Err(error.into());
            }
        };
        let body = read_up_to(&mut response, MAX_BODY_BYTES).await;
        let status = response.status();
        let retry_after = retry_after(response.headers(), clock.now().wall);
        self.record(Disposition::of(
            status,
            retry_after,
            body.clone(),
            settings.signal,
            secrets,
        ));
        Ok(Response::builder().status(status).body(body)?)
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
