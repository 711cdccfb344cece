//! The connection to the collector of one signal.

use std::{io, path::Path, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TE},
};
use tracing::{info, warn};

use super::{
    grpc,
    response::{Disposition, Retry},
};
use crate::{
    base::{backoff::backoff, log_id, time::Clock, worker::Worker},
    core::snapshot::ExportFailure,
    http::client::{
        error::{causes, is_tls, root_cause},
        http::{self, add_proxy_secrets, read_up_to},
        proxy,
        resolver::Resolver,
        retry::retry_after,
        tls::{TlsError, TlsFiles},
        url::{self, Secrets},
    },
    outputs::{
        metrics::negotiation::gzip,
        otlp::settings::{ExporterSettings, Protocol},
    },
};

const MAX_BODY_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryTiming {
    /// After the first failure; each further one doubles it.
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// How often an idle sender retries failed disk writes.
    pub maintenance_interval: Duration,
    /// How long the remaining spans are exported at shutdown.
    pub flush_timeout: Duration,
}

impl Default for RetryTiming {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
            maintenance_interval: Duration::from_secs(30),
            flush_timeout: Duration::from_secs(5),
        }
    }
}

#[derive(Debug)]
pub struct Connection {
    pub(super) settings: ExporterSettings,
    secrets: Secrets,
    pub(super) clock: Clock,
    pub(super) timing: RetryTiming,
    /// Reads certificates and resolves host names.
    worker: Worker,
    /// `None` until the first attempt, and after some failures.
    client: Option<Client>,
    /// Consecutive failures.
    pub(super) failures: u32,
    last_failure: Option<ExportFailure>,
    /// The last warning of the collector, which came with a request that it accepted.
    warning: String,
}

impl Connection {
    /// The first attempt reads the certificates and connects.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn new(settings: &ExporterSettings, clock: Clock, timing: RetryTiming) -> io::Result<Self> {
        let mut secrets = settings.secrets();
        add_proxy_secrets(&mut secrets);
        Ok(Self {
            settings: settings.clone(),
            secrets,
            clock,
            timing,
            worker: Worker::start("otlp")?,
            client: None,
            failures: 0,
            last_failure: None,
            warning: String::new(),
        })
    }

    /// Sends an empty request, so that a wrong endpoint is known before there is something to send.
    ///
    /// # Errors
    /// The failure, which is logged.
    pub(super) async fn probe(&mut self) -> Result<(), Retry> {
        let retry = match self.attempt(Bytes::new()).await {
            Disposition::Accepted { .. } => {
                self.recovered();
                info!(
                    endpoint = self.settings.redacted_endpoint(),
                    "the receiver of {} answers",
                    self.settings.signal.records()
                );
                return Ok(());
            }
            Disposition::Refused { reason, message } => Retry::new(reason, message),
            Disposition::Retry(retry) => retry,
        };
        self.failed(retry.reason, &retry.message);
        Err(retry)
    }

    /// Sends one request with this body. Logs the first of equal warnings of the collector.
    pub(super) async fn attempt(&mut self, body: Bytes) -> Disposition {
        let disposition = self.post(body).await.unwrap_or_else(Disposition::Retry);
        match &disposition {
            Disposition::Accepted {
                rejected: 0,
                message,
            } if self.warning != *message => {
                self.warning.clone_from(message);
                if !message.is_empty() {
                    let records = self.settings.signal.records();
                    warn!(message, "collector accepted {records} with a warning");
                }
            }
            // Certificates may have been renewed, and HTTP/2 would keep a connection that is dead.
            Disposition::Retry(Retry {
                reason: ExportFailure::Tls | ExportFailure::Timeout,
                ..
            }) => {
                self.client = None;
            }
            _ => {}
        }
        disposition
    }

    async fn post(&mut self, mut body: Bytes) -> Result<Disposition, Retry> {
        let client = self.client().await?;
        let settings = &self.settings;
        let is_grpc = settings.protocol == Protocol::Grpc;
        let compressed = settings.gzip.then(|| gzip(&body)).and_then(Result::ok);
        let is_compressed = compressed.is_some();
        body = compressed.map_or(body, Into::into);
        let mut request = if is_grpc {
            body = grpc::frame(&body, is_compressed);
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
            let grpc_encoding = HeaderName::from_static("grpc-encoding");
            request = request.header(
                if is_grpc {
                    grpc_encoding
                } else {
                    CONTENT_ENCODING
                },
                "gzip",
            );
        }
        let request = request.timeout(settings.timeout);
        let request = request.headers(settings.headers.clone()).body(body);
        let mut response = request
            .send()
            .await
            .map_err(|error| self.unanswered(error))?;
        if is_grpc && grpc::is_grpc(&response) {
            let read = grpc::read(response, MAX_BODY_BYTES).await;
            let (headers, message) = read.map_err(|error| self.unanswered(error))?;
            return Ok(grpc::disposition(
                &headers,
                message,
                settings,
                &self.secrets,
            ));
        }
        let body = read_up_to(&mut response, MAX_BODY_BYTES).await;
        let retry_after = retry_after(response.headers(), self.clock.now().wall);
        let (status, headers) = (response.status(), response.headers());
        Ok(Disposition::of(
            status,
            headers,
            retry_after,
            body,
            settings,
            &self.secrets,
        ))
    }

    /// A request without a response, with what to change if that is typical of a wrong endpoint.
    fn unanswered(&self, error: reqwest::Error) -> Retry {
        // The URL may hold a secret.
        let error = error.without_url();
        let message = self.secrets.mask(&root_cause(&error));
        Retry::new(
            reason(&error),
            format!("{message}{}", hint(&error, &self.settings)),
        )
    }

    async fn client(&mut self) -> Result<Client, Retry> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let settings = self.settings.clone();
        let resolver = Resolver::new(self.worker.clone());
        let made = self
            .worker
            .run_while_awaited(move || client(&settings, resolver));
        match made.await {
            Some(Ok(client)) => Ok(self.client.insert(client).clone()),
            Some(Err(message)) => Err(Retry::new(ExportFailure::Tls, message)),
            None => {
                let message = "the thread that reads files and resolves host names hangs";
                Err(Retry::new(ExportFailure::Connect, message.to_owned()))
            }
        }
    }

    /// Logs the first of consecutive failures, and a change of the reason.
    pub(super) fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.failures = self.failures.saturating_add(1);
        if self.last_failure.replace(reason) != Some(reason) {
            warn!(
                name: log_id::EXPORT_FAILED,
                reason = reason.as_str(),
                error = message,
                endpoint = self.settings.redacted_endpoint(),
                "{} export failed",
                self.settings.signal.as_str()
            );
        }
    }

    pub(super) fn recovered(&mut self) {
        if self.last_failure.take().is_some() {
            info!(name: log_id::EXPORT_RECOVERED, "{} export recovered", self.settings.signal.as_str());
        }
        self.failures = 0;
    }

    /// The time until the next attempt.
    pub(super) fn retry_delay(&self, retry: &Retry) -> Duration {
        let timing = &self.timing;
        retry.after.unwrap_or_else(|| {
            let (first, max) = (timing.initial_backoff, timing.max_backoff);
            backoff(first, max, self.failures, fastrand::f64())
        })
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

/// What to change, for errors that are typical of a port that speaks another protocol.
fn hint(error: &reqwest::Error, settings: &ExporterSettings) -> &'static str {
    let is_other_protocol = |error: &hyper::Error| {
        // A gRPC receiver may send its settings before the request: hyper has no predicate for that.
        let is_unexpected = error.to_string().contains("unexpected message");
        is_unexpected || error.is_parse() || error.is_incomplete_message() || error.is_closed()
    };
    let is_grpc = settings.protocol == Protocol::Grpc;
    if error.is_timeout() || error.is_connect() {
        ""
    } else if is_grpc && settings.endpoint.scheme() == "https" {
        "; if this is no gRPC receiver, set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf; does it ask for a client certificate?"
    } else if is_grpc {
        "; if this is no gRPC receiver, set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf; if it expects TLS, write https://"
    } else if causes(error)
        .filter_map(|it| it.downcast_ref())
        .any(is_other_protocol)
    {
        "; if this is a gRPC receiver, set OTEL_EXPORTER_OTLP_PROTOCOL=grpc; if it expects TLS, write https://"
    } else {
        ""
    }
}

/// The error is for the log.
fn client(settings: &ExporterSettings, resolver: Resolver) -> Result<Client, String> {
    const CA_FILE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
    const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
    let failure = |variable: &str, path: &Path, cause: &str| {
        format!("{variable}: {} {cause}", path.display())
    };
    let without_authorities = |cause: &str| {
        format!(
            "no client can be made: {cause}; where the system has no certificates, {CA_FILE} names a file of them"
        )
    };
    let is_https = settings.endpoint.scheme() == "https";
    let files = TlsFiles {
        ca: settings.certificate.clone().filter(|_| is_https),
        client: settings.client.clone().filter(|_| is_https),
    };
    let is_grpc = settings.protocol == Protocol::Grpc;
    let proxy = proxy::of(&settings.endpoint)?;
    // It would have to speak HTTP/2 too.
    let proxy = proxy.filter(|_| is_https || !is_grpc);
    let builder = http::client(
        &settings.endpoint,
        &files,
        proxy.as_ref(),
        resolver,
        is_grpc,
    );
    let builder = builder.map_err(|error| match error {
        TlsError::Ca(path, why) => failure(CA_FILE, &path, &why),
        TlsError::Certificate(path, why) => failure(CERTIFICATE, &path, &why),
        TlsError::Key(path, why) => failure(KEY, &path, &why),
        TlsError::System(cause) => without_authorities(&cause),
    })?;
    builder
        .build()
        .map_err(|error| without_authorities(&root_cause(&error)))
}
