//! Sends the spans, or log records, of the journal to the collector of a signal, one request at a time; [`metric_push`]
//! pushes the metrics, which are no part of the journal. Each signal has a [`CollectorClient`].
//!
//! The [cursor](super::cursor) decides what the next request has. At shutdown the rest is sent for up to
//! [`RetryTiming::flush_timeout`], and otherwise stays in the journal.

mod collector_client;
mod collector_response;
mod grpc;
mod meters;
pub mod metric_push;
mod signal_queue;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use opentelemetry_sdk::{logs::SdkLogRecord, metrics::data::ResourceMetrics, trace::SpanData};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::collector_response::{FailedRequest, PartialSuccess};
pub use self::{
    collector_client::{CollectorClient, RetryTiming},
    signal_queue::SignalQueue,
};
use super::{Signal, cursor::RequestResult, log_record, resource, settings::OtlpSettings, trace};
use crate::{
    core::{journal::Entry, snapshot::Snapshot},
    outputs::output_counters::ExportFailure,
};

/// Between two attempts while the exporter stops.
const MAX_SHUTDOWN_BACKOFF: Duration = Duration::from_millis(500);

/// What is sent in one request.
#[derive(Debug)]
enum Records {
    Spans(Vec<SpanData>),
    Logs(Vec<SdkLogRecord>),
    Metrics(ResourceMetrics),
}

impl Records {
    fn of(signal: Signal, entries: &[Arc<Entry>], snapshot: &Snapshot) -> Self {
        let entries = entries.iter();
        let keyed = entries.map(|entry| (&entry.transition, trace::vm_key(entry.vm.as_deref())));
        if signal == Signal::Traces {
            let spans = keyed.flat_map(|(it, vm)| trace::spans(it, &vm));
            return Self::Spans(spans.collect());
        }
        let records = keyed.flat_map(|(it, vm)| log_record::records(it, &vm, snapshot));
        Self::Logs(records.collect())
    }

    fn count(&self) -> u64 {
        let count = match self {
            Self::Spans(spans) => spans.len(),
            Self::Logs(records) => records.len(),
            Self::Metrics(metrics) => meters::points(metrics),
        };
        count as u64
    }

    /// Writes one line for each span and log record that a collector has accepted, so that the log leads to the trace.
    fn log_sent(&self) {
        match self {
            Self::Spans(spans) => spans.iter().for_each(|span| {
                info!(
                    trace_id = %span.span_context.trace_id(),
                    span_id = %span.span_context.span_id(),
                    span = %span.name,
                    "span sent"
                );
            }),
            Self::Logs(records) => records.iter().for_each(|record| {
                let trace_id = record.trace_context().map(|it| it.trace_id.to_string());
                info!(trace_id, event = record.event_name(), "log record sent");
            }),
            Self::Metrics(_) => {}
        }
    }
}

#[derive(Debug)]
pub struct Sender {
    pub client: CollectorClient,
    pub queue: Arc<SignalQueue>,
    pub settings: OtlpSettings,
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Whether the journal, and how far it was sent, survive the end of this process.
    pub is_durable: bool,
    pub stop: CancellationToken,
}

impl Sender {
    /// Sends until `stop` is cancelled, then the rest.
    pub async fn run(mut self) {
        self.client.counts = self.queue.counts();
        let exporter = self.client.settings();
        let signal = exporter.signal;
        info!(
            endpoint = exporter.shown_endpoint(),
            gzip = exporter.gzip,
            durable = self.is_durable,
            "{} export enabled",
            signal.adjective()
        );
        let (flush_timeout, stop) = (self.client.timing.flush_timeout, self.stop.clone());
        // What is in flight when its request is cut off is sent again after the next start.
        flush(signal, flush_timeout, &stop, self.send_until_stopped()).await;
        let count = self.queue.counts().borrow().spooled;
        if count > 0 {
            let (kept, records) = (self.is_durable, signal.records());
            warn!(count, kept, "stopping with unsent {records}");
        }
    }

    async fn send_until_stopped(&mut self) {
        while self.may_send().await {
            let is_stopping = self.stop.is_cancelled();
            let entries = self.queue.next();
            if entries.is_empty() {
                if is_stopping {
                    return;
                }
                self.idle().await;
            } else if let Err(failed) = self.send(&entries).await {
                if self.stop.is_cancelled() && self.is_durable {
                    return;
                }
                self.back_off(&failed).await;
            }
        }
    }

    /// Waits as long as the receiver asked for. Returns whether there is time to send after that.
    async fn may_send(&self) -> bool {
        tokio::select! {
            biased;
            () = self.client.permitted() => return true,
            () = self.stop.cancelled() => {}
        }
        // What is on disk is sent after the next start.
        if self.is_durable || self.queue.counts().borrow().spooled == 0 {
            return false;
        }
        self.client.permitted().await;
        true
    }

    /// Waits for what is added. Until one is accepted, sends empty requests meanwhile.
    async fn idle(&mut self) {
        let is_probed = self.client.is_probed;
        let result = tokio::select! {
            result = self.client.probe(), if !is_probed => result,
            () = self.queue.added() => return self.client.failures = 0,
            () = self.stop.cancelled() => return,
        };
        if let Err(failed) = result {
            self.back_off(&failed).await;
        }
    }

    /// What is added ends our own backoff, which begins anew, since a Spot VM has only seconds.
    async fn back_off(&mut self, failed: &FailedRequest) {
        let delay = self.client.retry_delay(failed);
        if self.stop.is_cancelled() {
            return sleep(delay.min(MAX_SHUTDOWN_BACKOFF)).await;
        }
        tokio::select! {
            () = sleep(delay) => {}
            () = self.queue.added() => self.client.failures = 0,
            () = self.stop.cancelled() => {}
        }
    }

    async fn send(&mut self, entries: &[Arc<Entry>]) -> Result<(), FailedRequest> {
        let snapshot = Arc::clone(&self.snapshots.borrow());
        let resource = resource::of(&self.settings, &snapshot);
        let records = Records::of(self.queue.signal, entries, &snapshot);
        match self.client.export(&records, &resource).await {
            Ok(partial) => self.accepted(&records, &partial),
            Err(failed) => {
                self.failed(&records, &failed);
                if !failed.is_refused() {
                    return Err(failed);
                }
                if !failed.refuses_content() {
                    return Ok(());
                }
            }
        }
        self.client.recovered();
        Ok(())
    }

    fn accepted(&self, records: &Records, partial: &PartialSuccess) {
        let count = records.count();
        let rejected = partial.rejected(count);
        if rejected > 0 {
            self.client.count(ExportFailure::PartialSuccess);
            warn!(
                rejected,
                of = count,
                message = partial.error_message,
                "collector rejected part of the {}, dropped",
                self.queue.signal.records()
            );
        }
        // A partial success does not name the rejected ones.
        if rejected < count {
            records.log_sent();
        }
        let result = RequestResult::Accepted;
        self.queue.complete(result, count - rejected, rejected);
    }

    fn failed(&self, sent: &Records, failed: &FailedRequest) {
        let dropped = self.queue.complete(failed.result, 0, 0);
        let records = self.queue.signal.records();
        if !failed.is_refused() {
            for (count, reason) in dropped {
                let (reason, error) = (reason.as_str(), &failed.message);
                warn!(reason, count, error, "unsent {records} dropped");
            }
            return;
        }
        self.client.count(failed.reason);
        let effect = if dropped.is_empty() {
            "sending each change alone"
        } else {
            "dropped"
        };
        warn!(
            reason = failed.reason.as_str(),
            count = sent.count(),
            error = failed.message,
            "collector rejected {records}, {effect}",
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
                info!("{} flush timed out", signal.adjective());
            }
        }
    }
}
