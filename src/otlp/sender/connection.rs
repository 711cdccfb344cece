//! The connection to the collector of one signal: its client, and what became of an attempt.

use std::{fmt, sync::Arc, time::Duration};

use opentelemetry_otlp::ExporterBuildError;
use tracing::{info, warn};

use super::{
    client::{CollectorClient, Payload},
    disposition::{Disposition, ExportAttempt},
    shared_client::SharedClient,
    timing::{Retry, RetryTiming},
};
use crate::{
    otlp::settings::ExporterSettings,
    outbound::{http::add_proxy_secrets, url::Secrets},
    snapshot::ExportFailure,
    time::Clock,
};

/// Makes the connections of the signals. Those with the same host and certificates share an HTTP client.
#[derive(Debug)]
pub struct Connections {
    clock: Clock,
    timing: RetryTiming,
    clients: Vec<Arc<SharedClient>>,
}

impl Connections {
    pub fn new(clock: Clock, timing: RetryTiming) -> Self {
        Self {
            clock,
            timing,
            clients: Vec::new(),
        }
    }

    pub fn add(&mut self, settings: &ExporterSettings) -> Connection {
        let shared = self.clients.iter().find(|client| client.suits(settings));
        let client = shared.cloned().unwrap_or_else(|| {
            let client = SharedClient::new(settings, self.timing.max_backoff);
            let client = Arc::new(client);
            self.clients.push(Arc::clone(&client));
            client
        });
        let mut secrets = settings.secrets();
        add_proxy_secrets(&mut secrets);
        Connection {
            client: CollectorClient::new(settings, client, self.clock),
            settings: settings.clone(),
            clock: self.clock,
            timing: self.timing,
            secrets,
            failures: 0,
            last_failure: None,
        }
    }
}

pub struct Connection {
    pub(super) settings: ExporterSettings,
    pub(super) clock: Clock,
    pub(super) timing: RetryTiming,
    secrets: Secrets,
    client: Result<CollectorClient, ExporterBuildError>,
    /// Consecutive failures.
    failures: u32,
    /// As logged.
    last_failure: Option<ExportFailure>,
}

/// Without the secrets.
impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Connection")
            .field("endpoint", &self.settings.redacted_endpoint())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Sends one request by the client, if there can be one.
    pub(super) async fn attempt(&mut self, payload: Payload<'_>) -> Disposition {
        let attempt = match &mut self.client {
            Ok(client) => client.send(payload).await,
            Err(error) => ExportAttempt::NoResponse {
                reason: ExportFailure::Connect,
                message: error.to_string(),
            },
        };
        Disposition::of(attempt, self.settings.signal, &self.secrets)
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
