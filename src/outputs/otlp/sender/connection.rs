//! The connection to the collector of one signal: what its responses mean for the counters, the log and the next request.

use std::{io, time::Duration};

use bytes::Bytes;
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter};
use opentelemetry_sdk::{
    Resource,
    logs::{LogBatch, LogExporter as _, SdkLogRecord},
    metrics::{Temporality, data::ResourceMetrics, exporter::PushMetricExporter as _},
    trace::{SpanData, SpanExporter as _},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    response::{Disposition, Retry},
    transport::Transport,
};
use crate::{
    base::{backoff::backoff, log_id, time::Clock},
    outputs::{
        otlp::{resource::scope, settings::ExporterSettings},
        output_counters::{ExportCounts, ExportFailure},
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
pub struct Connection {
    transport: Transport,
    pub(super) clock: Clock,
    pub(super) timing: RetryTiming,
    pub(crate) counts: watch::Sender<ExportCounts>,
    /// Consecutive failures.
    pub(super) failures: u32,
    /// The collector asked to send nothing before this.
    not_before: Option<Instant>,
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
            transport: Transport::new(settings, clock)?,
            clock,
            timing,
            counts: watch::Sender::default(),
            failures: 0,
            not_before: None,
            last_failure: None,
            warning: String::new(),
        })
    }

    pub(super) fn settings(&self) -> &ExporterSettings {
        self.transport.settings()
    }

    /// Waits as long as the collector asked for, whatever is to be sent.
    pub(super) async fn permitted(&self) {
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
    }

    /// Sends an empty request, so that a wrong endpoint is known before there is something to send. A failure is counted
    /// and logged.
    pub(super) async fn probe(&mut self) -> Result<(), Retry> {
        let disposition = self.transport.post(Bytes::new()).await;
        let retry = match self.judged(disposition) {
            Disposition::Accepted { .. } => {
                self.recovered();
                info!(
                    endpoint = self.settings().shown_endpoint(),
                    proxy = self.transport.shown_proxy(),
                    "the receiver of {} answers",
                    self.settings().signal.records()
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

    /// Sends spans as one request.
    pub(super) async fn export_spans(
        &mut self,
        spans: Vec<SpanData>,
        resource: &Resource,
    ) -> Disposition {
        let transport = &self.transport;
        let exported = async {
            let builder = SpanExporter::builder().with_http();
            let mut exporter = transport.configure(builder).build()?;
            exporter.set_resource(resource);
            Ok(exporter.export(spans).await?)
        };
        let disposition = transport.answer(exported).await;
        self.judged(disposition)
    }

    /// Sends log records as one request.
    pub(super) async fn export_logs(
        &mut self,
        records: &[SdkLogRecord],
        resource: &Resource,
    ) -> Disposition {
        let transport = &self.transport;
        let exported = async {
            let builder = LogExporter::builder().with_http();
            let mut exporter = transport.configure(builder).build()?;
            exporter.set_resource(resource);
            let scope = scope();
            let records: Vec<_> = records.iter().map(|record| (record, &scope)).collect();
            Ok(exporter.export(LogBatch::new(&records)).await?)
        };
        let disposition = transport.answer(exported).await;
        self.judged(disposition)
    }

    /// Sends metrics as one request.
    pub(super) async fn export_metrics(
        &mut self,
        metrics: &ResourceMetrics,
        temporality: Temporality,
    ) -> Disposition {
        let transport = &self.transport;
        let exported = async {
            let builder = MetricExporter::builder().with_http();
            let builder = builder.with_temporality(temporality);
            Ok(transport
                .configure(builder)
                .build()?
                .export(metrics)
                .await?)
        };
        let disposition = transport.answer(exported).await;
        self.judged(disposition)
    }

    /// Counts and logs a failure that is retried, and logs the first of equal warnings of the collector.
    fn judged(&mut self, disposition: Disposition) -> Disposition {
        let is_up = !matches!(disposition, Disposition::Retry(_));
        self.counts.send_modify(|counts| counts.is_up = Some(is_up));
        match &disposition {
            Disposition::Accepted {
                rejected: 0,
                message,
            } if self.warning != *message => {
                self.warning.clone_from(message);
                if !message.is_empty() {
                    let records = self.settings().signal.records();
                    warn!(message, "collector accepted {records} with a warning");
                }
            }
            Disposition::Retry(retry) => {
                // Certificates may have been renewed, and HTTP/2 would keep a connection that is dead.
                if [ExportFailure::Tls, ExportFailure::Timeout].contains(&retry.reason) {
                    self.transport.reconnect();
                }
                self.not_before = retry.after.map(|delay| Instant::now() + delay);
                self.failed(retry.reason, &retry.message);
            }
            _ => {}
        }
        disposition
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
                endpoint = self.settings().shown_endpoint(),
                proxy = self.transport.shown_proxy(),
                "{} export failed",
                self.settings().signal.as_str()
            );
        }
    }

    pub(super) fn recovered(&mut self) {
        if self.last_failure.take().is_some() {
            info!(name: log_id::EXPORT_RECOVERED, "{} export recovered", self.settings().signal.as_str());
        }
        self.failures = 0;
    }

    /// Our own backoff before the next attempt, or longer if the collector asked for that.
    pub(super) fn retry_delay(&self, retry: &Retry) -> Duration {
        let (first, max) = (self.timing.initial_backoff, self.timing.max_backoff);
        let own = backoff(first, max, self.failures, fastrand::f64());
        own.max(retry.after.unwrap_or_default())
    }
}
