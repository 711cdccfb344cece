//! The documented behaviour of the metadata service, over sockets.

use super::{EVENTS, TestServer, approval};

fn idle() -> TestServer {
    TestServer::start(&[], 1.0)
}

#[test]
fn idle_service_has_an_empty_document_in_one_line() {
    let response = idle().get(EVENTS);
    assert_eq!(response.status, 200);
    assert_eq!(response.text(), r#"{"DocumentIncarnation":1,"Events":[]}"#);
    assert_eq!(
        response.header("content-type"),
        Some("application/json; charset=utf-8")
    );
}

#[test]
fn missing_unknown_and_repeated_versions_are_refused() {
    let server = idle();
    for query in [
        "",
        "?api-version=",
        "?api-version=latest",
        "?api-version=2018-01-01",
        "?api-version=2021-02-30",
        "?api-version=2021-2-1",
        "?version=2020-07-01",
    ] {
        let response = server.get(&format!("/metadata/scheduledevents{query}"));
        assert_eq!(response.status, 400, "{query}");
        assert_eq!(
            response.text(),
            "{\"error\":\"Bad request. api-version is invalid or was not specified in the request.\",\
             \"newest-versions\":[\"2025-04-07\",\"2024-07-17\",\"2024-03-15\"]}"
        );
    }
    let twice = server.get(&format!("{EVENTS}&api-version=2020-07-01"));
    assert_eq!(twice.status, 400);
    assert!(twice.error().contains("more than once"));
}

#[test]
fn unchanged_document_is_304() {
    let server = TestServer::start(&["user-reboot"], 1.0);
    let first = server.get(EVENTS);
    let tag = first.header("etag").unwrap().to_owned();
    let again = |tag: &str| {
        let headers = [("Metadata", "true"), ("If-None-Match", tag)];
        server.send("GET", EVENTS, &headers, "").unwrap()
    };
    let unchanged = again(&tag);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), Some(&*tag));
    assert_eq!(again("\"other\"").status, 200);
    let body = approval(&[&first.json()["Events"][0]["EventId"]]);
    assert_eq!(server.post(EVENTS, &body).status, 200);
    assert_eq!(again(&tag).status, 200);
}

#[test]
fn approval_starts_the_event() {
    let server = TestServer::start(&["user-reboot"], 1.0);
    let before = server.get(EVENTS).json();
    let id = &before["Events"][0]["EventId"];
    let lower_case = id.as_str().unwrap().to_ascii_lowercase();
    let approved = server.post(EVENTS, &approval(&[&lower_case.into()]));
    assert_eq!(approved.status, 200);
    let after = server.get(EVENTS).json();
    assert_eq!(after["Events"][0]["EventStatus"], "Started");
    assert_eq!(after["Events"][0]["NotBefore"], "");
    assert_eq!(after["Events"][0]["EventId"], *id);
    assert_eq!(
        after["DocumentIncarnation"],
        before["DocumentIncarnation"].as_u64().unwrap() + 1
    );
    let again = server.post(EVENTS, &approval(&[id]));
    assert_eq!(again.status, 200, "a second approval succeeds");
    assert_eq!(server.get(EVENTS).json(), after);
}

#[test]
fn one_post_approves_several_events_in_the_format_of_the_first_version() {
    let server = TestServer::start(&["user-reboot", "live-migration"], 1.0);
    let document = server.get(EVENTS).json();
    let [first, second] = [0, 1].map(|index| &document["Events"][index]["EventId"]);
    let body = approval(&[first, second]).replacen('{', r#"{"DocumentIncarnation":"5","#, 1);
    let target = "/metadata/scheduledevents?api-version=2017-08-01";
    assert_eq!(server.post(target, &body).status, 200);
    let after = server.get(EVENTS).json();
    assert!(
        (0..2).all(|index| after["Events"][index]["EventStatus"] == "Started"),
        "{after}"
    );
}

#[test]
fn malformed_approvals_are_refused_and_change_nothing() {
    let server = TestServer::start(&["user-reboot"], 1.0);
    let before = server.get(EVENTS);
    let id = before.json()["Events"][0]["EventId"].clone();
    for body in [
        "",
        "x",
        "{}",
        "[]",
        "{\"StartRequests\":null}",
        "{\"StartRequests\":[]}",
        "{\"StartRequests\":[{}]}",
        &approval(&[&id, &"none".into()]),
    ] {
        let response = server.post(EVENTS, body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.error().starts_with("Bad request."), "{body}");
    }
    let body = approval(&[&id]);
    assert_eq!(
        server.send("POST", EVENTS, &[], &body).unwrap().status,
        400,
        "the header is required"
    );
    assert_eq!(
        server.post("/metadata/scheduledevents", &body).status,
        400,
        "the version is required"
    );
    assert_eq!(server.get(EVENTS).body, before.body);
}

#[test]
fn other_methods_are_refused_with_the_allowed_ones() {
    let server = idle();
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let response = server
            .send(method, EVENTS, &[("Metadata", "true")], "")
            .unwrap();
        assert_eq!(
            (response.status, response.header("allow")),
            (405, Some("GET, POST")),
            "{method}"
        );
    }
    let response = server.post("/metadata/instance?api-version=2021-02-01", "{}");
    assert_eq!(
        (response.status, response.header("allow")),
        (405, Some("GET"))
    );
}

#[test]
fn unknown_paths_are_not_found() {
    let server = idle();
    for path in [
        "/metadata",
        "/metadata/latest/scheduledevents",
        "/metadata/instances",
        "/metadata/instance/compute/nothing?api-version=2021-02-01",
        "/other",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn instance_metadata_identify_the_vm_at_each_level_of_the_path() {
    let server = idle();
    let get = |path: &str| server.get(&format!("/metadata/instance{path}"));
    let instance = get("?api-version=2021-02-01").json();
    let compute = get("/compute/?api-version=2017-04-02").json();
    assert_eq!(instance["compute"], compute, "all versions are alike");
    assert_eq!(compute["name"], "web-vmss_0");
    let profile = get("/compute/osProfile?api-version=2021-02-01").json();
    assert_eq!(profile["computerName"], "web-vmss000000");
    for (path, text) in [
        ("/compute/name", "web-vmss_0"),
        ("/Compute/VMScaleSetName", "web-vmss"),
        ("/compute/osProfile/computerName", "web-vmss000000"),
    ] {
        let leaf = get(&format!("{path}?api-version=2019-08-01&format=text"));
        let content_type = leaf.header("content-type");
        assert_eq!(
            (leaf.text(), content_type),
            (text, Some("text/plain; charset=utf-8"))
        );
        let leaf = get(&format!("{path}?api-version=2019-08-01"));
        assert_eq!(leaf.status, 400, "{path}");
    }
    for query in ["", "?api-version=latest", "?format=text"] {
        let response = get(&format!("/compute{query}"));
        assert_eq!(response.status, 400, "{query}");
        assert_eq!(response.json()["newest-versions"][0], "2025-04-07");
    }
}

#[test]
fn each_vm_of_a_scenario_has_its_own_metadata_and_the_events_of_all() {
    let server = TestServer::start(&["microsoft-example", "spot-preempt"], 1.0);
    let name = |vm: &str| {
        let path = "metadata/instance/compute/name?api-version=2021-02-01&format=text";
        let response = server.get(&format!("/vm/{vm}/{path}"));
        (response.status, response.text().to_owned())
    };
    for (vm, expected) in [
        ("WestNO_1", "WestNO_1"),
        ("westno_0", "WestNO_0"),
        ("web-vmss_0", "web-vmss_0"),
    ] {
        assert_eq!(name(vm), (200, expected.to_owned()), "{vm}");
    }
    for vm in ["web-vmss_1", "nobody", "", "WestNO_1/metadata"] {
        assert_eq!(name(vm).0, 404, "{vm}");
    }
    assert!(name("nobody").1.contains("WestNO_0, WestNO_1, web-vmss_0"));
    server.post("/simulator/start", r#"{"scenario": "hardware-failure"}"#);
    assert_eq!(name("web-vmss_1").0, 200, "named by a scenario since");
    let of_vm = format!("/vm/WestNO_1{EVENTS}");
    let document = server.get(&of_vm);
    assert_eq!(document.json(), server.get(EVENTS).json());
    assert_eq!(server.send("GET", &of_vm, &[], "").unwrap().status, 400);
    let body = approval(&[&document.json()["Events"][0]["EventId"]]);
    assert_eq!(server.post(&of_vm, &body).status, 200);
    let vms = server.get("/simulator/state").json()["vms"].clone();
    assert_eq!(
        vms,
        serde_json::json!(["WestNO_0", "WestNO_1", "web-vmss_0", "web-vmss_1"])
    );
}
