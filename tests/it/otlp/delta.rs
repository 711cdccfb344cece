//! Delta temporality: a receiver that adds deltas has what was counted, except for pushes that failed.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, metric::Data, number_data_point::Value,
};

use super::{
    metrics::{HOUR, numbers, pushing, status, until},
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
            let delta = i32::from(AggregationTemporality::Delta);
            match metric.data.as_ref().unwrap() {
                Data::Sum(sum) => {
                    assert_eq!(sum.aggregation_temporality, delta);
                    for point in &sum.data_points {
                        let value = match point.value {
                            Some(Value::AsInt(value)) => f64::from(i32::try_from(value).unwrap()),
                            Some(Value::AsDouble(value)) => value,
                            None => continue,
                        };
                        let series = format!("{} {:?}", metric.name, point.attributes);
                        sums.add(
                            series,
                            point.start_time_unix_nano,
                            point.time_unix_nano,
                            value,
                        );
                    }
                }
                Data::Histogram(histogram) => {
                    assert_eq!(histogram.aggregation_temporality, delta);
                    for point in histogram
                        .data_points
                        .iter()
                        .filter(|point| point.flags == 0)
                    {
                        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                        assert!(point.sum >= Some(0.0));
                        let count = f64::from(u32::try_from(point.count).unwrap());
                        let series = format!("{} {:?}", metric.name, point.attributes);
                        sums.add(
                            series,
                            point.start_time_unix_nano,
                            point.time_unix_nano,
                            count,
                        );
                    }
                }
                _ => {}
            }
        }
        sums
    }

    fn add(&mut self, series: String, start: u64, end: u64, value: f64) {
        assert!(
            0 < start && start <= end && value >= 0.0,
            "{series} {start} {end} {value}"
        );
        let known = self.intervals.entry(series.clone()).or_default();
        if known.insert((start, end)) {
            *self.totals.entry(series).or_default() += value;
        }
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
        let points = received.iter().flat_map(Received::metrics).map(points);
        points.sum::<f64>()
    };
    let counter = "azure_scheduled_events_metric_points_exported_total";
    let is_counted = exporter.until("all points", |it| it.value(counter) == Some(sent()));
    is_counted.await;
    exporter.stop().await;
}

fn points(metric: &Metric) -> f64 {
    let points = match metric.data.as_ref().unwrap() {
        Data::Histogram(histogram) => histogram.data_points.len(),
        _ => numbers(metric).len(),
    };
    points as f64
}
