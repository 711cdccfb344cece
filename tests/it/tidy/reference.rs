//! The tables of commands, flags and metrics in `docs/reference.md`, from the command line and the catalog.
//! `UPDATE_GOLDENS=1 cargo test` rewrites them.

use std::fmt::Write as _;

use azure_scheduled_events_exporter::{
    FailureReason,
    cli::Cli,
    document::AnomalyKind,
    lifecycle::Outcome,
    metrics::catalog::{self, Metric, MetricType},
    output_counters::{DropReason, ExportFailure},
    snapshot::ApprovalResult,
};
use clap::{Arg, Command, CommandFactory as _};

use super::root;
use crate::support::golden;

/// Of all series of an event; the page has them once, above the table.
const EVENT_LABELS: [&str; 4] = ["event_id", "event_type", "event_source", "scope"];

fn page() -> String {
    std::fs::read_to_string(root().join("docs/reference.md")).unwrap()
}

/// As a row of a table; nothing is `–`.
fn row<const N: usize>(cells: [String; N]) -> String {
    let cells = cells.map(|cell| {
        let cell = cell.replace('|', "\\|").replace('\n', " ");
        if cell.is_empty() { "–".into() } else { cell }
    });
    format!("| {} |\n", cells.join(" | "))
}

fn code(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

/// The metric with its labels, and its help.
fn metric(metric: &Metric) -> String {
    let labels = metric.labels.strip_prefix(&EVENT_LABELS);
    let labels = labels.unwrap_or(metric.labels).join(", ");
    let labels = if labels.is_empty() {
        labels
    } else {
        format!("{{{labels}}}")
    };
    let kind = match metric.kind {
        MetricType::Histogram => "Histogram. ",
        _ => "",
    };
    let name = format!("{}{labels}", metric.name);
    row([
        code(&name),
        format!("{kind}{}", metric.help.trim_end_matches('.')),
    ])
}

/// The flag with its value, its default, and its help.
fn flag(flag: &Arg) -> Option<[String; 3]> {
    let takes_value = flag.get_action().takes_values();
    let values = flag.get_possible_values();
    let values: Vec<_> = values
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .collect();
    let value = match flag.get_value_names() {
        Some(names) if takes_value && values.is_empty() => names.join(" "),
        _ => values.join("|"),
    };
    let help = flag.get_help()?.to_string();
    // A default that depends on something else is in the help.
    let (help, in_help) = match help
        .strip_suffix(']')
        .and_then(|it| it.split_once(" [default: "))
    {
        Some((help, default)) => (help.to_owned(), default.to_owned()),
        None => (help, String::new()),
    };
    let given: Vec<_> = flag
        .get_default_values()
        .iter()
        .map(|it| it.to_string_lossy())
        .collect();
    let default = match flag.get_env() {
        _ if !takes_value => "off".to_owned(),
        Some(variable) => code(&format!("${}", variable.to_string_lossy())),
        None if given.is_empty() => in_help,
        None => code(&given.join(" ")),
    };
    let name = flag
        .get_long()
        .filter(|name| !["help", "version"].contains(name))?;
    let name = format!("--{name} {value}");
    Some([code(name.trim_end()), default, help])
}

fn command() -> Command {
    let mut command = Cli::command();
    // Flags without a value become such.
    command.build();
    command
}

/// Each command with the flags that are not those of the exporter.
fn commands() -> String {
    let exporter = command();
    let common: Vec<_> = exporter.get_arguments().filter_map(flag).collect();
    let rows = exporter.get_subcommands().map(|command| {
        let arguments: Vec<_> = command.get_positionals().map(Arg::to_string).collect();
        let usage = format!("{} {}", command.get_name(), arguments.join(" "));
        let flags = command.get_arguments().filter_map(flag);
        let flags = flags.filter(|flag| !common.contains(flag));
        // Its help has their values and defaults.
        let flags: Vec<_> = flags
            .map(|[name, ..]| code(name.trim_matches('`').split(' ').next().unwrap()))
            .collect();
        let about = command.get_about().expect("a text").to_string();
        row([code(usage.trim_end()), about, flags.join(", ")])
    });
    rows.collect()
}

/// The page with these rows below a heading, after its text.
fn with_table(page: &str, heading: &str, columns: &str, rows: &str) -> String {
    let heading = format!("\n{heading}\n");
    let (before, rest) = page.split_once(&heading).expect("the heading");
    let (section, after) = rest.split_once("\n#").unwrap_or((rest, ""));
    let text = section.split("\n| ").next().unwrap().trim_end();
    let line = "|---".repeat(columns.split(" | ").count());
    let mut page = format!("{before}{heading}{text}\n\n| {columns} |\n{line}|\n{rows}");
    if !after.is_empty() {
        // Writing to a String cannot fail.
        write!(page, "\n#{after}").ok();
    }
    page
}

#[test]
fn page_has_the_commands_flags_metrics_and_labels_of_the_program() {
    let mut written = page();
    let [mut of_events, mut of_exporter] = [String::new(), String::new()];
    for it in catalog::ALL {
        if it.name.starts_with("azure_scheduled_event_") {
            of_events.push_str(&metric(it));
        } else if it.name.starts_with("azure_scheduled_events_") {
            of_exporter.push_str(&metric(it));
        } else {
            let name = code(it.name);
            assert!(written.contains(&name), "{name} is not on the page");
        }
    }
    let flags = command()
        .get_arguments()
        .filter_map(flag)
        .map(row)
        .collect();
    let metrics = "metric | meaning";
    for (heading, columns, rows) in [
        (
            "## Commands",
            "command | meaning | flags of its own",
            commands(),
        ),
        ("## Flags", "flag | default | meaning", flags),
        ("### Of events", metrics, of_events),
        ("### Of the exporter", metrics, of_exporter),
    ] {
        written = with_table(&written, heading, columns, &rows);
    }
    assert_has_values_of_labels(&written);
    let difference = golden::difference(&root().join("docs/reference.md"), &written);
    assert_eq!(
        difference, None,
        "UPDATE_GOLDENS=1 cargo test writes the tables"
    );
}

/// The values in code after the label in the section on label values, up to the end of the row.
fn values<'a>(page: &'a str, label: &str) -> Vec<&'a str> {
    let (_, section) = page.split_once("\n## Label values\n").unwrap();
    let (_, row) = section.split_once(&format!("\n| {label} | ")).expect(label);
    row.lines()
        .next()
        .unwrap()
        .split('`')
        .skip(1)
        .step_by(2)
        .collect()
}

fn assert_has_values_of_labels(page: &str) {
    for (label, expected) in [
        ("`outcome`", Outcome::ALL.map(Outcome::as_str).to_vec()),
        (
            "`reason` of requests to IMDS",
            FailureReason::ALL.map(FailureReason::as_str).to_vec(),
        ),
        (
            "`reason` of exports",
            ExportFailure::ALL.map(ExportFailure::as_str).to_vec(),
        ),
        (
            "`reason` of dropped spans and log records",
            DropReason::ALL.map(DropReason::as_str).to_vec(),
        ),
        ("`kind`", AnomalyKind::ALL.map(AnomalyKind::as_str).to_vec()),
        (
            "`result`",
            ApprovalResult::ALL.map(ApprovalResult::as_str).to_vec(),
        ),
    ] {
        let mut listed = values(page, label);
        listed.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(listed, expected, "{label}");
    }
}
