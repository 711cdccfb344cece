//! Jaeger receives our spans without a Collector between, and its query API has them as one trace.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::processes;
use crate::support::{Daemon, Tool, cached, client, exporter::Exporter, get, wait_until};

const OTLP: Ipv4Addr = Ipv4Addr::LOCALHOST;
const QUERY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CONFIG: &str = "receivers:
  otlp: {protocols: {http: {endpoint: '127.0.0.1:0'}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 100}}}}
  jaeger_query:
    storage: {traces: memory}
    http: {endpoint: '127.0.0.2:0'}
    grpc: {endpoint: '127.0.0.3:0'}
service:
  telemetry: {metrics: {level: none}}
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
";

struct Jaeger {
    otlp: SocketAddrV4,
    query: SocketAddrV4,
    http: reqwest::Client,
    _daemon: Daemon,
}

impl Jaeger {
    async fn start(folder: &Path) -> Self {
        fs::write(folder.join("jaeger.yaml"), CONFIG).unwrap();
        let program = cached(Tool::Jaeger, "jaeger", "jaeger");
        let mut daemon = Daemon::start("jaeger", &program, ["--config=file:jaeger.yaml"], folder);
        Self {
            otlp: daemon.listening_on(OTLP).await,
            query: daemon.listening_on(QUERY).await,
            http: client(),
            _daemon: daemon,
        }
    }

    /// As in docs/otlp.md: Jaeger accepts no logs.
    fn environment(&self) -> [(&'static str, String); 2] {
        [
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                format!("http://{}", self.otlp),
            ),
            ("OTEL_LOGS_EXPORTER", "none".to_owned()),
        ]
    }

    /// The answer to a query for traces, as soon as it has this number of spans.
    async fn spans(&self, query: &str, count: usize) -> Vec<Span> {
        let url = format!("http://{}/api/traces{query}", self.query);
        wait_until(&format!("{count} spans of {url}"), async || {
            let answer: Value = serde_json::from_str(&get(&self.http, &url).await?).unwrap();
            let traces = answer["data"].as_array().unwrap();
            let spans = traces.iter().flat_map(Span::all);
            let spans: Vec<_> = spans.collect();
            (spans.len() == count).then_some(spans)
        })
        .await
    }
}

/// A span as Jaeger shows it.
#[derive(Debug)]
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    /// Of the process, which is the resource.
    host: Value,
    tags: BTreeMap<String, Value>,
}

impl Span {
    fn all(trace: &Value) -> impl Iterator<Item = Self> {
        let spans = trace["spans"].as_array().unwrap().iter();
        spans.map(|span| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let process = &trace["processes"][span["processID"].as_str().unwrap()];
            assert_eq!(process["serviceName"], "azure-scheduled-events-exporter");
            let references = span["references"].as_array().unwrap();
            assert!(
                references.len() <= 1 && span["warnings"].is_null(),
                "{span}"
            );
            let parent = references.first();
            Self {
                trace: text(&span["traceID"]),
                id: text(&span["spanID"]),
                parent: parent.map(|parent| text(&parent["spanID"])),
                name: text(&span["operationName"]),
                host: tags(&process["tags"])["host.name"].clone(),
                tags: tags(&span["tags"]),
            }
        })
    }
}

fn tags(list: &Value) -> BTreeMap<String, Value> {
    let tags = list.as_array().unwrap().iter();
    let pair = |tag: &Value| {
        (
            tag["key"].as_str().unwrap().to_owned(),
            tag["value"].clone(),
        )
    };
    tags.map(pair).collect()
}

/// The spans of one VM by name. All others are children of the root.
fn of_vm<'a>(spans: &'a [Span], host: &str) -> BTreeMap<&'a str, &'a Span> {
    let own: BTreeMap<_, _> = spans
        .iter()
        .filter(|span| span.host == host)
        .map(|span| (span.name.as_str(), span))
        .collect();
    let roots: Vec<_> = own.values().filter(|span| span.parent.is_none()).collect();
    assert_eq!(roots.len(), 1, "{own:?}");
    let id = &roots[0].id;
    let is_below = |span: &&Span| span.parent.as_ref().is_none_or(|parent| parent == id);
    assert!(own.values().all(is_below), "{own:?}");
    own
}

#[tokio::test]
async fn process_sends_a_whole_event() {
    let folder = TempDir::new().unwrap();
    let jaeger = Jaeger::start(folder.path()).await;
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let environment = jaeger.environment();
    let environment = environment
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let vm = Exporter::of_vm(&azure, "web_0", &[], &environment, folder.path()).await;
    azure.play(processes::freeze("6s")).await;
    vm.until("azure_scheduled_events_spans_exported_total 4")
        .await;
    // As the search form of its page asks.
    let search = "?service=azure-scheduled-events-exporter&operation=scheduled_event%20notice\
        &tags=%7B%22azure.scheduled_event.type%22%3A%22Freeze%22%7D";
    let spans = jaeger.spans(search, 4).await;
    let traces: BTreeSet<_> = spans.iter().map(|span| &span.trace).collect();
    assert_eq!(traces.len(), 1);
    let own = of_vm(&spans, spans[0].host.as_str().unwrap());
    let names =
        ["Freeze", "announced", "impact", "notice"].map(|it| format!("scheduled_event {it}"));
    assert_eq!(
        own.keys().collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    let root = own["scheduled_event Freeze"];
    for (name, value) in [
        ("resources", json!(r#"["web_0","web_1","web_2"]"#)),
        ("duration", json!(5)),
        ("outcome", json!("completed")),
    ] {
        let name = format!("azure.scheduled_event.{name}");
        assert_eq!(root.tags[&name], value, "{name}");
    }
    assert!(
        spans
            .iter()
            .all(|span| !span.tags.contains_key("otel.status_code"))
    );
}
