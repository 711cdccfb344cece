//! The way to one collector: a client with its certificates, and OpenTelemetry's own exporter on top of it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    Compression, ExporterBuildError, Protocol, RetryPolicy, SpanExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_sdk::trace::SpanExporter as _;
use reqwest::{
    Client, Url,
    header::{self, HeaderMap, HeaderValue},
};
use tokio::task::spawn_blocking;

use super::{data, disposition::ExportAttempt};
use crate::{
    otlp::{resource::Resource, settings::OtlpSettings, spool::Batch},
    outbound::{
        error::{causes, is_tls, root_cause},
        http::{self, PemError, USER_AGENT, read_up_to},
        retry::retry_after,
    },
    snapshot::ExportFailure,
    time::Clock,
};

/// The most that is read of a response: the spans that were rejected, or why all were.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Why nothing can be sent with these settings now.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A file that a variable names.
    #[error("{variable}: {path} {cause}", path = path.display())]
    File {
        variable: &'static str,
        path: PathBuf,
        cause: PemError,
    },
    /// No client, usually because the system has no certificates.
    #[error(
        "no client can be made: {0}; where the system has no certificates, OTEL_EXPORTER_OTLP_CERTIFICATE names a file of them"
    )]
    Client(String),
    #[error("{0}")]
    Exporter(#[from] ExporterBuildError),
    /// The thread that reads the files failed.
    #[error("{0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Sends batches, one after the other.
#[derive(Debug)]
pub(super) struct CollectorClient {
    exporter: SpanExporter,
    met: Arc<Mutex<Option<ExportAttempt>>>,
    resource: Option<Resource>,
}

impl CollectorClient {
    /// Reads the certificates; connects with the first batch.
    pub(super) async fn open(settings: &OtlpSettings, clock: Clock) -> Result<Self, SetupError> {
        let for_client = settings.clone();
        let client = spawn_blocking(move || client(&for_client)).await??;
        let met = Arc::default();
        let recording = Recording {
            client,
            endpoint: settings.endpoint.clone(),
            headers: settings.headers.clone(),
            clock,
            met: Arc::clone(&met),
        };
        let mut builder = SpanExporter::builder()
            .with_http()
            .with_http_client(recording)
            .with_protocol(Protocol::HttpBinary)
            // The spool does that, and over restarts.
            .with_retry_policy(RetryPolicy::disabled())
            .with_timeout(settings.timeout)
            .with_endpoint(settings.endpoint.as_str());
        if settings.gzip {
            builder = builder.with_compression(Compression::Gzip);
        }
        Ok(Self {
            exporter: builder.build()?,
            met,
            resource: None,
        })
    }

    /// Sends a batch once.
    pub(super) async fn send(&mut self, batch: &Batch) -> ExportAttempt {
        if self.resource.as_ref() != Some(&batch.resource) {
            self.exporter.set_resource(&data::resource(&batch.resource));
            self.resource = Some(batch.resource.clone());
        }
        let spans = batch.spans.iter().map(data::span).collect();
        let exported = self.exporter.export(spans).await;
        let met = self
            .met
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Without a request there is nothing but the exporter's own word.
        met.unwrap_or_else(|| ExportAttempt::Nothing {
            reason: ExportFailure::Connect,
            message: match exported {
                Ok(()) => "nothing was sent".to_owned(),
                Err(error) => error.to_string(),
            },
        })
    }
}

/// Lets the sender see what the exporter keeps to itself: status, `Retry-After`, and the word on a part of the spans.
#[derive(Debug)]
struct Recording {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    clock: Clock,
    met: Arc<Mutex<Option<ExportAttempt>>>,
}

#[async_trait]
impl HttpClient for Recording {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        let library = headers
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let agent = format!("{USER_AGENT} {}", library.unwrap_or_default());
        headers.insert(header::USER_AGENT, HeaderValue::from_str(agent.trim_end())?);
        // The exporter reads these variables too, but does not decode all that the specification encodes.
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        // With our own URL, since a request that is given one makes a login of the name and the password in it.
        let request = self.client.post(self.endpoint.clone());
        let mut answer = match request.headers(headers).body(body).send().await {
            Ok(answer) => answer,
            Err(error) => {
                // The URL may hold a secret.
                let error = error.without_url();
                self.record(ExportAttempt::Nothing {
                    reason: reason(&error),
                    message: root_cause(&error),
                });
                return Err(error.into());
            }
        };
        let body = read_up_to(&mut answer, MAX_BODY_BYTES).await;
        self.record(ExportAttempt::Answer {
            status: answer.status().as_u16(),
            retry_after: retry_after(answer.headers(), self.clock.now().wall),
            body: body.clone(),
        });
        Ok(Response::builder().status(answer.status()).body(body)?)
    }
}

impl Recording {
    fn record(&self, met: ExportAttempt) {
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(met);
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

fn client(settings: &OtlpSettings) -> Result<Client, SetupError> {
    const CA_FILE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
    const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
    let is_https = settings.endpoint.scheme() == "https";
    let ca_file = settings.certificate.as_deref().filter(|_| is_https);
    let mut builder = http::client(&settings.endpoint, ca_file)
        .map_err(|cause| file_error(CA_FILE, ca_file.unwrap_or(Path::new("")), cause))?
        .timeout(settings.timeout);
    if let Some(own) = settings.client.as_ref().filter(|_| is_https) {
        let read = |variable, path: &Path| {
            fs::read(path).map_err(|cause| file_error(variable, path, cause.into()))
        };
        let (certificate, key) = (read(CERTIFICATE, &own.certificate)?, read(KEY, &own.key)?);
        let identity = http::identity(&certificate, &key)
            .map_err(|cause| file_error(CERTIFICATE, &own.certificate, cause))?;
        builder = builder.identity(identity);
    }
    builder
        .build()
        .map_err(|error| SetupError::Client(root_cause(&error)))
}

fn file_error(variable: &'static str, path: &Path, cause: PemError) -> SetupError {
    SetupError::File {
        variable,
        path: path.to_owned(),
        cause,
    }
}
