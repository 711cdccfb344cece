//! Metrics that are pushed to the Collector and to Prometheus 3 have the names, types and labels of `/metrics`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::Ipv4Addr,
    path::Path,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{
    Collector,
    processes::{Vm, freeze},
};
use crate::support::{
    DEADLINE, Daemon, Series, Tool, cached, client, exporter::Exporter, get, samples,
    wait_until_for,
};

/// What a receiver adds: the names of the resource and of the scope.
const RECEIVERS_LABELS: [&str; 5] = [
    "job",
    "instance",
    "otel_scope_name",
    "otel_scope_version",
    "otel_scope_schema_url",
];

/// Each series with the type of its metric.
type Typed = BTreeMap<Series, String>;

/// A series without empty labels, which Prometheus does not have, and without those of the receiver.
fn series(name: &str, mut labels: BTreeMap<String, String>) -> Series {
    labels.retain(|name, value| !value.is_empty() && !RECEIVERS_LABELS.contains(&name.as_str()));
    Series::new(name, labels)
}

/// The series of an exposition in text format.
fn exposed(text: &str) -> Typed {
    let types: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let kind = |name: &str| {
        let families = ["", "_bucket", "_sum", "_count"].map(|suffix| name.strip_suffix(suffix));
        let mut kinds = families
            .into_iter()
            .flatten()
            .filter_map(|it| types.get(it));
        (*kinds.next().unwrap_or_else(|| panic!("no type of {name}"))).to_owned()
    };
    let all = samples(text).into_iter().map(|sample| sample.series);
    all.map(|Series { name, labels }| (series(&name, labels), kind(&name)))
        .collect()
}

/// All series except those of the resource: `target_info` takes the place of `vm_info`.
fn without_resource(mut series: Typed, of_resource: &str) -> Result<Typed, String> {
    let before = series.len();
    series.retain(|series, _| series.name != of_resource);
    if series.len() + 1 == before {
        Ok(series)
    } else {
        Err(format!("no {of_resource}"))
    }
}

/// The series that an exporter serves now.
async fn served(vm: &Vm) -> Result<Typed, String> {
    let url = format!("http://{}/metrics", vm.address);
    let text = get(&client(), &url).await.ok_or("no scrape")?;
    without_resource(exposed(&text), "azure_scheduled_events_vm_info")
}

fn compare(served: &Typed, received: &Typed) -> Result<(), String> {
    let different = |of: &Typed, other: &Typed| -> BTreeSet<String> {
        let all = of
            .iter()
            .filter(|(series, kind)| other.get(series) != Some(kind));
        all.map(|(series, kind)| format!("{kind} {series:?}"))
            .collect()
    };
    let (missing, surplus) = (different(served, received), different(received, served));
    if missing.is_empty() && surplus.is_empty() {
        return Ok(());
    }
    Err(format!("missing {missing:#?}, surplus {surplus:#?}"))
}

/// Prometheus with its OTLP receiver, and with types, which it does not store by default.
async fn prometheus(folder: &Path) -> (Daemon, String) {
    fs::write(folder.join("empty.yml"), "global: {}\n").unwrap();
    let args = [
        format!("--config.file={}", folder.join("empty.yml").display()),
        format!("--storage.tsdb.path={}", folder.join("tsdb").display()),
        "--web.listen-address=127.0.0.1:0".to_owned(),
        "--web.enable-otlp-receiver".to_owned(),
        "--enable-feature=type-and-unit-labels".to_owned(),
    ];
    let program = cached(Tool::Prometheus3, "prometheus", "prometheus");
    let mut daemon = Daemon::start("prometheus-3", &program, args, folder);
    let address = daemon.listening_on(Ipv4Addr::LOCALHOST).await;
    (daemon, format!("http://{address}/api/v1"))
}

/// The result of a query, by a path below the API.
async fn query(api: &str, path: &str, parameters: &[(&str, &str)]) -> Option<Vec<Value>> {
    let url = format!("{api}/{path}");
    let url = reqwest::Url::parse_with_params(&url, parameters).unwrap();
    let answer: Value = serde_json::from_str(&get(&client(), url.as_str()).await?).unwrap();
    let data = &answer["data"];
    data.as_array().or(data["result"].as_array()).cloned()
}

async fn stored(api: &str) -> Result<Typed, String> {
    let all = [("query", r#"{__name__=~".+"}"#)];
    let all = query(api, "query", &all).await.ok_or("no answer")?;
    let typed = all.iter().map(|one| {
        let metric = one["metric"].clone();
        let mut labels: BTreeMap<String, String> = serde_json::from_value(metric).unwrap();
        let name = labels.remove("__name__").unwrap();
        let kind = labels.remove("__type__").unwrap_or_default();
        let unit = labels.remove("__unit__").unwrap_or_default();
        assert!(unit.is_empty() || name.contains(&unit), "{unit} of {name}");
        (series(&name, labels), kind)
    });
    without_resource(typed.collect(), "target_info")
}

/// Starts an exporter that pushes to this endpoint only.
async fn vm(name: &'static str, azure: &Exporter, folder: &Path, endpoint: &str) -> Vm {
    let is_http = endpoint.ends_with("/v1/metrics");
    let variables = [
        ("OTEL_METRICS_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            if is_http { "" } else { "grpc" },
        ),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1000"),
    ];
    let mut vm = Vm::start(name, azure, folder, &variables).await;
    vm.until("azure_scheduled_events_up", 1).await;
    vm
}

/// Waits until both receivers show what the exporters serve.
async fn until_equal(collector: &Collector, by_collector: &Vm, api: &str, by_prometheus: &Vm) {
    let url = format!("http://{}/metrics", collector.prometheus);
    wait_until_for(DEADLINE, "the Collector serves the same", async || {
        let text = get(&client(), &url).await.ok_or("no scrape")?;
        let received = without_resource(exposed(&text), "target_info")?;
        compare(&served(by_collector).await?, &received)
    })
    .await;
    wait_until_for(DEADLINE, "Prometheus has stored the same", async || {
        compare(&served(by_prometheus).await?, &stored(api).await?)
    })
    .await;
}

#[tokio::test]
async fn receivers_of_a_push_have_the_names_types_and_labels_of_a_scrape() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path()).await;
    let (_daemon, api) = prometheus(folder.path()).await;
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let to_collector = format!("http://{}", collector.grpc);
    let to_prometheus = format!("{api}/otlp/v1/metrics");
    let mut by_collector = vm("web_0", &azure, folder.path(), &to_collector).await;
    let mut by_prometheus = vm("web_1", &azure, folder.path(), &to_prometheus).await;
    azure.play(freeze("900s")).await;
    let observed = r#"azure_scheduled_events_observed_total{event_type="Freeze",scope="self"}"#;
    by_collector.until(observed, 1).await;
    by_prometheus.until(observed, 1).await;

    until_equal(&collector, &by_collector, &api, &by_prometheus).await;
}
