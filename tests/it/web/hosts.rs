//! A web page that rebinds its name to the address of the VM cannot read the events with the browser of a visitor.

use super::{
    one_event,
    test_server::{TestServer, allowed_hosts, settings},
};
use azure_scheduled_events_exporter::server::ServerLimits;

#[test]
fn page_and_json_refuse_a_foreign_host_whatever_the_method_and_name_the_flag() {
    let mut settings = settings();
    settings.allowed_hosts = allowed_hosts(&["events.example.com", "*.svc"]);
    let server = TestServer::with(one_event(), settings, ServerLimits::default());
    for (method, path, host, status) in [
        ("GET", "/", "rebind.example:10169", 403),
        ("HEAD", "/", "rebind.example", 403),
        ("GET", "/api/v1/events?a=b", "rebind.example", 403),
        ("GET", "/api/v1/transitions?after=1", "rebind.example", 403),
        ("GET", "/api/v1/nothing", "rebind.example", 403),
        ("GET", "/api/", "rebind.example", 403),
        ("OPTIONS", "/api/v1/events", "rebind.example", 405),
        ("HEAD", "/metrics", "rebind.example", 200),
        ("OPTIONS", "/-/serving", "rebind.example", 200),
        ("GET", "/-/healthy", "rebind.example", 200),
        ("GET", "/readyz", "rebind.example", 200),
        ("GET", "/assets/status.css", "rebind.example", 200),
        ("GET", "/nothing", "rebind.example", 404),
        ("GET", "/", "example.com", 403),
        ("GET", "/", "events.example.com", 200),
        ("GET", "/", "exporter.monitoring.svc:10169", 200),
        ("GET", "/", "127.0.0.1", 200),
        ("GET", "/api/v1/events", "[::1]:10169", 200),
        ("GET", "/api/v1/events", "localhost:10169", 200),
        ("GET", "/", "web_1", 200),
    ] {
        let mut connection = server.connect();
        connection.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        let response = connection.response(method).unwrap();
        assert_eq!(response.status, status, "{method} {path} {host}");
        let text = response.text();
        if status != 200 {
            assert!(
                !text.contains("web_1") && !text.contains("rebind"),
                "{text}"
            );
        }
        let names_flag = text.contains("--web.allowed-hosts");
        assert_eq!(names_flag, status == 403 && method == "GET", "{text}");
    }
    let mut connection = server.connect();
    connection.send(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(connection.response("GET").unwrap().status, 200, "no host");
}
