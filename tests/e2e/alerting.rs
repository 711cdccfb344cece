//! How many notifications an event causes, from Azure's announcement to the webhook.
//!
//! Only numbers are asserted; `benches/paging.py` measures delays.

use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::alerting::{Alertmanager, Gate, NOTIFICATION_DEADLINE, WAITS};
use crate::support::exporter::{Exporter, PROGRAM};
use crate::support::webhook::{AUTOMATION, Notification};
use crate::support::{
    Daemon, HTTPS, Prometheus, Tool, cached, certificates, system, wait_until, wait_until_for,
};

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

/// A simulated Azure and the Alertmanager of its VMs.
struct Cloud {
    alertmanager: Alertmanager,
    azure: Exporter,
    /// The last one, because it has the logs.
    folder: TempDir,
}

impl Cloud {
    async fn start(alertmanager: &Path) -> Self {
        Self::start_with(&WAITS, alertmanager).await
    }

    /// With other waits of Alertmanager.
    async fn start_with(waits: &[(&str, &str)], alertmanager: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let alertmanager = Alertmanager::start(waits, alertmanager, folder.path()).await;
        Self::of(alertmanager, folder).await
    }

    async fn of(alertmanager: Alertmanager, folder: TempDir) -> Self {
        Self {
            alertmanager,
            azure: Exporter::simulator(folder.path(), &["--vm.name=web_0"]).await,
            folder,
        }
    }

    async fn vm(&self, name: &str, flags: &[&str]) -> Exporter {
        Exporter::of_vm(&self.azure, name, flags, &[], self.folder.path()).await
    }

    /// A VM that pushes its alerts.
    async fn pushing_vm(&self, name: &str) -> Exporter {
        self.vm(name, &[&self.push_flag()]).await
    }

    /// This many of them.
    async fn pushing_vms(&self, count: usize) -> (Vec<String>, Vec<Exporter>) {
        let names: Vec<String> = (0..count).map(|number| format!("web_{number}")).collect();
        let mut vms = Vec::new();
        for name in &names {
            vms.push(self.pushing_vm(name).await);
        }
        (names, vms)
    }

    fn push_flag(&self) -> String {
        format!("--alertmanager.url={}", self.alertmanager.url())
    }

    /// Prometheus with its scrape interval in seconds.
    async fn prometheus(&self, program: &Path, seconds: u32, vms: &[&Exporter]) -> Prometheus {
        let folder = self.folder.path();
        Prometheus::with_rules(program, seconds, vms, &self.alertmanager, folder).await
    }

    /// One alert has fired and was resolved, with one notification each.
    async fn assert_notified_once(&self, alert_name: &str) {
        self.alertmanager.assert_notified(&[alert_name]).await;
    }
}

impl Alertmanager {
    /// These alerts of as many events have fired and were resolved, with one notification each.
    async fn assert_notified(&self, alert_names: &[&str]) {
        self.until_flushed().await;
        for status in ["firing", "resolved"] {
            let notifications = self.webhook.of_events(status);
            assert_eq!(names(&notifications), alert_names, "{status}");
            let ids: BTreeSet<_> = notifications.iter().map(|one| &one.event_id).collect();
            assert_eq!(ids.len(), alert_names.len(), "{status}");
        }
    }
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

/// A Spot VM is evicted: 30 s of notice, and the VM dies as soon as its exporter has reported the event.
async fn preempted(prometheus: Option<&Path>, alertmanager: &Path, pushing: bool) {
    let cloud = Cloud::start(alertmanager).await;
    let vm = if pushing {
        cloud.pushing_vm("web_0").await
    } else {
        cloud.vm("web_0", &[]).await
    };
    let mut prometheus = match prometheus {
        Some(program) => Some(cloud.prometheus(program, 5, &[&vm]).await),
        None => None,
    };
    cloud.azure.play(event("Preempt", "30s", "5s")).await;
    if let Some(prometheus) = &mut prometheus {
        let scraped = "azure_scheduled_event_not_before_timestamp_seconds";
        prometheus
            .until(&format!("count_over_time({scraped}[1m]) >= 2"))
            .await;
    }
    if pushing {
        cloud.alertmanager.until_active().await;
    }
    drop(vm);
    cloud.alertmanager.until_notified("firing", 1).await;
    if let Some(prometheus) = &mut prometheus {
        prometheus.until_evaluated().await;
    }
    cloud.alertmanager.until_flushed().await;
    let fired = cloud.alertmanager.webhook.of_events("firing");
    assert_eq!(names(&fired), ["AzureScheduledEventPreempt"]);
    assert_eq!(fired[0].receiver, "chat");
    assert!(
        fired[0].description.starts_with("VM: web_0\n"),
        "{}",
        fired[0].description
    );
    assert_eq!(
        names(&cloud.alertmanager.webhook.of_events("resolved")),
        [""; 0]
    );
    let active = amtool(&cloud.alertmanager, &fired[0].event_id);
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

/// An event of the VMs of two teams, and one of the first VM alone. Then its team changes. Each receiver is notified of
/// each alert once.
async fn owned(prometheus: Option<&Path>, alertmanager: &Path, pushing: bool) {
    const BOTH: &str = "11111111-52DA-4F6E-9C38-A40D7E91B265";
    const FIRST: &str = "22222222-52DA-4F6E-9C38-A40D7E91B265";
    let cloud = Cloud::start(alertmanager).await;
    let folder = cloud.folder.path();
    let other_azure = Exporter::simulator(folder, &["--vm.name=web_1"]).await;
    let team = |name: &str| json!({ "tags": { "team": name } });
    cloud.azure.play(team("shop")).await;
    other_azure.play(team("search")).await;
    let push = cloud.push_flag();
    let mut flags = vec!["--vm.owner-tag=Team"];
    flags.extend(pushing.then_some(&*push));
    let first = cloud.vm("web_0", &flags).await;
    let other = Exporter::of_vm(&other_azure, "web_1", &flags, &[], folder).await;
    let mut prometheus = match prometheus {
        Some(program) => Some(cloud.prometheus(program, 2, &[&first, &other]).await),
        None => None,
    };
    let reboot = |id: &str, vms: &[&str]| json!({ "event_id": id, "event_type": "Reboot", "notice": "30m", "resources": vms });
    let both = reboot(BOTH, &["web_0", "web_1"]);
    let events = json!({ "events": [both, reboot(FIRST, &["web_0"])] });
    cloud.azure.play(events).await;
    other_azure.play(json!({ "events": [both] })).await;
    cloud.alertmanager.until_notified("firing", 3).await;
    if let Some(prometheus) = &mut prometheus {
        // By the push, the notifications can come before the scrape from which Prometheus knows the first team.
        prometheus.until_evaluated().await;
    }

    let address = format!("--web.listen-address={}", first.address);
    drop(first);
    cloud.azure.play(team("search")).await;
    flags.push(&address);
    let _first = cloud.vm("web_0", &flags).await;
    cloud.alertmanager.until_notified("firing", 4).await;
    if let Some(prometheus) = &mut prometheus {
        cloud.alertmanager.until_notified("resolved", 2).await;
        prometheus.until_evaluated().await;
    }
    cloud.alertmanager.until_flushed().await;
    let to = |receiver, ids: &[&'static str]| {
        let ids = ids.iter();
        ids.map(|id| (receiver, *id)).collect::<Vec<_>>()
    };
    let firing = [
        to(AUTOMATION, &[BOTH, BOTH, FIRST, FIRST]),
        to("pager-and-chat", &[BOTH, FIRST]),
        to("shop", &[BOTH, FIRST]),
    ];
    assert_notifications(&cloud, "firing", &firing.concat());
    // By the push alone, an alert of the former team ends minutes later.
    let ended: &[_] = if prometheus.is_some() {
        &[BOTH, FIRST]
    } else {
        &[]
    };
    let resolved = [to(AUTOMATION, ended), to("shop", ended)];
    assert_notifications(&cloud, "resolved", &resolved.concat());
}

/// Receivers and events, in their order.
fn assert_notifications(cloud: &Cloud, status: &str, expected: &[(&str, &str)]) {
    let received = cloud.alertmanager.webhook.received();
    let of_events = received
        .iter()
        .filter(|it| it.status == status && !it.event_id.is_empty());
    let mut found: Vec<_> = of_events.map(|it| (&*it.receiver, &*it.event_id)).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{status}");
}

#[tokio::test]
async fn each_owner_is_notified_once_by_prometheus_also_if_the_owner_changes() {
    owned(Some(&prometheus_3()), &new_alertmanager(), false).await;
}

#[tokio::test]
async fn each_owner_is_notified_once_by_the_push_also_if_the_owner_changes() {
    owned(None, &old_alertmanager(), true).await;
}

#[tokio::test]
async fn each_owner_is_notified_once_by_both_also_if_the_owner_changes() {
    owned(Some(&prometheus_2()), &new_alertmanager(), true).await;
}

/// Alertmanager's own TLS server asks for the certificate.
#[tokio::test]
async fn alertmanager_that_asks_for_a_certificate_gets_the_alert_of_the_exporter_that_has_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_owned();
    certificates(&path);
    let web = "tls_server_config: {cert_file: server.pem, key_file: server-key.pem, \
               client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem}";
    let alertmanager =
        Alertmanager::start_with_web_config(&new_alertmanager(), &path, HTTPS, web).await;
    let url = format!("https://{}", alertmanager.address);
    let cloud = Cloud::of(alertmanager, folder).await;
    let file = |flag: &str, name: &str| {
        format!("--alertmanager.{flag}-file={}", path.join(name).display())
    };
    let own = [file("cert", "client.pem"), file("key", "client-key.pem")];
    let own = own.each_ref().map(String::as_str);
    let (url_flag, ca) = (format!("--alertmanager.url={url}"), file("ca", "ca.pem"));
    let flags = [&*url_flag, &*ca];
    let up = |value| format!("azure_scheduled_events_receiver_up{{receiver=\"{url}\"}} {value}");
    let anonymous = cloud.vm("web_1", &flags).await;
    anonymous.until(&up(0)).await;
    let remedy =
        "CertificateRequired; if it asks for a client certificate, set --alertmanager.cert-file";
    anonymous.until_logged(remedy, 1).await;
    let vm = cloud.vm("web_0", &[&flags[..], &own].concat()).await;
    vm.until(&up(1)).await;
    cloud.azure.play(event("Preempt", "30s", "5s")).await;
    cloud.alertmanager.until_notified("firing", 1).await;
    let fired = cloud.alertmanager.webhook.of_events("firing");
    assert_eq!(names(&fired), ["AzureScheduledEventPreempt"]);
    anonymous.until(&up(0)).await;
}

/// One clock is an hour ahead, the other twenty minutes behind.
#[tokio::test]
async fn freezes_of_vms_with_another_clock_are_notified_and_resolved_once() {
    let cloud = Cloud::start(&new_alertmanager()).await;
    system(Tool::Debian, "/usr/bin/faketime");
    // The program `faketime` has a child, which would go on after the test.
    let library = format!(
        "/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1",
        std::env::consts::ARCH
    );
    let mut vms = Vec::new();
    for (vm, offset) in [("web_0", "+1h"), ("web_1", "-20m")] {
        let variables = [
            ("LD_PRELOAD", &*library),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
        ];
        let (push, folder) = (cloud.push_flag(), cloud.folder.path());
        vms.push(Exporter::of_vm(&cloud.azure, vm, &[&push], &variables, folder).await);
    }
    let freeze = |vm: &str| json!({ "event_type": "Freeze", "resources": [vm], "notice": "10s", "started_for": "3s" });
    let events = [freeze("web_0"), freeze("web_1")];
    cloud.azure.play(json!({ "events": events })).await;
    cloud.alertmanager.until_notified("resolved", 2).await;
    for vm in &vms {
        vm.until_resolved(1).await;
    }
    let expected = ["AzureScheduledEventFreeze"; 2];
    cloud.alertmanager.assert_notified(&expected).await;
    for vm in vms {
        let log = vm.log();
        assert_eq!(log.matches("clock of alertmanager").count(), 1, "{log}");
    }
}

/// The name is in `/etc/hosts` of a mount namespace of the exporter, which needs root.
#[tokio::test]
async fn preempt_is_notified_by_the_alertmanager_of_a_name_that_is_there() {
    let cloud = Cloud::start(&new_alertmanager()).await;
    let hosts = "127.0.0.1 am.test\n127.0.0.9 am.test\n";
    fs::write(cloud.folder.path().join("hosts"), hosts).unwrap();
    let (_, port) = cloud.alertmanager.address.split_once(':').unwrap();
    let url = format!("http://am.test:{port}");
    let script = "mount --bind hosts /etc/hosts && exec \"$0\" \"$@\"";
    let imds = format!("--imds.url={}", cloud.azure.url(""));
    let push = format!("--alertmanager.url={url}");
    let args = [
        "--mount",
        "sh",
        "-c",
        script,
        PROGRAM,
        "--vm.name=web_0",
        "--web.listen-address=127.0.0.1:0",
        &imds,
        &push,
    ];
    let unshare = Path::new("/usr/bin/unshare");
    let vm = Exporter::of(Daemon::start(
        "exporter",
        unshare,
        args,
        cloud.folder.path(),
    ))
    .await;
    cloud.azure.play(event("Preempt", "30s", "5s")).await;
    cloud.alertmanager.until_notified("firing", 1).await;
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
    let cloud = Cloud::start(&new_alertmanager()).await;
    let gate = Gate::start(&cloud.alertmanager).await;
    let url = format!("http://{}", gate.address);
    let vm = cloud
        .vm("web_0", &[&format!("--alertmanager.url={url}")])
        .await;
    cloud.azure.play(event("Preempt", "10s", "10s")).await;
    cloud.alertmanager.until_notified("firing", 1).await;
    gate.state().is_closed = true;
    vm.until("event_status=\"Ended\"} 1").await;
    vm.until(&format!(
        "azure_scheduled_events_receiver_up{{receiver=\"{url}\"}} 0"
    ))
    .await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    gate.state().is_closed = false;
    cloud.alertmanager.until_notified("resolved", 1).await;
    cloud
        .assert_notified_once("AzureScheduledEventPreempt")
        .await;
}

/// Each of them pushes the end, to both.
#[tokio::test]
async fn event_of_two_vms_by_push_to_an_old_and_a_new_alertmanager_is_notified_and_resolved_once() {
    let cloud = Cloud::start(&new_alertmanager()).await;
    let folder = TempDir::new().unwrap();
    let old = Alertmanager::start(&WAITS, &old_alertmanager(), folder.path()).await;
    let flags = [
        cloud.push_flag(),
        format!("--alertmanager.url={}", old.url()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let vms = [
        cloud.vm("web_0", &flags).await,
        cloud.vm("web_1", &flags).await,
    ];
    let mut scenario = event("Freeze", "5s", "3s");
    scenario["events"][0]["resources"] = json!(["web_0", "web_1"]);
    cloud.azure.play(scenario).await;
    for vm in &vms {
        vm.until("event_status=\"Ended\"} 1").await;
    }
    for vm in &vms {
        // For each Alertmanager.
        vm.until_resolved(2).await;
    }
    for alertmanager in [&cloud.alertmanager, &old] {
        alertmanager.until_notified("resolved", 1).await;
        alertmanager
            .assert_notified(&["AzureScheduledEventFreeze"])
            .await;
        let resolved = alertmanager.webhook.of_events("resolved");
        let description = &resolved[0].description;
        assert!(description.starts_with("VMs: web_0, web_1 (2)\n"));
        assert!(description.contains("\nOutcome: completed"));
    }
}

#[tokio::test]
async fn reboot_that_kills_its_exporter_by_push_alone_notifies_once_and_is_resolved_after_it() {
    let cloud = Cloud::start(&new_alertmanager()).await;
    let vm = cloud.pushing_vm("web_0").await;
    cloud.azure.play(event("Reboot", "5s", "20s")).await;
    vm.until("event_status=\"Started\"} 1").await;
    drop(vm);
    let _vm = cloud.pushing_vm("web_0").await;
    cloud.alertmanager.until_notified("resolved", 1).await;
    cloud
        .assert_notified_once("AzureScheduledEventReboot")
        .await;
    let resolved = cloud.alertmanager.webhook.of_events("resolved");
    assert!(resolved[0].description.contains("\nOutcome: completed"));
}

#[tokio::test]
async fn reboot_that_kills_its_exporter_notifies_once_and_is_resolved_after_it() {
    let cloud = Cloud::start(&old_alertmanager()).await;
    // The exporter comes back on the same port, which no other socket gets meanwhile: no other test uses this address.
    let vm = cloud
        .vm("web_0", &["--web.listen-address=127.0.0.6:0"])
        .await;
    let same_address = format!("--web.listen-address={}", vm.address);
    let mut prometheus = cloud.prometheus(&prometheus_2(), 1, &[&vm]).await;
    cloud.azure.play(event("Reboot", "8s", "30s")).await;
    prometheus
        .until("azure_scheduled_event_not_before_timestamp_seconds <= time()")
        .await;
    drop(vm);
    prometheus.until("up == 0").await;
    let _vm = cloud.vm("web_0", &[&same_address]).await;
    prometheus
        .until("azure_scheduled_event_started_timestamp_seconds")
        .await;
    cloud.alertmanager.until_notified("resolved", 1).await;
    prometheus.until_evaluated().await;
    cloud
        .assert_notified_once("AzureScheduledEventReboot")
        .await;
}

#[tokio::test]
async fn three_freezes_of_twenty_vms_by_push_and_by_prometheus_are_three_notifications() {
    let cloud = Cloud::start(&new_alertmanager()).await;
    let (vms, exporters) = cloud.pushing_vms(20).await;
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let mut prometheus = cloud.prometheus(&prometheus_3(), 1, &targets).await;
    let freeze = json!({
        "event_type": "Freeze", "resources": vms, "notice": "20s", "started_for": "10s",
    });
    cloud
        .azure
        .play(json!({ "events": [freeze, freeze, freeze] }))
        .await;
    cloud.alertmanager.until_notified("resolved", 3).await;
    for exporter in &exporters {
        exporter.until_resolved(3).await;
    }
    prometheus.until_evaluated().await;
    let expected = ["AzureScheduledEventFreeze"; 3];
    cloud.alertmanager.assert_notified(&expected).await;
    // Events that affect the whole fleet at once have an alert of their own and no other.
    let mut others = cloud.alertmanager.webhook.received();
    others.retain(|one| one.event_id.is_empty());
    assert!(
        others.iter().all(|one| one.alert_name.ends_with("AtRisk")),
        "{others:#?}"
    );
}

/// 25 Spot VMs are evicted within five seconds, by push and by Prometheus.
async fn storm(prometheus: &Path, alertmanager: &Path) {
    let cloud = Cloud::start_with(&[], alertmanager).await;
    let (vms, exporters) = cloud.pushing_vms(25).await;
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let _prometheus = cloud.prometheus(prometheus, 1, &targets).await;
    let evictions = vms.iter().enumerate().map(|(number, vm)| {
        json!({
            "at": format!("{}ms", 200 * number), "event_type": "Preempt", "resources": [vm],
            "notice": "30s", "started_for": "5s",
        })
    });
    cloud
        .azure
        .play(json!({ "events": evictions.collect::<Vec<_>>() }))
        .await;
    let chat = |status| {
        let notifications = cloud.alertmanager.webhook.of_events(status);
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
    let requests = ["chat", "pager-and-chat"].map(|it| cloud.alertmanager.webhook.requests(it));
    // The first eviction, the others after `group_interval`, and at most two when they end.
    assert!(requests[0] <= 4, "{requests:?}");
    // That of many VMs, and no event by itself.
    assert_eq!(requests[1], 1, "{requests:?}");
    let received = cloud.alertmanager.webhook.received();
    let paged = received
        .iter()
        .filter(|one| one.receiver == "pager-and-chat");
    assert!(
        paged.clone().all(|one| one.event_id.is_empty()),
        "{:#?}",
        paged.collect::<Vec<_>>()
    );
    // The automation receives each eviction by itself.
    assert!(cloud.alertmanager.webhook.requests(AUTOMATION) >= 25);
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
    let cloud = Cloud::start(&new_alertmanager()).await;
    let vm = cloud.pushing_vm("web_0").await;
    let mut prometheus = cloud.prometheus(&prometheus_2(), 1, &[&vm]).await;
    let mut scenario = event("Redeploy", "5m", "1m");
    scenario["events"][0]["canceled_after"] = json!("15s");
    cloud.azure.play(scenario).await;
    cloud.alertmanager.until_notified("resolved", 1).await;
    vm.until_resolved(1).await;
    prometheus.until_evaluated().await;
    cloud
        .assert_notified_once("AzureScheduledEventRedeploy")
        .await;
}

#[tokio::test]
async fn events_of_fault_domains_notify_one_after_the_other() {
    let cloud = Cloud::start(&new_alertmanager()).await;
    let mut exporters = Vec::new();
    for vm in ["web_0", "web_1", "web_2"] {
        exporters.push(cloud.vm(vm, &[]).await);
    }
    let targets: Vec<&Exporter> = exporters.iter().collect();
    let mut prometheus = cloud.prometheus(&prometheus_3(), 1, &targets).await;
    let domain = |number: u32| {
        json!({
            "at": format!("{}s", 12 * number), "event_type": "Freeze", "resources": [format!("web_{number}")],
            "notice": "14s", "started_for": "6s",
        })
    };
    cloud
        .azure
        .play(json!({ "events": [domain(0), domain(1), domain(2)] }))
        .await;
    cloud.alertmanager.until_notified("resolved", 3).await;
    prometheus.until_evaluated().await;
    let expected = ["AzureScheduledEventFreeze"; 3];
    cloud.alertmanager.assert_notified(&expected).await;
    let [fired, resolved] = ["firing", "resolved"].map(|status| {
        let notifications = cloud.alertmanager.webhook.of_events(status).into_iter();
        notifications.map(|one| one.event_id).collect::<Vec<_>>()
    });
    assert_eq!(fired, resolved, "in the same order");
}

#[tokio::test]
async fn exporter_that_is_down_without_an_event_notifies_its_operator() {
    let cloud = Cloud::start(&old_alertmanager()).await;
    let vm = cloud.pushing_vm("web_0").await;
    let _prometheus = cloud.prometheus(&prometheus_2(), 1, &[&vm]).await;
    drop(vm);
    wait_until("AzureScheduledEventsExporterDown", async || {
        let received = cloud.alertmanager.webhook.received();
        let mut names = received.iter().map(|one| one.alert_name.as_str());
        names
            .any(|name| name == "AzureScheduledEventsExporterDown")
            .then_some(())
    })
    .await;
    let received = cloud.alertmanager.webhook.received();
    assert_eq!(names(&received), ["AzureScheduledEventsExporterDown"]);
    assert_eq!(received[0].receiver, "mail");
}
