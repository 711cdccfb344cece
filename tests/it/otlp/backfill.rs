//! An event that is found to name this VM only later has all spans.

use std::time::Duration;

use azure_scheduled_events_exporter::config;

use super::sending::{base, event, settings as traces};
use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::FakeCollector,
    exporter::{Exporter, Metrics, settings},
    wait_until,
};

const EXPORTED: &str = "azure_scheduled_events_spans_exported_total";

fn exporting(imds: &FakeImds, collector: &FakeCollector) -> config::Config {
    let mut settings = settings(&imds.base());
    settings.otlp = Some(traces(&base(collector), &[]));
    settings
}

/// The names of the received spans without their common prefix.
fn sent(collector: &FakeCollector) -> Vec<String> {
    let names = collector.accepted().into_iter();
    names
        .map(|name| name.replace("scheduled_event ", ""))
        .collect()
}

fn has_sent(metrics: &Metrics, spans: f64) -> bool {
    metrics.value(EXPORTED) >= Some(spans)
}

#[tokio::test]
async fn vm_name_that_is_set_at_a_restart_backfills_spans() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    imds.identity(Reply::error("500 Internal Server Error", "oops"));
    let collector = FakeCollector::scripted([]).await;
    let directory = tempfile::tempdir().unwrap();
    let mut settings = exporting(&imds, &collector);
    settings.state = Some(directory.path().to_owned());
    let name = settings.imds.vm_name.take();
    let exporter = Exporter::start(settings.clone());
    imds.until_requests(3).await;
    exporter.stop().await;
    assert_eq!(sent(&collector), [""; 0]);
    settings.imds.vm_name = name;
    let exporter = Exporter::start(settings);
    exporter.until("it is sent", |it| has_sent(it, 1.0)).await;
    assert_eq!(sent(&collector), ["announced"]);
    exporter.stop().await;
}

#[tokio::test]
async fn spans_are_backfilled_while_the_next_poll_hangs() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    imds.identity(Reply::error("500 Internal Server Error", "oops"));
    let collector = FakeCollector::scripted([]).await;
    let mut settings = exporting(&imds, &collector);
    settings.imds.vm_name = None;
    settings.imds.timeout = DEADLINE * 10;
    let exporter = Exporter::start(settings);
    imds.until_requests(3).await;
    // The name is answered late enough to make the next request for events hang.
    let name = Reply::ok(r#"{"name":"web_0","vmId":"1"}"#);
    imds.identity(name.after(Duration::from_secs(1)));
    let identity_requests = |imds: &FakeImds| {
        let requests = imds.requests().into_iter();
        requests
            .filter(|it| it.target.contains("/metadata/instance"))
            .count()
    };
    let before = identity_requests(&imds);
    wait_until(DEADLINE, "a second request", || {
        (identity_requests(&imds) > before).then_some(())
    })
    .await;
    imds.now(Reply::silence());
    let metrics = exporter.until("it is sent", |it| has_sent(it, 1.0)).await;
    assert!(metrics.is_up(), "no poll has failed");
    assert_eq!(sent(&collector), ["announced"]);
    exporter.stop().await;
}
