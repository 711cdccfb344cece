//! The push of the metrics: what a collector gets and when, and that it is off by default.

use std::{collections::BTreeSet, time::Duration};

use azure_scheduled_events_exporter::config::Config;
use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{
        AggregationTemporality, Metric, NumberDataPoint, metric::Data, number_data_point::Value,
    },
};
use tokio::time::Instant;

use super::sending::{base, event, exporting, no_event, settings as otlp, stop, text};
use crate::support::{
    DEADLINE, FakeImds,
    collector::{Answer, FakeCollector, Received},
    exporter::{Exporter, settings},
    wait_until,
};

/// No push happens because of the interval.
pub(super) const HOUR: (&str, &str) = ("OTEL_METRIC_EXPORT_INTERVAL", "3600000");
pub(super) const PUSH: (&str, &str) = ("OTEL_METRICS_EXPORTER", "otlp");

/// Only the metrics are exported.
pub(super) fn pushing(
    imds: &FakeImds,
    collector: &FakeCollector,
    environment: &[(&str, &str)],
) -> Config {
    let none = [
        PUSH,
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    let mut config = settings(&imds.base());
    config.otlp = Some(otlp(&base(collector), &[&none, environment].concat()));
    config
}

/// Waits for a push that meets a condition.
pub(super) async fn until(
    collector: &FakeCollector,
    what: &str,
    is_met: impl Fn(&Received) -> bool,
) -> Received {
    wait_until(DEADLINE, what, || {
        collector.received().into_iter().find(|it| is_met(it))
    })
    .await
}

pub(super) fn find<'a>(received: &'a Received, name: &str) -> Option<&'a Metric> {
    received.metrics().find(|metric| metric.name == name)
}

pub(super) fn numbers(metric: &Metric) -> &[NumberDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => &sum.data_points,
        other => panic!("{other:?}"),
    }
}

/// A point of a metric: its attributes, start, time, and value, or the count of a histogram.
pub(super) type Point<'a> = (&'a [KeyValue], u64, u64, f64);

pub(super) fn points(metric: &Metric) -> Vec<Point<'_>> {
    if let Some(Data::Histogram(histogram)) = &metric.data {
        let points = histogram.data_points.iter().map(|it| {
            assert_eq!(it.bucket_counts.iter().sum::<u64>(), it.count);
            assert_eq!(it.bucket_counts.len(), it.explicit_bounds.len() + 1);
            let (start, time) = (it.start_time_unix_nano, it.time_unix_nano);
            (&*it.attributes, start, time, it.count as f64)
        });
        return points.collect();
    }
    let points = numbers(metric).iter().map(|it| {
        let Some(Value::AsDouble(value)) = it.value else {
            panic!("{it:?}");
        };
        let (start, time) = (it.start_time_unix_nano, it.time_unix_nano);
        (&*it.attributes, start, time, value)
    });
    points.collect()
}

pub(super) fn temporality(metric: &Metric) -> Option<AggregationTemporality> {
    let temporality = match metric.data.as_ref()? {
        Data::Sum(sum) => {
            assert!(sum.is_monotonic, "{metric:?}");
            sum.aggregation_temporality
        }
        Data::Histogram(histogram) => histogram.aggregation_temporality,
        _ => return None,
    };
    temporality.try_into().ok()
}

/// The status of the event in a push.
pub(super) fn status(received: &Received) -> Option<String> {
    let points = numbers(find(received, "azure_scheduled_event_status")?);
    let current = points
        .iter()
        .find(|point| point.value == Some(Value::AsDouble(1.0)))?;
    text(&current.attributes, "event_status")
}

/// The series that Prometheus makes of a metric, with its rules for names.
pub(super) fn series(metric: &Metric) -> Vec<String> {
    let unit = match metric.unit.as_str() {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    };
    let name = format!("{}{unit}", metric.name);
    let labelled = |name: &str, attributes: &[KeyValue], more: Option<String>| {
        let label = |attribute: &KeyValue| {
            let value = text(std::slice::from_ref(attribute), &attribute.key).unwrap();
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            format!("{}=\"{value}\"", attribute.key)
        };
        let mut labels: Vec<_> = more
            .into_iter()
            .chain(attributes.iter().map(label))
            .collect();
        labels.sort_unstable();
        if labels.is_empty() {
            name.to_owned()
        } else {
            format!("{name}{{{}}}", labels.join(","))
        }
    };
    match metric.data.as_ref().unwrap() {
        Data::Histogram(histogram) => histogram
            .data_points
            .iter()
            .flat_map(|point| {
                let bounds = point.explicit_bounds.iter().map(ToString::to_string);
                let buckets = bounds.chain(["+Inf".to_owned()]).map(|bound| {
                    let le = Some(format!("le=\"{bound}\""));
                    labelled(&format!("{name}_bucket"), &point.attributes, le)
                });
                let totals = ["sum", "count"]
                    .map(|total| labelled(&format!("{name}_{total}"), &point.attributes, None));
                buckets.chain(totals).collect::<Vec<_>>()
            })
            .collect(),
        data => {
            let total = if matches!(data, Data::Sum(_)) {
                "_total"
            } else {
                ""
            };
            numbers(metric)
                .iter()
                .map(|point| labelled(&format!("{name}{total}"), &point.attributes, None))
                .collect()
        }
    }
}

/// A series with its labels in the order of their text.
fn sorted(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else {
        return series.to_owned();
    };
    let labels = labels.strip_suffix("\"}").unwrap();
    let mut labels: Vec<_> = labels.split("\",").collect();
    labels.sort_unstable();
    format!("{name}{{{}\"}}", labels.join("\","))
}

#[tokio::test]
async fn a_push_has_the_series_of_the_exposition_and_the_resource_instead_of_the_identity() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    let gzip = ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip");
    let mut config = pushing(&imds, &collector, &[HOUR, gzip]);
    config.web.exposed.resources = true;
    config.web.exposed.process = true;
    config.owner_tag = Some("team".into());
    let exporter = Exporter::start(config);
    let received = until(&collector, "the event", |it| status(it).is_some()).await;
    assert_eq!(received.line, "POST /v1/metrics HTTP/1.1");
    assert_eq!(received.header("content-encoding"), Some("gzip"));
    assert_eq!(
        received.header("content-type"),
        Some("application/x-protobuf")
    );

    let exposed = exporter.metrics().await;
    let samples = exposed.0.lines().filter(|line| !line.starts_with('#'));
    let exposed: BTreeSet<_> = samples
        .map(|line| sorted(line.rsplit_once(' ').unwrap().0))
        .filter(|name| !name.starts_with("azure_scheduled_events_vm_info{"))
        // The SDK has no histogram before its first value.
        .filter(|name| !name.contains("_unannounced_interruption_seconds"))
        .collect();
    let pushed: Vec<_> = received.metrics().flat_map(series).collect();
    let distinct: BTreeSet<_> = pushed.iter().cloned().collect();
    assert_eq!(distinct.len(), pushed.len(), "each series once");
    let missing: Vec<_> = exposed.difference(&distinct).collect();
    let surplus: Vec<_> = distinct.difference(&exposed).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );

    let resource = &received.metrics.resource_metrics[0];
    assert_eq!(
        resource.schema_url,
        "https://opentelemetry.io/schemas/1.44.0"
    );
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    let vm_id = text(attributes, "host.id").unwrap();
    assert_eq!(vm_id, "9e7a4c52-61d3-4f0b-8c2e-d5b1a0937f68");
    assert!(text(attributes, "service.instance.id").is_some());
    // The series have it: a receiver that makes labels of the resource would give it to the alerts of a former owner.
    assert_eq!(text(attributes, "owner"), None);
    assert!(pushed.iter().any(|it| it.contains("owner=\"shop\"")));
    let scope = resource.scope_metrics[0].scope.as_ref().unwrap();
    assert_eq!(
        (scope.name.as_str(), scope.version.as_str()),
        ("azure-scheduled-events-exporter", env!("CARGO_PKG_VERSION"))
    );
    exporter.stop().await;
}

#[tokio::test]
async fn points_have_the_kind_unit_and_start_of_their_metric() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    let received = until(&collector, "the event", |it| status(it).is_some()).await;

    let duration = find(&received, "azure_scheduled_event_duration").unwrap();
    assert_eq!((duration.unit.as_str(), temporality(duration)), ("s", None));
    let [(_, _, _, seconds)] = points(duration)[..] else {
        panic!("{duration:?}");
    };
    assert!((seconds - 5.0).abs() < 0.1);
    let cumulative = Some(AggregationTemporality::Cumulative);
    for (name, unit) in [
        ("azure_scheduled_events_observed", "{event}"),
        ("azure_scheduled_events_imds_request_duration", "s"),
    ] {
        let metric = find(&received, name).unwrap();
        assert_eq!((&*metric.unit, temporality(metric)), (unit, cumulative));
        let points = points(metric);
        let (_, start, time, value) = points.iter().find(|point| point.3 > 0.5).unwrap();
        assert!(0 < *start && start < time && *value > 0.5, "{metric:?}");
    }
    let requests = find(&received, "azure_scheduled_events_imds_request_duration");
    let Some(Data::Histogram(histogram)) = &requests.unwrap().data else {
        panic!("{requests:?}");
    };
    assert!(histogram.data_points[0].sum > Some(0.0));
    exporter.stop().await;
}

#[tokio::test]
async fn the_metrics_are_pushed_when_an_event_appears_or_changes_and_at_shutdown() {
    let imds = FakeImds::standing(no_event()).await;
    let collector = FakeCollector::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    let has_identity = |it: &Received| {
        let resource = it.metrics.resource_metrics[0].resource.as_ref().unwrap();
        text(&resource.attributes, "host.id").is_some()
    };
    until(&collector, "the identity", has_identity).await;
    imds.now(event("Scheduled"));
    until(&collector, "Scheduled", |it| {
        status(it).as_deref() == Some("Scheduled")
    })
    .await;
    imds.now(event("Started"));
    until(&collector, "Started", |it| {
        status(it).as_deref() == Some("Started")
    })
    .await;
    imds.now(no_event());
    until(&collector, "Ended", |it| {
        status(it).as_deref() == Some("Ended")
    })
    .await;
    // Unchanged events cause no push.
    let before = collector.received();
    imds.until_requests(imds.event_requests() + 8).await;
    assert_eq!(collector.received().len(), before.len());
    let pushes: Vec<_> = before.iter().map(|it| it.at).collect();
    let second = Duration::from_secs(1);
    // The first push is that of the identity, and may be earlier than the limit of the second.
    assert!(
        pushes
            .windows(2)
            .all(|pair| pair[1] - pair[0] >= second * 9 / 10),
        "{pushes:?}"
    );
    exporter.stop().await;
    assert_eq!(collector.received().len(), before.len() + 1);
}

#[tokio::test]
async fn the_metrics_are_pushed_at_the_interval() {
    let imds = FakeImds::standing(no_event()).await;
    let collector = FakeCollector::scripted([]).await;
    let interval = ("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let exporter = Exporter::start(pushing(&imds, &collector, &[interval]));
    wait_until(DEADLINE, "ten pushes", || {
        (collector.received().len() >= 10).then_some(())
    })
    .await;
    let at = |received: &Received| numbers(received.metrics().next().unwrap())[0].time_unix_nano;
    let times: Vec<_> = collector.received().iter().map(at).collect();
    assert!(times.is_sorted(), "{times:?}");
    let points = "azure_scheduled_events_metric_points_exported_total";
    exporter
        .until("the points are counted", |it| {
            it.value(points) > Some(500.0)
        })
        .await;
    exporter.stop().await;
}

#[tokio::test]
async fn a_failed_push_is_repeated_with_the_newest_values_after_the_delay_that_was_asked_for() {
    let imds = FakeImds::standing(no_event()).await;
    let script = [Answer::retry_after(503, "2"), Answer::status(429)];
    let collector = FakeCollector::scripted(script).await;
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    wait_until(DEADLINE, "the first push", || {
        (!collector.received().is_empty()).then_some(())
    })
    .await;
    imds.now(event("Scheduled"));
    let accepted = until(&collector, "an accepted push", |it| it.is_accepted).await;
    assert_eq!(status(&accepted).as_deref(), Some("Scheduled"));
    let received = collector.received();
    assert_eq!(received.len(), 3);
    assert!(received[1].at - received[0].at >= Duration::from_millis(1_990));
    assert_eq!(status(&received[1]).as_deref(), Some("Scheduled"));
    let failed = |reason| {
        format!("azure_scheduled_events_metric_export_failures_total{{reason=\"{reason}\"}}")
    };
    let metrics = exporter
        .until("the points are counted", |it| {
            it.value("azure_scheduled_events_metric_points_exported_total") > Some(0.0)
        })
        .await;
    assert_eq!(metrics.value(&failed("status_5xx")), Some(1.0));
    assert_eq!(metrics.value(&failed("throttled")), Some(1.0));
    assert_eq!(metrics.value(&failed("connect")), Some(0.0));
    exporter.stop().await;
}

/// Neither polls nor scrapes wait for a collector that hangs.
#[tokio::test]
async fn a_collector_that_hangs_delays_no_poll_and_the_end_only_by_the_flush() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::hang());
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    wait_until(DEADLINE, "the first push", || {
        (!collector.received().is_empty()).then_some(())
    })
    .await;
    imds.until_requests(imds.event_requests() + 5).await;
    assert!(exporter.metrics().await.is_up());
    exporter.stop().await;
    assert!(collector.received().len() <= 2);
}

/// The empty request at the start, too, is sent to a receiver that is short of something.
#[tokio::test]
async fn a_delay_after_the_first_request_holds_for_the_metrics() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.answer_probes(Answer::retry_after(503, "2"));
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    wait_until(DEADLINE, "the empty request", || {
        (!collector.probes().is_empty()).then_some(())
    })
    .await;
    let begin = Instant::now();
    let pushed = until(&collector, "the event", |it| status(it).is_some()).await;
    assert!(pushed.at - begin >= Duration::from_millis(1_900));
    assert_eq!(collector.received().len(), 1);
    exporter.stop().await;
}

#[tokio::test]
async fn a_push_that_the_collector_finds_too_large_is_dropped_with_one_line() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(413));
    let endpoint = format!("{}/v1/metrics", collector.base());
    let endpoint = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &*endpoint);
    let interval = ("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let mut process = exporting(&imds, None, &[endpoint, interval, PUSH]);
    let line = process.says("metric export failed").await;
    assert!(
        line.contains("reason=too_large") && line.contains("HTTP 413"),
        "{line}"
    );
    let pushes = collector.received().len();
    wait_until(DEADLINE, "pushes at the interval", || {
        (collector.received().len() >= pushes + 3).then_some(())
    })
    .await;
    let log = stop(process).await;
    assert_eq!(log.matches("metric export failed").count(), 1, "{log}");
}
