//! Exports the batches of the spool to the collector, in order, one request at a time.
//!
//! Invariants: only a batch that the collector accepted or rejected is removed from the spool; a slow or unreachable
//! collector delays nothing else; a batch that it refuses with a status that is retried slowly does not stop the others; at shutdown the remaining batches are exported for up to
//! [`RetryTiming::flush_timeout`] and otherwise stay in the spool. Certificate files that cannot be read are read again
//! with the next attempt. After a TLS failure all are read again, but not more often than every
//! [`RetryTiming::max_backoff`], since a system's store is large.

mod client;
mod disposition;
mod parts;
mod sdk;
mod timing;

use std::{io, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::timing::RetryTiming;
use self::{
    client::CollectorClient,
    disposition::{Disposition, ExportAttempt},
    parts::Parts,
    timing::Retry,
};
use super::{
    settings::OtlpSettings,
    spool::{BatchId, Lease, SpoolHandle},
    trace::Batch,
};
use crate::{outbound::url::Secrets, snapshot::ExportFailure, time::Clock, worker::Worker};

/// Between two attempts while the exporter stops.
const MAX_SHUTDOWN_BACKOFF: Duration = Duration::from_millis(500);

/// Exports until `stop` is cancelled, then flushes the spool.
pub async fn run(
    settings: OtlpSettings,
    spool: SpoolHandle,
    clock: Clock,
    timing: RetryTiming,
    stop: CancellationToken,
) {
    info!(
        endpoint = settings.redacted_endpoint(),
        gzip = settings.gzip,
        durable = spool.is_durable(),
        "trace export enabled"
    );
    for ignored in &settings.ignored {
        warn!("{ignored}");
    }
    let mut sender = Sender {
        secrets: settings.secrets(),
        settings,
        spool: spool.clone(),
        clock,
        timing,
        stop: stop.clone(),
        // Without a thread now, the next attempt starts it.
        worker: start_worker().ok(),
        client: None,
        reload_certificates_at: Duration::ZERO,
        failures: 0,
        last_failure: None,
        refused: None,
        parts: None,
    };
    let mut sending = pin!(sender.send_until_stopped());
    tokio::select! {
        () = &mut sending => {}
        () = stop.cancelled() => {
            // A batch whose request is cut off is sent again after the next start.
            if timeout(timing.flush_timeout, sending).await.is_err() {
                info!("trace flush timed out");
            }
        }
    }
    let spans = spool.counts().borrow().spooled;
    if spans > 0 {
        warn!(
            spans,
            kept = spool.is_durable(),
            "stopping with unsent spans"
        );
    }
}

struct Sender {
    settings: OtlpSettings,
    secrets: Secrets,
    spool: SpoolHandle,
    clock: Clock,
    timing: RetryTiming,
    stop: CancellationToken,
    /// Reads certificates and resolves host names.
    worker: Option<Worker>,
    client: Option<CollectorClient>,
    /// By the monotonic clock.
    reload_certificates_at: Duration,
    /// Consecutive failures.
    failures: u32,
    /// As logged.
    last_failure: Option<ExportFailure>,
    /// The batch that the collector refused last, to be retried slowly. The next attempt sends another one, so that a
    /// batch that a collector can never process does not stop the rest.
    refused: Option<BatchId>,
    /// What is left of a batch that is sent in parts.
    parts: Option<Parts>,
}

impl Sender {
    async fn send_until_stopped(&mut self) {
        loop {
            let now = self.clock.now();
            let Some(lease) = self.spool.next(now, self.refused).await else {
                if self.stop.is_cancelled() {
                    return;
                }
                self.idle().await;
                continue;
            };
            if let Err(retry) = self.send(lease).await {
                // A durable spool is exported after the next start.
                if self.stop.is_cancelled() && self.spool.is_durable() {
                    return;
                }
                self.wait_for_retry(retry).await;
            }
        }
    }

    /// Sends a batch in one request, or in several if the collector finds one too large.
    async fn send(&mut self, lease: Lease) -> Result<(), Retry> {
        let left = self.parts.take().filter(|parts| parts.id == lease.id);
        let mut parts = left.unwrap_or_else(|| Parts::new(lease));
        while let Some(part) = parts.pop() {
            let disposition = Disposition::of(self.attempt(&part).await, &self.secrets);
            if let Err(retry) = self.apply(part, disposition, &mut parts) {
                if retry.is_slow {
                    self.refused = Some(parts.id);
                }
                self.parts = Some(parts);
                return Err(retry);
            }
        }
        self.spool.complete(parts.id, parts.completion).await;
        Ok(())
    }

    async fn attempt(&mut self, batch: &Batch) -> ExportAttempt {
        let client = if let Some(client) = self.client.take() {
            Ok(client)
        } else {
            let now = self.clock.now().monotonic;
            self.reload_certificates_at = now.saturating_add(self.timing.max_backoff);
            self.open_client().await
        };
        match client {
            Ok(mut client) => {
                let attempt = client.send(batch).await;
                let is_tls = matches!(&attempt, ExportAttempt::NoResponse { reason, .. } if *reason == ExportFailure::Tls);
                let is_stale = is_tls && self.clock.now().monotonic >= self.reload_certificates_at;
                self.client = (!is_stale).then_some(client);
                attempt
            }
            Err(error) => ExportAttempt::NoResponse {
                reason: error.reason(),
                message: error.to_string(),
            },
        }
    }

    async fn open_client(&mut self) -> Result<CollectorClient, client::SetupError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => start_worker()?,
        };
        self.worker = Some(worker.clone());
        CollectorClient::open(&self.settings, &worker, self.clock).await
    }

    fn apply(
        &mut self,
        part: Batch,
        disposition: Disposition,
        parts: &mut Parts,
    ) -> Result<(), Retry> {
        let spans = part.spans.len() as u64;
        match disposition {
            Disposition::Accepted { rejected, message } => {
                self.recovered();
                let rejected = rejected.min(spans);
                if rejected > 0 {
                    self.count(ExportFailure::PartialSuccess);
                    warn!(
                        rejected,
                        of = spans,
                        message,
                        "collector rejected part of the spans, dropped"
                    );
                } else if !message.is_empty() {
                    warn!(message, "collector accepted spans with a warning");
                }
                parts.completion.exported += spans - rejected;
                parts.completion.rejected += rejected;
                // A partial success does not name the rejected spans.
                if rejected < spans {
                    log_sent(&part);
                }
            }
            Disposition::Rejected { message } => {
                self.recovered();
                self.count(ExportFailure::Rejected);
                warn!(spans, error = message, "collector rejected spans, dropped");
                parts.completion.rejected += spans;
            }
            Disposition::TooLarge { message } => {
                self.recovered();
                self.count(ExportFailure::TooLarge);
                parts.split(part, &message);
            }
            Disposition::Retry {
                reason,
                message,
                retry_after,
                is_slow,
            } => {
                self.failed(reason, &message);
                parts.push(part);
                return Err(Retry {
                    after: retry_after,
                    is_slow,
                });
            }
        }
        Ok(())
    }

    fn count(&self, reason: ExportFailure) {
        self.spool.count(|counts| counts.fail(reason));
    }

    /// Logs the first of consecutive failures, and a change of the reason.
    fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.failures = self.failures.saturating_add(1);
        self.count(reason);
        if self.last_failure.replace(reason) != Some(reason) {
            warn!(
                reason = reason.as_str(),
                error = message,
                endpoint = self.settings.redacted_endpoint(),
                "trace export failed"
            );
        }
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.refused = None;
        if self.last_failure.take().is_some() {
            info!("trace export recovered");
        }
    }

    async fn idle(&mut self) {
        tokio::select! {
            () = self.spool.appended() => {}
            () = self.stop.cancelled() => {}
            () = sleep(self.timing.maintenance_interval) => {
                self.spool.maintain(self.clock.now()).await;
            }
        }
    }

    /// Spans of a new event end our own backoff, since a Spot VM has only seconds, but not a delay that the collector
    /// asked for.
    async fn wait_for_retry(&mut self, retry: Retry) {
        let timing = self.timing;
        self.spool.maintain(self.clock.now()).await;
        if self.stop.is_cancelled() {
            return sleep(timing.initial_backoff.min(MAX_SHUTDOWN_BACKOFF)).await;
        }
        let delay = timing.delay(&retry, self.failures);
        tokio::select! {
            () = sleep(delay) => {}
            () = self.spool.appended(), if retry.after.is_none() => {}
            () = self.stop.cancelled() => {}
        }
    }
}

fn start_worker() -> io::Result<Worker> {
    Worker::start("otlp")
}

/// One line per span, so that the log leads to the trace.
fn log_sent(batch: &Batch) {
    for span in &batch.spans {
        info!(
            trace_id = span.trace_id_hex(),
            span_id = span.span_id_hex(),
            span = span.name,
            start = span.start.rfc3339_millis(),
            end = span.end.rfc3339_millis(),
            "span sent"
        );
    }
}
