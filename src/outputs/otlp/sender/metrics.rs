//! Pushes the metrics to a collector: at an interval, at once when an event appears or changes, and at shutdown.
//!
//! Nothing is stored: a push has the newest values, also after one that failed; only deltas without an answer are
//! repeated first. It also has the end of the series that receivers may know and that have ended. It reads published snapshots and delays nothing else.

use std::{collections::VecDeque, fmt, sync::Arc};

use opentelemetry_proto::{
    tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        metrics::v1::{Metric, ResourceMetrics, ScopeMetrics},
        resource::v1::Resource,
    },
    transform::common::tonic::ResourceAttributesWithSchema,
};
use prost::Message as _;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    connection::Connection,
    delta::AcceptedTotals,
    flush,
    metric_requests::{points, requests},
    response::{Disposition, Retry},
    series::UnconfirmedPushes,
};
use crate::{
    base::time::{Moment, Timestamp},
    core::snapshot::Snapshot,
    outputs::{
        metrics::{MetricsOptions, data_points},
        otlp::{
            resource,
            settings::{OtlpSettings, Temporality},
            signal::Signal,
        },
        output_counters::{ExportFailure, OutputCounters},
        schedule::Schedule,
    },
};

/// Collectors and their proxies accept a megabyte and more.
const MAX_REQUEST_BYTES: usize = 512 << 10;

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
    let is_delta = settings.temporality == Temporality::Delta;
    let mut pusher = MetricPusher {
        schedule: Schedule::new(settings.metric_interval, now.monotonic),
        start: now.wall,
        connection,
        settings,
        source,
        unconfirmed: UnconfirmedPushes::default(),
        totals: is_delta.then(AcceptedTotals::default),
        unsent: VecDeque::new(),
        is_accepted: true,
    };
    let pushing = pusher.push_until_stopped(&stop);
    flush(Signal::Metrics, flush_timeout, &stop, pushing).await;
}

struct MetricPusher {
    settings: OtlpSettings,
    source: MetricSource,
    connection: Connection,
    schedule: Schedule,
    /// When the counters were 0. A different start tells receivers that they were reset, so it changes only if the wall
    /// clock was set to before it: a point must not be earlier than its start.
    start: Timestamp,
    unconfirmed: UnconfirmedPushes,
    /// With delta temporality.
    totals: Option<AcceptedTotals>,
    /// What is left of the last push.
    unsent: VecDeque<ExportMetricsServiceRequest>,
    /// Whether all that was sent of the last push was accepted.
    is_accepted: bool,
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
    ///
    /// Deltas that may have been received are repeated as they are, before newer ones: a receiver recognizes a point
    /// by its series, start and time.
    async fn push(&mut self, snapshot: &Arc<Snapshot>, now: Moment) -> Option<Retry> {
        if self.totals.is_some()
            && !self.unsent.is_empty()
            && let Some(retry) = self.send_unsent().await
        {
            return Some(retry);
        }
        let request = self.request(snapshot, now).ok()?;
        self.unsent = requests(request, MAX_REQUEST_BYTES).into();
        self.is_accepted = true;
        self.send_unsent().await
    }

    async fn send_unsent(&mut self) -> Option<Retry> {
        while let Some(request) = self.unsent.front() {
            let disposition = self
                .connection
                .attempt(request.encode_to_vec().into())
                .await;
            if let Disposition::Retry(retry) = disposition {
                return Some(retry);
            }
            let request = self.unsent.pop_front()?;
            match disposition {
                Disposition::Accepted { rejected, message } => {
                    self.is_accepted &= self.accepted(points(&request), rejected, &message);
                    if let Some(totals) = &mut self.totals {
                        totals.add(&request);
                    }
                }
                Disposition::Refused { reason, message } => {
                    self.connection.failed(reason, &message);
                    self.is_accepted = false;
                }
                Disposition::Retry(_) => {}
            }
        }
        if self.is_accepted {
            self.connection.recovered();
            self.unconfirmed.confirm();
        }
        None
    }

    fn request(
        &mut self,
        snapshot: &Arc<Snapshot>,
        now: Moment,
    ) -> Result<ExportMetricsServiceRequest, fmt::Error> {
        self.start = self.start.min(now.wall);
        let (options, outputs) = (self.source.options, &self.source.outputs);
        let mut metrics = data_points(snapshot, options, outputs, self.start, now)?;
        if let Some(totals) = &self.totals {
            totals.subtract_from(&mut metrics);
        }
        let live = resource_metrics(&self.settings, snapshot, metrics);
        Ok(ExportMetricsServiceRequest {
            resource_metrics: self.unconfirmed.next(live, now),
        })
    }

    /// Returns whether the collector took all points. Which ones it rejected is not known: they must not be sent again.
    fn accepted(&mut self, points: u64, rejected: u64, message: &str) -> bool {
        let rejected = rejected.min(points);
        let counts = &self.connection.counts;
        counts.send_modify(|counts| counts.exported += points - rejected);
        if rejected > 0 {
            let message = format!("{rejected} of {points} points rejected: {message}");
            self.connection
                .failed(ExportFailure::PartialSuccess, &message);
        }
        rejected == 0
    }
}

fn resource_metrics(
    settings: &OtlpSettings,
    snapshot: &Snapshot,
    metrics: Vec<Metric>,
) -> ResourceMetrics {
    let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
    let resource = resource::of(settings, identity, vm_name);
    let resource = ResourceAttributesWithSchema::from(&resource);
    ResourceMetrics {
        resource: Some(Resource {
            attributes: resource.attributes.0,
            ..Resource::default()
        }),
        scope_metrics: vec![ScopeMetrics {
            scope: Some((resource::scope(), None).into()),
            metrics,
            ..ScopeMetrics::default()
        }],
        schema_url: resource.schema_url.unwrap_or_default(),
    }
}
