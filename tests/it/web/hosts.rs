//! A web page that rebinds its name to the address of the VM cannot read the events with the browser of a visitor.

use super::{
    one_event,
    test_server::{TestServer, allowed_hosts, settings},
};
use azure_scheduled_events_exporter::server::ServerLimits;

fn status(server: &TestServer, path: &str, host: &str) -> u16 {
    response(server, path, host).0
}

fn response(server: &TestServer, path: &str, host: &str) -> (u16, String) {
    requested(server, "GET", path, host)
}

fn requested(server: &TestServer, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut connection = server.connect();
    connection.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    let response = connection.response(method).unwrap();
    (response.status, response.text().to_owned())
}

#[test]
fn foreign_host_is_refused_whatever_the_method_and_the_path_under_api() {
    let server = TestServer::start(one_event());
    for (method, path, status) in [
        ("HEAD", "/", 403),
        ("HEAD", "/api/v1/events", 403),
        ("GET", "/api/v1/nothing", 403),
        ("GET", "/api/", 403),
        ("OPTIONS", "/api/v1/events", 405),
        ("HEAD", "/metrics", 200),
        ("OPTIONS", "/-/serving", 200),
        ("HEAD", "/-/ready", 200),
        ("GET", "/nothing", 404),
    ] {
        let (found, text) = requested(&server, method, path, "rebind.example");
        assert_eq!(found, status, "{method} {path}");
        assert!(
            path == "/metrics" || !text.contains("web_1"),
            "{method} {path}"
        );
    }
}

#[test]
fn page_and_json_refuse_a_foreign_host_and_name_the_flag() {
    let server = TestServer::start(one_event());
    for path in [
        "/",
        "/api/v1/events",
        "/api/v1/events?a=b",
        "/api/v1/transitions?after=1",
    ] {
        let (status, text) = response(&server, path, "rebind.example:10169");
        assert_eq!(status, 403, "{path}");
        assert!(text.contains("--web.allowed-hosts"), "{path}: {text}");
        assert!(!text.contains("rebind"), "{path}: {text}");
        for host in ["127.0.0.1", "[::1]:10169", "localhost:10169", "web_1"] {
            let status = self::status(&server, path, host);
            assert_eq!(status, 200, "{path} with {host}");
        }
    }
}

#[test]
fn metrics_and_probes_accept_any_host() {
    let server = TestServer::start(one_event());
    for path in [
        "/metrics",
        "/-/healthy",
        "/-/ready",
        "/-/serving",
        "/healthz",
        "/readyz",
        "/assets/status.css",
    ] {
        assert_eq!(status(&server, path, "rebind.example"), 200, "{path}");
    }
}

#[test]
fn allowed_hosts_are_accepted() {
    let mut settings = settings();
    settings.allowed_hosts = allowed_hosts(&["events.example.com", "*.svc"]);
    let server = TestServer::with(one_event(), settings, ServerLimits::default());
    assert_eq!(status(&server, "/", "events.example.com"), 200);
    assert_eq!(status(&server, "/", "exporter.monitoring.svc:10169"), 200);
    assert_eq!(status(&server, "/", "example.com"), 403);
}

#[test]
fn request_without_a_host_is_accepted() {
    let server = TestServer::start(one_event());
    let mut connection = server.connect();
    connection.send(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(connection.response("GET").unwrap().status, 200);
}
