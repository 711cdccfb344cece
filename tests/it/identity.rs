//! The identity of this VM, from instance metadata.

use std::{sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    Identity,
    engine::{EngineConfig, Input},
    time::{Moment, Timestamp},
};

use crate::support::{
    DEADLINE, FakeImds, Reply, ask_until, client_of,
    driven_engine::{DrivenEngine, config},
    exporter::{Exporter, Metrics, settings},
    process::{self, Process, page},
};

const OWN_FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["Role_IN_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;

/// The versions of instance metadata are not those of scheduled events.
#[tokio::test]
async fn the_newest_offered_version_of_instance_metadata_is_requested_instead_of_a_refused_one() {
    let imds = FakeImds::scripted([]).await;
    let mut client = client_of(&imds.base());
    imds.identity(Reply::error("400 Bad Request", "api-version is invalid"));
    let error = client.identify(DEADLINE).await.unwrap_err();
    assert!(error.message.contains("2021-02-01"), "{error}");
    assert!(!error.message.contains("classic"), "{error}");
    let offer = r#"{"error":"Bad request.","newest-versions":["2024-03-15","2025-04-07"]}"#;
    imds.identity(Reply::http("400 Bad Request", &[], offer));
    let error = client.identify(DEADLINE).await.unwrap_err();
    assert!(error.message.contains("api-version 2025-04-07"), "{error}");
    imds.identity(Reply::ok(r#"{"name":"web_0"}"#));
    client.identify(DEADLINE).await.unwrap();
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
    let read = async |path: &'static str, is_met: &dyn Fn(&str) -> bool| {
        let page = || page(&address, path);
        ask_until(path, page, |it| it.as_deref().is_some_and(is_met)).await
    };
    for (status, cause, advice) in [
        ("503 Busy", "HTTP 503", &[][..]),
        ("403 Forbidden", "HTTP 403", &[]),
        (
            "404 Not Found",
            "HTTP 404",
            &["--vm.name", "classic cloud service", "Role_IN_0"],
        ),
    ] {
        imds.identity(Reply::http(status, &[], ""));
        let line = exporter.says(&format!("error=\"{cause}")).await;
        for words in ["level=warn", "VM name unknown"].iter().chain(advice) {
            assert!(line.contains(words), "{line}");
        }
        // Shown after it is logged.
        read("/", &|it| it.contains("name-unknown") && it.contains(cause)).await;
        read("/api/v1/events", &|it| {
            let json: serde_json::Value = serde_json::from_str(it).unwrap();
            let error = json["vm"]["metadata_error"].as_str();
            error.is_some_and(|error| error.starts_with(cause))
        })
        .await;
    }
    imds.identity(Reply::ok(r#"{"name":"web_0"}"#));
    exporter.says("VM identity resolved").await;
    read("/", &|it| !it.contains("name-unknown")).await;
}

#[tokio::test]
async fn partial_instance_metadata_are_requested_again_and_completed() {
    let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
    imds.identity(Reply::ok(r#"{"name":"web_0","location":"westeurope"}"#));
    let mut settings = settings(&imds.base());
    settings.imds.vm_name = None;
    settings.imds.partial_identity_interval = Duration::from_millis(10);
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
async fn a_short_timeout_holds_for_instance_metadata_too() {
    let imds = FakeImds::standing(Reply::ok(OWN_FREEZE)).await;
    imds.identity(Reply::silence());
    let mut exporter = Process::start_as(process::exporter(&imds).arg("--imds.timeout=500ms"));
    let line = exporter.says("instance metadata unavailable").await;
    assert!(line.contains("within 0.5s"), "{line}");
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

#[test]
fn the_owner_survives_a_restart_of_the_same_vm_with_the_same_tag_alone() {
    let now = Moment::new(Timestamp::UNIX_EPOCH, Duration::from_secs(5));
    let identified = |vm_id: &str, owner: Option<&str>| Input::Identified {
        result: Ok(Identity {
            name: "web_0".to_owned(),
            vm_id: vm_id.to_owned(),
            owner: owner.map(str::to_owned),
            ..Identity::default()
        }),
        took: Duration::ZERO,
    };
    let mut vm = DrivenEngine::new(config(Some("web_0"), 0), None, now);
    vm.handle(identified("a-vm", Some("shop")));
    let saved = vm.saved.clone();
    let mut restarted = |tag: Option<&str>| {
        vm.saved.clone_from(&saved);
        let owner_tag = tag.map(Arc::from);
        vm.restart(
            EngineConfig {
                owner_tag,
                ..config(Some("web_0"), 0)
            },
            now,
        );
        vm.published.owner.as_deref().map(str::to_owned)
    };
    assert_eq!(restarted(None), None);
    assert_eq!(restarted(Some("department")), None);
    assert_eq!(restarted(Some("team")).as_deref(), Some("shop"));
    let warnings = |vm: &DrivenEngine| {
        let lines = vm.log.iter();
        lines
            .filter(|it| it.message.starts_with("no owner"))
            .count()
    };
    vm.handle(identified("a-vm", None));
    assert_eq!(vm.published.owner.as_deref(), Some("shop"));
    assert_eq!(warnings(&vm), 0);
    // The disk was cloned.
    vm.handle(identified("another-vm", None));
    assert_eq!(vm.published.owner, None);
    assert_eq!(warnings(&vm), 1);
}
