//! The alerts of a timeline: the samples for the rules, whether the JSON has the alert, and the summary.

use std::collections::BTreeMap;

use super::approvals::short_id;
use crate::support::simulated_vm::{SimulatedVm, at};

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

/// The texts of the alerts: of each event the summary, the lines of the description, and the time of the last change.
pub(super) fn words(vm: &SimulatedVm) -> BTreeMap<String, String> {
    let metrics = vm.metrics().0;
    let mut words = BTreeMap::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("azure_scheduled_event_message{event_id=") else {
            continue;
        };
        let (labels, since) = rest.rsplit_once("} ").unwrap();
        let (rest, description) = labels.split_once(",description=").unwrap();
        let (id, summary) = rest.split_once(",summary=").unwrap();
        // The escapes are among those of JSON.
        let [id, summary, description]: [String; 3] =
            [id, summary, description].map(|quoted| serde_json::from_str(quoted).unwrap());
        let id = short_id(&id);
        let since = since.parse::<f64>().unwrap() - at(0).as_unix_seconds();
        words.insert(id.to_owned(), format!("{summary} (since {since} s)"));
        for line in description.lines() {
            let (name, text) = line.split_once(": ").unwrap();
            words.insert(format!("{id} {name}"), text.to_owned());
        }
    }
    words
}
