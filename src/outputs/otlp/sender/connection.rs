//! The connection to the collector of one signal.

use std::{io, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TE},
};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    client, grpc,
    response::{Disposition, Retry},
};
use crate::{
    base::{backoff::backoff, log_id, time::Clock, worker::Worker},
    http::client::{
        http::{self, read_up_to},
        proxy,
        resolver::Resolver,
        retry::retry_after,
        url::{self, Secrets},
    },
    outputs::{
        metrics::exposition::gzip,
        otlp::settings::{ExporterSettings, Protocol},
        output_counters::{ExportCounts, ExportFailure},
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
    pub(crate) counts: watch::Sender<ExportCounts>,
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
        Ok(Self {
            settings: settings.clone(),
            secrets: http::secrets(&settings.endpoint, &settings.headers),
            clock,
            timing,
            counts: watch::Sender::default(),
            worker: Worker::start("otlp")?,
            client: None,
            failures: 0,
            last_failure: None,
            warning: String::new(),
        })
    }

    /// Sends an empty request, so that a wrong endpoint is known before there is something to send. A failure is counted
    /// and logged.
    pub(super) async fn probe(&mut self) -> Result<(), Retry> {
        let retry = match self.attempt(Bytes::new()).await {
            Disposition::Accepted { .. } => {
                self.recovered();
                info!(
                    endpoint = self.settings.shown_endpoint(),
                    proxy = self.shown_proxy(),
                    "the receiver of {} answers",
                    self.settings.signal.records()
                );
                return Ok(());
            }
            Disposition::Refused { reason, message } => {
                self.failed(reason, &message);
                Retry::new(reason, message)
            }
            Disposition::Retry(retry) => retry,
        };
        self.counts.send_modify(|counts| counts.is_up = Some(false));
        Err(retry)
    }

    /// Sends one request with this body. Counts and logs a failure that is retried, and logs the first of equal
    /// warnings of the collector.
    pub(super) async fn attempt(&mut self, body: Bytes) -> Disposition {
        let disposition = self.post(body).await.unwrap_or_else(Disposition::Retry);
        let is_up = !matches!(disposition, Disposition::Retry(_));
        self.counts.send_modify(|counts| counts.is_up = Some(is_up));
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
            Disposition::Retry(Retry {
                reason, message, ..
            }) => {
                // Certificates may have been renewed, and HTTP/2 would keep a connection that is dead.
                if [ExportFailure::Tls, ExportFailure::Timeout].contains(reason) {
                    self.client = None;
                }
                self.failed(*reason, message);
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
        let mut response = request
            .send()
            .await
            .map_err(|error| Retry::unanswered(error, settings, &self.secrets))?;
        if is_grpc && grpc::is_grpc(&response) {
            let read = grpc::read(response, MAX_BODY_BYTES).await;
            let (headers, message) =
                read.map_err(|error| Retry::unanswered(error, settings, &self.secrets))?;
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

    async fn client(&mut self) -> Result<Client, Retry> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let settings = self.settings.clone();
        let resolver = Resolver::new(self.worker.clone());
        let made = self
            .worker
            .run_while_awaited(move || client::of(&settings, resolver));
        match made.await {
            Some(Ok(client)) => Ok(self.client.insert(client).clone()),
            Some(Err(message)) => Err(Retry::new(ExportFailure::Tls, message)),
            None => {
                let message = "the thread that reads files and resolves host names hangs";
                Err(Retry::new(ExportFailure::Connect, message.to_owned()))
            }
        }
    }

    /// Counts a failure, and logs the first of consecutive ones and a change of the reason.
    pub(super) fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.counts.send_modify(|counts| counts.fail(reason));
        self.failures = self.failures.saturating_add(1);
        if self.last_failure.replace(reason) != Some(reason) {
            warn!(
                name: log_id::EXPORT_FAILED,
                reason = reason.as_str(),
                error = message,
                endpoint = self.settings.shown_endpoint(),
                proxy = self.shown_proxy(),
                "{} export failed",
                self.settings.signal.as_str()
            );
        }
    }

    /// The proxy for messages, without secrets.
    fn shown_proxy(&self) -> Option<String> {
        client::proxy_of(&self.settings).as_ref().map(proxy::shown)
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
