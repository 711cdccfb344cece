//! The connection to the collector of one signal: the client with its certificates, and what became of an attempt.
//!
//! Certificate files that cannot be read are read again with the next attempt. After a TLS failure all are read again,
//! but not more often than every [`RetryTiming::max_backoff`], since a system's store is large.

use std::{io, time::Duration};

use tracing::{info, warn};

use super::{
    client::{CollectorClient, Payload, SetupError},
    disposition::{Disposition, ExportAttempt},
    timing::{Retry, RetryTiming},
};
use crate::{
    otlp::settings::ExporterSettings,
    outbound::{http::add_proxy_secrets, url::Secrets},
    snapshot::ExportFailure,
    time::Clock,
    worker::Worker,
};

pub(super) struct Connection {
    pub(super) settings: ExporterSettings,
    pub(super) clock: Clock,
    pub(super) timing: RetryTiming,
    secrets: Secrets,
    /// Reads certificates and resolves host names.
    worker: Option<Worker>,
    client: Option<CollectorClient>,
    /// By the monotonic clock.
    reload_certificates_at: Duration,
    /// Consecutive failures.
    failures: u32,
    /// As logged.
    last_failure: Option<ExportFailure>,
}

impl Connection {
    pub(super) fn new(settings: ExporterSettings, clock: Clock, timing: RetryTiming) -> Self {
        let mut secrets = settings.secrets();
        add_proxy_secrets(&mut secrets);
        Self {
            settings,
            clock,
            timing,
            secrets,
            // Without a thread now, the next attempt starts it.
            worker: start_worker().ok(),
            client: None,
            reload_certificates_at: Duration::ZERO,
            failures: 0,
            last_failure: None,
        }
    }

    /// Sends one request by the client, if there can be one.
    pub(super) async fn attempt(&mut self, payload: Payload<'_>) -> Disposition {
        let client = if let Some(client) = self.client.take() {
            Ok(client)
        } else {
            let now = self.clock.now().monotonic;
            self.reload_certificates_at = now.saturating_add(self.timing.max_backoff);
            self.open_client().await
        };
        let attempt = match client {
            Ok(mut client) => {
                let attempt = client.send(payload).await;
                let is_tls = matches!(&attempt, ExportAttempt::NoResponse { reason, .. } if *reason == ExportFailure::Tls);
                let is_stale = is_tls && self.clock.now().monotonic >= self.reload_certificates_at;
                self.client = (!is_stale).then_some(client);
                attempt
            }
            Err(error) => ExportAttempt::NoResponse {
                reason: error.reason(),
                message: error.to_string(),
            },
        };
        Disposition::of(attempt, self.settings.signal, &self.secrets)
    }

    async fn open_client(&mut self) -> Result<CollectorClient, SetupError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => start_worker()?,
        };
        self.worker = Some(worker.clone());
        CollectorClient::open(&self.settings, &worker, self.clock).await
    }

    /// Logs the first of consecutive failures, and a change of the reason.
    pub(super) fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.failures = self.failures.saturating_add(1);
        if self.last_failure.replace(reason) != Some(reason) {
            warn!(
                reason = reason.as_str(),
                error = message,
                endpoint = self.settings.redacted_endpoint(),
                "{} export failed",
                self.settings.signal.as_str()
            );
        }
    }

    /// Returns the number of consecutive failures until now.
    pub(super) fn recovered(&mut self) -> u32 {
        if self.last_failure.take().is_some() {
            info!("{} export recovered", self.settings.signal.as_str());
        }
        std::mem::take(&mut self.failures)
    }

    /// Consecutive failures.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The time until the next attempt.
    pub(super) fn retry_delay(&self, retry: &Retry) -> Duration {
        self.timing.delay(retry, self.failures)
    }
}

fn start_worker() -> io::Result<Worker> {
    Worker::start("otlp")
}
