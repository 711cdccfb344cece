//! Exports the batches of the spool of one signal to its collector, one request at a time; [`metrics`] exports the
//! metrics, which have no spool. Each signal has a [`Connection`].
//!
//! Invariants of the spooled signals:
//! - Only a batch that the collector accepted or rejected is removed from the spool.
//! - A slow or unreachable collector delays nothing else.
//! - The oldest batch is sent first. A batch that the collector refuses with a status that is retried slowly is
//!   deferred: it is sent again after the others, and does not delay them.
//! - At shutdown the remaining batches are exported for up to [`RetryTiming::flush_timeout`] and otherwise stay in the
//!   spool.

mod client;
mod connection;
mod disposition;
mod metric_requests;
pub mod metrics;
mod schedule;
mod sdk;
mod sent;
mod series;
mod shared_client;
mod timing;

use std::{pin::pin, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{client::Payload, disposition::Disposition, sent::log_sent, timing::Retry};
pub use self::{
    connection::{Connection, Connections},
    timing::RetryTiming,
};
use super::spool::{BatchId, Completion, Lease, SpoolHandle};
use crate::snapshot::ExportFailure;

/// Between two attempts while the exporter stops.
const MAX_SHUTDOWN_BACKOFF: Duration = Duration::from_millis(500);

/// Exports until `stop` is cancelled, then flushes the spool.
pub async fn run(connection: Connection, spool: SpoolHandle, stop: CancellationToken) {
    let settings = &connection.settings;
    let signal = settings.signal;
    info!(
        endpoint = settings.redacted_endpoint(),
        gzip = settings.gzip,
        durable = spool.is_durable(),
        "{} export enabled",
        signal.as_str()
    );
    let flush_timeout = connection.timing.flush_timeout;
    let mut sender = Sender {
        connection,
        spool: spool.clone(),
        stop: stop.clone(),
    };
    let mut sending = pin!(sender.send_until_stopped());
    tokio::select! {
        () = &mut sending => {}
        () = stop.cancelled() => {
            // A batch whose request is cut off is sent again after the next start.
            if timeout(flush_timeout, sending).await.is_err() {
                info!("{} flush timed out", signal.as_str());
            }
        }
    }
    let count = spool.counts().borrow().spooled;
    if count > 0 {
        warn!(
            count,
            kept = spool.is_durable(),
            "stopping with unsent {}",
            signal.records()
        );
    }
}

struct Sender {
    connection: Connection,
    spool: SpoolHandle,
    stop: CancellationToken,
}

impl Sender {
    async fn send_until_stopped(&mut self) {
        loop {
            let now = self.connection.clock.now();
            let is_stopping = self.stop.is_cancelled();
            // At shutdown there is no later.
            let due_by = if is_stopping {
                Duration::MAX
            } else {
                now.monotonic
            };
            let Some(lease) = self.spool.next(now, due_by).await else {
                if is_stopping {
                    return;
                }
                self.idle(now.monotonic).await;
                continue;
            };
            let id = lease.id;
            if let Err(retry) = self.send(lease).await {
                // A durable spool is exported after the next start.
                if self.stop.is_cancelled() && self.spool.is_durable() {
                    return;
                }
                self.handle_failure(id, retry).await;
            }
        }
    }

    /// Sends a batch in one request.
    async fn send(&mut self, lease: Lease) -> Result<(), Retry> {
        let Lease { id, batch } = lease;
        let count = batch.records.len() as u64;
        let mut completion = Completion::default();
        match self.connection.attempt(Payload::Batch(&batch)).await {
            Disposition::Accepted { rejected, message } => {
                self.recovered().await;
                completion.rejected = rejected.min(count);
                completion.exported = count - completion.rejected;
                self.log_acceptance(completion.rejected, count, &message);
                // A partial success does not name the rejected ones.
                if completion.exported > 0 {
                    log_sent(&batch);
                }
            }
            Disposition::Rejected { message } => {
                self.refused(ExportFailure::Rejected, count, &message).await;
                completion.rejected = count;
            }
            Disposition::TooLarge { message } => {
                self.refused(ExportFailure::TooLarge, count, &message).await;
                completion.too_large = count;
            }
            Disposition::Retry {
                reason,
                message,
                retry_after,
                is_slow,
            } => {
                self.count(reason);
                self.connection.failed(reason, &message);
                return Err(Retry {
                    after: retry_after,
                    is_slow,
                });
            }
        }
        self.spool.complete(id, completion).await;
        Ok(())
    }

    async fn refused(&mut self, reason: ExportFailure, count: u64, message: &str) {
        self.recovered().await;
        self.count(reason);
        let records = self.connection.settings.signal.records();
        warn!(
            reason = reason.as_str(),
            count,
            error = message,
            "collector rejected {records}, dropped"
        );
    }

    fn log_acceptance(&self, rejected: u64, of: u64, message: &str) {
        let records = self.connection.settings.signal.records();
        if rejected > 0 {
            self.count(ExportFailure::PartialSuccess);
            warn!(
                rejected,
                of, message, "collector rejected part of the {records}, dropped"
            );
        } else if !message.is_empty() {
            warn!(message, "collector accepted {records} with a warning");
        }
    }

    fn count(&self, reason: ExportFailure) {
        self.spool.count(|counts| counts.fail(reason));
    }

    async fn recovered(&mut self) {
        // Several failures in succession are those of the collector, not of the batches.
        if self.connection.recovered() > 1 {
            self.spool.end_deferrals().await;
        }
    }

    /// No batch is due at `now`.
    async fn idle(&mut self, now: Duration) {
        let next_due = self.spool.next_due().await.filter(|due| *due > now);
        let until_due = next_due.map_or(Duration::MAX, |due| due.saturating_sub(now));
        tokio::select! {
            () = self.spool.appended() => {}
            () = self.stop.cancelled() => {}
            () = sleep(until_due.min(self.connection.timing.maintenance_interval)) => {
                self.spool.maintain(self.connection.clock.now()).await;
            }
        }
    }

    /// The first failure may be that of the batch: then the next one is sent at once.
    async fn handle_failure(&mut self, id: BatchId, retry: Retry) {
        self.spool.maintain(self.connection.clock.now()).await;
        let delay = self.connection.retry_delay(&retry);
        if retry.is_slow {
            let until = self.connection.clock.now().monotonic.saturating_add(delay);
            self.spool.defer(id, until).await;
        }
        if !retry.is_slow
            || retry.after.is_some()
            || self.connection.failures() > 1
            || self.stop.is_cancelled()
        {
            self.wait_for_retry(&retry, delay).await;
        }
    }

    /// A new batch ends our own backoff, since a Spot VM has only seconds, but not a delay that the collector
    /// asked for.
    async fn wait_for_retry(&mut self, retry: &Retry, delay: Duration) {
        if self.stop.is_cancelled() {
            let delay = self
                .connection
                .timing
                .initial_backoff
                .min(MAX_SHUTDOWN_BACKOFF);
            return sleep(delay).await;
        }
        tokio::select! {
            () = sleep(delay) => {}
            () = self.spool.appended(), if retry.after.is_none() => {}
            () = self.stop.cancelled() => {}
        }
    }
}
