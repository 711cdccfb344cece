//! Pushes the metrics to a collector: at an interval, at once when an event appears or changes, and at shutdown.
//!
//! Nothing is stored: a push has the newest values, also after one that failed. It reads published snapshots and delays
//! nothing else.

use std::sync::Arc;

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    connection::Connection,
    flush,
    meters::{Meters, points},
    response::{Disposition, Retry},
};
use crate::{
    base::time::Moment,
    core::snapshot::Snapshot,
    outputs::{
        metrics::{self, MetricsOptions},
        otlp::{resource, settings::OtlpSettings, signal::Signal},
        output_counters::{ExportFailure, OutputCounters},
        schedule::Schedule,
    },
};

/// What the pushes are made of.
#[derive(Debug)]
pub struct MetricSource {
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    pub options: MetricsOptions,
    pub outputs: Arc<OutputCounters>,
}

/// Pushes until `stop` is cancelled, then the last values.
pub async fn run(
    settings: OtlpSettings,
    connection: Connection,
    source: MetricSource,
    stop: CancellationToken,
) {
    let exporter = connection.settings();
    info!(
        endpoint = exporter.shown_endpoint(),
        gzip = exporter.gzip,
        interval_ms = settings.metric_interval.as_millis(),
        "metric export enabled"
    );
    let now = connection.clock.now();
    let flush_timeout = connection.timing.flush_timeout;
    let mut pusher = MetricPusher {
        schedule: Schedule::new(settings.metric_interval, now.monotonic),
        meters: Meters::new(resource::of(&settings, None, None), settings.temporality),
        connection,
        settings,
        source,
    };
    let pushing = pusher.push_until_stopped(&stop);
    flush(Signal::Metrics, flush_timeout, &stop, pushing).await;
}

struct MetricPusher {
    settings: OtlpSettings,
    source: MetricSource,
    connection: Connection,
    schedule: Schedule,
    meters: Meters,
}

impl MetricPusher {
    async fn push_until_stopped(&mut self, stop: &CancellationToken) {
        tokio::select! {
            // A push follows in any case.
            _ = self.connection.probe() => {}
            () = stop.cancelled() => {}
        }
        loop {
            self.connection.permitted().await;
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&self.source.snapshots.borrow_and_update());
            let now = self.connection.clock.now();
            let wait = self.schedule.due_at(&snapshot) - now.monotonic;
            if is_last || wait.is_zero() {
                let retry = self.push(&snapshot, now).await;
                if is_last {
                    return;
                }
                let delay = retry.as_ref().map(|it| self.connection.retry_delay(it));
                let now = self.connection.clock.now().monotonic;
                self.schedule.pushed(&snapshot, now, delay);
                continue;
            }
            tokio::select! {
                changed = self.source.snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Sends the metrics. Returns the failure if the push is to be repeated.
    async fn push(&mut self, snapshot: &Arc<Snapshot>, now: Moment) -> Option<Retry> {
        let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
        let resource = resource::of(&self.settings, identity, vm_name);
        self.meters.set_resource(resource);
        let (options, outputs) = (self.source.options, &self.source.outputs);
        metrics::visit(snapshot, options, outputs, now, |family| {
            self.meters.observe(family);
        });
        let collected = match self.meters.collect() {
            Ok(collected) => collected,
            Err(message) => {
                self.connection.failed(ExportFailure::Rejected, &message);
                return None;
            }
        };
        let exporting = self
            .connection
            .export_metrics(&collected, self.settings.temporality);
        match exporting.await {
            Disposition::Accepted { rejected, message } => {
                self.accepted(points(&collected), rejected, &message);
            }
            Disposition::Refused { reason, message } => self.connection.failed(reason, &message),
            Disposition::Retry(retry) => return Some(retry),
        }
        None
    }

    /// Which points a collector rejected is not known: they must not be sent again.
    fn accepted(&mut self, points: u64, rejected: u64, message: &str) {
        let rejected = rejected.min(points);
        let counts = &self.connection.counts;
        counts.send_modify(|counts| counts.exported += points - rejected);
        if rejected == 0 {
            return self.connection.recovered();
        }
        let message = format!("{rejected} of {points} points rejected: {message}");
        self.connection
            .failed(ExportFailure::PartialSuccess, &message);
    }
}
