//! Driving the simulator: by program, by the page's forms, and not by other sites.

use super::Served;

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

#[test]
fn program_starts_a_scenario_by_name_and_clears_it() {
    let served = Served::playing(&[], 1.0);
    let state = served
        .send(
            "POST",
            "/simulator/start",
            &[],
            r#"{"scenario": "hardware-failure"}"#,
        )
        .unwrap();
    assert_eq!(state.status, 200);
    assert_eq!(state.json()["events"][0]["event_status"], "Started");
    assert_eq!(
        served.get(EVENTS).json()["Events"][0]["Resources"],
        serde_json::json!(["web-vmss_0", "web-vmss_1"])
    );
    assert_eq!(
        served
            .send("POST", "/simulator/clear", &[], "")
            .unwrap()
            .status,
        200
    );
    assert_eq!(served.get(EVENTS).json()["Events"], serde_json::json!([]));
}

#[test]
fn program_starts_a_scenario_of_its_own() {
    let served = Served::playing(&[], 1.0);
    let body = r#"{"scenario": {"events": [{"event_type": "Hibernate", "notice": "1h", "resources": ["a", "{vm}"]}]}}"#;
    assert_eq!(
        served
            .send("POST", "/simulator/start", &[], body)
            .unwrap()
            .status,
        200
    );
    let event = served.get(EVENTS).json()["Events"][0].clone();
    assert_eq!(
        (&event["EventType"], &event["Resources"]),
        (&"Hibernate".into(), &serde_json::json!(["a", "web-vmss_0"]))
    );
}

#[test]
fn what_cannot_be_started_is_refused_with_the_reason() {
    let served = Served::playing(&[], 1.0);
    for (body, reason) in [
        ("", "EOF"),
        ("{}", "missing field `scenario`"),
        (r#"{"scenario": "nothing"}"#, "live-migration"),
        (r#"{"scenario": 5}"#, "invalid type"),
        (
            r#"{"scenario": {"events": [{"event_type": ""}]}}"#,
            "events[0].event_type",
        ),
        (
            r#"{"scenario": "demo", "speed": 5}"#,
            "unknown field `speed`",
        ),
    ] {
        let got = served.send("POST", "/simulator/start", &[], body).unwrap();
        assert_eq!(got.status, 400, "{body}");
        assert!(got.error().contains(reason), "{body}: {}", got.error());
    }
    let large = " ".repeat(1024 * 1024 + 1);
    assert_eq!(
        served
            .send("POST", "/simulator/start", &[], &large)
            .unwrap()
            .status,
        413
    );
}

#[test]
fn button_of_the_page_starts_a_scenario_and_leads_back() {
    let served = Served::playing(&[], 1.0);
    let origin = format!("http://{}", served.host());
    let headers = [
        FORM,
        ("Origin", &*origin),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let got = served
        .send("POST", "/simulator/start", &headers, "scenario=user-reboot")
        .unwrap();
    assert_eq!((got.status, got.header("location")), (303, Some("/")));
    assert_eq!(
        served.get(EVENTS).json()["Events"][0]["EventType"],
        "Reboot"
    );
    let got = served
        .send("POST", "/simulator/clear", &headers, "")
        .unwrap();
    assert_eq!((got.status, got.header("location")), (303, Some("/")));
}

#[test]
fn other_sites_cannot_drive_it() {
    let served = Served::playing(&["user-reboot"], 1.0);
    let before = served.get("/simulator/state").json()["playing"].clone();
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "https://example.com"),
        ("Origin", "null"),
    ] {
        for (path, body) in [
            ("/simulator/start", "scenario=live-migration"),
            ("/simulator/clear", ""),
        ] {
            let got = served
                .send("POST", path, &[FORM, (name, value)], body)
                .unwrap();
            assert_eq!(got.status, 403, "{name}: {value}");
        }
    }
    assert_eq!(served.get("/simulator/state").json()["playing"], before);
    assert_eq!(
        served.get(EVENTS).json()["Events"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn state_counts_requests_by_what_became_of_them() {
    let served = Served::playing(&["user-reboot"], 1.0);
    let first = served.get(EVENTS);
    let tag = first.header("etag").unwrap().to_owned();
    served
        .send(
            "GET",
            EVENTS,
            &[("Metadata", "true"), ("If-None-Match", &tag)],
            "",
        )
        .unwrap();
    served.send("GET", EVENTS, &[], "").unwrap();
    served.get("/metadata/versions");
    let id = first.json()["Events"][0]["EventId"].clone();
    served.post(
        EVENTS,
        &format!("{{\"StartRequests\":[{{\"EventId\":{id}}}]}}"),
    );
    let counts = served.get("/simulator/state").json()["requests"].clone();
    let expected = serde_json::json!({
        "documents": 1, "unchanged": 1, "approvals": 1, "metadata": 1, "refused": 1, "unanswered": 0,
    });
    assert_eq!(counts, expected);
}

#[test]
fn scenarios_are_listed_with_what_they_do() {
    let list = Served::playing(&[], 1.0).get("/simulator/scenarios").json();
    let list = list.as_array().unwrap();
    assert!(list.iter().any(|entry| entry["name"] == "spot-preempt"));
    assert!(
        list.iter()
            .all(|entry| !entry["description"].as_str().unwrap().is_empty())
    );
}

#[test]
fn control_paths_take_their_own_method_only() {
    let served = Served::playing(&[], 1.0);
    for (method, path, allow) in [
        ("GET", "/simulator/start", "POST"),
        ("GET", "/simulator/clear", "POST"),
        ("POST", "/simulator/state", "GET"),
        ("DELETE", "/", "GET"),
    ] {
        let got = served.send(method, path, &[], "").unwrap();
        assert_eq!(
            (got.status, got.header("allow")),
            (405, Some(allow)),
            "{method} {path}"
        );
    }
}
