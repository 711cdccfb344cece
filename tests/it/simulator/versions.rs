//! What the versions of the Scheduled Events API differ in, and the names of classic cloud services.

use azure_scheduled_events_exporter::simulator::{Scenario, Vm};
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

fn classic() -> TestServer {
    let scenario = Scenario::named("user-reboot").unwrap();
    TestServer::of_vm(Vm::new(Some("FrontEnd_IN_0")), vec![scenario], 1.0)
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
fn preview_puts_no_underscore_before_instances_of_a_classic_role() {
    let server = classic();
    for version in ["2017-03-01", "2017-11-01"] {
        let event = document(&server, version)["Events"][0].clone();
        assert_eq!(event["Resources"], json!(["FrontEnd_IN_0"]), "{version}");
    }
}

#[test]
fn classic_cloud_service_has_no_compute() {
    let server = classic();
    let compute = server.get("/metadata/instance/compute?api-version=2021-02-01");
    assert_eq!((compute.status, &*compute.error()), (404, "Not found"));
    let instance = server.get("/metadata/instance?api-version=2021-02-01");
    assert_eq!(instance.status, 200);
    assert!(instance.json().get("compute").is_none());
}

#[test]
fn approvals_of_the_preview_carry_the_incarnation_as_number_or_string() {
    for quote in ["", "\""] {
        let server = TestServer::start(&["user-reboot"], 1.0);
        let before = document(&server, "2017-03-01");
        let incarnation = &before["DocumentIncarnation"];
        let id = &before["Events"][0]["EventId"];
        let body = format!(
            "{{\"DocumentIncarnation\":{quote}{incarnation}{quote},\"StartRequests\":[{{\"EventId\":{id}}}]}}"
        );
        assert_eq!(server.post(&target("2017-03-01"), &body).status, 200);
        let after = document(&server, "2017-03-01");
        assert_eq!(after["Events"][0]["EventStatus"], "Started");
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
