//! A gRPC server of another implementation, grpcio, receives all signals over mutual TLS, also what waited
//! while it refused calls and the exporter was killed.

use std::{path::Path, process::Command};

use tempfile::TempDir;

use super::processes::freeze;
use crate::support::{Daemon, HTTPS, certificates, exporter::Exporter, wait_until};

/// Starts the server, which ends each call with this code. Returns it with its URL.
async fn server(name: &'static str, folder: &Path, code: &str) -> (Daemon, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut venv = Command::new(root.join("tests/tools/venv"));
    let venv = venv
        .arg(root.join("tests/e2e/otlp/grpcio.txt"))
        .output()
        .unwrap();
    assert!(venv.status.success(), "{venv:?}");
    let venv = String::from_utf8(venv.stdout).unwrap();
    let script = root.join("tests/e2e/otlp/grpc_server.py");
    let args = [script.as_os_str(), folder.as_os_str(), code.as_ref()];
    let python = Path::new(venv.trim()).join("bin/python");
    let mut daemon = Daemon::start(name, &python, args, folder);
    let port = wait_until("the port of grpcio", async || {
        daemon.assert_running();
        let log = daemon.log();
        let (port, _) = log.strip_prefix("listening ")?.split_once('\n')?;
        Some(port.to_owned())
    })
    .await;
    (daemon, format!("https://{HTTPS}:{port}"))
}

#[tokio::test]
async fn grpcio_receives_all_signals_also_after_refused_calls_and_a_kill() {
    let folder = TempDir::new().unwrap();
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ca, certificate, key) = (path("ca.pem"), path("client.pem"), path("client-key.pem"));
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let vm = async |endpoint: &str| {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=sre"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*ca),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &*certificate),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &*key),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
        ];
        Exporter::of_vm(&azure, "web_0", &[], &variables, folder.path()).await
    };
    let (refusing, refusing_url) = server("refusing", folder.path(), "UNAVAILABLE").await;
    let (accepting, accepting_url) = server("accepting", folder.path(), "OK").await;
    let refused = vm(&refusing_url).await;
    azure.play(freeze("6s")).await;
    wait_until("a refused span", async || {
        refusing.log().contains("span ").then_some(())
    })
    .await;
    // Killed.
    drop(refused);
    let vm = vm(&accepting_url).await;
    for expected in [
        "scheduled_event announced",
        "scheduled_event Freeze",
        "log azure.scheduled_event.announced",
        "log azure.scheduled_event.ended",
        // 1 is delta.
        "metric azure_scheduled_events_ended 1",
        "call OK sre",
    ] {
        wait_until(expected, async || {
            accepting.log().contains(expected).then_some(())
        })
        .await;
    }
    vm.until("azure_scheduled_events_spans_spooled 0").await;
    vm.until(r#"azure_scheduled_events_receiver_up{receiver="traces"} 1"#)
        .await;
}
