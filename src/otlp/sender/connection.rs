//! The connection to the collector of one signal.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use reqwest::Client;
use tracing::{info, warn};

use super::{
    request::{Endpoint, Payload, send},
    response::{Disposition, Retry},
};
use crate::{
    otlp::settings::ExporterSettings,
    outbound::{
        error::root_cause,
        http::{self, PemError, add_proxy_secrets},
        resolver::Resolver,
        retry::backoff,
    },
    snapshot::ExportFailure,
    time::Clock,
    worker::Worker,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryTiming {
    /// After the first failure; each further one doubles it.
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// The same after a status whose cause is usually the configuration, such as 401.
    pub initial_slow_backoff: Duration,
    pub max_slow_backoff: Duration,
    /// How often an idle sender expires old spans and retries failed disk writes.
    pub maintenance_interval: Duration,
    /// How long the remaining spans are exported at shutdown.
    pub flush_timeout: Duration,
}

impl Default for RetryTiming {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
            initial_slow_backoff: Duration::from_mins(1),
            max_slow_backoff: Duration::from_mins(5),
            maintenance_interval: Duration::from_secs(30),
            flush_timeout: Duration::from_secs(5),
        }
    }
}

#[derive(Debug)]
pub struct Connection {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) timing: RetryTiming,
    /// Reads certificates and resolves host names.
    worker: Worker,
    /// `None` until the first attempt, and after a TLS failure: certificates may have been renewed.
    client: Option<Client>,
    /// Consecutive failures.
    pub(super) failures: u32,
    last_failure: Option<ExportFailure>,
}

impl Connection {
    /// The first attempt reads the certificates and connects.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn new(settings: &ExporterSettings, clock: Clock, timing: RetryTiming) -> io::Result<Self> {
        let mut secrets = settings.secrets();
        add_proxy_secrets(&mut secrets);
        let endpoint = Endpoint {
            settings: settings.clone(),
            secrets,
            clock,
        };
        Ok(Self {
            endpoint: Arc::new(endpoint),
            timing,
            worker: Worker::start("otlp")?,
            client: None,
            failures: 0,
            last_failure: None,
        })
    }

    /// Sends one request.
    pub(super) async fn attempt(&mut self, payload: Payload<'_>) -> Disposition {
        let disposition = match self.client().await {
            Ok(client) => send(&self.endpoint, client, payload).await,
            Err(retry) => Disposition::Retry(retry),
        };
        if let Disposition::Retry(retry) = &disposition
            && retry.reason == ExportFailure::Tls
        {
            self.client = None;
        }
        disposition
    }

    async fn client(&mut self) -> Result<Client, Retry> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let endpoint = Arc::clone(&self.endpoint);
        let resolver = Resolver::new(self.worker.clone());
        let made = self
            .worker
            .run_while_awaited(move || client(&endpoint.settings, resolver));
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
            let settings = &self.endpoint.settings;
            warn!(
                reason = reason.as_str(),
                error = message,
                endpoint = settings.redacted_endpoint(),
                "{} export failed",
                settings.signal.as_str()
            );
        }
    }

    /// Returns the number of consecutive failures until now.
    pub(super) fn recovered(&mut self) -> u32 {
        if self.last_failure.take().is_some() {
            let signal = self.endpoint.settings.signal;
            info!("{} export recovered", signal.as_str());
        }
        std::mem::take(&mut self.failures)
    }

    /// The time until the next attempt.
    pub(super) fn retry_delay(&self, retry: &Retry) -> Duration {
        let timing = &self.timing;
        retry.after.unwrap_or_else(|| {
            let (first, max) = if retry.is_slow {
                (timing.initial_slow_backoff, timing.max_slow_backoff)
            } else {
                (timing.initial_backoff, timing.max_backoff)
            };
            backoff(first, max, self.failures, fastrand::f64())
        })
    }
}

/// The error is for the log.
fn client(settings: &ExporterSettings, resolver: Resolver) -> Result<Client, String> {
    const CA_FILE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
    const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
    let failure = |variable: &str, path: &Path, cause: PemError| {
        format!("{variable}: {} {cause}", path.display())
    };
    let is_https = settings.endpoint.scheme() == "https";
    let ca_file = settings.certificate.as_deref().filter(|_| is_https);
    let mut builder = http::client(&settings.endpoint, ca_file, resolver)
        .map_err(|cause| failure(CA_FILE, ca_file.unwrap_or(Path::new("")), cause))?;
    if let Some(own) = settings.client.as_ref().filter(|_| is_https) {
        let read = |variable, path: &Path| {
            fs::read(path).map_err(|cause| failure(variable, path, cause.into()))
        };
        let (certificate, key) = (read(CERTIFICATE, &own.certificate)?, read(KEY, &own.key)?);
        let identity = http::identity(&certificate, &key)
            .map_err(|cause| failure(CERTIFICATE, &own.certificate, cause))?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| {
        let cause = root_cause(&error);
        format!("no client can be made: {cause}; where the system has no certificates, {CA_FILE} names a file of them")
    })
}
