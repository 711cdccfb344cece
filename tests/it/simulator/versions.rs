//! What the versions of the Scheduled Events API differ in.

use serde_json::{Value, json};

use super::{EVENTS, TestServer, approval};

fn target(version: &str) -> String {
    format!("/metadata/scheduledevents?api-version={version}")
}

fn document(server: &TestServer, version: &str) -> Value {
    let response = server.get(&target(version));
    assert_eq!(response.status, 200, "{version}");
    response.json()
}

#[test]
fn metadata_header_is_required_from_2017_08_01_on() {
    let server = TestServer::start(&["user-reboot"], 1.0);
    let refusal = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
        let response = server.send(method, target, headers, body).unwrap();
        match response.status {
            200 => String::new(),
            _ => response.error(),
        }
    };
    let required = "Bad request. Required metadata header not specified";
    let preview = target("2017-03-01");
    assert_eq!(refusal("GET", &preview, &[], ""), "");
    for version in ["2017-08-01", "2020-07-01", "2026-05-01", "nothing"] {
        let target = target(version);
        assert_eq!(refusal("GET", &target, &[], ""), required, "{version}");
    }
    assert_eq!(refusal("GET", EVENTS, &[("Metadata", "yes")], ""), required);
    assert_eq!(refusal("GET", EVENTS, &[("metadata", "TRUE")], ""), "");
    let body = approval(&[&document(&server, "2017-03-01")["Events"][0]["EventId"]]);
    assert_eq!(refusal("POST", &target("2017-08-01"), &[], &body), required);
    assert_eq!(refusal("POST", &preview, &[], &body), "");
    let compute = "/metadata/instance/compute?api-version=2017-04-02";
    assert_eq!(refusal("GET", compute, &[], ""), required);
    let forwarded = [("Metadata", "true"), ("X-Forwarded-For", "10.0.0.9")];
    for target in [EVENTS, &preview] {
        let refusal = refusal("GET", target, &forwarded, "");
        assert!(refusal.contains("X-Forwarded-For"), "{refusal}");
    }
}

#[test]
fn advisories_are_delivered_only_by_a_version_newer_than_2020_07_01() {
    let server = TestServer::start(&["spot-rebalance"], 1.0);
    for version in ["2017-11-01", "2020-07-01"] {
        assert_eq!(document(&server, version)["Events"], json!([]), "{version}");
    }
    for version in ["2020-07-02", "2026-05-01"] {
        let document = document(&server, version);
        let event = &document["Events"][0];
        assert_eq!(event["EventType"], "SpotRebalanceRecommendation");
        assert_eq!(event["EventStatus"], "Advisory");
        assert_eq!(
            (&event["NotBefore"], &event["EventSource"]),
            (&json!(""), &json!("Platform"))
        );
    }
}

#[test]
fn members_of_each_version_are_in_the_captured_order() {
    let server = TestServer::start(&["live-migration"], 1.0);
    let all = [
        "EventId",
        "EventStatus",
        "EventType",
        "ResourceType",
        "Resources",
        "NotBefore",
        "Description",
        "EventSource",
        "DurationInSeconds",
    ];
    for (version, resource, time_length, members) in [
        ("2017-03-01", "_web-vmss_0", 20, 6),
        ("2017-08-01", "web-vmss_0", 29, 6),
        ("2017-11-01", "web-vmss_0", 29, 6),
        ("2019-01-01", "web-vmss_0", 29, 6),
        ("2019-04-01", "web-vmss_0", 29, 7),
        ("2019-08-01", "web-vmss_0", 29, 8),
        ("2020-07-01", "web-vmss_0", 29, 9),
    ] {
        let response = server.get(&target(version));
        let places = all.map(|name| response.text().find(&format!("\"{name}\":")));
        let (given, absent) = places.split_at(members);
        assert!(given.is_sorted() && given[0].is_some(), "{version}");
        assert!(absent.iter().all(Option::is_none), "{version}");
        let event = &response.json()["Events"][0];
        assert_eq!(event["Resources"][0], resource);
        let time = event["NotBefore"].as_str().unwrap();
        assert_eq!(time.len(), time_length, "{time}");
    }
}

#[test]
fn older_versions_leave_out_newer_event_types() {
    let server = TestServer::start(&["spot-preempt", "scale-in-terminate"], 1.0);
    for (version, events) in [("2017-08-01", 0), ("2017-11-01", 1), ("2019-01-01", 3)] {
        let document = document(&server, version);
        assert_eq!(document["Events"].as_array().unwrap().len(), events);
    }
}
