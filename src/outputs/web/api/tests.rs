use serde_json::{Value, json};

use super::*;
use crate::outputs::web::fixtures::{LEAD_TIME, at, due, freeze, snapshot_after};

fn read(snapshot: &Snapshot, now: Moment) -> Value {
    serde_json::from_str(&json(snapshot, LEAD_TIME, now).unwrap()).unwrap()
}

#[test]
fn invisible_characters_are_escaped_and_no_name_differs_only_in_case() {
    let hostile = "a\u{9b}31m\u{202e}\u{200b}b";
    let unknown =
        json!({"Scope": "theirs", "scope": "theirs", "Impact": [hostile], "Description": hostile});
    let snapshot = snapshot_after(&[(0, json!([freeze(&unknown)]))]);
    let text = json(&snapshot, LEAD_TIME, at(1)).unwrap();
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
        assert_eq!(after(query).ok(), expected, "{query:?}");
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
        let text = transitions_json(&snapshot, after, LEAD_TIME, at(100)).unwrap();
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

#[test]
fn types_of_other_events_are_open_for_days_and_due_within_the_lead_time() {
    let event = |id: &str, event_type: &str, members: &Value| {
        let mut event = freeze(members);
        event["EventId"] = json!(id);
        event["EventType"] = json!(event_type);
        event
    };
    let snapshot = snapshot_after(&[(
        0,
        json!([
            event("a", "Reboot", &json!({"NotBefore": due(300)})),
            event("b", "Redeploy", &json!({"NotBefore": due(700_000)})),
            event(
                "c",
                "Freeze",
                &json!({"EventStatus": "Started", "NotBefore": ""})
            ),
            event(
                "d",
                "Terminate",
                &json!({"Resources": ["another"], "NotBefore": due(1)})
            ),
        ]),
    )]);
    let others = |number: usize, now| {
        let event = read(&snapshot, now)["events"][number].take();
        let types = ["other_open_types", "other_due_types"];
        types.map(|name| event[name].clone())
    };
    let open = json!(["Freeze", "Redeploy"]);
    assert_eq!(others(0, at(0)), [open, json!(["Freeze"])]);
    let open = json!(["Freeze", "Reboot"]);
    assert_eq!(others(1, at(0)), [open.clone(), open]);
    let open = json!(["Reboot", "Redeploy"]);
    assert_eq!(others(2, at(0)), [open.clone(), json!(["Reboot"])]);
    assert_eq!(others(2, at(699_701)), [open.clone(), open]);
}
