//! The push of an event that names several VMs, and external labels.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    alertmanager::{PushTiming, Target},
    config::Config,
    time::Timestamp,
};
use serde_json::json;

use crate::support::{
    FakeAlertmanager, FakeImds, Reply,
    events::{document, event},
    exporter::{Exporter, Metrics, settings},
    process::{Process, exporter},
};

/// The relations of the real values, in milliseconds.
const TIMING: PushTiming = PushTiming {
    resend_interval: Duration::from_millis(50),
    retry_interval: Duration::from_millis(50),
    max_retry_interval: Duration::from_millis(50),
    push_timeout: Duration::from_secs(2),
};
const VMS: [&str; 3] = ["web_0", "web_1", "web_2"];

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
            "--alertmanager.external-label=k8s.cluster.name=Größe",
            "--alertmanager.external-label=1 größe=a",
        ]);
    let _exporter = Process::start_as(&mut command);
    alertmanager.until_pushed().await;
    let alert = alertmanager.alerts().remove(0);
    // The year 2999 is days ahead.
    let expected = json!({
        "alertname": "AzureScheduledEventDegradedHardware", "severity": "warning", "cluster": "eu=1",
        "k8s.cluster.name": "Größe", "1 größe": "a",
        "event_id": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265", "event_type": "Reboot", "event_source": "Platform",
    });
    assert_eq!(alert.labels, expected);
}
