//! Limits: no client can break the service or block other clients.

use super::{one_event, test_server::TestServer};

#[test]
fn malicious_targets_are_not_echoed() {
    let server = TestServer::start(one_event());
    for target in [
        "//",
        "/%00",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/../../etc/passwd",
        "/metrics%0d%0aSet-Cookie:%20a=b",
        "/<script>alert(1)</script>",
        "/?<script>alert(1)</script>",
        "/api/v1/events/%ff%fe",
        "/assets/",
        "/assets/status.css/..",
        "http://other.example/nowhere-script",
        "http://other.example",
        "other.example:80",
        "*",
        "metrics",
        "?",
        "/a\u{7f}b",
        "/é",
        "/a b",
        "http://[::1",
    ] {
        let mut connection = server.connect();
        connection.send(
            format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        let response = String::from_utf8_lossy(&connection.read_to_close()).into_owned();
        let is_expected = [
            "HTTP/1.1 200",
            "HTTP/1.1 400",
            "HTTP/1.1 403",
            "HTTP/1.1 404",
            "HTTP/1.1 405",
        ]
        .iter()
        .any(|start| response.starts_with(start));
        assert!(is_expected, "{target}: {response}");
        for echo in ["alert(1)", "etc/passwd", "Set-Cookie", "nowhere-script"] {
            assert!(!response.contains(echo), "{target}: {response}");
        }
    }
    assert_eq!(server.get("/-/healthy", &[]).status, 200);
}

#[test]
fn absolute_and_authority_targets_are_accepted() {
    let server = TestServer::start(one_event());
    let response = server.get("http://other.example/-/healthy", &[]);
    assert_eq!((response.status, response.text()), (200, "healthy\n"));
    assert_eq!(
        server.request("CONNECT", "other.example:443", &[]).status,
        405
    );
}

#[test]
fn unusual_but_valid_headers_are_accepted() {
    let server = TestServer::start(one_event());
    let mut connection = server.connect();
    connection.send(b"GET /metrics HTTP/1.1\r\nHost: test\r\nAccept: \xff\xfe;;q=;\"\r\nAccept-Encoding: \xff\r\nAccept-Encoding: ,;q=2,\r\n\r\n");
    let response = connection.response("GET").unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-encoding"), None);
}
