//! The tables of metrics in `docs/reference.md`, from the catalog. `UPDATE_GOLDENS=1 cargo test` rewrites them.

use std::fmt::Write as _;

use azure_scheduled_events_exporter::metrics::catalog::{self, Kind, Metric};

use super::root;
use crate::support::golden;

/// Of all series of an event; the page has them once, above the table.
const EVENT_LABELS: [&str; 4] = ["event_id", "event_type", "event_source", "scope"];

fn row(metric: &Metric) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let labels = metric.labels.strip_prefix(&EVENT_LABELS);
    let labels: Vec<_> = labels
        .unwrap_or(metric.labels)
        .iter()
        .map(|label| format!("`{label}`"))
        .collect();
    let labels = if labels.is_empty() {
        "–".to_owned()
    } else {
        labels.join(", ")
    };
    let name = metric.name;
    let unit = if metric.unit.is_empty() {
        "–".to_owned()
    } else {
        format!("`{}`", metric.unit)
    };
    format!(
        "| `{name}` | {kind} | {unit} | {labels} | {} |\n",
        metric.help
    )
}

/// The page with this table below a heading, after its text.
fn with_table<'a>(page: &str, heading: &str, metrics: impl Iterator<Item = &'a Metric>) -> String {
    let mut table =
        "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n".to_owned();
    for metric in metrics {
        table.push_str(&row(metric));
    }
    let heading = format!("\n### {heading}\n");
    let (before, rest) = page.split_once(&heading).expect("the heading");
    let (section, after) = rest.split_once("\n#").unwrap_or((rest, ""));
    let text = section.split("\n| ").next().unwrap().trim_end();
    let mut page = format!("{before}{heading}{text}\n\n{table}");
    if !after.is_empty() {
        // Writing to a String cannot fail.
        write!(page, "\n#{after}").ok();
    }
    page
}

#[test]
fn page_has_the_metrics_of_the_catalog() {
    let file = root().join("docs/reference.md");
    let mut page = std::fs::read_to_string(&file).unwrap();
    let all = catalog::ALL.iter();
    let of = |prefix: &'static str| all.clone().filter(move |it| it.name.starts_with(prefix));
    let tables = [
        ("Of events", "azure_scheduled_event_"),
        ("Of the exporter", "azure_scheduled_events_"),
        ("Of the process", "process_"),
    ];
    let rows: usize = tables.iter().map(|(_, prefix)| of(prefix).count()).sum();
    assert_eq!(rows, catalog::ALL.len(), "each metric is in one table");
    for (heading, prefix) in tables {
        page = with_table(&page, heading, of(prefix));
    }
    let difference = golden::difference(&file, &page);
    assert_eq!(
        difference, None,
        "UPDATE_GOLDENS=1 cargo test writes the tables"
    );
}
