//! A push that the collector finds too large is sent in parts.

use std::{collections::BTreeSet, process::Command};

use super::metrics::{HOUR, PUSH, event, find, pushing, series, until};
use crate::support::{
    DEADLINE, FakeImds,
    collector::{Answer, FakeCollector, Received},
    exporter::Exporter,
    process::{PROGRAM, Process},
    wait_until,
};

const FAILED: &str = r#"azure_scheduled_events_metric_export_failures_total{reason="too_large"}"#;
const EXPORTED: &str = "azure_scheduled_events_metric_points_exported_total";
const STATUS: &str = "azure_scheduled_event_status";

fn all_series<'a>(pushes: impl IntoIterator<Item = &'a Received>) -> Vec<String> {
    let metrics = pushes.into_iter().flat_map(Received::metrics);
    metrics.flat_map(series).collect()
}

#[tokio::test]
async fn a_push_that_is_too_large_is_sent_in_parts_with_all_points() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::AtMost(20));
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    let whole = until(&collector, "the event", |it| find(it, STATUS).is_some()).await;
    assert!(!whole.is_accepted && whole.points() > 80);
    let parts = wait_until(DEADLINE, "all points", || {
        let received = collector.received().into_iter();
        let since = received.skip_while(|it| it.at < whole.at);
        let parts: Vec<_> = since.filter(|it| it.is_accepted).collect();
        (parts.iter().map(Received::points).sum::<usize>() >= whole.points()).then_some(parts)
    })
    .await;
    let (mut sent, mut expected) = (all_series(&parts), all_series([&whole]));
    sent.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sent, expected);
    for part in &parts {
        let [of] = part.metrics.resource_metrics.as_slice() else {
            panic!("one resource");
        };
        assert_eq!(of.resource, whole.metrics.resource_metrics[0].resource);
        assert_eq!(of.schema_url, whole.metrics.resource_metrics[0].schema_url);
        let scope = &whole.metrics.resource_metrics[0].scope_metrics[0].scope;
        assert_eq!(of.scope_metrics[0].scope, *scope);
    }
    let metrics = exporter
        .until("the points are counted", |it| {
            it.value(EXPORTED) >= Some(whole.points() as f64)
        })
        .await;
    assert!(metrics.value(FAILED) >= Some(4.0));
    exporter.stop().await;
}

/// The exporter, with all pushes at this interval.
fn process(imds: &FakeImds, collector: &FakeCollector, interval_ms: &str) -> Process {
    let endpoint = format!("{}/v1/metrics", collector.base());
    let mut command = Command::new(PROGRAM);
    command
        .args(["--web.listen-address=127.0.0.1:0", "--vm.name=web_0"])
        .arg(format!("--imds.url={}", imds.base()))
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint)
        .env("OTEL_METRIC_EXPORT_INTERVAL", interval_ms)
        .envs([PUSH]);
    Process::start_as(&mut command)
}

#[tokio::test]
async fn a_point_that_is_too_large_alone_is_dropped_with_one_line_and_all_others_are_sent() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::Refuse("azure_scheduled_event_resources", 413));
    let mut process = process(&imds, &collector, "100");
    let line = process
        .says("data point is too large for the collector, dropped")
        .await;
    assert!(line.contains("metric=azure_scheduled_event_resources") && line.contains("HTTP 413"));
    // Another push drops it again.
    let before = collector.received().len();
    wait_until(DEADLINE, "five more pushes", || {
        let received = collector.received().into_iter().skip(before);
        let dropped = received.filter(|it| !it.is_accepted && it.points() == 1);
        (dropped.count() >= 5).then_some(())
    })
    .await;
    process.signal("TERM");
    let log = process.end().await.log;
    assert_eq!(log.matches("is too large").count(), 1, "{log}");
    assert_eq!(log.matches("are too large").count(), 1, "{log}");
    assert!(!log.contains("metric export failed"), "{log}");

    let received = collector.received();
    let whole = received
        .iter()
        .find(|it| find(it, STATUS).is_some())
        .unwrap();
    let expected = all_series([whole]);
    let sent: BTreeSet<_> = all_series(received.iter().filter(|it| it.is_accepted))
        .into_iter()
        .collect();
    let missing: Vec<_> = expected.iter().filter(|it| !sent.contains(*it)).collect();
    let [missing] = missing.as_slice() else {
        panic!("{missing:?}");
    };
    assert!(
        missing.starts_with("azure_scheduled_event_resources{"),
        "{missing}"
    );
}

#[tokio::test]
async fn a_collector_that_finds_everything_too_large_gets_few_requests_and_one_line_says_it() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(413));
    let mut process = process(&imds, &collector, HOUR.1);
    let line = process.says("metric export failed").await;
    assert!(line.contains("reason=too_large"), "{line}");
    let received = collector.received();
    let pushes = received.iter().filter(|it| it.points() > 50).count();
    assert!(received.len() <= pushes * 40, "{} requests", received.len());
    process.signal("TERM");
    process.end().await;
}
