//! The OpenTelemetry Collector receives our spans, log records and metrics, over HTTP and gRPC, both also with mutual
//! TLS.

#[cfg(feature = "receivers")]
mod agents;
mod grpcio;
#[cfg(feature = "receivers")]
mod jaeger;
mod metrics;
pub(crate) mod processes;

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
};

use crate::support::{Daemon, GRPC_TLS, HTTPS, Tool, cached, certificates, wait_until};

/// The Collector's addresses: each listener gets its port from the kernel and is found by its address.
const HTTP: Ipv4Addr = Ipv4Addr::LOCALHOST;
const GRPC: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);
/// Where it serves the metrics that it has received.
const PROMETHEUS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// The Collector, with a plain receiver and one that requires client certificates; its log has every span, log record
/// and metric.
struct Collector {
    http: SocketAddrV4,
    https: SocketAddrV4,
    grpc: SocketAddrV4,
    grpc_tls: SocketAddrV4,
    prometheus: SocketAddrV4,
    daemon: Daemon,
}

impl Collector {
    async fn start(folder: &Path) -> Self {
        certificates(folder);
        let path = |name: &str| folder.join(name).display().to_string();
        let (ca, certificate, key) = (path("ca.pem"), path("server.pem"), path("server-key.pem"));
        let tls = format!(
            "tls: {{cert_file: '{certificate}', key_file: '{key}', client_ca_file: '{ca}'}}"
        );
        let config = format!(
            "receivers:
  otlp:
    protocols: {{http: {{endpoint: '{HTTP}:0'}}, grpc: {{endpoint: '{GRPC}:0'}}}}
  otlp/tls:
    protocols: {{http: {{endpoint: '{HTTPS}:0', {tls}}}, grpc: {{endpoint: '{GRPC_TLS}:0', {tls}}}}}
exporters:
  debug: {{verbosity: detailed}}
  prometheus: {{endpoint: '{PROMETHEUS}:0'}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp, otlp/tls], exporters: [debug]}}
    logs: {{receivers: [otlp, otlp/tls], exporters: [debug]}}
    metrics: {{receivers: [otlp, otlp/tls], exporters: [debug, prometheus]}}
"
        );
        fs::write(folder.join("otelcol.yaml"), config).unwrap();
        let program = cached(Tool::Collector, "otelcol", "otelcol");
        let args = [format!("--config=file:{}", path("otelcol.yaml"))];
        let mut daemon = Daemon::start("otelcol", &program, args, folder);
        wait_until("the Collector is ready", async || {
            daemon.assert_running();
            daemon.log().contains("Everything is ready").then_some(())
        })
        .await;
        Self {
            http: daemon.listening_on(HTTP).await,
            https: daemon.listening_on(HTTPS).await,
            grpc: daemon.listening_on(GRPC).await,
            grpc_tls: daemon.listening_on(GRPC_TLS).await,
            prometheus: daemon.listening_on(PROMETHEUS).await,
            daemon,
        }
    }

    /// Trace, parent, id and name of each span in the log.
    fn spans(&self) -> Vec<[String; 4]> {
        let log = self.daemon.log();
        let spans = log.split("Span #").skip(1);
        let names = ["Trace ID", "Parent ID", "ID", "Name"];
        spans
            .map(|span| names.map(|name| field(span, name)))
            .collect()
    }

    /// Trace, name, severity, body and unique id of each log record in the log.
    fn log_records(&self) -> Vec<[String; 5]> {
        let log = self.daemon.log();
        let records = log.split("LogRecord #").skip(1);
        let names = [
            "Trace ID",
            "EventName",
            "SeverityNumber",
            "Body",
            "-> log.record.uid",
        ];
        records
            .map(|record| names.map(|name| field(record, name)))
            .collect()
    }

    /// The pushed metrics with this name, in the text of the log.
    fn metrics(&self, name: &str) -> Vec<String> {
        let log = self.daemon.log();
        let metrics = log.split("Metric #").skip(1);
        metrics
            .filter(|metric| field(metric, "-> Name") == name)
            .map(str::to_owned)
            .collect()
    }
}

/// A value in the text of the debug exporter.
fn field(text: &str, name: &str) -> String {
    let lines = text.lines().map(str::trim);
    let mut values = lines.filter_map(|line| line.strip_prefix(name)?.trim().strip_prefix(": "));
    values.next().unwrap_or_default().to_owned()
}

/// One trace with a root for each VM, which is the parent of all other spans of the VM.
fn assert_one_trace(spans: &[[String; 4]]) {
    let traces: BTreeSet<_> = spans.iter().map(|[trace, ..]| trace).collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let is_root = |span: &&[String; 4]| span[1].is_empty();
    let roots: BTreeSet<_> = spans
        .iter()
        .filter(is_root)
        .map(|[_, _, id, _]| id)
        .collect();
    assert_eq!(roots.len(), 3);
    let is_below = |span: &[String; 4]| is_root(&span) || roots.contains(&span[1]);
    assert!(spans.iter().all(is_below), "{spans:?}");
}
