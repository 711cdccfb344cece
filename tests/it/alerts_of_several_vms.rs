//! Several exporters that push the alert of one event to one Alertmanager, and their external labels.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    alertmanager::{PushTiming, Target},
    config::Config,
    time::Timestamp,
};
use serde_json::json;

use crate::support::{
    FakeAlertmanager, FakeImds, Reply,
    alertmanager::ReceivedAlert,
    events::{document, event},
    exporter::{Exporter, Metrics, settings},
    process::{Process, exporter},
};

/// The relations of the real values, in milliseconds.
const TIMING: PushTiming = PushTiming {
    resend_interval: Duration::from_millis(50),
    blind_after: Duration::from_millis(200),
    resolve_after: Duration::from_secs(2),
    retry_interval: Duration::from_millis(50),
    max_retry_interval: Duration::from_millis(50),
    push_timeout: Duration::from_secs(2),
};
const VMS: [&str; 3] = ["web_0", "web_1", "web_2"];
const NOTHING: &str = r#"{"DocumentIncarnation":9,"Events":[]}"#;

/// A Reboot of these VMs.
fn reboot(vms: &[&str]) -> Reply {
    let members = json!({ "EventType": "Reboot", "Resources": vms });
    document(8, [event(&members)])
}

fn pushing(imds: &FakeImds, vm: Option<&str>, alertmanager: &FakeAlertmanager) -> Config {
    let mut settings = settings(&imds.base());
    settings.imds.vm_name = vm.map(Into::into);
    let mut target = Target::new(&alertmanager.base()).unwrap();
    target.timing = TIMING;
    settings.alertmanagers = vec![target];
    settings
}

/// An exporter with an IMDS of its own for each VM.
async fn fleet(alertmanager: &FakeAlertmanager) -> Vec<(FakeImds, Exporter)> {
    let mut fleet = Vec::new();
    for vm in VMS {
        let imds = FakeImds::standing(reboot(&VMS)).await;
        let exporter = Exporter::start(pushing(&imds, Some(vm), alertmanager));
        fleet.push((imds, exporter));
    }
    alertmanager
        .until("each VM pushes the event", |it| it.alerts().len() >= 9)
        .await;
    fleet
}

async fn stop(fleet: Vec<(FakeImds, Exporter)>) {
    for (_imds, exporter) in fleet {
        exporter.stop().await;
    }
}

#[tokio::test]
async fn end_is_pushed_by_each_vm_and_one_that_lost_imds_pushes_no_more() {
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let fleet = fleet(&alertmanager).await;
    let (blind, seeing) = fleet.split_first().unwrap();
    blind.0.now(Reply::error("500 Internal Server Error", "no"));
    blind
        .1
        .until("polls fail", |metrics| {
            metrics.failures("status_5xx") >= 4.0
        })
        .await;
    for (imds, _exporter) in seeing {
        imds.now(Reply::ok(NOTHING));
    }
    alertmanager
        .until("only ends are pushed", |it| {
            let alerts = it.alerts();
            let mut last = alerts.iter().rev().take(8);
            it.ends().len() >= 8 && last.all(ReceivedAlert::is_end)
        })
        .await;
    assert!(!blind.1.metrics().await.is_up());
    stop(fleet).await;
    let ends = alertmanager.ends();
    let summary = &ends[3].annotations["summary"];
    assert_eq!(
        *summary,
        json!("Degraded hardware: Reboot of web_0 and 2 more VMs cancelled")
    );
}

#[tokio::test]
async fn event_is_pushed_with_the_names_of_its_resources_while_the_name_of_the_vm_is_unknown() {
    let imds = FakeImds::standing(reboot(&VMS)).await;
    imds.identity(Reply::error("404 Not Found", "classic"));
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, None, &alertmanager));
    alertmanager.until_pushed().await;
    let alert = alertmanager.alerts().remove(0);
    let description = alert.annotations["description"].as_str().unwrap();
    assert!(
        description.starts_with("VMs: web_0, web_1, web_2 (3)\nWhat: Reboot: "),
        "{description}"
    );
    // The name is known, and it is another VM's event.
    imds.identity(Reply::ok(r#"{"name":"db_0"}"#));
    let is_named = |it: &Metrics| it.0.contains("azure_scheduled_events_vm_info{");
    exporter.until("the VM is known", is_named).await;
    alertmanager
        .until("it is withdrawn", |it| !it.ends().is_empty())
        .await;
    exporter.stop().await;
    let [end] = alertmanager.ends().try_into().unwrap();
    assert!(Timestamp::parse(&end.ends_at).unwrap() <= Timestamp::now());
}

#[tokio::test]
async fn external_labels_are_added_to_pushed_alerts() {
    let imds = FakeImds::standing(reboot(&["web_0"])).await;
    let alertmanager = FakeAlertmanager::scripted([]).await;
    let mut command = exporter(&imds);
    command
        .arg(format!("--alertmanager.url={}", alertmanager.base()))
        .args([
            "--alertmanager.external-label=cluster=eu=1",
            "--alertmanager.external-label=team=Größe",
        ]);
    let _exporter = Process::start_as(&mut command);
    alertmanager.until_pushed().await;
    let alert = alertmanager.alerts().remove(0);
    // The year 2999 is days ahead.
    let expected = json!({
        "alertname": "AzureScheduledEventDegradedHardware", "severity": "warning", "cluster": "eu=1", "team": "Größe",
        "event_id": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265", "event_type": "Reboot", "event_source": "Platform",
    });
    assert_eq!(alert.labels, expected);
}
