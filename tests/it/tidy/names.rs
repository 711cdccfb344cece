//! Documents name only existing metrics.

use std::collections::BTreeSet;

use azure_scheduled_events_exporter::metrics::catalog::{self, MetricType};

use super::{Source, below, root};

/// The name of the crate, which is not a metric.
const CRATE: &str = "azure_scheduled_events_exporter";
const PREFIX: &str = "azure_scheduled_event";

fn documents() -> Vec<Source> {
    let mut documents: Vec<_> = ["dashboards", "alerts", "docs"]
        .into_iter()
        .filter(|folder| root().join(folder).is_dir())
        .flat_map(below)
        .collect();
    documents.push(readme());
    documents
}

fn readme() -> Source {
    let text = std::fs::read_to_string(root().join("README.md"));
    Source {
        path: "README.md".to_owned(),
        text: text.expect("README.md exists"),
    }
}

/// The metrics that a text names. Names with a colon belong to recording rules.
fn named(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| word.starts_with(PREFIX) && !word.contains(':') && *word != CRATE)
        .collect()
}

/// Whether a scraped name is in the catalog. A histogram has three names, and `azure_scheduled_event_` is a prefix.
fn is_known(name: &str) -> bool {
    if name.ends_with('_') || name == PREFIX || name == "azure_scheduled_events" {
        return catalog::ALL
            .iter()
            .any(|metric| metric.name.starts_with(name));
    }
    catalog::ALL
        .iter()
        .any(|metric| match name.strip_prefix(metric.name) {
            Some("") => true,
            Some("_bucket" | "_sum" | "_count") => metric.kind == MetricType::Histogram,
            _ => false,
        })
}

#[test]
fn every_metric_that_is_named_is_in_the_catalog() {
    let mut unknown = Vec::new();
    for document in documents() {
        for name in named(&document.text) {
            if !is_known(name) {
                unknown.push(format!("{}: {name}", document.path));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "no such metric:\n{}",
        unknown.join("\n")
    );
}

/// The flags that a text names.
pub(super) fn flags(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c)))
        .filter_map(|word| word.trim_end_matches('.').strip_prefix("--"))
        .collect()
}

pub(super) fn long(command: &clap::Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(|flag| flag.get_long())
}
