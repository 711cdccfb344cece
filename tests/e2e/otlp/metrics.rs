//! Metrics that are pushed to the Collector and to Prometheus 3 have the names, types and labels of `/metrics`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use tempfile::TempDir;

use super::{Collector, processes::freeze};
use crate::support::{
    DEADLINE, Prometheus, Series, Tool, cached, client, exporter::Exporter, get, samples,
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
async fn served(vm: &Exporter) -> Result<Typed, String> {
    let text = get(&client(), &vm.url("/metrics"))
        .await
        .ok_or("no scrape")?;
    let mut served = without_resource(exposed(&text), "azure_scheduled_events_vm_info")?;
    // The SDK has no histogram before its first value.
    served.retain(|series, _| {
        let name = format!("{series:?}");
        !name.contains("_unannounced_interruption_seconds")
    });
    Ok(served)
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
async fn prometheus(folder: &Path) -> Prometheus {
    let flags = [
        "--web.enable-otlp-receiver",
        "--enable-feature=type-and-unit-labels",
    ];
    let program = cached(Tool::Prometheus3, "prometheus", "prometheus");
    Prometheus::start(&program, "global: {}\n", &flags, folder).await
}

async fn stored(prometheus: &mut Prometheus) -> Result<Typed, String> {
    let all = prometheus.query("query", r#"{__name__=~".+"}"#).await;
    let all = all.ok_or("no answer")?;
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
async fn vm(name: &str, azure: &Exporter, folder: &Path, endpoint: &str) -> Exporter {
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
    Exporter::of_vm(azure, name, &[], &variables, folder).await
}

/// Waits until both receivers show what the exporters serve.
async fn until_equal(
    collector: &Collector,
    by_collector: &Exporter,
    prometheus: &mut Prometheus,
    by_prometheus: &Exporter,
) {
    let url = format!("http://{}/metrics", collector.prometheus);
    wait_until_for(DEADLINE, "the Collector serves the same", async || {
        let text = get(&client(), &url).await.ok_or("no scrape")?;
        let received = without_resource(exposed(&text), "target_info")?;
        compare(&served(by_collector).await?, &received)
    })
    .await;
    wait_until_for(DEADLINE, "Prometheus has stored the same", async || {
        compare(&served(by_prometheus).await?, &stored(prometheus).await?)
    })
    .await;
}

#[tokio::test]
async fn receivers_of_a_push_have_the_names_types_and_labels_of_a_scrape() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path()).await;
    let mut prometheus = prometheus(folder.path()).await;
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let to_collector = format!("http://{}", collector.grpc);
    let to_prometheus = format!("http://{}/api/v1/otlp/v1/metrics", prometheus.address);
    let by_collector = vm("web_0", &azure, folder.path(), &to_collector).await;
    let by_prometheus = vm("web_1", &azure, folder.path(), &to_prometheus).await;
    azure.play(freeze("900s")).await;
    let observed = r#"azure_scheduled_events_observed_total{event_type="Freeze",scope="self"} 1"#;
    by_collector.until(observed).await;
    by_prometheus.until(observed).await;
    until_equal(&collector, &by_collector, &mut prometheus, &by_prometheus).await;
}
