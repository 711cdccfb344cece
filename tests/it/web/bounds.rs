//! No client can break the site, or keep it from another one.

use std::time::Duration;

use azure_scheduled_events_exporter::server::ServerLimits;

use super::{
    one_event,
    server::{Server, settings},
};

#[test]
fn hostile_targets_are_answered_or_refused_and_never_repeated() {
    let server = Server::start(one_event());
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
        let answer = String::from_utf8_lossy(&connection.rest()).into_owned();
        let is_fine = [
            "HTTP/1.1 200",
            "HTTP/1.1 400",
            "HTTP/1.1 404",
            "HTTP/1.1 405",
        ]
        .iter()
        .any(|start| answer.starts_with(start));
        assert!(is_fine, "{target}: {answer}");
        for echo in ["alert(1)", "etc/passwd", "Set-Cookie", "nowhere-script"] {
            assert!(!answer.contains(echo), "{target}: {answer}");
        }
    }
    assert_eq!(server.get("/-/healthy", &[]).status, 200);
}

#[test]
fn a_proxys_form_of_a_target_is_understood() {
    let server = Server::start(one_event());
    let reply = server.get("http://other.example/-/healthy", &[]);
    assert_eq!((reply.status, reply.text()), (200, "healthy\n"));
    assert_eq!(server.ask("CONNECT", "other.example:443", &[]).status, 405);
}

#[test]
fn what_is_no_http_is_refused_and_others_are_served_on() {
    let server = Server::start(one_event());
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : test\r\n\r\n",
        b"\r\n\r\n\r\n\0\0\0\r\n\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(garbage);
        connection
            .0
            .get_mut()
            .shutdown(std::net::Shutdown::Write)
            .unwrap();
        let answer = connection.rest();
        assert!(
            !answer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(server.get("/-/healthy", &[]).status, 200);
}

#[test]
fn headers_that_are_odd_but_allowed_do_no_harm() {
    let server = Server::start(one_event());
    let mut connection = server.connect();
    connection.send(b"GET /metrics HTTP/1.1\r\nHost: test\r\nAccept: \xff\xfe;;q=;\"\r\nAccept-Encoding: \xff\r\nAccept-Encoding: ,;q=2,\r\n\r\n");
    let reply = connection.reply("GET").unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-encoding"), None);
}

#[test]
fn a_request_whose_header_is_too_large_is_refused() {
    let server = Server::start(one_event());
    let long = format!("X-Long: {}", "a".repeat(64 * 1024));
    let many: Vec<String> = (0..500).map(|number| format!("X-{number}: a")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for headers in [&[long.as_str()][..], &many] {
        let mut connection = server.connect();
        let lines = headers.join("\r\n");
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\n");
        // The server may close before it has taken in everything.
        drop(std::io::Write::write_all(
            connection.0.get_mut(),
            request.as_bytes(),
        ));
        let answer = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{answer}"
        );
    }
    assert_eq!(server.get("/-/healthy", &[]).status, 200);
}

#[test]
fn a_client_that_never_ends_its_header_is_closed_and_others_are_served_meanwhile() {
    let limits = ServerLimits {
        header_time: Duration::from_millis(500),
        ..ServerLimits::default()
    };
    let server = Server::with(one_event(), settings(), limits);
    let mut slow = server.connect();
    slow.send(b"GET / HTTP/1.1\r\nHost: te");
    assert_eq!(server.get("/-/healthy", &[]).status, 200);
    let answer = slow.rest();
    assert!(
        !answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn a_client_beyond_the_limit_takes_the_place_of_an_idle_one() {
    let limits = ServerLimits {
        connections: 2,
        idle: Duration::from_mins(10),
        ..ServerLimits::default()
    };
    let server = Server::with(one_event(), settings(), limits);
    let mut held: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for connection in &mut held {
        connection.ask("GET", "/-/healthy", &[]);
        assert_eq!(connection.reply("GET").unwrap().status, 200);
    }
    let mut third = server.connect();
    third.ask("GET", "/-/healthy", &["Connection: close"]);
    assert_eq!(third.reply("GET").unwrap().status, 200);
}
