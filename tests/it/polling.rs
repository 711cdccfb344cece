//! The exporter against a scripted IMDS, observed through its metrics.

use std::{process::Command, time::Duration};

use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{
    DEADLINE, FakeAlertmanager, FakeImds, Reply,
    collector::{Answer, FakeCollector},
    events::{document, event},
    exporter::{Exporter, Metrics, settings},
    process::{PROGRAM, Process, exporter},
    wait_until,
};

const NOTHING: &str = r#"{"DocumentIncarnation":9,"Events":[]}"#;
const TWO: &str = r#"{"DocumentIncarnation":8,"Events":[
{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Started","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"","Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":9},
{"EventId":"E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E","EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["web_0","web_1"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"User","DurationInSeconds":-1}]}"#;

const PREEMPT: &str = r#"{"DocumentIncarnation":9,"Events":[
{"EventId":"5C0A17F3-8B2E-4D96-A1F4-3E72B90D68C5","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"Platform","DurationInSeconds":-1}]}"#;

fn pending(metrics: &Metrics, event_type: &str) -> Option<f64> {
    let family = "azure_scheduled_events_pending";
    metrics.value(&format!(
        "{family}{{event_type=\"{event_type}\",scope=\"self\"}}"
    ))
}

fn has_both(metrics: &Metrics) -> bool {
    pending(metrics, "Freeze") == Some(1.0) && pending(metrics, "Reboot") == Some(1.0)
}

/// Two events, then the failure, which must be counted and must keep both events.
async fn check_events_are_kept(failure: Reply, reason: &str) {
    let shown: String = format!("{failure:?}").chars().take(300).collect();
    let imds = FakeImds::standing(Reply::http("200 OK", &[("ETag", "\"8\"")], TWO)).await;
    let mut settings = settings(&imds.base());
    settings.imds.timeout = Duration::from_secs(2);
    let exporter = Exporter::start(settings);
    let before = exporter.until("both events are shown", has_both).await;
    imds.now(failure);
    let after = exporter
        .until(&format!("{reason} is counted for {shown}"), |metrics| {
            metrics.failures(reason) > 0.0
        })
        .await;
    // Whether the events are still listed is not known.
    let is_open = |line: &&str| line.starts_with("azure_scheduled_event_open{");
    assert_eq!(before.of_events().into_iter().filter(is_open).count(), 2);
    let mut expected = before.of_events();
    expected.retain(|line| !is_open(line));
    assert_eq!(after.of_events(), expected, "{shown}");
    assert!(!after.is_up(), "{shown}");
    let last_success = "azure_scheduled_events_last_success_timestamp_seconds";
    assert!(
        after.value(last_success) >= before.value(last_success),
        "{shown}"
    );
    assert_eq!(exporter.get("/-/ready").await.0, 200, "{shown}");
    assert_eq!(exporter.get("/-/serving").await.0, 503, "{shown}");
    exporter.stop().await;
}

/// A failure of each reason; `imds_errors` has every cause of them.
#[tokio::test]
async fn failed_poll_keeps_known_events() {
    for (reply, reason) in [
        (Reply::http("400 Bad Request", &[], NOTHING), "status_4xx"),
        (Reply::error("410 Gone", "updating"), "gone"),
        (Reply::http("429 Slow", &[], NOTHING), "throttled"),
        (Reply::http("503 Busy", &[], NOTHING), "status_5xx"),
        (Reply::http("201 Created", &[], NOTHING), "shape"),
        (Reply::http("302 Found", &[], NOTHING), "redirect"),
        (Reply::ok("null"), "shape"),
        (Reply::ok(format!("{NOTHING}x")), "json"),
        (Reply::ok(""), "body"),
        (Reply::ok(NOTHING).without_last(1).then_close(), "body"),
        (Reply::raw("").then_close(), "connect"),
        (Reply::silence(), "timeout"),
    ] {
        check_events_are_kept(reply, reason).await;
    }
}

/// One on a new connection, and one for another version of instance metadata.
#[tokio::test]
async fn each_repeated_request_is_counted() {
    let imds = FakeImds::standing(Reply::ok(TWO)).await;
    let offer = r#"{"error":"Bad request.","newest-versions":["2025-04-07"]}"#;
    imds.identity(Reply::http("400 Bad Request", &[], offer));
    let exporter = Exporter::start(settings(&imds.base()));
    exporter.until("both events are shown", has_both).await;
    imds.now(Reply::raw("").then_close());
    let metrics = exporter
        .until("the kept connection was closed", |it| {
            it.failures("connect") > 0.0
        })
        .await;
    imds.now(Reply::ok(TWO));
    let total = "azure_scheduled_events_imds_requests_total";
    exporter
        .until("each request is counted", |metrics| {
            let sent = u32::try_from(imds.requests().len()).unwrap();
            metrics.value(total) == Some(sent.into())
        })
        .await;
    let polls = metrics.value("azure_scheduled_events_imds_request_duration_seconds_count");
    assert!(
        metrics.value(total) >= polls.map(|it| it + 2.0),
        "{metrics:?}"
    );
    imds.take_complaints();
    exporter.stop().await;
}

#[tokio::test]
async fn only_an_empty_array_ends_all_events() {
    let imds = FakeImds::standing(Reply::ok(TWO)).await;
    let exporter = Exporter::start(settings(&imds.base()));
    exporter.until("both events are shown", has_both).await;
    imds.now(Reply::ok(NOTHING));
    let over = exporter
        .until("nothing is pending", |metrics| {
            pending(metrics, "Freeze") == Some(0.0) && pending(metrics, "Reboot") == Some(0.0)
        })
        .await;
    let ended = |event_type: &str, outcome: &str| {
        let family = "azure_scheduled_events_ended_total";
        over.value(&format!(
            "{family}{{event_type=\"{event_type}\",outcome=\"{outcome}\"}}"
        ))
    };
    assert_eq!(ended("Freeze", "completed"), Some(1.0));
    assert_eq!(ended("Reboot", "cancelled"), Some(1.0));
    assert_eq!(
        over.value("azure_scheduled_events_document_incarnation"),
        Some(9.0)
    );
    exporter.stop().await;
}

#[tokio::test]
async fn a_success_after_a_failure_restores_up() {
    let imds = FakeImds::standing(Reply::ok(TWO)).await;
    let exporter = Exporter::start(settings(&imds.base()));
    let before = exporter.until("both events are shown", has_both).await;
    imds.now(Reply::error("500 Internal Server Error", "oops"));
    exporter
        .until("it is down", |metrics| !metrics.is_up())
        .await;
    imds.now(Reply::ok(TWO));
    let after = exporter.until("it is up again", Metrics::is_up).await;
    assert_eq!(after.of_events(), before.of_events());
    exporter.stop().await;
}

/// The agent of the Metadata Security Protocol refuses polls for a moment, for example while it restarts.
#[tokio::test]
async fn an_eviction_after_refused_polls_is_seen_before_it_starts() {
    for status in ["403 Forbidden", "421 Misdirected Request"] {
        let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
        let exporter = Exporter::start(settings(&imds.base()));
        exporter.until("it is up", Metrics::is_up).await;
        imds.now(Reply::http(status, &[], ""));
        let requested = imds.event_requests();
        imds.until_requests(requested + 2).await;
        imds.now(Reply::ok(PREEMPT));
        exporter
            .until("the eviction is shown", |metrics| {
                pending(metrics, "Preempt") == Some(1.0)
            })
            .await;
        exporter.stop().await;
    }
}

/// A reason may cover several statuses, each with its own explanation.
#[tokio::test]
async fn a_failure_with_another_status_is_logged() {
    let imds = FakeImds::standing(Reply::ok(TWO)).await;
    let mut exporter = Process::start([
        "--web.listen-address=127.0.0.1:0",
        "--imds.poll-interval=200ms",
        &format!("--imds.url={}", imds.base()),
    ]);
    exporter.says("polling started").await;
    imds.now(Reply::http("421 Misdirected Request", &[], ""));
    exporter.says("HTTP 421").await;
    let requested = imds.event_requests();
    imds.until_requests(requested + 1).await;
    imds.now(Reply::http("403 Forbidden", &[], ""));
    exporter.says("HTTP 403").await;
    let log = exporter.log();
    let failures = log.lines().filter(|line| line.contains("polling failed"));
    assert_eq!(failures.count(), 2, "{log}");
}

/// The first request may take two minutes, since it enables Scheduled Events.
#[tokio::test]
async fn a_request_after_a_timeout_has_a_longer_one_until_the_first_success() {
    let slow = Reply::ok(TWO).after(Duration::from_secs(1));
    let imds = FakeImds::standing(slow).await;
    let mut settings = settings(&imds.base());
    settings.imds.timeout = Duration::from_millis(300);
    let exporter = Exporter::start(settings);
    let first = exporter.until("both events are shown", has_both).await;
    assert!(first.failures("timeout") < 1.5, "{}", first.0);
    let later = exporter
        .until("a later request times out", |metrics| {
            metrics.failures("timeout") > 1.0
        })
        .await;
    assert!(has_both(&later) && !later.is_up());
    exporter.stop().await;
}

#[tokio::test]
async fn before_the_first_answer_no_pending_series_is_exposed() {
    let imds = FakeImds::standing(Reply::silence()).await;
    let exporter = Exporter::start(settings(&imds.base()));
    imds.until_requests(1).await;
    let metrics = exporter.metrics().await;
    assert!(!metrics.is_up());
    assert_eq!(
        pending(&metrics, "Freeze"),
        None,
        "0 would mean that none is pending"
    );
    assert_eq!(exporter.get("/-/healthy").await.0, 200);
    assert_eq!(exporter.get("/-/ready").await.0, 503);
    exporter.stop().await;
}

/// The fake fails the test if a second request is sent while one is in flight.
#[tokio::test]
async fn slow_responses_are_neither_concurrent_nor_reordered() {
    let slow = Duration::from_millis(500);
    let imds = FakeImds::standing(Reply::ok(TWO).after(slow)).await;
    let exporter = Exporter::start(settings(&imds.base()));
    exporter.until("both events are shown", has_both).await;
    imds.until_requests(4).await;
    imds.now(Reply::ok(NOTHING));
    exporter
        .until("nothing is pending", |metrics| {
            pending(metrics, "Freeze") == Some(0.0)
        })
        .await;
    let requested = imds.event_requests();
    imds.until_requests(requested + 4).await;
    assert_eq!(
        pending(&exporter.metrics().await, "Freeze"),
        Some(0.0),
        "an ended event has returned"
    );
    assert_eq!(imds.connections(), 1);
    exporter.stop().await;
}

/// The event is days ahead: polls alone measure.
#[tokio::test]
async fn a_slow_response_is_no_interruption_of_the_vm() {
    let reply = document(1, [event(&json!({}))]).after(Duration::from_secs(2));
    let imds = FakeImds::standing(reply).await;
    let exporter = Exporter::start(settings(&imds.base()));
    imds.until_requests(3).await;
    let shown = |metrics: &Metrics| pending(metrics, "Freeze") == Some(1.0);
    let metrics = exporter.until("the event is shown", shown).await;
    let interruption = "observed_interruption_seconds_count";
    assert!(!metrics.0.contains(interruption), "{}", metrics.0);
    exporter.stop().await;
}

#[tokio::test]
async fn scrapes_are_answered_while_a_request_is_outstanding() {
    let imds = FakeImds::standing(Reply::ok(TWO)).await;
    let exporter = Exporter::start(settings(&imds.base()));
    exporter.until("both events are shown", has_both).await;
    imds.now(Reply::silence());
    let requested = imds.event_requests();
    imds.until_requests(requested + 1).await;
    for _ in 0..20 {
        assert!(has_both(&exporter.metrics().await));
    }
    assert_eq!(imds.event_requests(), requested + 1);
    assert_eq!(imds.connections(), 1);
    exporter.stop().await;
}

const INFORMATIONAL: &str = "HTTP/1.1 102 Processing\r\n\r\n";

/// They keep a client busy until its timeout. In the build of a test, one turn of the client takes seconds.
#[tokio::test]
async fn informational_responses_of_a_receiver_without_end_delay_neither_polls_nor_the_end() {
    let endless = || Reply::raw(INFORMATIONAL.repeat(1_000)).then_repeat();
    let alertmanager = FakeAlertmanager::standing(endless()).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::Reply(endless()));
    let alerts = || alertmanager.requests().len();
    let spans = || collector.received().len();
    let url = format!("--alertmanager.url={}", alertmanager.base());
    let endpoint = Some(collector.base());
    let (alerts, spans): (&dyn Fn() -> usize, &dyn Fn() -> usize) = (&alerts, &spans);
    for (flag, endpoint, requests, failed) in [
        (&*url, None, alerts, "alert push failed"),
        ("--log.level=info", endpoint, spans, "trace export failed"),
    ] {
        let imds = FakeImds::standing(Reply::ok(TWO)).await;
        let mut command = exporter(&imds);
        command.arg(flag);
        command.envs(endpoint.map(|url| ("OTEL_EXPORTER_OTLP_ENDPOINT", url)));
        let exporter = Process::start_as(&mut command);
        wait_until(DEADLINE, "a request", || (requests() > 0).then_some(())).await;
        assert_polls_until(&exporter, failed, &imds).await;
        exporter.signal("TERM");
        let ended = exporter.end().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

/// At least five polls, until a request that is in flight has failed.
async fn assert_polls_until(exporter: &Process, failed: &str, imds: &FakeImds) {
    let requested = imds.event_requests();
    let polls = wait_until(DEADLINE, "five polls, or the end of the request", || {
        let polls = imds.event_requests() - requested;
        let is_over = exporter.log().contains(failed);
        (polls >= 5 || is_over).then_some(polls)
    })
    .await;
    assert!(polls >= 5, "{polls} polls during the request");
}

/// Runs the binary, since a test cannot change its own environment.
#[tokio::test]
async fn proxy_variables_are_ignored() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy_url = format!("http://{}", proxy.local_addr().unwrap());
    let imds = FakeImds::standing(Reply::ok(TWO)).await;
    let base = imds.base();
    let listed = tokio::task::spawn_blocking(move || {
        let mut list = Command::new(PROGRAM);
        list.args(["list", "--output=json", "--imds.url", &base]);
        for name in [
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
            "all_proxy",
            "HTTPS_PROXY",
        ] {
            list.env(name, &proxy_url);
        }
        list.env_remove("NO_PROXY").env_remove("no_proxy");
        list.output().unwrap()
    });
    let listed = tokio::time::timeout(DEADLINE, listed)
        .await
        .unwrap()
        .unwrap();
    let stderr = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{stderr}");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["events"].as_array().unwrap().len(), 2);
    let connected = tokio::time::timeout(Duration::from_millis(50), proxy.accept()).await;
    assert!(connected.is_err(), "the proxy was used");
}
