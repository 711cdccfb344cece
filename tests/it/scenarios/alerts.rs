//! The alerts of a timeline: the samples for the rules, whether the JSON has the alert, and the summary.

use std::collections::BTreeMap;

use super::approvals::short_id;
use crate::support::simulated_vm::SimulatedVm;

/// By event, type, source, name and severity.
pub(super) fn of(vm: &SimulatedVm) -> BTreeMap<String, String> {
    let json = vm.whole_json();
    let events = json["events"].as_array().unwrap();
    let metrics = vm.metrics().0;
    let mut alerts = BTreeMap::new();
    for event in events {
        let id = short_id(event["EventId"].as_str().unwrap());
        let summary = event["summary"].as_str().unwrap();
        alerts.insert(format!("{id} summary"), summary.to_owned());
    }
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("azure_scheduled_event_alert{") else {
            continue;
        };
        // The quoted values of the labels.
        let values: Vec<_> = rest.split('"').skip(1).step_by(2).collect();
        let [id, event_type, source, name, severity] = values[..] else {
            panic!("{line}")
        };
        let event = events.iter().find(|event| event["EventId"] == id).unwrap();
        let mut firing = event["alerts"].as_array().unwrap().iter();
        let is_firing = firing.any(|it| it["name"] == name && it["severity"] == severity);
        let state = match rest.ends_with(" 1") {
            true if is_firing => "firing",
            true => "applies",
            false => "does not apply",
        };
        let id = short_id(id);
        let name = name.trim_start_matches("AzureScheduledEvent");
        let key = format!("{id} {event_type} {source} {name} {severity}");
        alerts.insert(key, state.to_owned());
    }
    alerts
}
