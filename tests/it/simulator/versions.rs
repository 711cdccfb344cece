//! What the versions of the Scheduled Events API differ in.

use serde_json::{Value, json};

use super::TestServer;

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
    let status = |method: &str, version: &str, body: &str| {
        let response = server.send(method, &target(version), &[], body);
        response.unwrap().status
    };
    assert_eq!(status("GET", "2017-03-01", ""), 200);
    for version in ["2017-08-01", "2020-07-01", "2026-05-01", "nothing"] {
        assert_eq!(status("GET", version, ""), 400, "{version}");
    }
    let id = document(&server, "2017-03-01")["Events"][0]["EventId"].clone();
    let body = format!("{{\"StartRequests\":[{{\"EventId\":{id}}}]}}");
    assert_eq!(status("POST", "2017-08-01", &body), 400);
    assert_eq!(status("POST", "2017-03-01", &body), 200);
    let compute = "/metadata/instance/compute?api-version=2017-04-02";
    let response = server.send("GET", compute, &[], "").unwrap();
    assert_eq!(
        response.status, 400,
        "instance metadata asks for the header"
    );
    let forwarded = [("X-Forwarded-For", "10.0.0.9")];
    let response = server.send("GET", &target("2017-03-01"), &forwarded, "");
    assert_eq!(response.unwrap().status, 400);
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
