//! Exports the batches of the spool of one signal to its collector, one request at a time; [`metrics`] exports the
//! metrics, which have no spool. Each signal has a [`Connection`].
//!
//! Only a batch that the collector accepted or rejected is removed from the spool. The oldest one is sent first; one
//! that may have caused a failure itself, or fails again and again, is sent again after the others. At shutdown the
//! remaining batches are exported for up to [`RetryTiming::flush_timeout`] and otherwise stay in the spool.

mod answer;
mod connection;
mod grpc;
mod meters;
pub mod metrics;
mod response;
mod sent;
mod transport;

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::connection::{Connection, RetryTiming};
use self::response::{Disposition, Retry};
use super::{
    request::EncodedBatch,
    signal::Signal,
    spool::{Spool, SpoolHandle},
};
use crate::outputs::output_counters::{DropReason, ExportFailure};

/// Between two attempts while the exporter stops.
const MAX_SHUTDOWN_BACKOFF: Duration = Duration::from_millis(500);
/// After this number of consecutive failures, a batch that fails is sent again after the others, whatever the cause.
const MAX_FAILURES_IN_ORDER: u32 = 8;

/// Exports until `stop` is cancelled, then flushes the spool.
pub async fn run(mut connection: Connection, spool: SpoolHandle, stop: CancellationToken) {
    connection.counts = spool.counts();
    let settings = connection.settings();
    let signal = settings.signal;
    info!(
        endpoint = settings.shown_endpoint(),
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
        is_probed: false,
    };
    // A batch whose request is cut off is sent again after the next start.
    flush(signal, flush_timeout, &stop, sender.send_until_stopped()).await;
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

/// Waits for a task that ends after `stop` is cancelled, for up to `limit` after that.
async fn flush(
    signal: Signal,
    limit: Duration,
    stop: &CancellationToken,
    task: impl Future<Output = ()>,
) {
    let mut task = pin!(task);
    tokio::select! {
        () = &mut task => {}
        () = stop.cancelled() => {
            if timeout(limit, task).await.is_err() {
                info!("{} flush timed out", signal.as_str());
            }
        }
    }
}

struct Sender {
    connection: Connection,
    spool: SpoolHandle,
    stop: CancellationToken,
    /// Whether the receiver has answered as one of OTLP.
    is_probed: bool,
}

impl Sender {
    async fn send_until_stopped(&mut self) {
        loop {
            self.connection.permitted().await;
            let is_stopping = self.stop.is_cancelled();
            let Some((id, batch)) = self.spool.next().await else {
                if is_stopping {
                    return;
                }
                if self.is_probed {
                    self.idle().await;
                } else {
                    self.probe().await;
                }
                continue;
            };
            if let Err(retry) = self.send(id, batch).await {
                // A durable spool is exported after the next start.
                if self.stop.is_cancelled() && self.spool.is_durable() {
                    return;
                }
                self.handle_failure(id, retry).await;
            }
        }
    }

    /// Sends an empty request, until one is accepted. A batch does not wait for that, but for a delay that the collector
    /// asks for.
    async fn probe(&mut self) {
        let result = tokio::select! {
            result = self.connection.probe() => result,
            () = self.spool.appended() => return self.connection.failures = 0,
            () = self.stop.cancelled() => return,
        };
        self.is_probed = result.is_ok();
        if let Err(retry) = result {
            tokio::select! {
                () = sleep(self.connection.retry_delay(&retry)) => {}
                // Its own backoff begins anew.
                () = self.spool.appended() => self.connection.failures = 0,
                () = self.stop.cancelled() => {}
            }
        }
    }

    async fn send(&mut self, id: u64, batch: EncodedBatch) -> Result<(), Retry> {
        let count = batch.count();
        let records = self.connection.settings().signal.records();
        let disposition = self.connection.attempt(batch.body.clone()).await;
        self.is_probed |= !matches!(disposition, Disposition::Retry(_));
        let (dropped, reason) = match disposition {
            Disposition::Accepted { rejected, message } => {
                let rejected = rejected.min(count);
                self.connection.recovered();
                if rejected > 0 {
                    self.count(ExportFailure::PartialSuccess);
                    warn!(
                        rejected,
                        of = count,
                        message,
                        "collector rejected part of the {records}, dropped"
                    );
                }
                // A partial success does not name the rejected ones.
                if rejected < count {
                    sent::log_sent(&batch);
                }
                (rejected, DropReason::Rejected)
            }
            Disposition::Refused { reason, message } => {
                self.connection.recovered();
                self.count(reason);
                warn!(
                    reason = reason.as_str(),
                    count,
                    error = message,
                    "collector rejected {records}, dropped"
                );
                let reason = match reason {
                    ExportFailure::TooLarge => DropReason::TooLarge,
                    _ => DropReason::Rejected,
                };
                (count, reason)
            }
            Disposition::Retry(retry) => return Err(retry),
        };
        self.spool
            .with(move |spool| spool.complete(id, dropped, reason))
            .await;
        Ok(())
    }

    fn count(&self, reason: ExportFailure) {
        let counts = &self.connection.counts;
        counts.send_modify(|counts| counts.fail(reason));
    }

    async fn idle(&self) {
        tokio::select! {
            () = self.spool.appended() => {}
            () = self.stop.cancelled() => {}
            () = sleep(self.connection.timing.maintenance_interval) => {
                self.spool.with(Spool::maintain).await;
            }
        }
    }

    /// A new batch ends our own backoff, since a Spot VM has only seconds.
    async fn handle_failure(&self, id: u64, retry: Retry) {
        self.spool.with(Spool::maintain).await;
        if retry.may_be_the_batch || self.connection.failures >= MAX_FAILURES_IN_ORDER {
            self.spool.with(move |spool| spool.postpone(id)).await;
        }
        let delay = self.connection.retry_delay(&retry);
        if self.stop.is_cancelled() {
            return sleep(delay.min(MAX_SHUTDOWN_BACKOFF)).await;
        }
        tokio::select! {
            () = sleep(delay) => {}
            () = self.spool.appended() => {}
            () = self.stop.cancelled() => {}
        }
    }
}
