//! How many notifications an event causes, from Azure's announcement to the webhook.
//!
//! Only numbers are asserted; `benches/paging.py` measures delays.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::alerting::{Alertmanager, Gate, NOTIFICATION_DEADLINE, Prometheus};
use crate::support::exporter::Exporter;
use crate::support::webhook::{AUTOMATION, Notification};
use crate::support::{HTTPS, Tool, cached, certificates, system, wait_until, wait_until_for};

// Each test runs an old or a new version.
fn prometheus_2() -> std::path::PathBuf {
    system(Tool::Debian, "/usr/bin/prometheus")
}

fn prometheus_3() -> std::path::PathBuf {
    cached(Tool::Prometheus3, "prometheus", "prometheus")
}

fn old_alertmanager() -> std::path::PathBuf {
    system(Tool::Debian, "/usr/bin/prometheus-alertmanager")
}

fn new_alertmanager() -> std::path::PathBuf {
    cached(Tool::Alertmanager, "alertmanager", "alertmanager")
}

async fn azure(folder: &Path) -> Exporter {
    Exporter::simulator(folder, &["--vm.name=web_0"]).await
}

/// A scenario with one event of `web_0`.
fn event(event_type: &str, notice: &str, started_for: &str) -> Value {
    json!({ "events": [{
        "event_type": event_type, "resources": ["web_0"], "notice": notice, "started_for": started_for,
    }] })
}

fn names(notifications: &[Notification]) -> Vec<&str> {
    let names = notifications.iter().map(|one| one.alert_name.as_str());
    names.collect()
}

/// One alert has fired and was resolved, with one notification each.
fn assert_notified_once(alertmanager: &Alertmanager, alert_name: &str) {
    for status in ["firing", "resolved"] {
        let notifications = alertmanager.webhook.of_events(status);
        assert_eq!(names(&notifications), [alert_name], "{status}");
    }
}

/// A Spot VM is evicted: 30 s of notice, and the VM dies as soon as its exporter has reported the event.
async fn preempted(prometheus: Option<&Path>, alertmanager: &Path, pushing: bool) {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(alertmanager, folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", pushing.then_some(&alertmanager), folder).await;
    let mut prometheus = match prometheus {
        Some(program) => Some(Prometheus::start(program, 5, &[&vm], &alertmanager, folder).await),
        None => None,
    };
    azure.play(event("Preempt", "30s", "5s")).await;
    if let Some(prometheus) = &mut prometheus {
        let scraped = "azure_scheduled_event_not_before_timestamp_seconds";
        prometheus
            .until(&format!("count_over_time({scraped}[1m]) >= 2"))
            .await;
    }
    if pushing {
        alertmanager.until_active().await;
    }
    drop(vm);
    alertmanager.until_notified("firing", 1).await;
    if let Some(prometheus) = &mut prometheus {
        prometheus.until_evaluated().await;
    }
    alertmanager.until_flushed().await;
    let fired = alertmanager.webhook.of_events("firing");
    assert_eq!(names(&fired), ["AzureScheduledEventPreempt"]);
    assert_eq!(fired[0].receiver, "chat");
    assert!(
        fired[0].description.starts_with("VM: web_0\n"),
        "{}",
        fired[0].description
    );
    assert_eq!(names(&alertmanager.webhook.of_events("resolved")), [""; 0]);
    let active = amtool(&alertmanager, &fired[0].event_id);
    let preempts = active
        .iter()
        .filter(|alert| alert["labels"]["alertname"] == "AzureScheduledEventPreempt");
    assert_eq!(preempts.count(), 1, "push and rules differ: {active:#?}");
}

/// The active alerts of an event.
fn amtool(alertmanager: &Alertmanager, event_id: &str) -> Vec<Value> {
    let program = system(Tool::Debian, "/usr/bin/amtool");
    let done = Command::new(program)
        .args(["alert", "query", "--output=json"])
        .arg(format!("--alertmanager.url={}", alertmanager.url()))
        .arg(format!("event_id={event_id}"))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    serde_json::from_slice(&done.stdout).unwrap()
}

#[tokio::test]
async fn preempt_of_a_vm_that_dies_after_two_scrapes_notifies_once() {
    preempted(Some(&prometheus_3()), &new_alertmanager(), false).await;
}

#[tokio::test]
async fn preempt_of_a_vm_that_dies_after_the_push_notifies_once() {
    preempted(None, &new_alertmanager(), true).await;
}

#[tokio::test]
async fn preempt_by_push_and_by_prometheus_notifies_once() {
    preempted(Some(&prometheus_2()), &old_alertmanager(), true).await;
}

#[tokio::test]
async fn preempt_by_push_alone_notifies_once_and_is_resolved_when_it_ends() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", Some(&alertmanager), folder).await;
    azure.play(event("Preempt", "10s", "3s")).await;
    alertmanager.until_notified("resolved", 1).await;
    vm.until_resolved(1).await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventPreempt");
}

/// Alertmanager's own TLS server asks for the certificate.
#[tokio::test]
async fn alertmanager_that_asks_for_a_certificate_gets_the_alert_of_the_exporter_that_has_one() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    certificates(folder);
    let web = "tls_server_config: {cert_file: server.pem, key_file: server-key.pem, \
               client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem}";
    let alertmanager =
        Alertmanager::start_with_web_config(&new_alertmanager(), folder, HTTPS, web).await;
    let azure = azure(folder).await;
    let url = format!("https://{}", alertmanager.address);
    let file = |flag: &str, name: &str| {
        format!("--alertmanager.{flag}-file={}", folder.join(name).display())
    };
    let start = async |vm: &str, files: Vec<String>| {
        let mut flags = vec![
            format!("--imds.url={}", azure.url("")),
            format!("--vm.name={vm}"),
            format!("--alertmanager.url={url}"),
            file("ca", "ca.pem"),
        ];
        flags.extend(files);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let home = folder.join(vm);
        fs::create_dir(&home).unwrap();
        Exporter::run((Ipv4Addr::LOCALHOST, 0).into(), &flags, &home).await
    };
    let up = |value| format!("azure_scheduled_events_receiver_up{{receiver=\"{url}\"}} {value}");
    let anonymous = start("web_1", Vec::new()).await;
    anonymous.until(&up(0)).await;
    // Another thread writes the log.
    wait_until("the refusal in the log", async || {
        let remedy = "CertificateRequired; if it asks for a client certificate, set --alertmanager.cert-file";
        anonymous.log().contains(remedy).then_some(())
    })
    .await;
    let files = vec![file("cert", "client.pem"), file("key", "client-key.pem")];
    let vm = start("web_0", files).await;
    vm.until(&up(1)).await;
    azure.play(event("Preempt", "30s", "5s")).await;
    alertmanager.until_notified("firing", 1).await;
    let fired = alertmanager.webhook.of_events("firing");
    assert_eq!(names(&fired), ["AzureScheduledEventPreempt"]);
    anonymous.until(&up(0)).await;
}

/// The exporter of `web_0` by a command of the shell, which pushes to this URL.
async fn started_by(command: &str, azure: &Exporter, url: &str, folder: &Path) -> Exporter {
    let flags = [
        format!("--imds.url={}", azure.url("")),
        "--vm.name=web_0".to_owned(),
        format!("--alertmanager.url={url}"),
    ];
    let flags = flags.each_ref().map(String::as_str);
    Exporter::run_by(command, &flags, folder).await
}

/// A VM whose clock differs by this is evicted.
async fn preempted_by_another_clock(offset: &str) {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    system(Tool::Debian, "/usr/bin/faketime");
    // The program `faketime` has a child, which would go on after the test.
    let library = "$(echo /usr/lib/*/faketime/libfaketime.so.1)";
    let command = format!(
        "env LD_PRELOAD=\"{library}\" FAKETIME={offset} FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1"
    );
    let vm = started_by(&command, &azure, &alertmanager.url(), folder).await;
    azure.play(event("Preempt", "10s", "3s")).await;
    alertmanager.until_notified("resolved", 1).await;
    vm.until_resolved(1).await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventPreempt");
    let log = vm.log();
    assert_eq!(log.matches("clock of alertmanager").count(), 1, "{log}");
}

#[tokio::test]
async fn preempt_of_a_vm_whose_clock_is_an_hour_ahead_is_notified_and_resolved_once() {
    preempted_by_another_clock("+1h").await;
}

#[tokio::test]
async fn preempt_of_a_vm_whose_clock_is_twenty_minutes_behind_is_notified_and_resolved_once() {
    preempted_by_another_clock("-20m").await;
}

/// The name is in `/etc/hosts` of a mount namespace of the exporter, which needs root.
#[tokio::test]
async fn preempt_is_notified_by_the_alertmanager_of_a_name_that_is_there() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    fs::write(
        folder.join("hosts"),
        "127.0.0.1 am.test\n127.0.0.9 am.test\n",
    )
    .unwrap();
    let (_, port) = alertmanager.address.split_once(':').unwrap();
    let url = format!("http://am.test:{port}");
    let command = "unshare --mount sh -c 'mount --bind hosts /etc/hosts && exec \"$@\"' sh";
    let vm = started_by(command, &azure, &url, folder).await;
    azure.play(event("Preempt", "30s", "5s")).await;
    alertmanager.until_notified("firing", 1).await;
    vm.until(&format!(
        "azure_scheduled_events_receiver_up{{receiver=\"{url}\"}} 1"
    ))
    .await;
    let log = vm.log();
    let away = "\"alert push failed\"";
    let line = log.lines().find(|line| line.contains(away)).unwrap();
    assert!(line.contains("address=127.0.0.9 "), "{log}");
}

/// An Alertmanager behind a proxy that answers 503 from before the end of an event until two minutes after it.
#[tokio::test]
async fn end_that_an_alertmanager_refuses_for_minutes_is_notified_once() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let gate = Gate::start(&alertmanager).await;
    let azure = azure(folder).await;
    let url = format!("http://{}", gate.address);
    let vm = started_by("env", &azure, &url, folder).await;
    azure.play(event("Preempt", "10s", "10s")).await;
    alertmanager.until_notified("firing", 1).await;
    gate.is_closed.store(true, Relaxed);
    vm.until("event_status=\"Ended\"} 1").await;
    vm.until(&format!(
        "azure_scheduled_events_receiver_up{{receiver=\"{url}\"}} 0"
    ))
    .await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    gate.is_closed.store(false, Relaxed);
    alertmanager.until_notified("resolved", 1).await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventPreempt");
}

/// Each of them pushes the end.
async fn ended_for_two_vms(alertmanager: &Path) {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(alertmanager, folder).await;
    let azure = azure(folder).await;
    let mut vms = Vec::new();
    for vm in ["web_0", "web_1"] {
        vms.push(Exporter::of_vm(&azure, vm, Some(&alertmanager), folder).await);
    }
    let mut scenario = event("Freeze", "5s", "3s");
    scenario["events"][0]["resources"] = json!(["web_0", "web_1"]);
    azure.play(scenario).await;
    for vm in &vms {
        vm.until("event_status=\"Ended\"} 1").await;
    }
    for vm in &vms {
        vm.until_resolved(1).await;
    }
    alertmanager.until_notified("resolved", 1).await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventFreeze");
    let resolved = alertmanager.webhook.of_events("resolved");
    let description = &resolved[0].description;
    assert!(description.starts_with("VMs: web_0, web_1 (2)\n"));
    assert!(description.contains("\nOutcome: completed"));
}

#[tokio::test]
async fn event_of_two_vms_by_push_to_an_old_alertmanager_is_notified_and_resolved_once() {
    ended_for_two_vms(&old_alertmanager()).await;
}

#[tokio::test]
async fn event_of_two_vms_by_push_to_a_new_alertmanager_is_notified_and_resolved_once() {
    ended_for_two_vms(&new_alertmanager()).await;
}

#[tokio::test]
async fn reboot_that_kills_its_exporter_by_push_alone_notifies_once_and_is_resolved_after_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", Some(&alertmanager), folder).await;
    azure.play(event("Reboot", "5s", "20s")).await;
    vm.until("event_status=\"Started\"} 1").await;
    drop(vm);
    let _vm = Exporter::of_vm(&azure, "web_0", Some(&alertmanager), folder).await;
    alertmanager.until_notified("resolved", 1).await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventReboot");
    let resolved = alertmanager.webhook.of_events("resolved");
    assert!(resolved[0].description.contains("\nOutcome: completed"));
}

#[tokio::test]
async fn reboot_that_kills_its_exporter_notifies_once_and_is_resolved_after_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&old_alertmanager(), folder).await;
    let azure = azure(folder).await;
    // The exporter comes back on the same port, which no other socket gets meanwhile: no other test uses this address.
    let alone = (Ipv4Addr::new(127, 0, 0, 6), 0).into();
    let vm = Exporter::of_vm_at(alone, &azure, "web_0", None, folder).await;
    let address = vm.address.parse().unwrap();
    let mut prometheus = Prometheus::start(&prometheus_2(), 1, &[&vm], &alertmanager, folder).await;
    azure.play(event("Reboot", "8s", "30s")).await;
    prometheus
        .until("azure_scheduled_event_not_before_timestamp_seconds <= time()")
        .await;
    drop(vm);
    prometheus.until("up == 0").await;
    let _vm = Exporter::of_vm_at(address, &azure, "web_0", None, folder).await;
    prometheus
        .until("azure_scheduled_event_started_timestamp_seconds")
        .await;
    alertmanager.until_notified("resolved", 1).await;
    prometheus.until_evaluated().await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventReboot");
}

#[tokio::test]
async fn three_freezes_of_twenty_vms_by_push_and_by_prometheus_are_three_notifications() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vms: Vec<String> = (0..20).map(|number| format!("web_{number}")).collect();
    let mut exporters = Vec::new();
    for vm in &vms {
        exporters.push(Exporter::of_vm(&azure, vm, Some(&alertmanager), folder).await);
    }
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let mut prometheus =
        Prometheus::start(&prometheus_3(), 1, &targets, &alertmanager, folder).await;
    let freeze = json!({
        "event_type": "Freeze", "resources": vms, "notice": "20s", "started_for": "10s",
    });
    azure
        .play(json!({ "events": [freeze, freeze, freeze] }))
        .await;
    alertmanager.until_notified("resolved", 3).await;
    for exporter in &exporters {
        exporter.until_resolved(3).await;
    }
    prometheus.until_evaluated().await;
    alertmanager.until_flushed().await;
    for status in ["firing", "resolved"] {
        let notifications = alertmanager.webhook.of_events(status);
        let expected = ["AzureScheduledEventFreeze"; 3];
        assert_eq!(names(&notifications), expected, "{status}");
        let ids: BTreeSet<_> = notifications.iter().map(|one| &one.event_id).collect();
        assert_eq!(ids.len(), 3, "{status}");
    }
    // Events that affect the whole fleet at once have an alert of their own and no other.
    let mut others = alertmanager.webhook.received();
    others.retain(|one| one.event_id.is_empty());
    assert!(
        others.iter().all(|one| one.alert_name.ends_with("AtRisk")),
        "{others:#?}"
    );
}

/// 25 Spot VMs are evicted within five seconds, by push and by Prometheus.
async fn storm(prometheus: &Path, alertmanager: &Path) {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start_as_example(alertmanager, folder).await;
    let azure = azure(folder).await;
    let vms: Vec<String> = (0..25).map(|number| format!("web_{number}")).collect();
    let mut exporters = Vec::new();
    for vm in &vms {
        exporters.push(Exporter::of_vm(&azure, vm, Some(&alertmanager), folder).await);
    }
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let _prometheus = Prometheus::start(prometheus, 1, &targets, &alertmanager, folder).await;
    let evictions = vms.iter().enumerate().map(|(number, vm)| {
        json!({
            "at": format!("{}ms", 200 * number), "event_type": "Preempt", "resources": [vm],
            "notice": "30s", "started_for": "5s",
        })
    });
    azure
        .play(json!({ "events": evictions.collect::<Vec<_>>() }))
        .await;
    let chat = |status| {
        let notifications = alertmanager.webhook.of_events(status);
        let evictions = notifications
            .into_iter()
            .filter(|one| one.receiver == "chat");
        evictions.map(|one| one.event_id).collect::<BTreeSet<_>>()
    };
    for status in ["firing", "resolved"] {
        wait_until_for(NOTIFICATION_DEADLINE, status, async || {
            let count = chat(status).len();
            (count == 25)
                .then_some(())
                .ok_or_else(|| format!("{count} of 25"))
        })
        .await;
    }
    let requests = ["chat", "pager-and-chat"].map(|it| alertmanager.webhook.requests(it));
    // The first eviction, the others after `group_interval`, and at most two when they end.
    assert!(requests[0] <= 4, "{requests:?}");
    // That of many VMs, and no event by itself.
    assert_eq!(requests[1], 1, "{requests:?}");
    let received = alertmanager.webhook.received();
    let paged = received
        .iter()
        .filter(|one| one.receiver == "pager-and-chat");
    assert!(
        paged.clone().all(|one| one.event_id.is_empty()),
        "{:#?}",
        paged.collect::<Vec<_>>()
    );
    // The automation receives each eviction by itself.
    assert!(alertmanager.webhook.requests(AUTOMATION) >= 25);
}

#[tokio::test]
async fn storm_of_25_evictions_pages_once_and_is_few_notifications_in_the_chat() {
    storm(&prometheus_3(), &new_alertmanager()).await;
}

#[tokio::test]
async fn storm_of_25_evictions_pages_once_with_old_alertmanager() {
    storm(&prometheus_2(), &old_alertmanager()).await;
}

#[tokio::test]
async fn canceled_maintenance_notifies_once_and_is_resolved_once() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", Some(&alertmanager), folder).await;
    let mut prometheus = Prometheus::start(&prometheus_2(), 1, &[&vm], &alertmanager, folder).await;
    let mut scenario = event("Redeploy", "5m", "1m");
    scenario["events"][0]["canceled_after"] = json!("15s");
    azure.play(scenario).await;
    alertmanager.until_notified("resolved", 1).await;
    vm.until_resolved(1).await;
    prometheus.until_evaluated().await;
    alertmanager.until_flushed().await;
    assert_notified_once(&alertmanager, "AzureScheduledEventRedeploy");
}

#[tokio::test]
async fn events_of_fault_domains_notify_one_after_the_other() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let mut exporters = Vec::new();
    for vm in ["web_0", "web_1", "web_2"] {
        exporters.push(Exporter::of_vm(&azure, vm, None, folder).await);
    }
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let mut prometheus =
        Prometheus::start(&prometheus_3(), 1, &targets, &alertmanager, folder).await;
    let domain = |number: u32| {
        json!({
            "at": format!("{}s", 12 * number), "event_type": "Freeze", "resources": [format!("web_{number}")],
            "notice": "14s", "started_for": "6s",
        })
    };
    azure
        .play(json!({ "events": [domain(0), domain(1), domain(2)] }))
        .await;
    alertmanager.until_notified("resolved", 3).await;
    prometheus.until_evaluated().await;
    alertmanager.until_flushed().await;
    let both = ["firing", "resolved"].map(|status| alertmanager.webhook.of_events(status));
    for notifications in &both {
        assert_eq!(names(notifications), ["AzureScheduledEventFreeze"; 3]);
    }
    let ids = both.map(|all| all.into_iter().map(|one| one.event_id).collect::<Vec<_>>());
    assert_eq!(ids[0], ids[1], "in the same order");
    let distinct: BTreeSet<_> = ids[0].iter().collect();
    assert_eq!(distinct.len(), 3);
}

#[tokio::test]
async fn exporter_that_is_down_without_an_event_notifies_its_operator() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let alertmanager = Alertmanager::start(&old_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", Some(&alertmanager), folder).await;
    let _prometheus = Prometheus::start(&prometheus_2(), 1, &[&vm], &alertmanager, folder).await;
    drop(vm);
    wait_until("AzureScheduledEventsExporterDown", async || {
        let received = alertmanager.webhook.received();
        let mut names = received.iter().map(|one| one.alert_name.as_str());
        names
            .any(|name| name == "AzureScheduledEventsExporterDown")
            .then_some(())
    })
    .await;
    let received = alertmanager.webhook.received();
    assert_eq!(names(&received), ["AzureScheduledEventsExporterDown"]);
    assert_eq!(received[0].receiver, "mail");
}
