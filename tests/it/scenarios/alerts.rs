//! The alerts of a timeline: the samples for the rules, whether the JSON has the alert, and the summary.

use std::{collections::BTreeMap, time::Duration};

use azure_scheduled_events_exporter::{
    alertmanager::{self, ClockDifference},
    approval::ApprovalPolicy,
    due_alerts::due_alerts,
    time::Timestamp,
};
use serde_json::json;

use super::approvals::short_id;
use crate::support::{
    events::{event, numbered_id},
    simulated_vm::{SimulatedVm, at},
};

/// By event, type, source, name, severity and owner.
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
        let [id, event_type, source, name, severity, ref owner @ ..] = values[..] else {
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
        let owner = owner.first().map(|owner| format!(" of {owner}"));
        let owner = owner.unwrap_or_default();
        let key = format!("{id} {event_type} {source} {name} {severity}{owner}");
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

/// What an Alertmanager is sent, by place, event, name and owner.
pub(super) fn pushed(vm: &SimulatedVm) -> BTreeMap<String, String> {
    let due = due_alerts(&vm.published, &BTreeMap::new(), vm.now);
    let alerts = due.iter().zip(1..).map(|(alert, place)| {
        let alert = alertmanager::json(alert, &vm.published, ClockDifference::default(), vm.now);
        let (labels, texts) = (&alert["labels"], &alert["annotations"]);
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let (id, name) = (text(&labels["event_id"]), text(&labels["alertname"]));
        let name = name.trim_start_matches("AzureScheduledEvent");
        let owner = labels["owner"].as_str();
        let owner = owner.map_or_else(String::new, |owner| format!(" of {owner}"));
        let ends_at = Timestamp::parse(&text(&alert["endsAt"])).unwrap();
        let left = ends_at.as_unix_seconds() - vm.now.wall.as_unix_seconds();
        let has_advice = text(&texts["description"]).contains("To do: ");
        let advice = if has_advice { ", with advice" } else { "" };
        let summary = text(&texts["summary"]);
        (
            format!("{place} {} {name}{owner}", short_id(&id)),
            format!("{left:+} s{advice}: {summary}"),
        )
    });
    alerts.collect()
}

#[test]
fn alerts_of_ever_new_events_are_bounded_and_the_dropped_ends_counted() {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    for poll in 0..6 {
        let ids = (300 * poll..300 * (poll + 1)).map(numbered_id);
        let events: Vec<_> = ids.map(|id| event(&json!({ "EventId": id }))).collect();
        vm.now = vm.now.after(Duration::from_secs(1));
        vm.poll(&events);
    }
    let due = due_alerts(&vm.published, &BTreeMap::new(), vm.now);
    assert_eq!(due.len(), 300 + 1_000);
    let dropped = vm
        .metrics()
        .value("azure_scheduled_events_alert_ends_dropped_total");
    assert_eq!(dropped, Some(500.0));
}
