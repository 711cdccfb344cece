//! A large push is sent in several requests; what the collector finds too large is dropped.

use prost::Message as _;
use tokio::time::Instant;

use super::{
    metrics::{HOUR, PUSH, find, numbers, pushing},
    sending::event,
};
use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::{Answer, FakeCollector},
    exporter::Exporter,
    process::{Process, exporter, page},
    wait_until,
};

const RESOURCES: &str = "azure_scheduled_event_resource_info";
const FAILED: &str = r#"azure_scheduled_events_metric_export_failures_total{reason="too_large"}"#;
const VMS: usize = 10_000;

fn event_of_many_vms() -> Reply {
    let names: Vec<_> = (0..VMS)
        .map(|number| format!(r#""web_{number}""#))
        .collect();
    Reply::ok(format!(
        r#"{{"DocumentIncarnation":1,"Events":[{{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":[{}],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}}]}}"#,
        names.join(",")
    ))
}

#[tokio::test]
async fn a_large_push_is_sent_in_requests_of_at_most_512_kib_with_all_points() {
    let imds = FakeImds::standing(event_of_many_vms()).await;
    let collector = FakeCollector::scripted([]).await;
    let mut config = pushing(&imds, &collector, &[HOUR]);
    config.web.exposed.resources = true;
    let exporter = Exporter::start(config);
    let vms = wait_until(DEADLINE, "all VMs", || {
        let received = collector.received();
        let points: Vec<_> = received
            .iter()
            .filter_map(|it| find(it, RESOURCES))
            .flat_map(numbers)
            .cloned()
            .collect();
        (points.len() >= VMS).then_some(points)
    })
    .await;
    assert_eq!(vms.len(), VMS, "each once");
    let sizes: Vec<_> = collector
        .received()
        .iter()
        .map(|it| it.metrics.encoded_len())
        .collect();
    assert!(sizes.iter().all(|size| *size <= 512 << 10), "{sizes:?}");
    exporter.stop().await;
}

#[tokio::test]
async fn a_push_that_the_collector_finds_too_large_is_dropped_with_one_line() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(413));
    let endpoint = format!("{}/v1/metrics", collector.base());
    let mut command = exporter(&imds);
    command
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint)
        .env("OTEL_METRIC_EXPORT_INTERVAL", "100")
        .envs([PUSH]);
    let mut process = Process::start_as(&mut command);
    let address = process.address().await;
    let line = process.says("metric export failed").await;
    assert!(line.contains("reason=too_large"), "{line}");
    assert!(line.contains("HTTP 413"), "{line}");
    let pushes = collector.received().len();
    wait_until(DEADLINE, "pushes at the interval", || {
        (collector.received().len() >= pushes + 3).then_some(())
    })
    .await;
    // Counted after the answer.
    let deadline = Instant::now() + DEADLINE;
    loop {
        let metrics = page(&address, "/metrics").await.unwrap();
        let failed = metrics.lines().find_map(|line| line.strip_prefix(FAILED));
        let failed: f64 = failed.unwrap().trim().parse().unwrap();
        if failed >= 3.0 {
            break;
        }
        assert!(Instant::now() < deadline, "{failed}");
    }
    process.signal("TERM");
    let log = process.end().await.log;
    assert_eq!(log.matches("metric export failed").count(), 1, "{log}");
}
