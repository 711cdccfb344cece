//! Pushes the metrics to a collector: at an interval, at once when an event appears or changes, and at shutdown.
//!
//! Nothing is stored: a push has the newest values, also after one that failed. It reads published snapshots and delays
//! nothing else.

use std::sync::Arc;

use opentelemetry_sdk::Resource;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    Records, collector_client::CollectorClient, collector_response::FailedRequest, flush,
    meters::Meters,
};
use crate::{
    core::snapshot::Snapshot,
    outputs::{
        metrics::{MetricSource, catalog},
        otlp::{Signal, resource, settings::OtlpSettings},
        output_counters::ExportFailure,
        schedule::Schedule,
    },
};

/// Pushes until `stop` is cancelled, then the last values.
pub async fn run(
    settings: OtlpSettings,
    client: CollectorClient,
    source: MetricSource,
    stop: CancellationToken,
) {
    let exporter = client.settings();
    info!(
        endpoint = exporter.shown_endpoint(),
        gzip = exporter.gzip,
        interval_ms = settings.metric_interval.as_millis(),
        "metric export enabled"
    );
    let now = client.clock.now().monotonic;
    let flush_timeout = client.timing.flush_timeout;
    let mut pusher = MetricPusher {
        schedule: Schedule::new(settings.metric_interval, now),
        meters: Meters::new(Resource::builder_empty().build(), settings.temporality),
        client,
        settings,
        source,
    };
    let pushing = pusher.push_until_stopped(&stop);
    flush(Signal::Metrics, flush_timeout, &stop, pushing).await;
}

struct MetricPusher {
    settings: OtlpSettings,
    source: MetricSource,
    client: CollectorClient,
    schedule: Schedule,
    meters: Meters,
}

impl MetricPusher {
    async fn push_until_stopped(&mut self, stop: &CancellationToken) {
        tokio::select! {
            // A push follows in any case.
            _ = self.client.probe() => {}
            () = stop.cancelled() => {}
        }
        let clock = self.client.clock;
        self.client.permitted().await;
        while let Some(snapshot) = self
            .schedule
            .due(&mut self.source.snapshots, clock, stop)
            .await
        {
            let failed = self.push(&snapshot).await;
            let delay = failed.as_ref().map(|it| self.client.retry_delay(it));
            self.schedule
                .pushed(&snapshot, clock.now().monotonic, delay);
            self.client.permitted().await;
        }
        let newest = Arc::clone(&self.source.snapshots.borrow());
        self.push(&newest).await;
    }

    /// Sends the metrics. Returns the failure if the push is to be repeated.
    async fn push(&mut self, snapshot: &Arc<Snapshot>) -> Option<FailedRequest> {
        // The alerts of a former owner would get the current one, where a receiver makes labels of the resource.
        let unowned = Snapshot {
            owner: None,
            ..Snapshot::clone(snapshot)
        };
        let resource = resource::of(&self.settings, &unowned);
        self.meters.set_resource(&resource);
        let scrape = self.source.scrape(snapshot);
        let scraped = scrape.write(&mut |family| {
            // Receivers make `target_info` of the resource instead.
            if family.metric.name != catalog::VM_INFO.name {
                self.meters.observe(&family);
            }
            Ok(())
        });
        debug_assert!(scraped.is_ok(), "the meters take all families");
        let records = match self.meters.collect() {
            Ok(collected) => Records::Metrics(collected),
            Err(error) => {
                let (reason, message) = (ExportFailure::Rejected, error.to_string());
                self.client.failed(reason, &message);
                return None;
            }
        };
        match self.client.export(&records, &resource).await {
            Ok(partial) => {
                // Which points a collector rejected is not known: they must not be sent again.
                let points = records.count();
                let rejected = partial.rejected(points);
                let counts = &self.client.counts;
                counts.send_modify(|counts| counts.exported += points - rejected);
                if rejected == 0 {
                    self.client.recovered();
                } else {
                    let message = partial.error_message;
                    let message = format!("{rejected} of {points} points rejected: {message}");
                    self.client.failed(ExportFailure::PartialSuccess, &message);
                }
            }
            Err(failed) if failed.is_refused() => {
                self.client.failed(failed.reason, &failed.message);
            }
            Err(failed) => return Some(failed),
        }
        None
    }
}
