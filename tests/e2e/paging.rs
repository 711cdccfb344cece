//! What a person reads, and how often: from Azure's announcement to the webhook, by way of real parts.
//!
//! Notifications are counted; how fast they come is measured by `benches/paging.py` and asserted nowhere.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::paging::{Pager, Prometheus};
use crate::support::webhook::Notification;
use crate::support::{Part, cached, system, wait_until};

fn debians_prometheus() -> std::path::PathBuf {
    system(Part::Debian, "/usr/bin/prometheus")
}

fn prometheus_3() -> std::path::PathBuf {
    cached(Part::Prometheus3, "prometheus", "prometheus")
}

/// The old end of what people run, and the new one: each test has one of them.
fn debians_alertmanager() -> std::path::PathBuf {
    system(Part::Debian, "/usr/bin/prometheus-alertmanager")
}

fn new_alertmanager() -> std::path::PathBuf {
    cached(Part::Alertmanager, "alertmanager", "alertmanager")
}

async fn azure(folder: &Path) -> Exporter {
    Exporter::simulator(folder, &["--vm.name=web_0"]).await
}

/// A scenario of one event of `web_0`.
fn event(event_type: &str, notice: &str, started_for: &str) -> Value {
    json!({ "events": [{
        "event_type": event_type, "resources": ["web_0"], "notice": notice, "started_for": started_for,
    }] })
}

fn names(notifications: &[Notification]) -> Vec<&str> {
    notifications.iter().map(|one| one.name.as_str()).collect()
}

/// A Spot VM is evicted: 30 s of notice, and it is gone after ten.
async fn preempted(prometheus: Option<&Path>, alertmanager: &Path, pushing: bool) {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(alertmanager, folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", pushing.then_some(&pager), folder).await;
    let _prometheus = match prometheus {
        Some(program) => Some(Prometheus::start(program, 5, &[&vm], &pager, folder).await),
        None => None,
    };
    azure.play(event("Preempt", "30s", "5s")).await;
    pager.pass(10.0).await;
    drop(vm);
    pager.until_read("firing", 1).await;
    pager.settle().await;
    let read = pager.webhook.of_events("firing");
    assert_eq!(names(&read), ["AzureScheduledEventPreempt"]);
    assert_eq!(read[0].receiver, "pager-and-chat");
    assert!(
        read[0]
            .description
            .starts_with("VM: web_0 (the event names 1)\n"),
        "{}",
        read[0].description
    );
    assert_eq!(names(&pager.webhook.of_events("resolved")), [""; 0]);
    let merged = amtool(&pager, &read[0].event_id);
    let preempts = merged
        .iter()
        .filter(|alert| alert["labels"]["alertname"] == "AzureScheduledEventPreempt");
    assert_eq!(
        preempts.count(),
        1,
        "both ways tell the same alert: {merged:#?}"
    );
}

/// The alerts of an event that Alertmanager has.
fn amtool(pager: &Pager, event_id: &str) -> Vec<Value> {
    let program = system(Part::Debian, "/usr/bin/amtool");
    let done = Command::new(program)
        .args(["alert", "query", "--output=json"])
        .arg(format!("--alertmanager.url={}", pager.url()))
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
async fn a_preempt_is_told_once_by_scraping_every_five_seconds_though_its_vm_dies_after_ten() {
    preempted(Some(&prometheus_3()), &new_alertmanager(), false).await;
}

#[tokio::test]
async fn a_preempt_is_told_once_by_push_alone_though_its_vm_dies_after_ten_seconds() {
    preempted(None, &new_alertmanager(), true).await;
}

#[tokio::test]
async fn a_preempt_that_comes_by_push_and_by_prometheus_is_told_once() {
    preempted(Some(&debians_prometheus()), &debians_alertmanager(), true).await;
}

#[tokio::test]
async fn a_preempt_is_told_once_by_push_alone_and_resolved_when_it_is_over() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let _vm = Exporter::of_vm(&azure, "web_0", Some(&pager), folder).await;
    azure.play(event("Preempt", "10s", "3s")).await;
    pager.until_read("resolved", 1).await;
    pager.settle().await;
    assert_eq!(
        names(&pager.webhook.of_events("firing")),
        ["AzureScheduledEventPreempt"]
    );
    assert_eq!(
        names(&pager.webhook.of_events("resolved")),
        ["AzureScheduledEventPreempt"]
    );
}

#[tokio::test]
async fn a_reboot_that_kills_its_exporter_at_its_time_is_told_once_and_resolved_after_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(&debians_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", None, folder).await;
    let address = vm.address.clone();
    let mut prometheus = Prometheus::start(&debians_prometheus(), 1, &[&vm], &pager, folder).await;
    azure.play(event("Reboot", "8s", "30s")).await;
    prometheus
        .until("azure_scheduled_event:remaining_seconds <= 0")
        .await;
    drop(vm);
    prometheus.until("up == 0").await;
    let _vm = Exporter::of_vm_at(address, &azure, "web_0", None, folder).await;
    prometheus.until("azure_scheduled_event:started == 1").await;
    pager.until_read("resolved", 1).await;
    pager.settle().await;
    assert_eq!(
        names(&pager.webhook.of_events("firing")),
        ["AzureScheduledEventReboot"]
    );
    assert_eq!(
        names(&pager.webhook.of_events("resolved")),
        ["AzureScheduledEventReboot"]
    );
}

#[tokio::test]
async fn three_freezes_of_twenty_vms_that_all_tell_both_ways_are_three_notifications() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vms: Vec<String> = (0..20).map(|number| format!("web_{number}")).collect();
    let mut exporters = Vec::new();
    for vm in &vms {
        exporters.push(Exporter::of_vm(&azure, vm, Some(&pager), folder).await);
    }
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let _prometheus = Prometheus::start(&prometheus_3(), 1, &targets, &pager, folder).await;
    let freeze = json!({
        "event_type": "Freeze", "resources": vms, "notice": "20s", "started_for": "10s",
    });
    azure
        .play(json!({ "events": [freeze, freeze, freeze] }))
        .await;
    pager.until_read("resolved", 3).await;
    pager.settle().await;
    for status in ["firing", "resolved"] {
        let read = pager.webhook.of_events(status);
        assert_eq!(names(&read), ["AzureScheduledEventFreeze"; 3], "{status}");
        let ids: BTreeSet<_> = read.iter().map(|one| &one.event_id).collect();
        assert_eq!(ids.len(), 3, "{status}");
    }
    // Three events that hit the whole fleet at once are worth a word of their own, and nothing else is said.
    let others = pager
        .webhook
        .taken()
        .into_iter()
        .filter(|one| one.event_id.is_empty());
    let is_of_many = |one: &Notification| one.name.ends_with("AtRisk");
    assert!(
        others.clone().all(|one| is_of_many(&one)),
        "{:#?}",
        others.collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn maintenance_that_is_taken_back_is_told_once_and_resolved_once() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", Some(&pager), folder).await;
    let _prometheus = Prometheus::start(&debians_prometheus(), 1, &[&vm], &pager, folder).await;
    let mut scenario = event("Redeploy", "5m", "1m");
    scenario["events"][0]["canceled_after"] = json!("15s");
    azure.play(scenario).await;
    pager.until_read("resolved", 1).await;
    pager.settle().await;
    assert_eq!(
        names(&pager.webhook.of_events("firing")),
        ["AzureScheduledEventRedeploy"]
    );
    assert_eq!(
        names(&pager.webhook.of_events("resolved")),
        ["AzureScheduledEventRedeploy"]
    );
}

#[tokio::test]
async fn fault_domains_one_after_the_other_are_told_one_by_one() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(&new_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let mut exporters = Vec::new();
    for vm in ["web_0", "web_1", "web_2"] {
        exporters.push(Exporter::of_vm(&azure, vm, None, folder).await);
    }
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let _prometheus = Prometheus::start(&prometheus_3(), 1, &targets, &pager, folder).await;
    let domain = |number: u32| {
        json!({
            "at": format!("{}s", 12 * number), "event_type": "Freeze", "resources": [format!("web_{number}")],
            "notice": "14s", "started_for": "6s",
        })
    };
    azure
        .play(json!({ "events": [domain(0), domain(1), domain(2)] }))
        .await;
    pager.until_read("resolved", 3).await;
    pager.settle().await;
    let told = ["firing", "resolved"].map(|status| pager.webhook.of_events(status));
    for read in &told {
        assert_eq!(names(read), ["AzureScheduledEventFreeze"; 3]);
    }
    let ids = told.map(|read| read.into_iter().map(|one| one.event_id).collect::<Vec<_>>());
    assert_eq!(ids[0], ids[1], "in the same order");
    let distinct: BTreeSet<_> = ids[0].iter().collect();
    assert_eq!(distinct.len(), 3, "one each");
}

#[tokio::test]
async fn an_exporter_that_is_down_without_an_event_is_told_to_who_keeps_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let pager = Pager::start(&debians_alertmanager(), folder).await;
    let azure = azure(folder).await;
    let vm = Exporter::of_vm(&azure, "web_0", Some(&pager), folder).await;
    let _prometheus = Prometheus::start(&debians_prometheus(), 1, &[&vm], &pager, folder).await;
    drop(vm);
    wait_until("the down exporter is told", async || {
        let taken = pager.webhook.taken();
        taken
            .iter()
            .any(|one| one.name == "AzureScheduledEventsExporterDown")
            .then_some(())
    })
    .await;
    let taken = pager.webhook.taken();
    assert_eq!(names(&taken), ["AzureScheduledEventsExporterDown"]);
    assert_eq!(taken[0].receiver, "mail");
}
