//! The identity of this VM, from instance metadata.

use std::{process::Command, time::Duration};

use azure_scheduled_events_exporter::{FailureReason, time::Clock};
use tokio::time::{Instant, sleep};

use crate::support::{
    DEADLINE, FakeImds, Reply, client_of,
    collector::{FakeCollector, Received},
    exporter::{Exporter, Metrics, settings},
    process::{PROGRAM, Process, page},
};

const OWN_FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["Role_IN_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;

#[tokio::test]
async fn identity_is_requested_and_read() {
    let imds = FakeImds::scripted([]).await;
    let mut client = client_of(&imds.base());
    let identity = client.identify(Clock::start()).await.unwrap();
    assert_eq!(identity.name, "web_0");
    assert_eq!(identity.scale_set, "web");
    assert_eq!(imds.requests().len(), 1);
}

#[tokio::test]
async fn responses_without_a_name_are_errors() {
    let silence = Reply::silence();
    for (reply, reason) in [
        (
            Reply::error("404 Not Found", "classic"),
            FailureReason::Status4xx,
        ),
        (
            Reply::error("400 Bad Request", "classic"),
            FailureReason::Status4xx,
        ),
        (
            Reply::error("429 Too Many Requests", "slow"),
            FailureReason::Throttled,
        ),
        (Reply::ok("{}"), FailureReason::Shape),
        (Reply::ok(r#"{"name":""}"#), FailureReason::Shape),
        (Reply::ok("<html>"), FailureReason::Json),
        (Reply::ok(""), FailureReason::Json),
        (Reply::ok(" ".repeat(5 << 20)), FailureReason::Body),
        (silence, FailureReason::Timeout),
    ] {
        let imds = FakeImds::scripted([]).await;
        imds.identity(reply);
        let mut client = client_of(&imds.base());
        let error = client.identify(Clock::start()).await.unwrap_err();
        assert_eq!(error.reason, reason, "{error}");
    }
}

/// The versions of instance metadata are not those of scheduled events.
#[tokio::test]
async fn the_newest_offered_version_of_instance_metadata_is_requested_instead_of_a_refused_one() {
    let imds = FakeImds::scripted([]).await;
    let mut client = client_of(&imds.base());
    let clock = Clock::start();
    imds.identity(Reply::error("400 Bad Request", "api-version is invalid"));
    let error = client.identify(clock).await.unwrap_err();
    assert!(error.message.contains("2021-02-01"), "{error}");
    assert!(!error.message.contains("classic"), "{error}");
    let offer = r#"{"error":"Bad request.","newest-versions":["2024-03-15","2025-04-07"]}"#;
    imds.identity(Reply::http("400 Bad Request", &[], offer));
    let error = client.identify(clock).await.unwrap_err();
    assert!(error.message.contains("api-version 2025-04-07"), "{error}");
    imds.identity(Reply::ok(r#"{"name":"web_0"}"#));
    client.identify(clock).await.unwrap();
    let versions = imds.requests().into_iter().map(|request| {
        let (_, query) = request.target.split_once("?api-version=").unwrap();
        query.to_owned()
    });
    let (first, offered) = ("2021-02-01&format=json", "2025-04-07&format=json");
    assert_eq!(
        versions.collect::<Vec<_>>(),
        [first, first, offered, offered]
    );
    imds.take_complaints();
}

/// Each cause of a missing name is logged, and shown on the page and in the JSON.
#[tokio::test]
async fn the_cause_of_a_missing_name_is_named() {
    let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
    imds.identity(Reply::http("503 Busy", &[], ""));
    let url = format!("--imds.url={}", imds.base());
    let mut exporter = Process::start(["--web.listen-address=127.0.0.1:0", &url]);
    let address = exporter.address().await;
    for (status, cause) in [("503 Busy", "HTTP 503"), ("403 Forbidden", "HTTP 403")] {
        imds.identity(Reply::http(status, &[], ""));
        let line = exporter.says(&format!("error=\"{cause}")).await;
        assert!(line.contains("VM name unknown"), "{line}");
        let shown = page(&address, "/").await.unwrap();
        assert!(
            shown.contains("name-unknown") && shown.contains(cause),
            "{shown}"
        );
        let json = page(&address, "/api/v1/events").await.unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let error = json["vm"]["metadata_error"].as_str().unwrap();
        assert!(error.starts_with(cause), "{error}");
    }
    imds.identity(Reply::ok(r#"{"name":"web_0"}"#));
    exporter.says("VM identity resolved").await;
    assert!(!page(&address, "/").await.unwrap().contains("name-unknown"));
}

#[tokio::test]
async fn partial_instance_metadata_are_requested_again_and_completed() {
    let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
    imds.identity(Reply::ok(r#"{"name":"web_0","location":"westeurope"}"#));
    let mut settings = settings(&imds.base());
    settings.imds.vm_name = None;
    settings.imds.identity_timing.partial_interval = Duration::from_millis(10);
    let exporter = Exporter::start(settings);
    let has = |words: &'static str| move |metrics: &Metrics| metrics.0.contains(words);
    exporter
        .until("partial", has("vm_size=\"\",location=\"westeurope\""))
        .await;
    imds.identity(Reply::ok(r#"{"name":"web_0","vmSize":"D4"}"#));
    let both = has("vm_size=\"D4\",location=\"westeurope\"");
    exporter.until("what was known stays", both).await;
    exporter.stop().await;
}

#[tokio::test]
async fn spans_wait_for_the_identity_and_are_sent_once_it_is_known() {
    let freeze = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;
    let imds = FakeImds::standing(Reply::ok(freeze)).await;
    let compute = Reply::ok(r#"{"name":"web_0"}"#);
    imds.identity(Reply::error("503 Service Unavailable", "not yet"));
    let collector = FakeCollector::scripted([]).await;
    let exporter = Process::start_as(
        Command::new(PROGRAM)
            .args([
                "--web.listen-address=127.0.0.1:0",
                "--imds.poll-interval=200ms",
                "--imds.timeout=10m",
            ])
            .arg(format!("--imds.url={}", imds.base()))
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.base()),
    );
    imds.until_requests(2).await;
    // The next identity request is slow, and no later events request is answered.
    let requested = identities(&imds);
    imds.identity(compute.after(Duration::from_secs(1)));
    let deadline = Instant::now() + DEADLINE;
    while identities(&imds) == requested {
        assert!(Instant::now() < deadline, "no second identity request");
        sleep(Duration::from_millis(5)).await;
    }
    imds.now(Reply::silence());
    while collector.received().len() < 2 {
        assert!(Instant::now() < deadline, "not sent: {}", exporter.log());
        sleep(Duration::from_millis(5)).await;
    }
    let received = collector.received();
    let spans = received.iter().flat_map(Received::spans);
    let names: Vec<_> = spans.map(|span| span.name.clone()).collect();
    assert_eq!(names, ["scheduled_event announced"]);
    let records = received.iter().flat_map(Received::log_records);
    let names: Vec<_> = records.map(|record| record.event_name.clone()).collect();
    assert_eq!(names, ["azure.scheduled_event.announced"]);
}

/// A classic cloud service has no instance metadata; the Metadata Security Protocol may refuse them alone.
#[tokio::test]
async fn instance_metadata_only_enrich_where_the_vm_name_is_configured() {
    for reply in [
        Reply::error("404 Not Found", "no compute"),
        Reply::error("400 Bad Request", "no compute"),
        Reply::http("403 Forbidden", &[], ""),
        Reply::error("500 Internal Server Error", "oops"),
        Reply::ok("{}"),
    ] {
        let shown = format!("{reply:?}");
        let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
        imds.identity(reply);
        let mut exporter = Process::start([
            "--web.listen-address=127.0.0.1:0",
            "--imds.poll-interval=200ms",
            "--vm.name=Role_IN_0",
            &format!("--imds.url={}", imds.base()),
        ]);
        let address = exporter.address().await;
        let line = exporter.says("instance metadata unavailable").await;
        assert!(line.contains("level=info"), "{shown}: {line}");
        imds.until_requests(3).await;
        let metrics = Metrics(page(&address, "/metrics").await.unwrap());
        assert!(metrics.is_up(), "{shown}: {}", metrics.0);
        let failures = metrics
            .0
            .lines()
            .filter(|line| line.contains("imds_request_failures_total{") && !line.ends_with(" 0"));
        assert_eq!(failures.count(), 0, "{shown}: {}", metrics.0);
        let own = "azure_scheduled_events_pending{event_type=\"Freeze\",scope=\"self\"}";
        assert_eq!(metrics.value(own), Some(1.0), "{shown}");
        let log = exporter.log();
        assert!(!log.contains("VM name unknown"), "{shown}: {log}");
        assert!(!log.contains("polling failed"), "{shown}: {log}");
    }
}

#[tokio::test]
async fn a_vm_without_instance_metadata_is_pointed_to_the_flag_of_its_name() {
    let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
    imds.identity(Reply::error("404 Not Found", "no compute"));
    let url = format!("--imds.url={}", imds.base());
    let mut exporter = Process::start(["--web.listen-address=127.0.0.1:0", &url]);
    let line = exporter.says("VM name unknown").await;
    for words in [
        "level=warn",
        "--vm.name",
        "classic cloud service",
        "Role_IN_0",
    ] {
        assert!(line.contains(words), "{line}");
    }
}

/// It is announced as one that may name this VM.
#[tokio::test]
async fn an_event_that_turns_out_to_be_of_another_vm_is_logged_so() {
    let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
    imds.identity(Reply::error("500 Internal Server Error", "no"));
    let url = format!("--imds.url={}", imds.base());
    let mut exporter = Process::start(["--web.listen-address=127.0.0.1:0", &url]);
    let line = exporter.says("transition=announced").await;
    assert!(line.contains("scope=unknown"), "{line}");
    imds.identity(Reply::ok(r#"{"name":"Role_IN_1"}"#));
    let line = exporter.says("transition=amended").await;
    assert!(line.contains("scope=other"), "{line}");
}

fn identities(imds: &FakeImds) -> usize {
    let requests = imds.requests();
    let is_identity = |target: &str| target.contains("/metadata/instance/compute");
    requests.iter().filter(|it| is_identity(&it.target)).count()
}
