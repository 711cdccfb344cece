//! Direct push against scripted Alertmanagers.

use std::{fs, path::PathBuf, process::Command};

use azure_scheduled_events_exporter::{
    alertmanager::{Credentials, Target},
    config::{Config, State},
    time::Timestamp,
};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    FakeAlertmanager, FakeImds, Pki, RefusingPort, Reply,
    alertmanager::Told,
    exporter::{Exporter, Metrics, settings},
    process::{PROGRAM, Process},
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

fn telling(imds: &FakeImds, bases: &[String]) -> Config {
    let mut settings = settings(&imds.base());
    settings.alertmanagers = bases
        .iter()
        .map(|base| Target::new(base).unwrap())
        .collect();
    settings
}

impl Told {
    /// The end is no later than now.
    fn is_over(&self) -> bool {
        Timestamp::parse(&self.ends_at).unwrap() <= Timestamp::now()
    }
}

fn counted(metrics: &Metrics, name: &str) -> f64 {
    let family = "azure_scheduled_events_alert_push";
    metrics.value(&format!("{family}{name}_total")).unwrap()
}

#[tokio::test]
async fn an_event_is_told_when_it_is_seen_and_once_more_when_it_is_over() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is told", |it| !it.told().is_empty())
        .await;
    let request = &alertmanager.requests()[0];
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("POST", "/api/v2/alerts")
    );
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("authorization"), None);
    let told = &alertmanager.told()[0];
    let labels = json!({
        "alertname": "AzureScheduledEventPreempt", "severity": "critical",
        "event_id": ID, "event_type": "Preempt", "event_source": "Platform",
    });
    assert_eq!(told.labels, labels);
    assert!(!told.is_over(), "{told:?}");
    imds.now(Reply::ok(NOTHING));
    alertmanager
        .until("the end is told", |it| it.told().iter().any(Told::is_over))
        .await;
    assert_eq!(alertmanager.told().last().unwrap().labels, labels);
    let metrics = exporter
        .until("both pushes are counted", |metrics| {
            counted(metrics, "es") >= 2.0
        })
        .await;
    assert!(counted(&metrics, "_failures") <= 0.0);
    exporter.stop().await;
}

/// Prometheus, which sees an end only with its next scrape and evaluation, may say meanwhile that the event goes on.
#[tokio::test]
async fn an_end_is_told_again_soon_in_case_that_somebody_contradicts() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is told", |it| !it.told().is_empty())
        .await;
    imds.now(Reply::ok(NOTHING));
    alertmanager
        .until("the end is told three times", |it| {
            it.told().iter().filter(|told| told.is_over()).count() >= 3
        })
        .await;
    let ends = alertmanager.told().into_iter().filter(Told::is_over);
    let mut times: Vec<_> = ends.map(|told| told.ends_at).collect();
    times.dedup();
    assert_eq!(times.len(), 1, "it is the same end");
    exporter.stop().await;
}

#[tokio::test]
async fn dead_silent_and_refusing_alertmanagers_keep_nothing_from_a_living_one() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let closed = RefusingPort::reserve();
    let silent = FakeAlertmanager::standing(Reply::silence()).await;
    let refusing =
        FakeAlertmanager::standing(Reply::error("500 Internal Server Error", "no")).await;
    let living = FakeAlertmanager::scripted([]).await;
    let bases = [closed.base(), silent.base(), refusing.base(), living.base()];
    let exporter = Exporter::start(telling(&imds, &bases));
    exporter.until("it polls", Metrics::is_up).await;
    imds.now(preempt());
    living
        .until("the event is told", |it| !it.told().is_empty())
        .await;
    exporter
        .until("the others are tried again", |metrics| {
            counted(metrics, "_failures") >= 4.0
        })
        .await;
    assert!(exporter.metrics().await.is_up(), "polls go on");
    exporter.stop().await;
}

#[tokio::test]
async fn a_push_that_failed_is_tried_again_until_it_is_taken_and_then_not_at_once() {
    let imds = FakeImds::standing(preempt()).await;
    let refused = Reply::error("503 Service Unavailable", "starting");
    let alertmanager = FakeAlertmanager::scripted([refused.clone(), refused]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the third push is there", |it| it.requests().len() == 3)
        .await;
    let polled = imds.event_requests();
    imds.until_requests(polled + 10).await;
    assert_eq!(
        alertmanager.requests().len(),
        3,
        "half a minute until the next"
    );
    assert_eq!(alertmanager.told()[0].labels, alertmanager.told()[2].labels);
    let metrics = exporter
        .until("all are counted", |metrics| counted(metrics, "es") >= 3.0)
        .await;
    assert!((counted(&metrics, "_failures") - 2.0).abs() < f64::EPSILON);
    exporter.stop().await;
}

#[tokio::test]
async fn credentials_are_read_anew_for_each_push() {
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
        let refused = Reply::error("401 Unauthorized", "who are you?");
        let alertmanager = FakeAlertmanager::standing(refused).await;
        let mut settings = telling(&imds, &[]);
        let target = Target::new(&alertmanager.base()).unwrap();
        settings.alertmanagers = vec![target.with_credentials(Some(credentials))];
        let exporter = Exporter::start(settings);
        alertmanager
            .until("it was refused", |it| !it.requests().is_empty())
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
async fn over_https_only_one_that_the_given_authority_vouches_for_is_told() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let imds = FakeImds::standing(preempt()).await;
    let told = FakeAlertmanager::scripted([]).await;
    let nameless = FakeAlertmanager::scripted([]).await;
    let strange = FakeAlertmanager::scripted([]).await;
    let doors = [
        ours.door("127.0.0.1", false, told.address()).await,
        ours.door("elsewhere", false, nameless.address()).await,
        theirs.door("127.0.0.1", false, strange.address()).await,
    ];
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    write(&token, "secret\n");
    let mut settings = settings(&imds.base());
    settings.alertmanagers = doors
        .iter()
        .map(|door| {
            Target::new(&format!("{}/am/", door.base()))
                .unwrap()
                .with_authorities(Some(ours.path("ca.pem").into()))
                .with_credentials(Some(Credentials::Bearer(token.clone())))
        })
        .collect();
    let exporter = Exporter::start(settings);
    told.until("the event is told", |it| !it.told().is_empty())
        .await;
    exporter
        .until("the others are tried again", |metrics| {
            counted(metrics, "_failures") >= 4.0
        })
        .await;
    let request = &told.requests()[0];
    assert_eq!(request.target, "/am/api/v2/alerts");
    assert_eq!(request.header("authorization"), Some("Bearer secret"));
    assert_eq!((nameless.requests(), strange.requests()), (vec![], vec![]));
    exporter.stop().await;
}

#[tokio::test]
async fn over_https_the_systems_authorities_are_trusted_unless_others_are_given() {
    let pki = Pki::new();
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let address = alertmanager.address();
    let door = pki.door("127.0.0.1", false, address).await;
    let mut command = Command::new(PROGRAM);
    command
        .args(["--web.listen-address=127.0.0.1:0", "--vm.name=web_0"])
        .arg(format!("--imds.url={}", imds.base()))
        .arg(format!("--alertmanager.url={}", door.base()))
        .env("SSL_CERT_FILE", pki.path("ca.pem"))
        .env_remove("SSL_CERT_DIR");
    let _exporter = Process::start_as(&mut command);
    alertmanager
        .until("the event is told", |it| !it.told().is_empty())
        .await;
}

#[tokio::test]
async fn a_failed_poll_ends_no_alert_and_neither_does_the_end_of_the_exporter() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is told", |it| !it.told().is_empty())
        .await;
    imds.now(Reply::error("500 Internal Server Error", "no"));
    exporter
        .until("polls fail", |metrics| {
            metrics.failures("status_5xx") >= 2.0
        })
        .await;
    exporter.stop().await;
    assert!(
        !alertmanager.told().iter().any(Told::is_over),
        "{:#?}",
        alertmanager.told()
    );
}

#[tokio::test]
async fn an_end_that_was_not_told_yet_is_told_when_the_exporter_stops() {
    let imds = FakeImds::standing(preempt()).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the event is told", |it| !it.told().is_empty())
        .await;
    alertmanager.now(Reply::error("503 Service Unavailable", "down"));
    imds.now(Reply::ok(NOTHING));
    exporter
        .until("the end is refused", |metrics| {
            counted(metrics, "_failures") >= 1.0
        })
        .await;
    alertmanager.now(Reply::ok(""));
    exporter.stop().await;
    assert!(alertmanager.told().last().unwrap().is_over());
}

#[tokio::test]
async fn nothing_is_pushed_of_events_of_others() {
    let other = document("Preempt", "Platform", "Scheduled", "web_1");
    let imds = FakeImds::standing(other).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    imds.until_requests(5).await;
    exporter.stop().await;
    assert_eq!(alertmanager.requests(), []);
}

#[tokio::test]
async fn what_waited_for_an_approval_is_over_when_the_event_starts() {
    let imds = FakeImds::standing(document("Reboot", "User", "Scheduled", "web_0")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the waiting is told", |it| !it.told().is_empty())
        .await;
    imds.now(document("Reboot", "User", "Started", "web_0"));
    alertmanager
        .until("it is over", |it| it.told().iter().any(Told::is_over))
        .await;
    exporter.stop().await;
}

#[tokio::test]
async fn an_alert_that_another_one_replaces_is_over_though_its_event_goes_on() {
    let imds = FakeImds::standing(document("Freeze", "Platform", "Started", "web_0")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(telling(&imds, &[alertmanager.base()]));
    alertmanager
        .until("the freeze is told", |it| !it.told().is_empty())
        .await;
    imds.now(document("Redeploy", "Platform", "Started", "web_0"));
    let has = |it: &FakeAlertmanager, name: &str, over: bool| {
        let mut told = it.told().into_iter();
        told.any(|told| told.labels["alertname"] == name && told.is_over() == over)
    };
    alertmanager
        .until("the redeploy is told and the freeze is over", |it| {
            has(it, "AzureScheduledEventRedeploy", false)
                && has(it, "AzureScheduledEventFreeze", true)
        })
        .await;
    assert!(!has(&alertmanager, "AzureScheduledEventRedeploy", true));
    exporter.stop().await;
}

#[tokio::test]
async fn a_reboot_that_had_started_before_anybody_looked_is_no_hardware_failure_after_a_restart_either()
 {
    let imds = FakeImds::standing(event("Reboot", "Platform", "Started", "web_0", "")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let directory = TempDir::new().unwrap();
    let mut settings = telling(&imds, &[alertmanager.base()]);
    settings.state = State::Directory(directory.path().to_owned());
    for polls in [4, 8] {
        let exporter = Exporter::start(settings.clone());
        imds.until_requests(polls).await;
        exporter.stop().await;
        assert_eq!(alertmanager.requests(), [], "{polls} polls");
    }
}

#[tokio::test]
async fn a_name_that_is_given_is_the_name_by_both_ways() {
    let imds = FakeImds::standing(document("Preempt", "Platform", "Scheduled", "given")).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let mut settings = telling(&imds, &[alertmanager.base()]);
    settings.imds.vm_name = Some("given".into());
    let exporter = Exporter::start(settings);
    alertmanager
        .until("the event is told", |it| !it.told().is_empty())
        .await;
    let pushed = &alertmanager.requests()[0].body;
    assert!(pushed.contains(r#""description":"VM: given "#), "{pushed}");
    let is_named = |it: &Metrics| it.0.contains("azure_scheduled_events_vm_info{");
    let metrics = exporter.until("the VM is known", is_named).await.0;
    let named = r#"azure_scheduled_events_vm_info{vm_name="given","#;
    assert!(metrics.contains(named), "{metrics}");
    exporter.stop().await;
}

#[test]
fn flags_that_cannot_work_are_one_line_and_exit_code_64() {
    let url = "--alertmanager.url=http://127.0.0.1:9093";
    for (arguments, said) in [
        (
            &["--alertmanager.url=alertmanager:9093"][..],
            "--alertmanager.url: \"alertmanager:9093\" is neither",
        ),
        (
            &["--alertmanager.url=http://u:geheim@h"],
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
            &[url, "--alertmanager.ca-file=/nowhere/ca.pem"],
            "--alertmanager.ca-file: /nowhere/ca.pem cannot be read",
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
            last.contains(said) && !stderr.contains("geheim"),
            "{arguments:?}: {stderr}"
        );
    }
}
