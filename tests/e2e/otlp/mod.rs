//! The OpenTelemetry Collector receives our spans, over HTTP and over HTTPS with mutual TLS.

mod processes;

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{Daemon, Tool, cached, wait_until};

/// The Collector's addresses: each listener gets its port from the kernel and is found by its address.
const HTTP: Ipv4Addr = Ipv4Addr::LOCALHOST;
const HTTPS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Writes the certificates of an authority, of the Collector and of its clients.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for (file, name) in [
        ("server", HTTPS.to_string()),
        ("client", "exporter".to_owned()),
    ] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{file}-key.pem")), key.serialize_pem()).unwrap();
    }
}

/// The Collector, with a plain receiver and one that requires client certificates; its log has every span.
struct Collector {
    http: SocketAddrV4,
    https: SocketAddrV4,
    daemon: Daemon,
}

impl Collector {
    async fn start(folder: &Path) -> Self {
        certificates(folder);
        let path = |name: &str| folder.join(name).display().to_string();
        let (ca, certificate, key) = (path("ca.pem"), path("server.pem"), path("server-key.pem"));
        let config = format!(
            "receivers:
  otlp:
    protocols: {{http: {{endpoint: '{HTTP}:0'}}}}
  otlp/tls:
    protocols: {{http: {{endpoint: '{HTTPS}:0', tls: {{cert_file: '{certificate}', key_file: '{key}', client_ca_file: '{ca}'}}}}}}
exporters:
  debug: {{verbosity: detailed}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp, otlp/tls], exporters: [debug]}}
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
            daemon,
        }
    }

    /// Trace, parent, id and name of each span in the log.
    fn spans(&self) -> Vec<[String; 4]> {
        let log = self.daemon.log();
        let spans = log.split("Span #").skip(1);
        let field = |span: &str, name: &str| {
            let lines = span.lines().map(str::trim);
            let mut values =
                lines.filter_map(|line| line.strip_prefix(name)?.trim().strip_prefix(": "));
            values.next().unwrap_or_default().to_owned()
        };
        spans
            .map(|span| ["Trace ID", "Parent ID", "ID", "Name"].map(|name| field(span, name)))
            .collect()
    }
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
