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
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    FailureReason, Identity, RequestError,
    approval::ApprovalPolicy,
    document::{Anomalies, Answer, Document},
    engine::{Effect, Engine, EngineConfig, Input},
    event::{Event, EventId, EventType, Source, Status},
    file::OsFilesystem,
    otlp::{
        batch::{self, Batch},
        sender::{self, Connection, RetryTiming},
        settings::OtlpSettings,
        signal::Signal,
        spool::{Spool, SpoolHandle, SpoolLimits},
    },
    time::{Clock, Moment, Timestamp},
    worker::Worker,
};
use opentelemetry::logs::AnyValue;
use opentelemetry_sdk::logs::SdkLogRecord;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::{DEADLINE, Daemon, Tool, cached, client, wait_until};

const EVENT_ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";
/// The Collector's addresses: each listener gets its port from the kernel and is found by its address.
const HTTP: Ipv4Addr = Ipv4Addr::LOCALHOST;
pub(crate) const HTTPS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const GRPC: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);
const GRPC_TLS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);
/// Where it serves the metrics that it has received.
const PROMETHEUS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const TRACE_ID: &str = "602d9444d2cd49c786248643e7171297";

/// Writes the certificates of an authority, of the Collector and of its clients.
pub(crate) fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for (file, names) in [
        ("server", vec![HTTPS.to_string(), GRPC_TLS.to_string()]),
        ("client", vec!["exporter".to_owned()]),
    ] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        // With the name of the authority, BoringSSL takes it for a self-signed one.
        params.distinguished_name.push(DnType::CommonName, file);
        let certificate = params.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{file}-key.pem")), key.serialize_pem()).unwrap();
    }
}

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

fn identity(number: usize) -> Identity {
    Identity {
        name: format!("web_{number}"),
        vm_id: format!("vm-{number}"),
        location: "westeurope".to_owned(),
        scale_set: "web".to_owned(),
        ..Identity::default()
    }
}

fn at(seconds: u32) -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000 + i64::from(seconds)).unwrap(),
        Duration::from_secs(u64::from(seconds)),
    )
}

fn refusal() -> RequestError {
    RequestError {
        reason: FailureReason::Status4xx,
        status: Some(400),
        message: "HTTP 400".to_owned(),
        retry_after: None,
        is_unsent: false,
    }
}

/// What one exporter exports for a Reboot of three VMs. That of a user is approved by the first of them, which the
/// metadata service refuses.
fn batches(number: usize, source: &Source, settings: &OtlpSettings) -> Vec<(Signal, Batch)> {
    let event = |status| Event {
        id: EventId::new(EVENT_ID),
        event_type: EventType::Reboot,
        status,
        source: Some(source.clone()),
        resource_type: Some("VirtualMachine".into()),
        resources: Some((0..3).map(|vm| format!("web_{vm}").into()).collect()),
        has_more_resources: false,
        not_before: Timestamp::from_unix_seconds(1_794_906_942),
        duration_seconds: Some(9),
        description: Some("Host server is undergoing maintenance.".into()),
        unknown_members: Vec::new(),
    };
    let documents = [
        vec![event(Status::Scheduled)],
        vec![event(Status::Started)],
        vec![],
    ];
    let config = EngineConfig {
        approvals: ApprovalPolicy {
            user_events: true,
            ..ApprovalPolicy::default()
        },
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(config, None, at(0));
    let took = Duration::ZERO;
    let result = Ok(identity(number));
    engine.handle(Input::Identified { result, took }, at(0));
    let poll = |(seconds, events)| {
        let document = Document {
            events,
            ..Document::default()
        };
        let result = Ok(Answer::Document {
            document,
            anomalies: Anomalies::default(),
        });
        let mut effects = engine.handle(Input::Polled { result, took }, at(seconds));
        let approval = effects.iter().find_map(|effect| match effect {
            Effect::Approve(id) => Some(id.clone()),
            _ => None,
        });
        if let Some(id) = approval {
            let result = Err(refusal());
            let input = Input::ApprovalSent { id, result, took };
            effects.extend(engine.handle(input, at(seconds + 1)));
        }
        effects
    };
    let effects = (0..).step_by(60).zip(documents).flat_map(poll);
    let exported = |effect| match effect {
        Effect::Emit(changes) => batch::of(&changes, settings),
        _ => Vec::new(),
    };
    effects.flat_map(exported).collect()
}

/// Sends what one exporter exports; returns the id and name of each span, and the ids of the log records.
async fn send(
    number: usize,
    source: &Source,
    folder: &Path,
    environment: &BTreeMap<&str, String>,
) -> (BTreeSet<(String, String)>, BTreeSet<String>) {
    let settings = OtlpSettings::from_env(|name| environment.get(name).cloned())
        .unwrap()
        .unwrap();
    let all = batches(number, source, &settings);
    let (mut spans, mut records) = (BTreeSet::new(), BTreeSet::new());
    // Of log records: the announcement, the approval elsewhere, the start and the end.
    for (signal, count) in [(Signal::Traces, 4), (Signal::Logs, 4)] {
        let Some(exporter) = settings.exporter(signal) else {
            continue;
        };
        let directory = folder.join(format!("{signal:?}-{number}"));
        let limits = SpoolLimits::default();
        let spool = Spool::open(signal, Some(&directory), Box::new(OsFilesystem), limits);
        let spool = SpoolHandle::new(spool, Some(Worker::start("disk").unwrap()));
        let stop = CancellationToken::new();
        let connection = Connection::new(exporter, Clock::start(), RetryTiming::default()).unwrap();
        let running = tokio::spawn(sender::run(connection, spool.clone(), stop.clone()));
        for (_, batch) in all.iter().filter(|(of, _)| *of == signal) {
            spans.extend(batch.spans().map(|span| {
                (
                    span.span_context.span_id().to_string(),
                    span.name.to_string(),
                )
            }));
            records.extend(batch.log_records().map(uid));
            spool.append(batch.clone(), Clock::start().now());
        }
        let mut counts = spool.counts();
        let done = counts.wait_for(|counts| counts.exported == count);
        let done = tokio::time::timeout(DEADLINE, done).await;
        done.expect("all are exported").unwrap();
        stop.cancel();
        running.await.unwrap();
    }
    (spans, records)
}

fn uid(record: &SdkLogRecord) -> String {
    let mut attributes = record.attributes_iter();
    match attributes.find(|(key, _)| key.as_str() == "log.record.uid") {
        Some((_, AnyValue::String(uid))) => uid.to_string(),
        other => panic!("{other:?}"),
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

/// The Collector has the records with these ids, of one trace.
async fn assert_log_records(collector: &Collector, records: &BTreeSet<String>) {
    let logged = wait_until("twelve log records are logged", async || {
        let records = collector.log_records();
        (records.len() == 12).then_some(records)
    })
    .await;
    assert!(logged.iter().all(|[trace, ..]| trace == TRACE_ID));
    let uids = logged.iter().map(|[.., uid]| uid.clone());
    let shown = |uid: &String| format!("Str({uid})");
    assert_eq!(
        uids.collect::<BTreeSet<_>>(),
        records.iter().map(shown).collect()
    );
    let announced = &logged[0];
    assert_eq!(announced[1], "azure.scheduled_event.announced");
    assert_eq!(announced[2], "Error(17)");
    assert!(
        announced[3].starts_with("Str(Announced: Reboot of web_0 and 2 more VMs at "),
        "{announced:?}"
    );
}

#[tokio::test]
async fn spans_and_log_records_of_three_vms_are_one_trace_over_http_and_grpc_with_mutual_tls() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path()).await;
    // The sender needs the crypto provider, which `client` installs.
    drop(client());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let endpoint = |scheme: &str, address: SocketAddrV4| format!("{scheme}://{address}");
    let plain = BTreeMap::from([
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            endpoint("http", collector.http),
        ),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip".to_owned()),
    ]);
    let mutual = BTreeMap::from([
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            endpoint("https", collector.https),
        ),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", path("ca.pem")),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", path("client.pem")),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", path("client-key.pem")),
    ]);
    let mut grpc = mutual.clone();
    grpc.insert(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        endpoint("https", collector.grpc_tls),
    );
    grpc.insert("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned());
    let (mut expected, mut records) = (BTreeSet::new(), BTreeSet::new());
    for (number, environment) in [plain, mutual, grpc].iter().enumerate() {
        let (spans, uids) = send(number, &Source::Platform, folder.path(), environment).await;
        expected.extend(spans);
        records.extend(uids);
    }
    assert_eq!(expected.len(), 12);
    let logged = wait_until("twelve spans are logged", async || {
        let spans = collector.spans();
        (spans.len() == 12).then_some(spans)
    })
    .await;
    let ids = logged
        .iter()
        .map(|[_, _, id, name]| (id.clone(), name.clone()));
    assert_eq!(ids.collect::<BTreeSet<_>>(), expected);
    assert_one_trace(&logged);
    assert_eq!(logged[0][0], TRACE_ID);
    assert_log_records(&collector, &records).await;
    let log = collector.daemon.log();
    for line in [
        "-> azure.scheduled_event.resources: Slice([\"web_0\",\"web_1\",\"web_2\"])",
        "-> azure.scheduled_event.duration: Int(9)",
        "-> azure.scheduled_event.outcome: Str(completed)",
        "-> host.id: Str(vm-2)",
        "-> cloud.platform: Str(azure.vm)",
        "-> service.name: Str(azure-scheduled-events-exporter)",
        "Status code    : Unset",
    ] {
        assert!(log.contains(line), "no {line:?}");
    }
}
