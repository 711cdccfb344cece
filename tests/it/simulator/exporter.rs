//! The exporter against the simulator.

use azure_scheduled_events_exporter::simulator::{Scenario, Vm};

use super::TestServer;
use crate::support::{
    DEADLINE,
    exporter::{Exporter, Metrics, settings},
    process::{Process, page},
    wait_until,
};

const REBOOT: &str =
    r#"{"events": [{"event_type": "Reboot", "event_source": "User", "notice": "10d"}]}"#;
const REDEPLOY: &str = r#"{"scenario": {"events": [{"event_type": "Redeploy", "notice": "10d"}]}}"#;

fn simulated(scenario: &str, speed: f64) -> TestServer {
    let scenario = Scenario::parse("test", "test", scenario.as_bytes()).unwrap();
    TestServer::of_vm(Vm::new(Some("web_0")), vec![scenario], speed)
}

fn start(server: &TestServer, body: &str) {
    let response = server.send("POST", "/simulator/start", &[], body).unwrap();
    assert_eq!(response.status, 200, "{}", response.text());
}

fn pending(metrics: &Metrics, event_type: &str) -> Option<f64> {
    metrics.value(&format!(
        "azure_scheduled_events_pending{{event_type=\"{event_type}\",scope=\"self\"}}"
    ))
}

fn observed(metrics: &Metrics, event_type: &str) -> Option<f64> {
    let family = "azure_scheduled_events_observed_total";
    let series = format!("{family}{{event_type=\"{event_type}\",scope=\"self\"}}");
    metrics.value(&series)
}

/// The series of all events, with the time of first sight.
fn first_seen(metrics: &Metrics) -> Vec<String> {
    let mut lines: Vec<_> = metrics
        .0
        .lines()
        .filter(|line| line.starts_with("azure_scheduled_event_first_seen_timestamp_seconds{"))
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

/// A known event stays, one that is announced meanwhile is found afterwards.
#[tokio::test]
async fn refusals_of_the_metadata_security_protocol_lose_no_event() {
    for (status, reason) in [(403, "status_4xx"), (503, "status_5xx")] {
        no_event_is_lost(status, reason).await;
    }
}

async fn no_event_is_lost(status: u16, reason: &str) {
    let server = simulated(REBOOT, 60.0);
    let exporter = Exporter::start(settings(&format!("http://{}", server.host())));
    let seen = exporter
        .until("the event is known", |metrics| {
            pending(metrics, "Reboot") == Some(1.0)
        })
        .await;
    start(
        &server,
        &format!("{{\"scenario\": \"fault-msp-{status}\"}}"),
    );
    let during = exporter
        .until("a request is refused", |metrics| !metrics.is_up())
        .await;
    assert!(during.failures(reason) >= 1.0, "{}", during.0);
    assert_eq!(first_seen(&during), first_seen(&seen));
    start(&server, REDEPLOY);
    let is_over = || server.get("/simulator/state").json()["fault"].is_null();
    wait_until(DEADLINE, "the end of the fault", || is_over().then_some(())).await;
    let after = exporter
        .until("both events are known", |metrics| {
            metrics.is_up() && pending(metrics, "Redeploy") == Some(1.0)
        })
        .await;
    assert_eq!(pending(&after, "Reboot"), Some(1.0));
    assert!(
        first_seen(&after).contains(&first_seen(&seen)[0]),
        "{}",
        after.0
    );
    assert_eq!(observed(&after, "Redeploy"), Some(1.0));
    exporter.stop().await;
}

/// An exporter of one VM of the simulator, and its address.
async fn exporter_of(server: &TestServer, vm: &str, flags: &[&str]) -> (Process, String) {
    let url = format!("--imds.url=http://{}/vm/{vm}", server.host());
    let listen = "--web.listen-address=127.0.0.1:0";
    let mut process = Process::start([&[listen, &url][..], flags].concat());
    let address = process.address().await;
    (process, address)
}

#[tokio::test]
async fn backup_approves_on_the_same_simulator_what_its_leader_does_not() {
    let scenario = r#"{"events": [{"event_type": "Reboot", "event_source": "User", "notice": "10d",
        "resources": ["WestNO_0", "WestNO_1"]}]}"#;
    let server = simulated(scenario, 1.0);
    let (_leader, leader) = exporter_of(&server, "WestNO_0", &[]).await;
    let (_backup, backup) = exporter_of(
        &server,
        "WestNO_1",
        &["--approve.user-events", "--approve.delay=1s"],
    )
    .await;
    let json = |address: String| async move {
        let text = page(&address, "/api/v1/events").await.unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default()
    };
    for (address, vm, decision) in [
        (backup, "WestNO_1", "approved"),
        (leader, "WestNO_0", "approved_elsewhere"),
    ] {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let shown = json(address.clone()).await;
            let event = &shown["events"][0];
            if event["approval"]["decision"] == decision {
                assert_eq!(shown["vm"]["metadata_name"], vm);
                assert_eq!(event["scope"], "self");
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{vm}: {shown}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    let requests = server.get("/simulator/state").json()["requests"].clone();
    assert_eq!(requests["approvals"], 1);
}

#[tokio::test]
async fn demo_has_the_scale_set_and_name_of_its_flags() {
    let mut demo = Process::start([
        "demo",
        "--web.listen-address=127.0.0.1:0",
        "--vm.name=batch_1a2b3c4d",
        "--vm.scale-set=batch",
        "--vm.os-type=windows",
    ]);
    let line = demo.says("VM identity resolved").await;
    for words in ["name=batch_1a2b3c4d", "vm_scale_set=batch"] {
        assert!(line.contains(words), "{line}");
    }
}
