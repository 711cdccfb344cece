//! The Alertmanager push against scripted Alertmanagers.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use azure_scheduled_events_exporter::{
    alertmanager::{Credentials, PushTiming, Target},
    config::{Config, StateStorage},
    engine::SavedState,
    state::Directory,
    time::Timestamp,
};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    DEADLINE, FakeAlertmanager, FakeImds, Pki, RefusingPort, Reply,
    alertmanager::ReceivedAlert,
    exporter::{Exporter, Metrics, settings},
    process::{PROGRAM, Process, exporter},
};

/// Short intervals, except that unchanged alerts are not sent again during a test, and ended ones not resolved.
const TIMING: PushTiming = PushTiming {
    resend_interval: Duration::from_mins(5),
    blind_after: Duration::from_mins(1),
    resolve_after: Duration::from_mins(4),
    retry_interval: Duration::from_millis(50),
    max_retry_interval: Duration::from_secs(30),
    push_timeout: Duration::from_secs(2),
};
const NOTHING: &str = r#"{"DocumentIncarnation":9,"Events":[]}"#;
const ID: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";

/// One event that is far away.
fn document(event_type: &str, source: &str, status: &str, resource: &str) -> Reply {
    let far = "Fri, 31 Dec 2999 23:59:59 GMT";
    event(event_type, source, status, resource, far)
}

fn event(event_type: &str, source: &str, status: &str, resource: &str, not_before: &str) -> Reply {
    Reply::ok(
        json!({"DocumentIncarnation": 8, "Events": [{
            "EventId": ID, "EventStatus": status, "EventType": event_type, "ResourceType": "VirtualMachine",
            "Resources": [resource], "NotBefore": not_before, "Description": "",
            "EventSource": source, "DurationInSeconds": -1,
        }]})
        .to_string(),
    )
}

fn preempt() -> Reply {
    document("Preempt", "Platform", "Scheduled", "web_0")
}

fn pushing(imds: &FakeImds, bases: &[String]) -> Config {
    let mut settings = settings(&imds.base());
    let targets = bases.iter().map(|base| target(base, TIMING));
    settings.alertmanagers = targets.collect();
    settings
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
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
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

#[tokio::test]
async fn an_advisory_that_becomes_a_preempt_is_resolved_and_the_preempt_is_pushed() {
    let imds = FakeImds::standing(document("Preempt", "Platform", "Advisory", "web_0")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    let last = |it: &FakeAlertmanager, name: &str| {
        let named = |alert: &ReceivedAlert| alert.labels["alertname"] == name;
        it.alerts().into_iter().rev().find(named)
    };
    alertmanager
        .until("the advisory is pushed", |it| {
            last(it, "AzureScheduledEventAdvisory").is_some()
        })
        .await;
    let advisory = alertmanager.alerts().remove(0);
    assert_eq!(advisory.labels["severity"], "info");
    imds.now(preempt());
    alertmanager
        .until("the Preempt is pushed and the advisory resolved", |it| {
            last(it, "AzureScheduledEventPreempt").is_some_and(|alert| !alert.is_end())
                && last(it, "AzureScheduledEventAdvisory").is_some_and(|alert| alert.is_end())
        })
        .await;
    exporter.stop().await;
}

/// A document with this number of events of this VM.
fn many(events: usize) -> Reply {
    let event = |number| {
        json!({
            "EventId": format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265"), "EventStatus": "Scheduled",
            "EventType": "Freeze", "Resources": ["web_0"], "NotBefore": "Fri, 31 Dec 2999 23:59:59 GMT",
        })
    };
    let events: Vec<_> = (0..events).map(event).collect();
    Reply::ok(json!({"DocumentIncarnation": 8, "Events": events}).to_string())
}

#[tokio::test]
async fn many_alerts_are_pushed_in_bounded_requests_and_a_new_one_in_the_first() {
    let imds = FakeImds::standing(many(700)).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let mut settings = pushing(&imds, &[]);
    // A batch of 500 must not be sent twice on a busy machine.
    let timing = PushTiming {
        push_timeout: DEADLINE,
        ..TIMING
    };
    settings.alertmanagers = vec![target(&alertmanager.base(), timing)];
    let exporter = Exporter::start(settings);
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

/// Alertmanager keeps the `endsAt` of the last push before, which is later.
#[tokio::test]
async fn end_is_pushed_again_when_it_has_passed() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let timing = PushTiming {
        resolve_after: Duration::from_secs(2),
        ..TIMING
    };
    let mut settings = pushing(&imds, &[]);
    settings.alertmanagers = vec![target(&alertmanager.base(), timing)];
    let exporter = Exporter::start(settings);
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
    imds.now(Reply::ok(NOTHING));
    alertmanager
        .until("the end is pushed twice", |it| it.ends().len() == 2)
        .await;
    let ends = alertmanager.ends();
    assert_eq!(ends[0].ends_at, ends[1].ends_at);
    assert_eq!(ends[0].annotations, ends[1].annotations);
    exporter.stop().await;
    assert_eq!(alertmanager.requests().len(), 3);
}

#[tokio::test]
async fn end_that_is_refused_is_pushed_until_it_is_accepted() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
    alertmanager.now(Reply::error("503 Service Unavailable", "starting"));
    imds.now(Reply::ok(NOTHING));
    alertmanager
        .until("the end is refused", |it| it.ends().len() >= 2)
        .await;
    alertmanager.now(Reply::ok(""));
    let refused = alertmanager.requests().len();
    alertmanager
        .until("it is accepted", |it| it.requests().len() > refused)
        .await;
    imds.until_requests(imds.event_requests() + 10).await;
    let pushes = alertmanager.requests().len();
    assert!((refused + 1..=refused + 2).contains(&pushes), "{pushes}");
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
    let exporter = Exporter::start(pushing(&imds, &bases));
    exporter.until("it polls", Metrics::is_up).await;
    imds.now(preempt());
    working
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
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

/// Two seconds of polls: a constant interval would be 40 pushes.
#[tokio::test]
async fn an_alertmanager_that_fails_gets_ever_fewer_pushes() {
    let imds = FakeImds::standing(preempt()).await;
    let error = Reply::error("503 Service Unavailable", "starting");
    let alertmanager = FakeAlertmanager::standing(error).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("it is retried", |it| it.requests().len() > 1)
        .await;
    imds.until_requests(imds.event_requests() + 10).await;
    let pushes = alertmanager.requests().len();
    assert!((3..15).contains(&pushes), "{pushes}");
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
    imds.now(document("Terminate", "Platform", "Scheduled", "web_0"));
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
    assert_eq!(types, ["Preempt", "Terminate"], "the new one alone");
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
    imds.now(document("Terminate", "Platform", "Scheduled", "web_0"));
    imds.until_requests(imds.event_requests() + 10).await;
    assert_eq!(alertmanager.requests().len(), 1);
    exporter.stop().await;
    assert_eq!(
        alertmanager.requests().len(),
        2,
        "the last attempt at the end"
    );
}

#[tokio::test]
async fn credentials_are_read_for_each_push() {
    let folder = TempDir::new().unwrap();
    let secret = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        write(&path, text);
        path
    };
    let token = secret("token", "old\n");
    for (credentials, expected) in [
        (Credentials::Bearer(token.clone()), "Bearer new"),
        (
            Credentials::Basic(secret("basic", "exporter:pass:word\n")),
            "Basic ZXhwb3J0ZXI6cGFzczp3b3Jk",
        ),
    ] {
        let imds = FakeImds::standing(preempt()).await;
        let error = Reply::error("401 Unauthorized", "who are you?");
        let alertmanager = FakeAlertmanager::standing(error).await;
        let mut settings = pushing(&imds, &[]);
        let mut target = target(&alertmanager.base(), TIMING);
        target.credentials = Some(credentials);
        settings.alertmanagers = vec![target];
        let exporter = Exporter::start(settings);
        alertmanager
            .until("the push was rejected", |it| !it.requests().is_empty())
            .await;
        write(&token, "new\n");
        alertmanager.now(Reply::ok(""));
        let is_expected = |it: &FakeAlertmanager| {
            let requests = it.requests();
            requests
                .iter()
                .any(|request| request.header("authorization") == Some(expected))
        };
        alertmanager
            .until("the new secret is used", is_expected)
            .await;
        exporter.stop().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a scratch file")]
fn write(path: &std::path::Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn https_trusts_only_the_given_authority() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let imds = FakeImds::standing(preempt()).await;
    let trusted = FakeAlertmanager::scripted([]).await;
    let other_name = FakeAlertmanager::scripted([]).await;
    let untrusted = FakeAlertmanager::scripted([]).await;
    let proxies = [
        ours.tls_proxy("127.0.0.1", false, trusted.address()).await,
        ours.tls_proxy("elsewhere", false, other_name.address())
            .await,
        theirs
            .tls_proxy("127.0.0.1", false, untrusted.address())
            .await,
    ];
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    write(&token, "secret\n");
    let mut settings = settings(&imds.base());
    settings.alertmanagers = proxies
        .iter()
        .map(|proxy| {
            let mut target = target(&format!("{}/am/", proxy.base()), TIMING);
            target.files.ca = Some(ours.path("ca.pem").into());
            target.credentials = Some(Credentials::Bearer(token.clone()));
            target
        })
        .collect();
    let exporter = Exporter::start(settings);
    trusted
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
    exporter
        .until("the others are retried", |metrics| {
            push_counter(metrics, "_failures") >= 4.0
        })
        .await;
    let request = &trusted.requests()[0];
    assert_eq!(request.target, "/am/api/v2/alerts");
    assert_eq!(request.header("authorization"), Some("Bearer secret"));
    assert_eq!(
        (other_name.requests(), untrusted.requests()),
        (vec![], vec![])
    );
    exporter.stop().await;
}

#[tokio::test]
async fn https_trusts_the_systems_authorities_by_default() {
    let pki = Pki::new();
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let address = alertmanager.address();
    let proxy = pki.tls_proxy("127.0.0.1", false, address).await;
    let mut command = Command::new(PROGRAM);
    command
        .args(["--web.listen-address=127.0.0.1:0", "--vm.name=web_0"])
        .arg(format!("--imds.url={}", imds.base()))
        .arg(format!("--alertmanager.url={}", proxy.base()))
        .env("SSL_CERT_FILE", pki.path("ca.pem"))
        .env_remove("SSL_CERT_DIR");
    let _exporter = Process::start_as(&mut command);
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
}

#[tokio::test]
async fn neither_a_failed_poll_nor_shutdown_resolves_an_alert() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
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
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
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
async fn end_is_pushed_again_after_a_restart() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let directory = TempDir::new().unwrap();
    let mut settings = pushing(&imds, &[alertmanager.base()]);
    settings.state = StateStorage::Directory(directory.path().to_owned());
    let exporter = Exporter::start(settings.clone());
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
    imds.now(Reply::ok(NOTHING));
    alertmanager
        .until("the end is pushed", |it| !it.ends().is_empty())
        .await;
    exporter.stop().await;
    let end = alertmanager.take_alerts().pop().unwrap();
    let exporter = Exporter::start(settings);
    alertmanager
        .until("it is pushed again", |it| !it.ends().is_empty())
        .await;
    exporter.stop().await;
    let again = alertmanager.take_alerts();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].ends_at, end.ends_at);
}

#[tokio::test]
async fn events_of_other_vms_are_not_pushed() {
    let other = document("Preempt", "Platform", "Scheduled", "web_1");
    let imds = FakeImds::standing(other).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    imds.until_requests(5).await;
    exporter.stop().await;
    assert_eq!(alertmanager.requests(), []);
}

#[tokio::test]
async fn alert_that_waits_for_an_approval_is_resolved_when_the_event_starts() {
    let imds = FakeImds::standing(document("Reboot", "User", "Scheduled", "web_0")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the alert is pushed", |it| !it.alerts().is_empty())
        .await;
    imds.now(document("Reboot", "User", "Started", "web_0"));
    alertmanager
        .until("its end is pushed", |it| !it.ends().is_empty())
        .await;
    exporter.stop().await;
}

#[tokio::test]
async fn replaced_alert_is_resolved_while_its_event_is_pending() {
    let imds = FakeImds::standing(document("Freeze", "Platform", "Started", "web_0")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the freeze is pushed", |it| !it.alerts().is_empty())
        .await;
    imds.now(document("Redeploy", "Platform", "Started", "web_0"));
    let has = |it: &FakeAlertmanager, name: &str, is_end: bool| {
        let mut alerts = it.alerts().into_iter();
        alerts.any(|alert| alert.labels["alertname"] == name && alert.is_end() == is_end)
    };
    alertmanager
        .until("the redeploy is pushed and the freeze is resolved", |it| {
            has(it, "AzureScheduledEventRedeploy", false)
                && has(it, "AzureScheduledEventFreeze", true)
        })
        .await;
    assert!(!has(&alertmanager, "AzureScheduledEventRedeploy", true));
    exporter.stop().await;
}

#[tokio::test]
async fn reboot_that_started_before_the_first_document_is_critical_before_and_after_a_restart() {
    let imds = FakeImds::standing(event("Reboot", "Platform", "Started", "web_0", "")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let directory = TempDir::new().unwrap();
    let mut settings = pushing(&imds, &[alertmanager.base()]);
    settings.state = StateStorage::Directory(directory.path().to_owned());
    for run in ["first", "second"] {
        let exporter = Exporter::start(settings.clone());
        alertmanager.until(run, |it| !it.alerts().is_empty()).await;
        exporter.stop().await;
        for alert in alertmanager.take_alerts() {
            assert_eq!(alert.labels["alertname"], "AzureScheduledEventReboot");
            assert_eq!(alert.labels["severity"], "critical");
        }
    }
}

/// Without events, of another boot of the VM.
fn state_of_previous_boot(age: Duration) -> SavedState {
    let read_at = Timestamp::now().before(age);
    SavedState {
        boot_id: Some("another-boot".to_owned()),
        heartbeat_at: read_at,
        document_at: Some(read_at),
        document_incarnation: Some(2),
        warming_up_until: None,
        vm_name: Some("web_0".to_owned()),
        metadata_name: None,
        vm_id: None,
        events: Vec::new(),
    }
}

#[tokio::test]
async fn event_that_started_while_the_vm_was_down_may_have_been_announced() {
    for (event_type, minutes, alertname) in [
        ("Reboot", 2, "AzureScheduledEventReboot"),
        ("Redeploy", 60, "AzureScheduledEventRedeploy"),
    ] {
        let directory = TempDir::new().unwrap();
        let mut state = Directory::open(directory.path()).unwrap();
        let age = Duration::from_mins(minutes);
        state.write(&state_of_previous_boot(age)).unwrap();
        drop(state);
        let imds = FakeImds::standing(event(event_type, "Platform", "Started", "web_0", "")).await;
        let alertmanager = FakeAlertmanager::scripted([]).await;
        let mut settings = pushing(&imds, &[alertmanager.base()]);
        settings.state = StateStorage::Directory(directory.path().to_owned());
        let exporter = Exporter::start(settings);
        alertmanager
            .until("the event is pushed", |it| !it.alerts().is_empty())
            .await;
        exporter.stop().await;
        for alert in alertmanager.alerts() {
            let labels = (&alert.labels["alertname"], &alert.labels["severity"]);
            assert_eq!(
                labels,
                (&json!(alertname), &json!("critical")),
                "{minutes} min"
            );
        }
    }
}

#[tokio::test]
async fn vm_name_flag_applies_to_pushed_alerts_and_metrics() {
    let imds = FakeImds::standing(document("Preempt", "Platform", "Scheduled", "given")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let mut settings = pushing(&imds, &[alertmanager.base()]);
    settings.imds.vm_name = Some("given".into());
    let exporter = Exporter::start(settings);
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
    let pushed = &alertmanager.requests()[0].body;
    assert!(pushed.contains(r#""description":"VM: given\n"#), "{pushed}");
    let is_named = |it: &Metrics| it.0.contains("azure_scheduled_events_vm_info{");
    let metrics = exporter.until("the VM is known", is_named).await.0;
    let named = r#"azure_scheduled_events_vm_info{vm_name="given","#;
    assert!(metrics.contains(named), "{metrics}");
    exporter.stop().await;
}

#[tokio::test]
async fn each_alertmanager_is_asked_for_its_status_at_the_start() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let working = FakeAlertmanager::scripted([]).await;
    let wrong = FakeAlertmanager::scripted([]).await;
    wrong.status(Reply::error("404 Not Found", "no"));
    let late = FakeAlertmanager::scripted([]).await;
    late.status(Reply::error("503 Service Unavailable", "starting"));
    let bases = [working.base(), wrong.base(), late.base()];
    let exporter = Exporter::start(pushing(&imds, &bases));
    let up = |metrics: &Metrics, base: &str| {
        let series = format!("azure_scheduled_events_receiver_up{{receiver=\"{base}\"}}");
        metrics.value(&series).map(|value| value > 0.5)
    };
    exporter
        .until("all are asked", |metrics| {
            let states = bases.each_ref().map(|base| up(metrics, base));
            states == [Some(true), Some(false), Some(false)]
        })
        .await;
    let request = &working.status_requests()[0];
    assert_eq!(request.target, "/api/v2/status");
    late.status(Reply::ok("{}"));
    // A push is an answer, too.
    imds.now(preempt());
    exporter
        .until("all accept a request", |metrics| {
            bases.iter().all(|base| up(metrics, base) == Some(true))
        })
        .await;
    assert_eq!(working.status_requests().len(), 1);
    exporter.stop().await;
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
            "to https://xxxxx@login.example/a?xxxxx; redirects are not followed",
        ),
        (found("/login"), "/login; redirects are not followed"),
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
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
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
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_fifo_in_the_place_of_a_password_stops_pushes_only_while_it_is_there() {
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
    write(&path, "me:secret");
    alertmanager
        .until("the event is pushed", |it| !it.alerts().is_empty())
        .await;
    let header = Some("Basic bWU6c2VjcmV0");
    assert_eq!(alertmanager.requests()[0].header("authorization"), header);
    assert_eq!(
        alertmanager.status_requests()[0].header("authorization"),
        header
    );
    exporter.stop().await;
}

#[tokio::test]
async fn proxy_is_used_and_named_unless_no_proxy_excepts_the_address() {
    let imds = FakeImds::standing(preempt()).await;
    let refusing = RefusingPort::reserve();
    let proxy = refusing.base().replace("http://", "http://me:hunter2@");
    for exceptions in ["*", "127.0.0.0/8", "127.0.0.1"] {
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
    let mut command = exporter(&imds);
    command
        .arg("--alertmanager.url=http://127.0.0.1:9093")
        .env("HTTP_PROXY", &proxy);
    let mut exporter = Process::start_as(&mut command);
    let line = exporter.says("alertmanager does not answer").await;
    let shown = refusing.base().replace("http://", "proxy=http://xxxxx@");
    assert!(line.contains(&shown), "{line}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn invalid_flags_are_reported_in_one_line_with_exit_code_64() {
    let (url, https) = (
        "--alertmanager.url=http://127.0.0.1:9093",
        "--alertmanager.url=https://127.0.0.1:9093",
    );
    let pki = Pki::new();
    let client = fs::read_to_string(pki.path("client.pem")).unwrap();
    pki.write("reversed.pem", &format!("{}{client}", pki.authority()));
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    pki.write("encrypted.pem", encrypted);
    let ca = format!("--alertmanager.ca-file={}", pki.path("ca.pem"));
    let certificate = format!("--alertmanager.cert-file={}", pki.path("client.pem"));
    let key = format!("--alertmanager.key-file={}", pki.path("client-key.pem"));
    for (arguments, expected) in [
        (
            &["--alertmanager.url=alertmanager:9093"][..],
            "--alertmanager.url: \"alertmanager:9093\" is neither",
        ),
        (
            &["--alertmanager.url=http://u:hunter2@h"],
            "--alertmanager.basic-auth-file",
        ),
        (&["--alertmanager.ca-file=ca.pem"], "--alertmanager.url"),
        (
            &[
                url,
                "--alertmanager.basic-auth-file=a",
                "--alertmanager.bearer-token-file=b",
            ],
            "cannot be used with",
        ),
        (
            &[url, "--alertmanager.bearer-token-file=/nowhere/token"],
            "--alertmanager.bearer-token-file: /nowhere/token",
        ),
        (
            &[https, "--alertmanager.ca-file=/nowhere/ca.pem"],
            "--alertmanager.ca-file: /nowhere/ca.pem cannot be read",
        ),
        (
            &[https, "--alertmanager.bearer-token-file=/dev/zero"],
            "--alertmanager.bearer-token-file: /dev/zero is not a regular file",
        ),
        (
            &[
                https,
                &ca,
                &format!("--alertmanager.cert-file={}", pki.path("client.pem")),
            ],
            "--alertmanager.cert-file: needs --alertmanager.key-file",
        ),
        (
            &[https, &ca, &key],
            "--alertmanager.key-file: needs --alertmanager.cert-file",
        ),
        (
            &[
                https,
                &ca,
                &key,
                &format!("--alertmanager.cert-file={}", pki.path("reversed.pem")),
            ],
            "reversed.pem has its certificates in the wrong order",
        ),
        (
            &[
                https,
                &ca,
                &certificate,
                &format!("--alertmanager.key-file={}", pki.path("encrypted.pem")),
            ],
            "encrypted.pem is encrypted with a passphrase",
        ),
        (
            &[url, &certificate, &key],
            "--alertmanager.cert-file: has no effect with http",
        ),
        (
            &[url, "--alertmanager.header=X-Scope-OrgID"],
            "--alertmanager.header: number 1 has no colon: write it as NAME: VALUE",
        ),
        (
            &[url, "--alertmanager.header=a b: hunter2"],
            "--alertmanager.header: \"a b\" is no name of a header",
        ),
        (
            &[url, "--alertmanager.header=a: hunter2\u{7}"],
            "--alertmanager.header: \"a\" has no value, or one with control characters",
        ),
        (
            &[
                url,
                "--alertmanager.header=a: 1",
                "--alertmanager.header=A: hunter2",
            ],
            "--alertmanager.header: \"A\" was given before",
        ),
        (
            &[url, "--alertmanager.header=Host: hunter2"],
            "--alertmanager.header: \"Host\" is set by the exporter",
        ),
        (
            &["--alertmanager.header=a: 1"],
            "--alertmanager.header: has no effect alone: add --alertmanager.url",
        ),
    ] {
        let done = Command::new(PROGRAM)
            .arg("--web.listen-address=127.0.0.1:0")
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        let last = stderr.lines().last().unwrap_or_default();
        assert_eq!(done.status.code(), Some(64), "{arguments:?}: {stderr}");
        assert!(
            last.contains(expected) && !stderr.contains("hunter2"),
            "{arguments:?}: {stderr}"
        );
    }
    let done = Command::new(PROGRAM)
        .args(["--web.listen-address=127.0.0.1:0", url])
        .env("http_proxy", "socks5://me:hunter2@127.0.0.1:1080")
        .output()
        .unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(64), "{stderr}");
    let expected = "http_proxy: \"socks5://xxxxx@127.0.0.1:1080\" is neither http nor https";
    assert!(stderr.contains(expected), "{stderr}");
}
