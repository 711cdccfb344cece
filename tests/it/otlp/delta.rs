//! Delta temporality: a receiver that adds deltas has what was counted, except for pushes that failed.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;

use super::{
    metrics::{HOUR, points, pushing, status, temporality, until},
    sending::{event, no_event, text},
};
use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::{FakeCollector, Received},
    exporter::Exporter,
    wait_until,
};

const DELTA: [(&str, &str); 3] = [
    ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta"),
    ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
];

/// Sums of what was received, each interval of a series once.
#[derive(Debug, Default)]
struct Sums {
    intervals: BTreeMap<String, BTreeSet<(u64, u64)>>,
    totals: BTreeMap<String, f64>,
}

impl Sums {
    fn of<'a>(received: impl IntoIterator<Item = &'a Received>) -> Self {
        let mut sums = Self::default();
        for metric in received.into_iter().flat_map(Received::metrics) {
            let Some(temporality) = temporality(metric) else {
                continue;
            };
            assert_eq!(temporality, AggregationTemporality::Delta);
            for (attributes, start, time, value) in points(metric) {
                let series = format!("{} {attributes:?}", metric.name);
                assert!(0 < start && start <= time && value >= 0.0, "{metric:?}");
                let known = sums.intervals.entry(series.clone()).or_default();
                if known.insert((start, time)) {
                    *sums.totals.entry(series).or_default() += value;
                }
            }
        }
        sums
    }

    fn total(&self, series: &str) -> f64 {
        let found = self
            .totals
            .iter()
            .filter(|(name, _)| name.starts_with(series));
        found.map(|(_, value)| value).sum()
    }

    /// No interval of a series overlaps another one.
    fn assert_distinct(&self) {
        for (series, intervals) in &self.intervals {
            let ends = intervals.iter().zip(intervals.iter().skip(1));
            for ((_, end), (start, _)) in ends {
                assert!(end <= start, "{series}: {intervals:?}");
            }
        }
    }
}

/// The identity of the VM, which becomes known after the first push, makes other series.
#[tokio::test]
async fn deltas_add_up_over_a_new_resource_and_a_restart() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    imds.identity(Reply::ok("{}"));
    let collector = FakeCollector::scripted([]).await;
    for run in 1..=2_u32 {
        let exporter = Exporter::start(pushing(&imds, &collector, &DELTA));
        let before = collector.received().len();
        wait_until(DEADLINE, "pushes", || {
            (collector.received().len() > before + 5).then_some(())
        })
        .await;
        imds.identity(Reply::ok(r#"{"name": "web_0", "vmId": "a-vm"}"#));
        wait_until(DEADLINE, "a push of the VM", || {
            let resource = collector.received().pop()?.metrics.resource_metrics.pop()?;
            text(&resource.resource?.attributes, "host.id")
        })
        .await;
        imds.now(no_event());
        exporter
            .until("the end", |it| {
                it.value(r#"azure_scheduled_events_ended_total{event_type="Freeze",outcome="cancelled"}"#)
                    == Some(1.0)
            })
            .await;
        let requests = "azure_scheduled_events_imds_requests_total";
        let metrics = exporter.until("requests", |it| it.value(requests) > Some(9.0));
        metrics.await;
        exporter.stop().await;
        imds.now(event("Scheduled"));
        let received = collector.received();
        let sums = Sums::of(&received);
        sums.assert_distinct();
        let observed = sums.total("azure_scheduled_events_observed ");
        assert!(
            (observed - f64::from(run)).abs() < 0.5,
            "{observed} in run {run}"
        );
        let ended = sums.total("azure_scheduled_events_ended ");
        assert!((ended - f64::from(run)).abs() < 0.5, "{ended} in run {run}");
        let requests = sums.total("azure_scheduled_events_imds_requests ");
        let timed = sums.total("azure_scheduled_events_imds_request_duration ");
        assert!(
            requests > 9.0 && (requests - timed).abs() < 0.5,
            "{requests} {timed}"
        );
    }
}

/// A histogram without a new value has no delta.
#[tokio::test]
async fn the_points_of_a_push_are_counted_and_no_others() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &collector, &[DELTA[0], HOUR]));
    let has = |status: &'static str| {
        until(&collector, status, move |it| {
            self::status(it).as_deref() == Some(status)
        })
    };
    has("Scheduled").await;
    imds.now(event("Started"));
    has("Started").await;
    imds.now(no_event());
    has("Ended").await;
    let sent = || {
        let received = collector.received();
        let metrics = received.iter().flat_map(Received::metrics);
        metrics.map(|metric| points(metric).len()).sum::<usize>() as f64
    };
    let counter = "azure_scheduled_events_metric_points_exported_total";
    let is_counted = exporter.until("all points", |it| it.value(counter) == Some(sent()));
    is_counted.await;
    exporter.stop().await;
}
