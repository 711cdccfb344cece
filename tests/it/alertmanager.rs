//! The Alertmanager push against scripted Alertmanagers.

use std::{fs, process::Command, time::Duration};

use azure_scheduled_events_exporter::{
    alertmanager::{Credentials, PushTiming, Target},
    config::Config,
    time::Timestamp,
};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    DEADLINE, FakeAlertmanager, FakeImds, Pki, RefusingPort, Reply,
    events::{self, event, numbered_id},
    exporter::{Exporter, Metrics, settings},
    process::{PROGRAM, Process, exporter, page},
};

/// Short intervals, except that unchanged alerts are not sent again during a test.
const TIMING: PushTiming = PushTiming {
    resend_interval: Duration::from_mins(5),
    retry_interval: Duration::from_millis(50),
    max_retry_interval: Duration::from_secs(30),
    push_timeout: DEADLINE,
};
const NOTHING: &str = r#"{"DocumentIncarnation":9,"Events":[]}"#;
const ID: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";

/// One event that is far away.
fn document(event_type: &str, resource: &str) -> Reply {
    let members = json!({ "EventType": event_type, "Resources": [resource] });
    events::document(8, [event(&members)])
}

fn preempt() -> Reply {
    document("Preempt", "web_0")
}

fn pushing(imds: &FakeImds, bases: &[String]) -> Config {
    let mut settings = settings(&imds.base());
    let targets = bases.iter().map(|base| target(base, TIMING));
    settings.alertmanagers = targets.collect();
    settings
}

/// An exporter that has pushed the Preempt.
async fn pushed() -> (FakeImds, FakeAlertmanager, Exporter) {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager.until_pushed().await;
    (imds, alertmanager, exporter)
}

fn target(base: &str, timing: PushTiming) -> Target {
    let mut target = Target::new(base).unwrap();
    target.timing = timing;
    target
}

fn push_counter(metrics: &Metrics, name: &str) -> f64 {
    let family = "azure_scheduled_events_alert_push";
    metrics.value(&format!("{family}{name}_total")).unwrap()
}

#[tokio::test]
async fn event_is_pushed_when_first_seen_and_when_it_has_ended() {
    let (imds, alertmanager, exporter) = pushed().await;
    let request = &alertmanager.requests()[0];
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("POST", "/api/v2/alerts")
    );
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("authorization"), None);
    let alert = &alertmanager.alerts()[0];
    let labels = json!({
        "alertname": "AzureScheduledEventPreempt", "severity": "critical",
        "event_id": ID, "event_type": "Preempt", "event_source": "Platform",
    });
    assert_eq!(alert.labels, labels);
    assert!(!alert.is_end(), "{alert:?}");
    imds.now(Reply::ok(NOTHING));
    alertmanager
        .until("the end is pushed", |it| !it.ends().is_empty())
        .await;
    let end = alertmanager.ends().remove(0);
    assert_eq!(end.labels, labels);
    let ahead = Timestamp::parse(&end.ends_at).unwrap();
    let ahead = ahead.saturating_since(Timestamp::now());
    assert!((100..=150).contains(&ahead.as_secs()), "{end:?}");
    imds.until_requests(imds.event_requests() + 10).await;
    assert_eq!(alertmanager.requests().len(), 2, "each is pushed once");
    let metrics = exporter
        .until("both pushes are counted", |metrics| {
            push_counter(metrics, "es") >= 2.0
        })
        .await;
    assert!(push_counter(&metrics, "_failures") <= 0.0);
    exporter.stop().await;
}

/// A document with this number of events of this VM.
fn many(events: usize) -> Reply {
    let event = |number| event(&json!({ "EventId": numbered_id(number) }));
    events::document(8, (0..events).map(event))
}

#[tokio::test]
async fn many_alerts_are_pushed_in_bounded_requests_and_a_new_one_in_the_first() {
    let imds = FakeImds::standing(many(700)).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("all events are pushed", |it| it.alerts().len() >= 700)
        .await;
    imds.now(many(701));
    alertmanager
        .until("all are pushed again", |it| it.requests().len() >= 4)
        .await;
    let requests = alertmanager.requests();
    let sizes = requests
        .iter()
        .map(|request| request.body.matches("\"endsAt\"").count());
    let first_ids: Vec<_> = requests
        .iter()
        .map(|request| request.body.split("event_id").nth(1).unwrap().get(3..11))
        .collect();
    assert_eq!(
        sizes.collect::<Vec<_>>(),
        [500, 200, 500, 201],
        "{first_ids:?}"
    );
    assert!(requests[2].body.contains("000002BC-"), "the new one");
    exporter.stop().await;
}

#[tokio::test]
async fn unreachable_hanging_and_failing_alertmanagers_do_not_delay_a_working_one() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let closed = RefusingPort::reserve();
    let silent = FakeAlertmanager::standing(Reply::silence()).await;
    let refusing =
        FakeAlertmanager::standing(Reply::error("500 Internal Server Error", "no")).await;
    let working = FakeAlertmanager::scripted([]).await;
    let bases = [
        closed.base(),
        silent.base(),
        refusing.base(),
        working.base(),
    ];
    let mut settings = pushing(&imds, &bases);
    settings.alertmanagers[1].timing.push_timeout = Duration::from_secs(2);
    let exporter = Exporter::start(settings);
    exporter.until("it polls", Metrics::is_up).await;
    imds.now(preempt());
    working.until_pushed().await;
    exporter
        .until("the others are retried", |metrics| {
            push_counter(metrics, "_failures") >= 4.0
        })
        .await;
    assert!(exporter.metrics().await.is_up(), "polling continues");
    exporter.stop().await;
}

#[tokio::test]
async fn failed_push_is_retried_until_it_succeeds() {
    let imds = FakeImds::standing(preempt()).await;
    let error = Reply::error("503 Service Unavailable", "starting");
    let alertmanager = FakeAlertmanager::scripted([error.clone(), error]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the third push has arrived", |it| it.requests().len() == 3)
        .await;
    let polled = imds.event_requests();
    imds.until_requests(polled + 10).await;
    assert_eq!(
        alertmanager.requests().len(),
        3,
        "an accepted push is not repeated"
    );
    assert_eq!(
        alertmanager.alerts()[0].labels,
        alertmanager.alerts()[2].labels
    );
    let metrics = exporter
        .until("all pushes are counted", |metrics| {
            push_counter(metrics, "es") >= 3.0
        })
        .await;
    assert!((push_counter(&metrics, "_failures") - 2.0).abs() < f64::EPSILON);
    exporter.stop().await;
}

#[tokio::test]
async fn a_new_alert_is_pushed_once_while_a_failed_push_waits_for_its_next_attempt() {
    let imds = FakeImds::standing(preempt()).await;
    let error = Reply::error("503 Service Unavailable", "starting");
    let alertmanager = FakeAlertmanager::standing(error).await;
    let timing = PushTiming {
        retry_interval: Duration::from_mins(5),
        max_retry_interval: Duration::from_mins(5),
        ..TIMING
    };
    let mut settings = pushing(&imds, &[]);
    settings.alertmanagers = vec![target(&alertmanager.base(), timing)];
    let exporter = Exporter::start(settings);
    alertmanager
        .until("the event is pushed", |it| it.requests().len() == 1)
        .await;
    imds.now(document("Terminate", "web_0"));
    alertmanager
        .until("the new alert is pushed", |it| it.requests().len() == 2)
        .await;
    imds.until_requests(imds.event_requests() + 10).await;
    assert_eq!(alertmanager.requests().len(), 2);
    let types: Vec<_> = alertmanager
        .alerts()
        .iter()
        .map(|alert| alert.labels["event_type"].clone())
        .collect();
    assert_eq!(types, ["Preempt", "Terminate", "Preempt"], "all of them");
    assert!(alertmanager.alerts()[2].is_end(), "it was replaced");
    exporter.stop().await;
}

#[tokio::test]
async fn retry_after_of_an_alertmanager_is_honoured_by_new_alerts_too() {
    let imds = FakeImds::standing(preempt()).await;
    let later = [("Retry-After", "20")];
    let error = Reply::http("503 Service Unavailable", &later, "");
    let alertmanager = FakeAlertmanager::scripted([error]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is pushed", |it| !it.requests().is_empty())
        .await;
    imds.now(document("Terminate", "web_0"));
    imds.until_requests(imds.event_requests() + 10).await;
    assert_eq!(alertmanager.requests().len(), 1);
    exporter.stop().await;
    assert_eq!(
        alertmanager.requests().len(),
        2,
        "the last attempt at the end"
    );
}

#[expect(clippy::disallowed_methods, reason = "a scratch file")]
fn write(path: &std::path::Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn https_trusts_the_systems_authorities_by_default() {
    let pki = Pki::new();
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let address = alertmanager.address();
    let proxy = pki.tls_proxy("127.0.0.1", false, address).await;
    let mut command = exporter(&imds);
    command
        .arg(format!("--alertmanager.url={}", proxy.base()))
        .env("SSL_CERT_FILE", pki.path("ca.pem"))
        .env_remove("SSL_CERT_DIR");
    let _exporter = Process::start_as(&mut command);
    alertmanager.until_pushed().await;
}

#[tokio::test]
async fn neither_a_failed_poll_nor_shutdown_resolves_an_alert() {
    let (imds, alertmanager, exporter) = pushed().await;
    imds.now(Reply::error("500 Internal Server Error", "no"));
    exporter
        .until("polls fail", |metrics| {
            metrics.failures("status_5xx") >= 2.0
        })
        .await;
    exporter.stop().await;
    let ends = alertmanager.ends();
    assert!(ends.is_empty(), "{ends:#?}");
}

#[tokio::test]
async fn unsent_end_is_pushed_on_shutdown() {
    let (imds, alertmanager, exporter) = pushed().await;
    alertmanager.now(Reply::error("503 Service Unavailable", "down"));
    imds.now(Reply::ok(NOTHING));
    exporter
        .until("the end is rejected", |metrics| {
            push_counter(metrics, "_failures") >= 1.0
        })
        .await;
    alertmanager.now(Reply::ok(""));
    exporter.stop().await;
    assert!(alertmanager.alerts().last().unwrap().is_end());
}

#[tokio::test]
async fn each_alertmanager_is_asked_for_its_status_at_the_start_which_delays_no_push() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let working = FakeAlertmanager::scripted([]).await;
    let wrong = FakeAlertmanager::standing(Reply::error("404 Not Found", "no")).await;
    wrong.status(Reply::error("404 Not Found", "no"));
    let late = FakeAlertmanager::scripted([]).await;
    late.status(Reply::error("503 Service Unavailable", "starting"));
    // As a proxy that lets only pushes pass.
    let closed = FakeAlertmanager::scripted([]).await;
    closed.status(Reply::error("403 Forbidden", "no"));
    let silent = FakeAlertmanager::scripted([]).await;
    silent.status(Reply::silence());
    let all = [&working, &wrong, &late, &closed, &silent];
    let bases = all.map(FakeAlertmanager::base);
    let exporter = Exporter::start(pushing(&imds, &bases));
    let up = |metrics: &Metrics, base: &str| {
        let series = format!("azure_scheduled_events_receiver_up{{receiver=\"{base}\"}}");
        metrics.value(&series).map(|value| value > 0.5)
    };
    exporter
        .until("all are asked", |metrics| {
            let states = bases.each_ref().map(|base| up(metrics, base));
            states == [Some(true), Some(false), Some(false), Some(true), None]
        })
        .await;
    let request = &working.status_requests()[0];
    assert_eq!(request.target, "/api/v2/status");
    assert_eq!(closed.requests()[0].body, "[]");
    // A push is an answer, too.
    wrong.now(Reply::ok(""));
    imds.now(preempt());
    exporter
        .until("all accept a request", |metrics| {
            bases.iter().all(|base| up(metrics, base) == Some(true))
        })
        .await;
    assert_eq!(working.status_requests().len(), 1);
    exporter.stop().await;
}

#[tokio::test]
async fn changes_of_each_poll_are_pushed_once_a_second() {
    let (imds, alertmanager, exporter) = pushed().await;
    let begin = tokio::time::Instant::now();
    for number in 0..15 {
        let event = event(&json!({ "EventId": numbered_id(number) }));
        imds.now(events::document(9, [event]));
        imds.until_requests(imds.event_requests() + 1).await;
    }
    let pushes = alertmanager.requests().len() as u64;
    assert!(pushes <= begin.elapsed().as_secs() + 2, "{pushes}");
    exporter.stop().await;
    let last = alertmanager.alerts().pop().unwrap();
    assert_eq!(last.labels["event_id"], ID, "the end that came first");
}

#[tokio::test]
async fn alerts_are_sent_again_if_the_clock_of_the_answer_is_another_one() {
    let now = Timestamp::now();
    for (date, difference, minutes) in [
        (now.after(Duration::from_mins(20)), "ahead\"", 34..=35),
        (now.before(Duration::from_hours(1)), "behind\"", 14..=15),
        (now.before(Duration::from_secs(50)), "", 14..=15),
    ] {
        let imds = FakeImds::standing(preempt()).await;
        let headers = [("Date", &*date.rfc1123())];
        let reply = Reply::http("200 OK", &headers, "");
        let alertmanager = FakeAlertmanager::standing(reply).await;
        let mut command = exporter(&imds);
        command.arg(format!("--alertmanager.url={}", alertmanager.base()));
        let mut exporter = Process::start_as(&mut command);
        alertmanager.until_pushed().await;
        if difference.is_empty() {
            imds.until_requests(imds.event_requests() + 10).await;
            assert_eq!(alertmanager.requests().len(), 1);
            assert!(!exporter.log().contains("clock of alertmanager"));
            continue;
        }
        let line = exporter.says("clock of alertmanager differs").await;
        assert!(line.contains(difference), "{line}");
        let is_again = |it: &FakeAlertmanager| it.requests().len() == 2;
        alertmanager.until("it is sent again", is_again).await;
        let alert = alertmanager.alerts().pop().unwrap();
        let left = Timestamp::parse(&alert.ends_at).unwrap();
        let left = left.saturating_since(Timestamp::now()).as_secs() / 60;
        assert!(minutes.contains(&left), "{left}");
        assert_eq!(exporter.log().matches("clock of alertmanager").count(), 1);
    }
}

/// The name is in `/etc/hosts` of a mount namespace of the exporter, which needs root.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn each_address_of_a_name_gets_the_alert_and_the_log_names_one_that_is_away() {
    let imds = FakeImds::standing(preempt()).await;
    let first = FakeAlertmanager::scripted([]).await;
    let port = first.address().port();
    let second = FakeAlertmanager::at(&format!("127.0.0.4:{port}")).await;
    let third = FakeAlertmanager::at(&format!("127.0.0.5:{port}")).await;
    let folder = TempDir::new().unwrap();
    let hosts = folder.path().join("hosts");
    let of = |addresses: &[&str]| -> String { addresses.join(" am.test\n") + " am.test\n" };
    // Nothing listens on two of them.
    write(&hosts, &of(&["::1", "127.0.0.1", "127.0.0.3", "127.0.0.4"]));
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
        ])
        .arg(&hosts)
        .arg(PROGRAM)
        .args(exporter(&imds).get_args())
        .arg(format!("--alertmanager.url=http://am.test:{port}"));
    let mut exporter = Process::start_as(&mut command);
    first.until_pushed().await;
    second.until_pushed().await;
    let line = exporter.says("alert push failed").await;
    assert!(line.contains("address=127.0.0.3 "), "{line}");
    assert!(!exporter.log().contains("::1"), "{}", exporter.log());
    let address = exporter.address().await;
    let metrics = page(&address, "/metrics").await.unwrap();
    let up = format!("azure_scheduled_events_receiver_up{{receiver=\"http://am.test:{port}\"}} 1");
    assert!(metrics.contains(&up), "{metrics}");
    write(&hosts, &of(&["127.0.0.5"]));
    third.until_pushed().await;
}

fn found(location: &str) -> Reply {
    Reply::http("302 Found", &[("Location", location)], "")
}

#[tokio::test]
async fn neither_a_redirect_nor_a_web_page_is_an_answer_and_the_log_says_what_to_do() {
    let html = [("Content-Type", "text/html")];
    let page = "<!DOCTYPE html><title>Sign in</title>";
    for (reply, expected) in [
        (
            found("https://me:hunter2@login.example/a?token=x"),
            "HTTP 302 Found to https://login.example; redirects are not followed",
        ),
        (
            found("/login?token=hunter2"),
            "HTTP 302 Found to http://127.0.0.1:",
        ),
        (
            Reply::http("200 OK", &html, page),
            "a web page is no answer of an Alertmanager",
        ),
        (
            Reply::http("202 Accepted", &[], format!("\r\n {page}")),
            "a web page is no answer",
        ),
        (
            Reply::error("404 Not Found", "no"),
            "the path that stands before /api/v2",
        ),
        (
            Reply::error("401 Unauthorized", "no"),
            "check --alertmanager.basic-auth-file",
        ),
    ] {
        let imds = FakeImds::standing(preempt()).await;
        let alertmanager = FakeAlertmanager::standing(reply.clone()).await;
        alertmanager.status(reply);
        let mut command = exporter(&imds);
        let mut exporter =
            Process::start_as(command.arg(format!("--alertmanager.url={}", alertmanager.base())));
        for line in ["alertmanager does not answer", "alert push failed"] {
            let line = exporter.says(line).await;
            assert!(line.contains(expected), "{line}");
        }
        alertmanager
            .until("the push is repeated", |it| it.requests().len() > 1)
            .await;
        assert!(!exporter.log().contains("hunter2"), "{}", exporter.log());
    }
}

#[tokio::test]
async fn requests_have_the_given_headers_path_and_client_certificate() {
    let pki = Pki::new();
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let proxy = pki
        .tls_proxy("127.0.0.1", true, alertmanager.address())
        .await;
    let mut command = exporter(&imds);
    command
        .arg(format!(
            "--alertmanager.url={}/api/prom/alertmanager",
            proxy.base()
        ))
        .arg(format!("--alertmanager.ca-file={}", pki.path("ca.pem")))
        .arg(format!(
            "--alertmanager.cert-file={}",
            pki.path("client.pem")
        ))
        .arg(format!(
            "--alertmanager.key-file={}",
            pki.path("client-key.pem")
        ))
        .args([
            "--alertmanager.header=X-Scope-OrgID: team:1",
            "--alertmanager.header",
            "x-b:2",
        ]);
    let _exporter = Process::start_as(&mut command);
    alertmanager.until_pushed().await;
    let (push, status) = (
        &alertmanager.requests()[0],
        &alertmanager.status_requests()[0],
    );
    assert_eq!(push.target, "/api/prom/alertmanager/api/v2/alerts");
    assert_eq!(status.target, "/api/prom/alertmanager/api/v2/status");
    for request in [push, status] {
        assert_eq!(request.header("x-scope-orgid"), Some("team:1"));
        assert_eq!(request.header("x-b"), Some("2"));
    }
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_trusted_if_it_is_given_and_named_if_not() {
    let pki = Pki::new();
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let proxy = pki.self_signed_proxy(alertmanager.address()).await;
    let url = format!("--alertmanager.url={}", proxy.base());
    let with = |file: &str| format!("--alertmanager.ca-file={}", pki.path(file));
    let mut refusing = Process::start_as(exporter(&imds).args([&url, &with("ca.pem")]));
    let line = refusing.says("alertmanager does not answer").await;
    assert!(line.contains("is self-signed: give its own file"), "{line}");
    assert!(alertmanager.status_requests().is_empty());
    let _exporter = Process::start_as(exporter(&imds).args([&url, &with("self-signed.pem")]));
    alertmanager.until_pushed().await;
}

#[cfg(unix)]
#[tokio::test]
async fn password_is_read_for_each_push_and_a_fifo_in_its_place_stops_them_only_while_it_is_there()
{
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("password");
    // A byte order mark is no part of it.
    write(&path, "\u{feff}me:secret\r\n");
    let mut settings = pushing(&imds, &[]);
    let mut target = target(&alertmanager.base(), TIMING);
    target.credentials = Some(Credentials::Basic(path.clone()));
    settings.alertmanagers = vec![target];
    let exporter = Exporter::start(settings);
    alertmanager
        .until("it is asked", |it| !it.status_requests().is_empty())
        .await;
    fs::remove_file(&path).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    imds.now(preempt());
    exporter
        .until("pushes fail", |metrics| {
            push_counter(metrics, "_failures") >= 2.0
        })
        .await;
    fs::remove_file(&path).unwrap();
    write(&path, "me:other");
    alertmanager.until_pushed().await;
    let status = &alertmanager.status_requests()[0];
    let push = &alertmanager.requests()[0];
    let headers = [status, push].map(|it| it.header("authorization"));
    let expected = ["Basic bWU6c2VjcmV0", "Basic bWU6b3RoZXI="];
    assert_eq!(headers, expected.map(Some));
    exporter.stop().await;
}

#[tokio::test]
async fn proxy_is_used_and_named_unless_no_proxy_excepts_the_address() {
    let imds = FakeImds::standing(preempt()).await;
    let refusing = RefusingPort::reserve();
    let proxy = refusing.base().replace("http://", "http://me:hunter2@");
    for exceptions in ["127.0.0.0/8", "https://x/, 127.0.0.1", "*"] {
        let alertmanager = FakeAlertmanager::scripted([]).await;
        let mut command = exporter(&imds);
        command
            .arg(format!("--alertmanager.url={}", alertmanager.base()))
            .env("ALL_PROXY", &proxy)
            .env("NO_PROXY", exceptions);
        let _exporter = Process::start_as(&mut command);
        alertmanager
            .until(exceptions, |it| !it.alerts().is_empty())
            .await;
    }
    let pki = Pki::new();
    let forbidding = FakeAlertmanager::standing(Reply::error("403 Forbidden", "no")).await;
    for (scheme, proxy, error) in [
        ("http", refusing.base(), "Connection refused"),
        ("https", forbidding.base(), "the proxy does not connect"),
    ] {
        let mut command = exporter(&imds);
        command
            .arg(format!("--alertmanager.url={scheme}://127.0.0.1:9093"))
            .arg(format!("--alertmanager.ca-file={}", pki.path("ca.pem")))
            .env("ALL_PROXY", proxy.replace("http://", "http://me:hunter2@"));
        let mut exporter = Process::start_as(&mut command);
        let shown = format!("proxy={proxy} ");
        let line = exporter.says("proxy variable is set").await + " ";
        assert!(
            line.contains("variable=ALL_PROXY") && line.contains(&shown),
            "{line}"
        );
        let line = exporter.says("alertmanager does not answer").await;
        assert!(line.contains(&shown) && line.contains(error), "{line}");
    }
}

/// As reqwest takes them: upper case first, and what cannot be read is not there.
#[tokio::test]
async fn odd_proxy_variables_do_not_stop_the_exporter() {
    let imds = FakeImds::standing(preempt()).await;
    let proxy = FakeAlertmanager::scripted([]).await;
    let refusing = RefusingPort::reserve();
    let mut command = exporter(&imds);
    command
        .arg("--alertmanager.url=http://alertmanager.invalid:9093")
        .env("HTTP_PROXY", proxy.base())
        .env("http_proxy", refusing.base())
        .env("HTTPS_PROXY", "socks5://me:hunter2@h:1080")
        .env("ALL_PROXY", "http://me:hunter2@h:port")
        .env("NO_PROXY", "https://x/,host/24,a;b,10.0.0.0/33,::/129");
    let mut exporter = Process::start_as(&mut command);
    exporter.says("alerts pushed").await;
    assert!(!proxy.alerts().is_empty());
    let log = exporter.log();
    for variable in ["HTTPS_PROXY", "ALL_PROXY"] {
        let warning = format!("\"variable is not the URL of an HTTP proxy\" variable={variable}");
        assert!(log.contains(&warning), "{log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test]
async fn alertmanagers_that_differ_in_their_path_have_a_series_each() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let mut command = exporter(&imds);
    command
        .args(["a", "b"].map(|path| format!("--alertmanager.url={}/{path}", alertmanager.base())));
    let mut exporter = Process::start_as(&mut command);
    let address = exporter.address().await;
    for path in ["/a/api/v2/alerts", "/b/api/v2/alerts"] {
        let is_pushed = |it: &FakeAlertmanager| it.requests().iter().any(|it| it.target == path);
        alertmanager.until(path, is_pushed).await;
    }
    let metrics = page(&address, "/metrics").await.unwrap();
    for name in [alertmanager.base(), format!("{} (2)", alertmanager.base())] {
        let series = format!("azure_scheduled_events_receiver_up{{receiver=\"{name}\"}} 1");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
}
