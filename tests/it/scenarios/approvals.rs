//! What a timeline with a policy compares: the decisions, and how the outputs show them.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::describe_changes;
use crate::support::{
    log::LogLine,
    simulated_vm::{SimulatedVm, at},
};

pub(super) fn short_id(id: &str) -> &str {
    id.split_at_checked(1).map_or(id, |(letter, _)| letter)
}

pub(super) fn describe_decision(line: &LogLine, report: &mut String) {
    if ["VM_NAME_CONTRADICTION", "VM_NAME_UNMATCHED"].contains(&line.name) {
        writeln!(report, "  logged: {}", line.message).unwrap();
    }
    if let (Some(id), Some(decision)) = (line.field("event_id"), line.field("decision")) {
        let reason = line.field("reason").unwrap_or_default();
        let id = short_id(id);
        writeln!(report, "  {id} logged: {decision} {reason}").unwrap();
    }
}

/// Describes what is new, changed or gone, and the spans.
pub(super) fn compare(
    vm: &SimulatedVm,
    compared: &mut BTreeMap<String, String>,
    report: &mut String,
) {
    describe_changes(describe(vm), compared, "  ", report);
    for span in vm.spans() {
        let events = span.events.iter();
        let events = events.map(|event| {
            let since_start = event.timestamp.duration_since(at(0).into()).unwrap();
            format!(" {} at {} s", event.name, since_start.as_secs())
        });
        let events: Vec<_> = events.collect();
        writeln!(report, "  span {}:{}", span.name, events.join(",")).unwrap();
    }
}

/// By their names: the members of the JSON, the probe, parts of the page, and counters.
pub(super) fn describe(vm: &SimulatedVm) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    let json = vm.whole_json();
    for event in json["events"].as_array().unwrap() {
        let id = short_id(event["EventId"].as_str().unwrap());
        let approval = &event["approval"];
        let mut show = |name: &str, values: &[&Value]| {
            let texts: Vec<_> = values.iter().filter_map(|it| it.as_str()).collect();
            if !texts.is_empty() {
                shown.insert(format!("{id} {name}"), texts.join(", "));
            }
        };
        let parts = ["decision", "reason", "at", "message"];
        show("approval", &parts.map(|name| &approval[name]));
        if event["scope"] != "self" {
            show("scope", &[&event["scope"]]);
        }
        for name in [
            "approval_decided_at",
            "approval_sent_at",
            "approved_at",
            "approved_elsewhere_at",
            "started_at",
        ] {
            show(name, &[&event[name]]);
        }
    }
    let (_, serving) = vm.serving();
    shown.insert("probe".to_owned(), serving);
    describe_page(&vm.page(), &mut shown);
    for sample in vm.metrics().0.lines() {
        let (series, value) = sample.rsplit_once(' ').unwrap();
        let is_shown = series.contains("_approvals_total{") && value != "0"
            || series.ends_with("_name_mismatch");
        if is_shown && !series.starts_with('#') {
            let name = series.trim_start_matches("azure_scheduled_events_");
            shown.insert(name.to_owned(), value.to_owned());
        }
    }
    shown
}

/// Without the times, which every second changes.
fn describe_page(page: &str, shown: &mut BTreeMap<String, String>) {
    let between = |part: &str, start: &str, end: &str| {
        let (_, rest) = part.split_once(start)?;
        Some(rest.split_once(end)?.0.to_owned())
    };
    let title = between(page, "<title>", " · ").unwrap();
    let title = title.split(" in ").next().unwrap();
    shown.insert("title".to_owned(), title.to_owned());
    for alert in ["name-contradiction", "name-unmatched"] {
        if page.contains(alert) {
            shown.insert("page".to_owned(), alert.replace('-', " "));
        }
    }
    for event in page.split("data-event-id=\"").skip(1) {
        let id = short_id(event.split('"').next().unwrap());
        if let Some(label) = between(event, "<span class=\"label\">", "</span>") {
            shown.insert(format!("{id} timer"), label);
        }
        let changes = event.split("<li>").skip(1).filter_map(|item| {
            let (_, change) = item.split_once("</span>: ")?;
            change.split('<').next()
        });
        let changes: Vec<_> = changes.filter(|it| *it != "First seen").collect();
        if !changes.is_empty() {
            shown.insert(format!("{id} history"), changes.join(", "));
        }
    }
}
