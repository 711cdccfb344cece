//! The client of the collector of one signal: it posts what OpenTelemetry's exporters encode, and keeps what the
//! responses mean for the counters, the log and the next request.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use hyper_util::client::proxy::matcher::Intercept;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol as OtlpProtocol, SpanExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    logs::{LogBatch, LogExporter as _},
    metrics::exporter::PushMetricExporter as _,
    trace::SpanExporter as _,
};
use parking_lot::Mutex;
use reqwest::{
    Client,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TE},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    Records,
    collector_response::{ExportResult, FailedRequest, gunzip, of_http},
    grpc,
};
use crate::{
    base::{backoff::backoff, log_id, time::Clock, worker::Worker},
    http::client::{
        self, ClientOptions, MAX_BODY, build_client, proxy, read,
        resolver::Resolver,
        tls::TlsFiles,
        url::{self, Secrets},
    },
    outputs::{
        metrics::exposition::gzip,
        otlp::{
            cursor::RequestResult,
            resource::scope,
            settings::{ExporterSettings, Protocol},
        },
        output_counters::{DropReason, ExportCounts, ExportFailure},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryTiming {
    /// After the first failure; each further one doubles it.
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// How long the remaining spans are exported at shutdown.
    pub flush_timeout: Duration,
}

impl Default for RetryTiming {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
            flush_timeout: Duration::from_secs(5),
        }
    }
}

#[derive(Debug)]
pub struct CollectorClient {
    transport: Arc<Transport>,
    pub(super) clock: Clock,
    pub(super) timing: RetryTiming,
    pub(crate) counts: watch::Sender<ExportCounts>,
    /// Consecutive failures.
    pub(super) failures: u32,
    /// Whether the collector has answered as one of OTLP.
    pub(super) is_probed: bool,
    /// The collector asked to send nothing before this.
    not_before: Option<Instant>,
    last_failure: Option<ExportFailure>,
    /// The last warning of the collector, which came with a request that it accepted.
    warning: String,
}

impl CollectorClient {
    /// The first attempt reads the certificates and connects.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn new(settings: &ExporterSettings, clock: Clock, timing: RetryTiming) -> io::Result<Self> {
        Ok(Self {
            transport: Arc::new(Transport {
                settings: settings.clone(),
                secrets: client::secrets(&settings.endpoint, &settings.headers),
                clock,
                worker: Worker::start("otlp")?,
                client: Mutex::new(None),
                result: Mutex::new(None),
            }),
            clock,
            timing,
            counts: watch::Sender::default(),
            failures: 0,
            is_probed: false,
            not_before: None,
            last_failure: None,
            warning: String::new(),
        })
    }

    pub(super) fn settings(&self) -> &ExporterSettings {
        &self.transport.settings
    }

    /// Waits as long as the collector asked for, whatever is to be sent.
    pub(super) async fn permitted(&self) {
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
    }

    /// Sends an empty request, so that a wrong endpoint is known before there is something to send. A failure is counted
    /// and logged; a receiver that refuses the content, because it is empty, answers.
    pub(super) async fn probe(&mut self) -> Result<(), FailedRequest> {
        let mut result = self.transport.post(Bytes::new()).await;
        if let Err(failed) = &mut result
            && !failed.refuses_content()
        {
            failed.result = RequestResult::Unavailable;
        }
        self.judge(&result);
        let refused = match result {
            Err(failed) if !failed.is_refused() => return Err(failed),
            result => result.err().map(|failed| failed.message),
        };
        self.recovered();
        let settings = self.settings();
        let (endpoint, proxy) = (settings.shown_endpoint(), shown_proxy(settings));
        let records = settings.signal.records();
        if let Some(refused) = refused {
            warn!(
                endpoint,
                proxy, refused, "the receiver of {records} answers, but refuses an empty request"
            );
        } else {
            info!(endpoint, proxy, "the receiver of {records} answers");
        }
        Ok(())
    }

    /// Sends records as one request. Metrics have a resource of their own.
    pub(super) async fn export(&mut self, records: &Records, resource: &Resource) -> ExportResult {
        let exported = self.transport.encode(records, resource).await;
        let result = self.transport.result.lock().take();
        let result = result.unwrap_or_else(|| {
            let error = exported.err().map(|error| error.to_string());
            let message = error.unwrap_or_else(|| "the exporter made no request".to_owned());
            Err(FailedRequest {
                result: RequestResult::Refused(DropReason::Rejected),
                ..FailedRequest::new(ExportFailure::Rejected, message)
            })
        });
        self.judge(&result);
        result
    }

    /// Counts and logs a failure that is retried, and logs the first of equal warnings of the collector.
    fn judge(&mut self, result: &ExportResult) {
        let is_up = !matches!(result, Err(failed) if !failed.refuses_content());
        self.counts.send_modify(|counts| counts.is_up = Some(is_up));
        match result {
            Ok(partial) if partial.rejected(1) == 0 && self.warning != partial.error_message => {
                self.warning.clone_from(&partial.error_message);
                if !self.warning.is_empty() {
                    let (message, records) = (&self.warning, self.settings().signal.records());
                    warn!(message, "collector accepted {records} with a warning");
                }
            }
            Err(failed) if !failed.is_refused() => {
                // Certificates may have been renewed, and HTTP/2 would keep a connection that is dead.
                if [ExportFailure::Tls, ExportFailure::Timeout].contains(&failed.reason) {
                    *self.transport.client.lock() = None;
                }
                self.not_before = failed.after.map(|delay| Instant::now() + delay);
                self.failed(failed.reason, &failed.message);
            }
            _ => {}
        }
    }

    pub(super) fn count(&self, reason: ExportFailure) {
        self.counts.send_modify(|counts| counts.fail(reason));
    }

    /// Counts a failure, and logs the first of consecutive ones and a change of the reason.
    pub(super) fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.count(reason);
        self.failures = self.failures.saturating_add(1);
        if self.last_failure.replace(reason) != Some(reason) {
            warn!(
                name: log_id::EXPORT_FAILED,
                reason = reason.as_str(),
                error = message,
                endpoint = self.settings().shown_endpoint(),
                proxy = shown_proxy(self.settings()),
                "{} export failed",
                self.settings().signal.adjective()
            );
        }
    }

    pub(super) fn recovered(&mut self) {
        if self.last_failure.take().is_some() {
            info!(name: log_id::EXPORT_RECOVERED, "{} export recovered", self.settings().signal.adjective());
        }
        self.failures = 0;
        self.is_probed = true;
    }

    /// Our own backoff before the next attempt, or longer if the collector asked for that.
    pub(super) fn retry_delay(&self, failed: &FailedRequest) -> Duration {
        let (first, max) = (self.timing.initial_backoff, self.timing.max_backoff);
        let own = backoff(first, max, self.failures, fastrand::f64());
        own.max(failed.after.unwrap_or_default())
    }
}

/// The client of an exporter. It answers each request with success: the exporter would hide the response, and repeat the
/// request by itself.
#[derive(Debug)]
struct Transport {
    settings: ExporterSettings,
    secrets: Secrets,
    clock: Clock,
    /// Reads certificates and resolves host names.
    worker: Worker,
    /// `None` until the first attempt, and after some failures.
    client: Mutex<Option<Client>>,
    /// How the last request of an exporter ended.
    result: Mutex<Option<ExportResult>>,
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let result = self.post(request.into_body()).await;
        *self.result.lock() = Some(result);
        Ok(Response::new(Bytes::new()))
    }
}

impl Transport {
    /// Encodes records by an exporter, which posts them by this client.
    async fn encode(
        self: &Arc<Self>,
        records: &Records,
        resource: &Resource,
    ) -> Result<(), HttpError> {
        match records {
            Records::Spans(spans) => {
                let mut exporter = self
                    .configure(SpanExporter::builder().with_http())
                    .build()?;
                exporter.set_resource(resource);
                exporter.export(spans.clone()).await?;
            }
            Records::Logs(records) => {
                let mut exporter = self.configure(LogExporter::builder().with_http()).build()?;
                exporter.set_resource(resource);
                let scope = scope();
                let records: Vec<_> = records.iter().map(|record| (record, &scope)).collect();
                exporter.export(LogBatch::new(&records)).await?;
            }
            Records::Metrics(metrics) => {
                let exporter = self
                    .configure(MetricExporter::builder().with_http())
                    .build()?;
                exporter.export(metrics).await?;
            }
        }
        Ok(())
    }

    /// Makes this the client of an exporter, whose endpoint is not used.
    fn configure<B: WithExportConfig + WithHttpConfig>(self: &Arc<Self>, builder: B) -> B {
        builder
            .with_shared_http_client(Arc::<Self>::clone(self))
            .with_protocol(OtlpProtocol::HttpBinary)
            .with_endpoint("http://localhost")
    }

    async fn post(&self, mut body: Bytes) -> ExportResult {
        let client = self.client().await?;
        let (settings, secrets) = (&self.settings, &self.secrets);
        let is_grpc = settings.protocol == Protocol::Grpc;
        let compressed = settings.gzip.then(|| gzip(&body)).and_then(Result::ok);
        let is_compressed = compressed.is_some();
        body = compressed.map_or(body, Into::into);
        let mut encoding = CONTENT_ENCODING;
        let mut request = if is_grpc {
            body = grpc::frame(&body, is_compressed);
            encoding = HeaderName::from_static("grpc-encoding");
            let url = url::under(&settings.endpoint, settings.signal.grpc_path());
            let request = client.post(url).header(TE, "trailers");
            request.header(CONTENT_TYPE, "application/grpc")
        } else {
            let request = client.post(settings.endpoint.clone());
            // hyper omits the length of an empty body, and servers answer 411.
            let request = request.header(CONTENT_LENGTH, body.len());
            request.header(CONTENT_TYPE, "application/x-protobuf")
        };
        if is_compressed {
            request = request.header(encoding, "gzip");
        }
        let request = request.timeout(settings.timeout);
        let request = request.headers(settings.headers.clone()).body(body);
        let unanswered = |error| FailedRequest::unanswered(error, settings, secrets);
        let response = request.send().await.map_err(unanswered)?;
        if is_grpc && grpc::is_grpc(&response) {
            let read = grpc::read(response).await;
            let (headers, message) = read.map_err(|error| match error.downcast() {
                Ok(error) => unanswered(*error),
                Err(_) => FailedRequest {
                    result: RequestResult::MayBeContent,
                    ..FailedRequest::new(ExportFailure::NotOtlp, "the answer has more than 4 MiB")
                },
            })?;
            return grpc::export_result(&headers, &message, settings, secrets);
        }
        let response = read(response).await.map(|body| gunzip(body, MAX_BODY));
        of_http(&response, self.clock.now().wall, settings, secrets)
    }

    async fn client(&self) -> Result<Client, FailedRequest> {
        if let Some(client) = &*self.client.lock() {
            return Ok(client.clone());
        }
        let settings = self.settings.clone();
        let worker = &self.worker;
        let resolver = Resolver::System(worker.clone());
        let made = worker.run_while_awaited(move || client_of(&settings, resolver));
        let hangs = "the thread that reads files and resolves host names hangs";
        let hangs = || FailedRequest::new(ExportFailure::Connect, hangs);
        let client = made.await.ok_or_else(hangs)?;
        let client = client.map_err(|it| FailedRequest::new(ExportFailure::Tls, it))?;
        *self.client.lock() = Some(client.clone());
        Ok(client)
    }
}

/// The proxy of the environment for the collector. For gRPC without TLS it would have to speak HTTP/2 too.
fn proxy_of(settings: &ExporterSettings) -> Option<Intercept> {
    let is_used = settings.endpoint.scheme() == "https" || settings.protocol != Protocol::Grpc;
    proxy::of(&settings.endpoint).filter(|_| is_used)
}

/// For messages, without secrets.
fn shown_proxy(settings: &ExporterSettings) -> Option<String> {
    proxy_of(settings).as_ref().map(proxy::shown)
}

/// The error is for the log.
fn client_of(settings: &ExporterSettings, resolver: Resolver) -> Result<Client, String> {
    let is_https = settings.endpoint.scheme() == "https";
    let no_files = TlsFiles::default();
    build_client(ClientOptions {
        url: &settings.endpoint,
        files: if is_https { &settings.files } else { &no_files },
        file_settings: [
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        ],
        proxy: proxy_of(settings),
        resolver,
        is_http2: settings.protocol == Protocol::Grpc,
        connect_timeout: settings.timeout,
    })
}
