//! Sends the spans, or log records, of the journal to the collector of a signal, one request at a time; [`metrics`]
//! pushes the metrics, which are no part of the journal. Each signal has a [`Connection`].
//!
//! The [cursor](super::cursor) decides what the next request has. At shutdown the rest is sent for up to
//! [`RetryTiming::flush_timeout`], and otherwise stays in the journal.

mod answer;
mod connection;
mod grpc;
mod meters;
pub mod metrics;
mod queue;
mod response;
mod sent;
mod transport;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use opentelemetry_sdk::{logs::SdkLogRecord, trace::SpanData};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::response::{Disposition, Retry};
pub use self::{
    connection::{Connection, RetryTiming},
    queue::SignalQueue,
};
use super::{
    cursor::RequestResult, log_record, resource, settings::OtlpSettings, signal::Signal, trace,
};
use crate::{
    core::{journal::Entry, snapshot::Snapshot},
    outputs::output_counters::{DropReason, ExportFailure},
};

/// Between two attempts while the exporter stops.
const MAX_SHUTDOWN_BACKOFF: Duration = Duration::from_millis(500);

/// What is sent in one request.
#[derive(Debug)]
enum Records {
    Spans(Vec<SpanData>),
    Logs(Vec<SdkLogRecord>),
}

impl Records {
    fn of(signal: Signal, entries: &[Arc<Entry>], snapshot: &Snapshot) -> Self {
        let entries = entries.iter();
        let keyed = entries.map(|entry| (&entry.transition, trace::vm_key(entry.vm.as_deref())));
        match signal {
            Signal::Traces => {
                let spans = keyed.flat_map(|(transition, vm)| trace::spans(transition, &vm));
                Self::Spans(spans.collect())
            }
            Signal::Logs | Signal::Metrics => Self::Logs(
                keyed
                    .flat_map(|(transition, vm)| log_record::records(transition, &vm, snapshot))
                    .collect(),
            ),
        }
    }

    fn count(&self) -> u64 {
        let count = match self {
            Self::Spans(spans) => spans.len(),
            Self::Logs(records) => records.len(),
        };
        count as u64
    }
}

/// What spans and log records are made of, beside the journal.
#[derive(Debug)]
pub struct RecordSource {
    pub settings: OtlpSettings,
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Whether the journal, and how far it was sent, survive the end of this process.
    pub is_durable: bool,
}

/// Sends until `stop` is cancelled, then the rest.
pub async fn run(
    mut connection: Connection,
    queue: Arc<SignalQueue>,
    source: RecordSource,
    stop: CancellationToken,
) {
    connection.counts = queue.counts();
    let settings = connection.settings();
    let signal = settings.signal;
    let is_durable = source.is_durable;
    info!(
        endpoint = settings.shown_endpoint(),
        gzip = settings.gzip,
        durable = is_durable,
        "{} export enabled",
        signal.as_str()
    );
    let flush_timeout = connection.timing.flush_timeout;
    let mut sender = Sender {
        connection,
        queue: Arc::clone(&queue),
        source,
        stop: stop.clone(),
        is_probed: false,
    };
    // What is in flight when its request is cut off is sent again after the next start.
    flush(signal, flush_timeout, &stop, sender.send_until_stopped()).await;
    let count = queue.counts().borrow().spooled;
    if count > 0 {
        warn!(
            count,
            kept = is_durable,
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
    queue: Arc<SignalQueue>,
    source: RecordSource,
    stop: CancellationToken,
    /// Whether the receiver has answered as one of OTLP.
    is_probed: bool,
}

impl Sender {
    async fn send_until_stopped(&mut self) {
        while self.may_send().await {
            let is_stopping = self.stop.is_cancelled();
            let entries = self.queue.next();
            if entries.is_empty() {
                if is_stopping {
                    return;
                }
                if self.is_probed {
                    self.idle().await;
                } else {
                    self.probe().await;
                }
            } else if let Err(retry) = self.send(&entries).await {
                if self.stop.is_cancelled() && self.source.is_durable {
                    return;
                }
                self.back_off(&retry).await;
            }
        }
    }

    /// Waits as long as the receiver asked for. Returns whether there is time to send after that.
    async fn may_send(&self) -> bool {
        tokio::select! {
            biased;
            () = self.connection.permitted() => return true,
            () = self.stop.cancelled() => {}
        }
        // What is on disk is sent after the next start.
        if self.source.is_durable || self.queue.counts().borrow().spooled == 0 {
            return false;
        }
        self.connection.permitted().await;
        true
    }

    async fn idle(&self) {
        tokio::select! {
            () = self.queue.added() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Sends an empty request, until one is accepted. What is added does not wait for that.
    async fn probe(&mut self) {
        let result = tokio::select! {
            result = self.connection.probe() => result,
            () = self.queue.added() => return self.connection.failures = 0,
            () = self.stop.cancelled() => return,
        };
        self.is_probed = result.is_ok();
        if let Err(retry) = result {
            self.back_off(&retry).await;
        }
    }

    /// What is added ends our own backoff, which begins anew, since a Spot VM has only seconds.
    async fn back_off(&mut self, retry: &Retry) {
        let delay = self.connection.retry_delay(retry);
        if self.stop.is_cancelled() {
            return sleep(delay.min(MAX_SHUTDOWN_BACKOFF)).await;
        }
        tokio::select! {
            () = sleep(delay) => {}
            () = self.queue.added() => self.connection.failures = 0,
            () = self.stop.cancelled() => {}
        }
    }

    async fn send(&mut self, entries: &[Arc<Entry>]) -> Result<(), Retry> {
        let RecordSource {
            settings,
            snapshots,
            ..
        } = &self.source;
        let snapshot = Arc::clone(&snapshots.borrow());
        let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
        let resource = resource::of(settings, identity, vm_name);
        let records = Records::of(self.queue.signal, entries, &snapshot);
        let disposition = match &records {
            Records::Spans(spans) => {
                let spans = spans.clone();
                self.connection.export_spans(spans, &resource).await
            }
            Records::Logs(records) => self.connection.export_logs(records, &resource).await,
        };
        self.is_probed |= !matches!(disposition, Disposition::Retry(_));
        match disposition {
            Disposition::Accepted { rejected, message } => {
                self.accepted(&records, rejected, &message);
                Ok(())
            }
            Disposition::Refused { reason, message } => {
                self.refused(&records, reason, &message);
                Ok(())
            }
            Disposition::Retry(retry) => {
                self.failed(&retry);
                Err(retry)
            }
        }
    }

    fn accepted(&mut self, records: &Records, rejected: u64, message: &str) {
        self.connection.recovered();
        let count = records.count();
        let rejected = rejected.min(count);
        if rejected > 0 {
            self.count(ExportFailure::PartialSuccess);
            warn!(
                rejected,
                of = count,
                message,
                "collector rejected part of the {}, dropped",
                self.queue.signal.records()
            );
        }
        // A partial success does not name the rejected ones.
        if rejected < count {
            sent::log_sent(records);
        }
        let result = RequestResult::Accepted;
        self.queue.complete(result, count - rejected, rejected);
    }

    fn refused(&mut self, records: &Records, reason: ExportFailure, message: &str) {
        self.connection.recovered();
        self.count(reason);
        let result = RequestResult::Refused(match reason {
            ExportFailure::TooLarge => DropReason::TooLarge,
            _ => DropReason::Rejected,
        });
        let dropped = self.queue.complete(result, 0, 0);
        let effect = if dropped.is_empty() {
            "sending each change alone"
        } else {
            "dropped"
        };
        warn!(
            reason = reason.as_str(),
            count = records.count(),
            error = message,
            "collector rejected {}, {effect}",
            self.queue.signal.records(),
        );
    }

    fn failed(&self, retry: &Retry) {
        let result = if retry.may_be_content {
            RequestResult::MayBeContent
        } else {
            RequestResult::Unavailable
        };
        for (count, reason) in self.queue.complete(result, 0, 0) {
            warn!(
                reason = reason.as_str(),
                count,
                error = retry.message,
                "unsent {} dropped",
                self.queue.signal.records()
            );
        }
    }

    fn count(&self, reason: ExportFailure) {
        let counts = &self.connection.counts;
        counts.send_modify(|counts| counts.fail(reason));
    }
}
