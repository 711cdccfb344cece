//! Pushes the metrics to a collector: at an interval, at once when an event appears or changes, and at shutdown.
//!
//! Nothing is stored: a push has the newest values, also after one that failed. It reads published snapshots and delays
//! nothing else.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use opentelemetry_proto::{
    tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        metrics::v1::{Metric, ResourceMetrics, ScopeMetrics, metric::Data},
        resource::v1::Resource,
    },
    transform::common::tonic::ResourceAttributesWithSchema,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::Payload,
    connection::Connection,
    disposition::Disposition,
    schedule::{RetryAfter, Schedule},
    sdk,
    timing::Retry,
};
use crate::{
    metrics::{MetricsOptions, data_points},
    otlp::{resource, settings::OtlpSettings},
    snapshot::{ExportCounts, ExportFailure, Snapshot},
    time::{Moment, Timestamp},
};

/// What the pushes are made of.
#[derive(Debug)]
pub struct MetricSource {
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    pub options: MetricsOptions,
    pub dropped_log_lines: Arc<AtomicU64>,
}

/// Pushes until `stop` is cancelled, then the last values.
pub async fn run(
    settings: OtlpSettings,
    connection: Connection,
    source: MetricSource,
    counts: watch::Sender<ExportCounts>,
    stop: CancellationToken,
) {
    let exporter = &connection.settings;
    info!(
        endpoint = exporter.redacted_endpoint(),
        gzip = exporter.gzip,
        interval_ms = settings.metric_interval.as_millis(),
        "metric export enabled"
    );
    let now = connection.clock.now();
    let flush_timeout = connection.timing.flush_timeout;
    let mut pusher = Pusher {
        schedule: Schedule::new(settings.metric_interval, now.monotonic),
        start: StartTime(now),
        connection,
        settings,
        source,
        counts,
        last_warning: String::new(),
    };
    let mut pushing = pin!(pusher.push_until_stopped(&stop));
    tokio::select! {
        () = &mut pushing => {}
        () = stop.cancelled() => {
            if timeout(flush_timeout, pushing).await.is_err() {
                info!("metric flush timed out");
            }
        }
    }
}

struct Pusher {
    settings: OtlpSettings,
    source: MetricSource,
    counts: watch::Sender<ExportCounts>,
    connection: Connection,
    schedule: Schedule,
    start: StartTime,
    /// Of a collector that accepted everything.
    last_warning: String,
}

impl Pusher {
    async fn push_until_stopped(&mut self, stop: &CancellationToken) {
        loop {
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&self.source.snapshots.borrow_and_update());
            let now = self.connection.clock.now();
            let wait = self
                .schedule
                .due_at(&snapshot)
                .saturating_sub(now.monotonic);
            if is_last || wait.is_zero() {
                let retry = self.push(&snapshot, now).await;
                if is_last {
                    return;
                }
                let now = self.connection.clock.now().monotonic;
                self.schedule.pushed(&snapshot, now, retry);
                continue;
            }
            tokio::select! {
                changed = self.source.snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Returns the delay before the next attempt if the push is to be repeated.
    async fn push(&mut self, snapshot: &Arc<Snapshot>, now: Moment) -> Option<RetryAfter> {
        let dropped_log_lines = self.source.dropped_log_lines.load(Ordering::Relaxed);
        let start = self.start.before(now);
        let metrics = data_points(snapshot, self.source.options, dropped_log_lines, start, now);
        let metrics = metrics.ok()?;
        let points = metrics.iter().map(points).sum();
        let request = self.request(snapshot, metrics);
        let disposition = self.connection.attempt(Payload::Metrics(&request)).await;
        self.apply(disposition, points)
    }

    fn request(&self, snapshot: &Snapshot, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
        let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
        let resource = sdk::resource(&resource::of(&self.settings, identity, vm_name));
        let resource = ResourceAttributesWithSchema::from(&resource);
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(Resource {
                    attributes: resource.attributes.0,
                    ..Resource::default()
                }),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some((sdk::scope(), None).into()),
                    metrics,
                    ..ScopeMetrics::default()
                }],
                schema_url: resource.schema_url.unwrap_or_default(),
            }],
        }
    }

    fn apply(&mut self, disposition: Disposition, points: u64) -> Option<RetryAfter> {
        match disposition {
            Disposition::Accepted { rejected, message } => {
                let rejected = rejected.min(points);
                self.counts
                    .send_modify(|counts| counts.exported += points - rejected);
                if rejected > 0 {
                    let message = format!("{rejected} of {points} points rejected: {message}");
                    self.failed(ExportFailure::PartialSuccess, &message);
                } else {
                    self.connection.recovered();
                    self.warn(message);
                }
                None
            }
            Disposition::Rejected { message } => {
                self.failed(ExportFailure::Rejected, &message);
                None
            }
            Disposition::TooLarge { message } => {
                self.failed(ExportFailure::TooLarge, &message);
                None
            }
            Disposition::Retry {
                reason,
                message,
                retry_after,
                is_slow,
            } => {
                self.failed(reason, &message);
                let retry = Retry {
                    after: retry_after,
                    is_slow,
                };
                Some(RetryAfter {
                    delay: self.connection.retry_delay(&retry),
                    is_requested: retry_after.is_some(),
                })
            }
        }
    }

    fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.counts.send_modify(|counts| counts.fail(reason));
        self.connection.failed(reason, message);
    }

    /// Logs a warning of the collector once, not with each push.
    fn warn(&mut self, message: String) {
        if !message.is_empty() && message != self.last_warning {
            warn!(message, "collector accepted metric points with a warning");
        }
        self.last_warning = message;
    }
}

fn points(metric: &Metric) -> u64 {
    let points = match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        _ => 0,
    };
    points as u64
}

/// When the counters were 0.
struct StartTime(Moment);

impl StartTime {
    /// A different start tells receivers that the counters were reset. It stays the same unless the wall clock was set
    /// to an earlier time: a point must not be earlier than its start.
    fn before(&mut self, now: Moment) -> Timestamp {
        if now.wall < self.0.wall {
            let uptime = now.monotonic.saturating_sub(self.0.monotonic);
            self.0.wall = now.wall.before(uptime);
        }
        self.0.wall
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn start_changes_only_if_the_wall_clock_was_set_to_before_it() {
        let at = |wall, monotonic| Moment {
            wall: Timestamp::from_unix_seconds(wall).unwrap(),
            monotonic: Duration::from_secs(monotonic),
        };
        let mut start = StartTime(at(1_000, 5));
        let mut started = |now| start.before(now).as_unix_seconds();
        for now in [at(1_000, 5), at(1_090, 65), at(5_000, 66), at(1_001, 67)] {
            assert!((started(now) - 1_000.0).abs() < 1e-9, "{now:?}");
        }
        for now in [at(900, 105), at(1_000, 205), at(5_000, 206)] {
            assert!((started(now) - 800.0).abs() < 1e-9, "{now:?}");
        }
    }
}
