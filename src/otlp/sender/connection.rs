//! The way to one collector: a client with its certificates, and OpenTelemetry's own exporter on top of it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::BytesMut;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    Compression, ExporterBuildError, Protocol, RetryPolicy, SpanExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_sdk::trace::SpanExporter as _;
use reqwest::{
    Certificate, Client, Identity, Url,
    header::{HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT},
    redirect,
};
use tokio::task::spawn_blocking;

use super::{data, disposition::ExportAttempt};
use crate::{
    otlp::{resource::Resource, settings::OtlpSettings, spool::Batch},
    snapshot::ExportFailure,
};

/// Who sends; the library adds itself (OTLP specification, "User Agent").
const PRODUCT: &str = concat!(
    "azure-scheduled-events-exporter/",
    env!("CARGO_PKG_VERSION")
);

/// The most that is read of an answer: a word on the spans that were not taken, or why none were.
const MAX_BYTES: usize = 64 << 10;

/// Why nothing can be sent with these settings as things are.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A file that a variable names.
    #[error("{variable}: {path} cannot be read: {cause}", path = path.display())]
    File {
        /// The variable.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file without what it should hold.
    #[error("{variable}: {path} holds no usable PEM: {cause}", path = path.display())]
    Pem {
        /// The variable.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// No client, usually for want of the system's certificates.
    #[error(
        "no client can be made: {0}; where the system has no certificates, OTEL_EXPORTER_OTLP_CERTIFICATE names a file of them"
    )]
    Client(String),
    /// OpenTelemetry's exporter.
    #[error("{0}")]
    Exporter(#[from] ExporterBuildError),
    /// The thread that was to read the files.
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
    pub(super) async fn open(settings: &OtlpSettings) -> Result<Self, SetupError> {
        let for_client = settings.clone();
        let client = spawn_blocking(move || client(&for_client)).await??;
        let met = Arc::default();
        let recording = Recording {
            client,
            endpoint: settings.endpoint.clone(),
            headers: settings.headers.clone(),
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
    met: Arc<Mutex<Option<ExportAttempt>>>,
}

#[async_trait]
impl HttpClient for Recording {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        let library = headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let agent = format!("{PRODUCT} {}", library.unwrap_or_default());
        headers.insert(USER_AGENT, HeaderValue::from_str(agent.trim_end())?);
        // The exporter reads these variables too, but does not decode all that the specification encodes.
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        // With our own URL, since a request that is given one makes a login of the name and the password in it.
        let request = self.client.post(self.endpoint.clone());
        let mut answer = match request.headers(headers).body(body).send().await {
            Ok(answer) => answer,
            Err(error) => {
                self.record(ExportAttempt::Nothing {
                    reason: reason(&error),
                    message: chain(&error),
                });
                return Err(error.into());
            }
        };
        let body = beginning(&mut answer).await;
        let retry_after = answer.headers().get(RETRY_AFTER);
        self.record(ExportAttempt::Answer {
            status: answer.status().as_u16(),
            retry_after: retry_after
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
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

/// The beginning of a body, as far as it comes in time. The status says what became of the spans, and stands whether a
/// body breaks off or never ends.
async fn beginning(answer: &mut reqwest::Response) -> Bytes {
    let mut read = BytesMut::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        let left = MAX_BYTES.saturating_sub(read.len());
        read.extend_from_slice(&chunk.slice(..chunk.len().min(left)));
        if chunk.len() > left {
            break;
        }
    }
    read.freeze()
}

fn reason(error: &(dyn std::error::Error + 'static)) -> ExportFailure {
    let timed_out = error
        .downcast_ref::<reqwest::Error>()
        .is_some_and(reqwest::Error::is_timeout);
    if timed_out {
        ExportFailure::Timeout
    } else if std::iter::successors(Some(error), |&error| inner(error))
        .any(<dyn std::error::Error>::is::<rustls::Error>)
    {
        ExportFailure::Tls
    } else {
        ExportFailure::Connect
    }
}

/// The error inside of another. An I/O error that wraps one gives out that one's cause as its own, and hides it.
fn inner<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// An error with its causes, without the URL, which may hold a password.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = match error.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_timeout() => "no answer in time".to_owned(),
        Some(error) if error.is_connect() => "no connection".to_owned(),
        Some(error) if error.is_builder() => "setup".to_owned(),
        Some(_) => "the request broke off".to_owned(),
        None => error.to_string(),
    };
    let mut cause = inner(error);
    while let Some(error) = cause {
        let word = error.to_string();
        if !words.ends_with(&word) {
            words = format!("{words}: {word}");
        }
        cause = inner(error);
    }
    words
}

fn client(settings: &OtlpSettings) -> Result<Client, SetupError> {
    let mut builder = Client::builder()
        .timeout(settings.timeout)
        .redirect(redirect::Policy::none())
        .pool_max_idle_per_host(1);
    if settings.endpoint.scheme() == "http" {
        // No certificates are needed, so none may be missing.
        builder = builder.tls_certs_only([]);
    } else if let Some(path) = &settings.certificate {
        const VARIABLE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        let authorities = Certificate::from_pem_bundle(&read(VARIABLE, path)?)
            .map_err(|error| pem(VARIABLE, path, &error))?;
        if authorities.is_empty() {
            return Err(SetupError::Pem {
                variable: VARIABLE,
                path: path.clone(),
                cause: "there is no certificate in it".to_owned(),
            });
        }
        builder = builder.tls_certs_only(authorities);
    }
    if let Some(own) = settings
        .client
        .as_ref()
        .filter(|_| settings.endpoint.scheme() == "https")
    {
        const VARIABLE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
        let mut both = read("OTEL_EXPORTER_OTLP_CLIENT_KEY", &own.key)?;
        both.push(b'\n');
        both.extend(read(VARIABLE, &own.certificate)?);
        let identity =
            Identity::from_pem(&both).map_err(|error| pem(VARIABLE, &own.certificate, &error))?;
        builder = builder.identity(identity);
    }
    builder
        .build()
        .map_err(|error| SetupError::Client(chain(&error)))
}

fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, SetupError> {
    fs::read(path).map_err(|cause| SetupError::File {
        variable,
        path: path.to_owned(),
        cause,
    })
}

fn pem(variable: &'static str, path: &Path, error: &reqwest::Error) -> SetupError {
    SetupError::Pem {
        variable,
        path: path.to_owned(),
        cause: chain(error),
    }
}
