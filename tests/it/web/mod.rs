//! Responses of the web service over sockets.

mod blocked_stderr;
mod bounds;
mod consistency;
#[cfg(target_os = "linux")]
mod crowding;
pub(crate) mod snapshot;
pub(crate) mod test_server;

use std::{collections::BTreeSet, io::Read as _};

use azure_scheduled_events_exporter::snapshot::Snapshot;
use snapshot::{engine, event, poll};
use test_server::{TestServer, settings};

use crate::support::served::Response;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

fn one_event() -> Snapshot {
    poll(
        &mut engine(),
        1,
        &[event(
            "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265",
            "Maintenance.",
        )],
    )
}

#[test]
fn each_path_has_its_content_type_and_exactly_the_expected_headers() {
    let server = TestServer::start(one_event());
    let always = BTreeSet::from([
        "cache-control",
        "content-length",
        "content-security-policy",
        "content-type",
        "date",
        "referrer-policy",
        "vary",
        "x-content-type-options",
    ]);
    for (path, status, expected) in [
        ("/", 200, "text/html; charset=utf-8"),
        ("/?a=b", 200, "text/html; charset=utf-8"),
        ("/metrics", 200, TEXT),
        ("/api/v1/events", 200, "application/json"),
        ("/api/v1/transitions?after=1", 200, "application/json"),
        (
            "/api/v1/transitions?after=-1",
            400,
            "text/plain; charset=utf-8",
        ),
        ("/-/healthy", 200, "text/plain; charset=utf-8"),
        ("/healthz", 200, "text/plain; charset=utf-8"),
        ("/-/ready", 200, "text/plain; charset=utf-8"),
        ("/readyz", 200, "text/plain; charset=utf-8"),
        ("/-/serving", 200, "text/plain; charset=utf-8"),
        ("/assets/status.css?v=1", 200, "text/css; charset=utf-8"),
        ("/assets/status.js", 200, "text/javascript; charset=utf-8"),
        ("/assets/icon.svg", 200, "image/svg+xml"),
        ("/nowhere", 404, "text/plain; charset=utf-8"),
        ("/metrics/", 404, "text/plain; charset=utf-8"),
        ("/assets/../metrics", 404, "text/plain; charset=utf-8"),
    ] {
        let response = server.get(path, &[]);
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.header("content-type"), Some(expected), "{path}");
        assert!(!response.body.is_empty(), "{path}");
        let names = response.headers.iter().map(|(name, _)| name.as_str());
        assert_eq!(names.collect::<BTreeSet<_>>(), always, "{path}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        let policy = response.header("content-security-policy").unwrap();
        let is_strict = policy.starts_with("default-src 'none';") && !policy.contains("unsafe");
        assert!(is_strict, "{policy}");
        let is_stored = response.header("cache-control") != Some("no-store");
        assert_eq!(
            is_stored,
            path.starts_with("/assets/") && status == 200,
            "{path}"
        );
    }
}

#[test]
fn metrics_have_the_negotiated_format() {
    let server = TestServer::start(one_event());
    for (headers, expected) in [
        (&["Accept: application/openmetrics-text"][..], OPEN_METRICS),
        (
            &[
                "Accept: text/plain;q=0.1",
                "Accept: application/openmetrics-text",
            ],
            OPEN_METRICS,
        ),
        (&["accept: text/plain;version=0.0.4;q=1,*/*;q=0.1"], TEXT),
        (&["Accept: image/png"], TEXT),
        (&[], TEXT),
    ] {
        let response = server.get("/metrics", headers);
        assert_eq!(response.header("content-type"), Some(expected));
        assert_eq!(response.header("vary"), Some("accept, accept-encoding"));
        let text = response.text();
        // Only OpenMetrics has these, and neither has `_created`.
        for extension in ["# UNIT ", " # {trace_id=\"", "# EOF\n"] {
            let is_found = text.contains(extension);
            assert_eq!(is_found, expected == OPEN_METRICS, "{extension}");
        }
        assert!(text.contains("azure_scheduled_events_up 1") && !text.contains("_created"));
    }
}

#[test]
fn responses_are_compressed_if_accepted() {
    let server = TestServer::start(one_event());
    for path in ["/", "/metrics", "/api/v1/events", "/assets/status.css"] {
        let plain = server.get(path, &["Accept-Encoding: gzip;q=0, identity"]);
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        let packed = server.get(path, &["Accept-Encoding: deflate, gzip"]);
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert!(
            packed.header("vary").unwrap().contains("accept-encoding"),
            "{path}"
        );
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(packed.body.as_slice())
            .read_to_end(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, plain.body, "{path}");
    }
    let small = server.get("/-/healthy", &["Accept-Encoding: gzip"]);
    assert_eq!(small.header("content-encoding"), None);
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let server = TestServer::start(one_event());
    for path in [
        "/",
        "/metrics",
        "/api/v1/events",
        "/-/serving",
        "/assets/icon.svg",
        "/nowhere",
    ] {
        let get = server.get(path, &[]);
        let mut connection = server.connect();
        connection.request("HEAD", path, &["Connection: close"]);
        let head = connection.response("HEAD").unwrap();
        assert_eq!(connection.read_to_close(), b"", "{path}");
        let compared = |response: &Response| {
            let mut headers = response.headers.clone();
            headers.retain(|(name, _)| name != "date" && name != "connection");
            (response.status, headers)
        };
        assert_eq!(compared(&head), compared(&get), "{path}");
    }
}

#[test]
fn other_methods_than_get_and_head_are_rejected() {
    let server = TestServer::start(one_event());
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/", "/metrics", "/nowhere"] {
            let response = server.request(method, path, &["Content-Length: 0"]);
            assert_eq!(response.status, 405, "{method} {path}");
            assert_eq!(
                response.header("allow"),
                Some("GET, HEAD"),
                "{method} {path}"
            );
        }
    }
    let mut connection = server.connect();
    connection.send(b"OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(connection.response("OPTIONS").unwrap().status, 405);
    let response = server.request("POST", "/-/serving", &["Content-Length: 0"]);
    let allow = response.header("allow");
    assert_eq!((response.status, allow), (405, Some("GET, HEAD, OPTIONS")));
}

/// The default check of HAProxy.
#[test]
fn options_at_a_probe_has_the_status_of_get_and_no_body() {
    let mut started = event("A", "");
    started["EventStatus"] = "Started".into();
    for events in [vec![], vec![started]] {
        let server = TestServer::start(poll(&mut engine(), 1, &events));
        for path in [
            "/-/healthy",
            "/healthz",
            "/-/ready",
            "/readyz",
            "/-/serving",
        ] {
            let (get, options) = (server.get(path, &[]), server.request("OPTIONS", path, &[]));
            assert_eq!(options.status, get.status, "{path}");
            assert_eq!(options.body, b"", "{path}");
            assert_eq!(
                options.header("allow"),
                Some("GET, HEAD, OPTIONS"),
                "{path}"
            );
        }
        let mut connection = server.connect();
        connection.send(b"OPTIONS /-/serving HTTP/1.0\r\n\r\n");
        let status = connection.response("OPTIONS").unwrap().status;
        assert_eq!(status, if events.is_empty() { 200 } else { 503 });
    }
}

#[test]
fn telemetry_path_is_configurable() {
    let mut settings = settings();
    settings.telemetry_path = "/probe/metrics".to_owned();
    let server = TestServer::with(
        one_event(),
        settings,
        azure_scheduled_events_exporter::server::ServerLimits::default(),
    );
    assert_eq!(server.get("/metrics", &[]).status, 404);
    assert_eq!(server.get("/probe/metrics", &[]).status, 200);
    let page = server.get("/", &[]);
    assert!(
        page.text().contains("href=\"probe/metrics\""),
        "{}",
        page.text()
    );
}

#[test]
fn invisible_characters_are_made_visible_on_page_and_metrics() {
    let hostile = "a\nb\u{202e}c\u{200b}d\u{1b}e\u{2066}f\u{61c}g";
    let shown = "a b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}g";
    let mut event = event("7B1E04C9-52DA-4F6E-9C38-A40D7E91B265", hostile);
    for member in ["EventType", "EventStatus", "EventSource", "ResourceType"] {
        event[member] = hostile.into();
    }
    event["Extra"] = hostile.into();
    let server = TestServer::start(poll(&mut engine(), 1, &[event]));
    for path in ["/", "/metrics"] {
        let text = server.get(path, &[]).text().to_owned();
        assert!(text.contains(shown), "{path}: {text}");
        for hidden in ['\u{202e}', '\u{200b}', '\u{1b}', '\u{2066}', '\u{61c}'] {
            assert!(!text.contains(hidden), "{path}: {hidden:?}");
        }
    }
}
