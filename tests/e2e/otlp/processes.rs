//! Processes of the exporter: three that see one event export one trace, a VM that dies has exported its announcement,
//! and an exporter without CA certificates continues.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Collector, assert_one_trace, field};
use crate::support::{exporter::Exporter, wait_until};

/// A Freeze of three VMs.
pub(crate) fn freeze(notice: &str) -> Value {
    json!({ "events": [{
        "at": "1s", "event_type": "Freeze", "duration_seconds": 5, "resources": ["web_0", "web_1", "web_2"],
        "notice": notice, "started_for": "6s", "moves_to": "host-b",
    }] })
}

/// The records of three transitions of three exporters, in this trace.
async fn assert_log_records(collector: &Collector, trace: &str) {
    let records = wait_until("nine log records are logged", async || {
        let records = collector.log_records();
        (records.len() == 9).then_some(records)
    })
    .await;
    assert!(records.iter().all(|[one, ..]| one == trace));
    let uids: BTreeSet<_> = records.iter().map(|[.., uid]| uid).collect();
    assert_eq!(uids.len(), 9);
    assert!(
        records
            .iter()
            .any(|[.., body, _]| body
                .starts_with("Str(Announced: Freeze of web_0 and 2 more VMs at ")),
        "{records:?}"
    );
}

fn assert_attributes(log: &str) {
    for line in [
        "-> azure.scheduled_event.resources: Slice([\"web_0\",\"web_1\",\"web_2\"])",
        "-> azure.scheduled_event.duration: Int(5)",
        "-> azure.scheduled_event.outcome: Str(completed)",
        "-> azure.scheduled_event.physical_host: Str(host-a)",
        "-> azure.scheduled_event.moved_to: Str(host-b)",
        "-> host.id: Str(",
        "-> cloud.platform: Str(azure.vm)",
        "-> service.name: Str(azure-scheduled-events-exporter)",
        "Status code    : Unset",
    ] {
        assert!(log.contains(line), "no {line:?}");
    }
}

#[tokio::test]
async fn three_exporters_that_see_one_event_export_one_trace() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path()).await;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [writes, reads] = ["--", "--vm."].map(|it| format!("{it}kvp-pool-file={}", path("pool")));
    let azure = Exporter::simulator(folder.path(), &[&writes, "--vm.name=web_0"]).await;
    let (ca, certificate, key) = (path("ca.pem"), path("client.pem"), path("client-key.pem"));
    let http = format!("http://{}", collector.http);
    let https = format!("https://{}", collector.https);
    let grpc = format!("https://{}", collector.grpc_tls);
    let plain = [("OTEL_EXPORTER_OTLP_ENDPOINT", http.as_str())];
    let mutual = |endpoint, protocol| {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*ca),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &*certificate),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &*key),
            ("OTEL_METRICS_EXPORTER", "otlp"),
        ]
    };
    let (https, grpc) = (mutual(&*https, "http/protobuf"), mutual(&*grpc, "grpc"));
    let vms = [
        Exporter::of_vm(&azure, "web_0", &[&reads], &plain, folder.path()).await,
        Exporter::of_vm(&azure, "web_1", &[], &https, folder.path()).await,
        Exporter::of_vm(&azure, "web_2", &[], &grpc, folder.path()).await,
    ];
    azure.play(freeze("6s")).await;
    for vm in &vms {
        vm.until("azure_scheduled_events_spans_exported_total 4")
            .await;
        vm.until("azure_scheduled_events_spans_spooled 0").await;
        vm.until_logged("span sent", 4).await;
    }
    for moved in [
        "Outcome: completed, moved from host-a to host-b",
        "azure_scheduled_events_physical_host_info{physical_host=\"host-b\"} 1",
    ] {
        vms[0].until(moved).await;
    }
    let spans = wait_until("twelve spans are logged", async || {
        let spans = collector.spans();
        (spans.len() == 12).then_some(spans)
    })
    .await;
    assert_one_trace(&spans);
    let ids: BTreeSet<_> = spans.iter().map(|[_, _, id, _]| id).collect();
    assert_eq!(ids.len(), 12);
    let up = "azure_scheduled_events_up";
    wait_until("metrics", async || collector.metrics(up).pop()).await;
    assert_log_records(&collector, &spans[0][0]).await;
    assert_attributes(&collector.daemon.log());
}

/// A Spot eviction takes the VM away before it ends: what is sent at once is all there is.
#[tokio::test]
async fn a_spot_vm_that_dies_before_its_eviction_starts_has_exported_the_announcement() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path()).await;
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let http = format!("http://{}", collector.http);
    let endpoint = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", http.as_str()),
        ("OTEL_METRICS_EXPORTER", "otlp"),
        // Nothing is pushed because of the interval.
        ("OTEL_METRIC_EXPORT_INTERVAL", "3600000"),
    ];
    let vm = Exporter::of_vm(&azure, "web_0", &[], &endpoint, folder.path()).await;
    let preempt = json!({ "event_type": "Preempt", "resources": ["web_0"], "notice": "900s" });
    azure.play(json!({ "events": [preempt] })).await;
    wait_until("all signals of the announcement", async || {
        let is_pushed = !collector.metrics("azure_scheduled_event_status").is_empty();
        (is_pushed && !collector.log_records().is_empty() && !collector.spans().is_empty())
            .then_some(())
    })
    .await;
    // Killed.
    drop(vm);
    let records = collector.log_records();
    let [record] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert_eq!(record[1], "azure.scheduled_event.announced");
    assert_eq!(record[2], "Error(17)");
    assert!(
        record[3].starts_with("Str(Announced: Preempt of web_0"),
        "{record:?}"
    );
    let [span] = &collector.spans()[..] else {
        panic!("one span");
    };
    assert_eq!(span[3], "scheduled_event announced");
    assert_eq!(span[0], record[0], "one trace");
    let statuses = collector.metrics("azure_scheduled_event_status");
    let [status] = statuses.as_slice() else {
        panic!("one push with the event: {statuses:?}");
    };
    let mut points = status.split("NumberDataPoints #");
    let scheduled = points.find(|point| point.contains("-> event_status: Str(Scheduled)"));
    let scheduled = scheduled.unwrap_or_else(|| panic!("not Scheduled: {status}"));
    assert!(
        scheduled.contains("-> event_type: Str(Preempt)"),
        "{status}"
    );
    assert_eq!(field(scheduled, "Value"), "1.000000", "{status}");
}

#[tokio::test]
async fn without_system_certificates_the_export_stops_and_the_exporter_does_not() {
    let folder = TempDir::new().unwrap();
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let unusable = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:9"),
        ("SSL_CERT_FILE", "/nonexistent"),
        ("SSL_CERT_DIR", "/nonexistent"),
    ];
    let vm = Exporter::of_vm(&azure, "web_0", &[], &unusable, folder.path()).await;
    azure.play(freeze("6s")).await;
    vm.until(r#"ended_total{event_type="Freeze",outcome="completed"} 1"#)
        .await;
    vm.until("azure_scheduled_events_spans_spooled 4").await;
    // One for each signal.
    vm.until_logged("no client can be made", 2).await;
    let log = vm.log();
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains("no client can be made"));
    assert!(
        line.unwrap().contains("OTEL_EXPORTER_OTLP_CERTIFICATE"),
        "{log}"
    );
}
