//! The exporter against the documents of Microsoft's mock server for Scheduled Events,
//! <https://github.com/Azure-Samples/scheduled-events-mock-server>.
//!
//! They differ from Azure's: members in alphabetical order, event ids in lower case, ISO 8601 times, a new event id for
//! each status, an approval that is answered with the next document, and no instance metadata.

use std::{sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, config::Config, time::Timestamp};

use crate::support::{
    FakeImds, Reply,
    exporter::{Exporter, Metrics, settings},
};

const SCHEDULED: &str = "9cd3c18f-9c09-483f-9dd3-7167d7aa61f8";
const STARTED: &str = "064493ca-0d5c-4f96-be4a-1fb2273767a9";

fn reply(incarnation: u32, events: &str) -> Reply {
    let body = format!("{{\"DocumentIncarnation\":{incarnation},\"Events\":[{events}]}}\n");
    let headers = [
        ("Server", "Werkzeug/3.1.3 Python/3.11.2"),
        ("Content-Type", "application/json"),
        ("Connection", "close"),
    ];
    Reply::http("200 OK", &headers, body).then_close()
}

/// An event as the mock server writes it; `NotBefore` is 15 minutes ahead, or empty.
fn event(id: &str, event_type: &str, source: &str, status: &str) -> String {
    let not_before = match status {
        "Scheduled" => Timestamp::now().after(Duration::from_mins(15)).rfc3339(),
        _ => String::new(),
    };
    format!(
        "{{\"Description\":\"Virtual machine has encountered a failure.\",\"DurationInSeconds\":-1,\
         \"EventId\":\"{id}\",\"EventSource\":\"{source}\",\"EventStatus\":\"{status}\",\
         \"EventType\":\"{event_type}\",\"NotBefore\":\"{not_before}\",\
         \"ResourceType\":\"VirtualMachine\",\"Resources\":[\"vmss_vm1\"]}}"
    )
}

/// The fake has no instance metadata, so the name of the VM is a setting.
async fn mock_server() -> (FakeImds, Config) {
    let imds = FakeImds::standing(reply(1, "")).await;
    let page = "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n";
    let html = [("Content-Type", "text/html; charset=utf-8")];
    imds.identity(Reply::http("404 NOT FOUND", &html, page));
    let mut config = settings(&imds.base());
    config.imds.vm_name = Some(Arc::from("vmss_vm1"));
    (imds, config)
}

fn counter(metrics: &Metrics, name: &str, event_type: &str, label: &str) -> Option<f64> {
    metrics.value(&format!(
        "azure_scheduled_events_{name}_total{{event_type=\"{event_type}\",{label}}}"
    ))
}

fn status_of(metrics: &Metrics, id: &str, status: &str) -> bool {
    metrics.0.lines().any(|line| {
        line.starts_with("azure_scheduled_event_status{")
            && line.contains(id)
            && line.contains(&format!("event_status=\"{status}\"}} 1"))
    })
}

#[tokio::test]
async fn each_event_of_the_mock_server_becomes_two() {
    let (imds, config) = mock_server().await;
    let exporter = Exporter::start(config);
    imds.now(reply(
        2,
        &event(SCHEDULED, "Redeploy", "Platform", "Scheduled"),
    ));
    let is_scheduled = |metrics: &Metrics| status_of(metrics, SCHEDULED, "Scheduled");
    let metrics = exporter.until("Scheduled", is_scheduled).await;
    assert!(metrics.0.contains("scope=\"self\""), "{}", metrics.0);
    imds.now(reply(3, &event(STARTED, "Redeploy", "Platform", "Started")));
    let metrics = exporter
        .until("Started", |metrics| status_of(metrics, STARTED, "Started"))
        .await;
    assert!(status_of(&metrics, SCHEDULED, "Ended"), "{}", metrics.0);
    // It was announced, if under another id.
    assert!(!metrics.0.contains("HardwareFailure"), "{}", metrics.0);
    imds.now(reply(4, ""));
    let metrics = exporter
        .until("the end", |metrics| status_of(metrics, STARTED, "Ended"))
        .await;
    let count = |name, label| counter(&metrics, name, "Redeploy", label);
    assert_eq!(count("observed", "scope=\"self\""), Some(2.0));
    assert_eq!(count("ended", "outcome=\"cancelled\""), Some(1.0));
    assert_eq!(count("ended", "outcome=\"completed\""), Some(1.0));
    exporter.stop().await;
}

#[tokio::test]
async fn mock_server_accepts_an_approval_and_starts_another_event() {
    let (imds, mut config) = mock_server().await;
    config.approvals = ApprovalPolicy {
        user_events: true,
        ..ApprovalPolicy::default()
    };
    let started = event(STARTED, "Reboot", "User", "Started");
    imds.approvals(reply(3, &started));
    let exporter = Exporter::start(config);
    imds.now(reply(2, &event(SCHEDULED, "Reboot", "User", "Scheduled")));
    imds.until_posts(1).await;
    imds.now(reply(3, &started));
    let metrics = exporter
        .until("Started", |metrics| status_of(metrics, STARTED, "Started"))
        .await;
    assert_eq!(
        counter(&metrics, "approvals", "Reboot", "result=\"approved\""),
        Some(1.0)
    );
    // The first event was approved, so its end is no cancellation; it left too soon to have run.
    let count = |label| counter(&metrics, "ended", "Reboot", label);
    assert_eq!(count("outcome=\"unknown\""), Some(1.0));
    assert_eq!(count("outcome=\"cancelled\""), Some(0.0));
    exporter.stop().await;
    let posts = imds.requests().into_iter().filter(|it| it.method == "POST");
    assert!(posts.clone().all(|it| it.body.contains(SCHEDULED)));
    assert_eq!(posts.count(), 1);
}
