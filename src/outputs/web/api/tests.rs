use serde_json::{Value, json};

use super::*;
use crate::{
    azure::FailureReason,
    outputs::web::fixtures::{at, due, freeze, snapshot_after},
};

fn read(snapshot: &Snapshot, now: Moment) -> Value {
    serde_json::from_str(&json(snapshot, now).unwrap()).unwrap()
}

#[test]
fn event_has_the_members_of_azure_and_of_this_exporter() {
    let unknown = json!({"Impact": {"Level": [1, "two"]}, "scope": "theirs"});
    let moved = json!({"NotBefore": due(900)});
    let snapshot = snapshot_after(&[
        (0, json!([freeze(&unknown)])),
        (60, json!([freeze(&moved)])),
        (
            120,
            json!([freeze(&json!({"EventStatus": "Started", "NotBefore": ""}))]),
        ),
        (150, json!([])),
    ]);
    assert_eq!(
        read(&snapshot, at(160))["events"],
        json!([{
            "EventId": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265",
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": ["web_1"],
            "EventStatus": "Started",
            "NotBefore": "Tue, 17 Nov 2026 09:15:00 GMT",
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": 9,
            "scope": "self",
            "advisory": false,
            "phase": "ended",
            "interrupts_vm": true,
            "alerts": [],
            "summary": "Freeze of web_1 completed",
            "other_open_types": [],
            "not_before": "2026-11-17T09:15:00.000Z",
            "not_before_countdown_seconds": null,
            "first_seen_at": "2026-11-17T09:00:00.000Z",
            "started_at": "2026-11-17T09:02:00.000Z",
            "computer_name": null,
            "ended_at": "2026-11-17T09:02:30.000Z",
            "outcome": "completed",
            "approval_decided_at": null,
            "approval_sent_at": null,
            "approved_at": null,
            "approved_elsewhere_at": "2026-11-17T09:02:00.000Z",
            "approval": null,
            "observed_interruption_seconds": null,
            "interruptions": [],
            "reschedulings": [{
                "at": "2026-11-17T09:01:00.000Z",
                "from": "2026-11-17T09:10:00.000Z",
                "to": "2026-11-17T09:15:00.000Z",
            }],
        }])
    );
}

#[test]
fn invisible_characters_are_escaped_and_no_name_differs_only_in_case() {
    let hostile = "a\u{9b}31m\u{202e}\u{200b}b";
    let unknown =
        json!({"Scope": "theirs", "scope": "theirs", "Impact": [hostile], "Description": hostile});
    let snapshot = snapshot_after(&[(0, json!([freeze(&unknown)]))]);
    let text = json(&snapshot, at(1)).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    assert!(!text.contains(['\u{202e}', '\u{200b}']), "{text}");
    let event = read(&snapshot, at(1))["events"][0].clone();
    assert_eq!(event["not_before_countdown_seconds"], json!(599.0));
    assert_eq!(event["Impact"], json!([hostile]));
    assert_eq!(event["Description"], hostile);
    assert_eq!(event["Scope"], Value::Null);
    assert_eq!(text.matches("\"scope\": \"self\"").count(), 1, "{text}");
}

#[test]
fn advisory_is_marked_and_has_no_countdown() {
    let advisory = json!([freeze(&json!({"EventStatus": "Advisory"}))]);
    let event =
        |documents: &[(u64, Value)]| read(&snapshot_after(documents), at(30))["events"][0].clone();
    let pending = event(&[(0, advisory.clone())]);
    assert_eq!(pending["advisory"], true);
    assert_eq!(pending["phase"], "advisory");
    assert_eq!(pending["EventStatus"], "Advisory");
    assert_eq!(pending["not_before_countdown_seconds"], Value::Null);
    assert_eq!(pending["approval"]["reason"], "advisory");
    let message = "Advisory: nothing to approve";
    assert_eq!(pending["approval"]["message"], message);
    let ended = event(&[(0, advisory), (20, json!([]))]);
    assert_eq!(ended["advisory"], true);
    assert_eq!(ended["phase"], "ended");
    assert_eq!(ended["outcome"], "unknown");
}

#[test]
fn unknown_values_are_null() {
    let bare = json!([{"EventId": "1", "EventType": "Reboot", "EventStatus": "Scheduled"}]);
    let event = read(&snapshot_after(&[(0, bare)]), at(0))["events"][0].clone();
    for member in [
        "Resources",
        "Description",
        "EventSource",
        "not_before",
        "outcome",
    ] {
        assert_eq!(event[member], Value::Null, "{member}");
    }
    assert_eq!(event["DurationInSeconds"], -1);
    assert_eq!(event["NotBefore"], "");
    assert_eq!(event["scope"], "unknown");
}

#[test]
fn document_without_events_differs_from_no_document() {
    let mut snapshot = Snapshot::empty(None, at(0));
    snapshot.poll.fail(
        FailureReason::Status5xx,
        Some(500),
        "500 \"quoted\"\n".to_owned(),
        at(0),
    );
    let without_document = read(&snapshot, at(5));
    assert_eq!(without_document["has_document"], false);
    assert_eq!(without_document["events"], json!([]));
    assert_eq!(without_document["vm"]["name"], Value::Null);
    assert_eq!(
        without_document["health"]["failure"],
        json!({"reason": "status_5xx", "message": "500 \"quoted\"\n", "since": "2026-11-17T09:00:00.000Z"})
    );
    let empty = read(&snapshot_after(&[(0, json!([]))]), at(5));
    assert_eq!(empty["has_document"], true);
    assert_eq!(empty["unreadable_entries"], 0);
    assert_eq!(empty["health"]["up"], true);
    assert_eq!(empty["now"], "2026-11-17T09:00:05.000Z");
}

#[test]
fn the_parameter_is_a_number_or_absent() {
    for (query, expected) in [
        (None, Some(None)),
        (Some(""), Some(None)),
        (Some("other=1"), Some(None)),
        (Some("after=0"), Some(Some(0))),
        (Some("a=b&after=17"), Some(Some(17))),
        (Some("after=99999999999999999999"), Some(Some(u64::MAX))),
        (Some("after"), None),
        (Some("after="), None),
        (Some("after=-1"), None),
        (Some("after=+1"), None),
        (Some("after=1.5"), None),
        (Some("after=x"), None),
        (Some("after=1&after=2"), None),
    ] {
        assert_eq!(After::parse(query), expected.map(After), "{query:?}");
    }
}

#[test]
fn each_transition_has_the_event_as_it_was_then() {
    let moved = json!({"NotBefore": due(900)});
    let other = json!({"EventId": "E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E"});
    let snapshot = snapshot_after(&[
        (0, json!([freeze(&json!({}))])),
        (60, json!([freeze(&moved)])),
        (90, json!([freeze(&other)])),
    ]);
    let read = |after| -> Value {
        let text = transitions_json(&snapshot, After(after), at(100)).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        serde_json::from_str(&text).unwrap()
    };
    let all = read(None);
    let shown = |line: &Value| {
        let event = &line["event"];
        let line = [&line["number"], &line["at"], &line["transition"]];
        json!([line, event["not_before"], event["phase"]])
    };
    let lines: Value = all["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(shown)
        .collect();
    let time = |seconds: u64| at(seconds).wall.rfc3339_millis();
    assert_eq!(
        lines,
        json!([
            [[1, time(0), "announced"], time(600), "scheduled"],
            [[2, time(60), "rescheduled"], time(900), "scheduled"],
            [[3, time(90), "ended"], time(900), "ended"],
            [[4, time(90), "announced"], time(600), "scheduled"],
        ])
    );
    let numbers = ["first", "oldest", "newest", "on_disk"].map(|member| all[member].clone());
    assert_eq!(numbers, [1, 1, 4, 0].map(Value::from));
    assert_eq!(
        (&all["newest_at"], &all["after_at"]),
        (&json!(time(90)), &Value::Null)
    );
    assert_eq!(all["open"][0]["EventId"], other["EventId"]);
    assert_eq!(all["open"].as_array().unwrap().len(), 1);
    let rest = read(Some(3));
    assert_eq!(rest["transitions"], json!([all["transitions"][3]]));
    assert_eq!(
        (&rest["open"], &rest["after_at"]),
        (&Value::Null, &json!(time(90)))
    );
    assert_eq!(read(Some(4))["transitions"], json!([]));
    let unknown = read(Some(5));
    assert_eq!(
        (&unknown["transitions"], &unknown["after_at"]),
        (&json!([]), &Value::Null)
    );
}
