//! The control API and the forms of the page.

use azure_scheduled_events_exporter::simulator::catalog;

use super::{EVENTS, TestServer, approval};

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

#[test]
fn scenario_is_started_by_name_and_cleared() {
    let server = TestServer::start(&[], 1.0);
    let state = server.post("/simulator/start", r#"{"scenario": "hardware-failure"}"#);
    assert_eq!(state.status, 200);
    assert_eq!(state.json()["events"][0]["event_status"], "Started");
    assert_eq!(
        server.get(EVENTS).json()["Events"][0]["Resources"],
        serde_json::json!(["web-vmss_0", "web-vmss_1"])
    );
    assert_eq!(server.post("/simulator/clear", "").status, 200);
    assert_eq!(server.get(EVENTS).json()["Events"], serde_json::json!([]));
}

#[test]
fn scenario_is_started_from_the_request_body() {
    let server = TestServer::start(&[], 1.0);
    let body = r#"{"scenario": {"events": [{"event_type": "Hibernate", "notice": "1h", "resources": ["a", "{vm}"]}]}}"#;
    assert_eq!(server.post("/simulator/start", body).status, 200);
    let event = server.get(EVENTS).json()["Events"][0].clone();
    assert_eq!(
        (&event["EventType"], &event["Resources"]),
        (&"Hibernate".into(), &serde_json::json!(["a", "web-vmss_0"]))
    );
}

#[test]
fn invalid_start_requests_are_refused_with_the_reason() {
    let server = TestServer::start(&[], 1.0);
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
        let response = server.post("/simulator/start", body);
        assert_eq!(response.status, 400, "{body}");
        let error = response.error();
        assert!(error.contains(reason), "{body}: {error}");
    }
    let large = " ".repeat(1024 * 1024 + 1);
    assert_eq!(server.post("/simulator/start", &large).status, 413);
}

#[test]
fn form_of_the_page_starts_a_scenario_and_redirects_to_the_page() {
    let server = TestServer::start(&[], 1.0);
    let origin = format!("http://{}", server.host());
    let headers = [
        FORM,
        ("Origin", &*origin),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    for (path, body, events) in [
        ("/simulator/start", "scenario=user-reboot", 1),
        ("/simulator/clear", "", 0),
    ] {
        let response = server.send("POST", path, &headers, body).unwrap();
        let redirect = (response.status, response.header("location"));
        assert_eq!(redirect, (303, Some("/")));
        let document = server.get(EVENTS).json();
        assert_eq!(document["Events"].as_array().unwrap().len(), events);
    }
}

#[test]
fn cross_origin_requests_are_refused() {
    let server = TestServer::start(&["user-reboot"], 1.0);
    let before = server.get("/simulator/state").json()["playing"].clone();
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
            let response = server
                .send("POST", path, &[FORM, (name, value)], body)
                .unwrap();
            assert_eq!(response.status, 403, "{name}: {value}");
        }
    }
    assert_eq!(server.get("/simulator/state").json()["playing"], before);
    assert_eq!(
        server.get(EVENTS).json()["Events"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn state_counts_requests_by_result() {
    let server = TestServer::start(&["user-reboot"], 1.0);
    let first = server.get(EVENTS);
    let tag = first.header("etag").unwrap().to_owned();
    let known = [("Metadata", "true"), ("If-None-Match", &*tag)];
    server.send("GET", EVENTS, &known, "").unwrap();
    server.send("GET", EVENTS, &[], "").unwrap();
    server.get("/metadata/instance?api-version=2021-02-01");
    let id = first.json()["Events"][0]["EventId"].clone();
    server.post(EVENTS, &approval(&[&id]));
    let counts = server.get("/simulator/state").json()["requests"].clone();
    let expected = serde_json::json!({
        "documents": 1, "unchanged": 1, "approvals": 1, "metadata": 1, "refused": 1, "unanswered": 0,
    });
    assert_eq!(counts, expected);
}

#[test]
fn scenarios_are_listed_with_descriptions() {
    let server = TestServer::start(&[], 1.0);
    let list = server.get("/simulator/scenarios").json();
    let listed = |(name, description)| {
        let entry = serde_json::json!({"name": name, "description": description});
        list.as_array().unwrap().contains(&entry)
    };
    assert!(catalog().all(listed), "{list}");
}

#[test]
fn control_paths_accept_one_method_each() {
    let server = TestServer::start(&[], 1.0);
    for (method, path, allow) in [
        ("GET", "/simulator/start", "POST"),
        ("GET", "/simulator/clear", "POST"),
        ("POST", "/simulator/state", "GET"),
        ("DELETE", "/", "GET"),
    ] {
        let response = server.send(method, path, &[], "").unwrap();
        assert_eq!(
            (response.status, response.header("allow")),
            (405, Some(allow)),
            "{method} {path}"
        );
    }
}
