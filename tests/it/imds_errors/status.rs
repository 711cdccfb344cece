//! Errors that follow from the status of the response.

use std::time::Duration;

use azure_scheduled_events_exporter::{FailureReason, event::EventId, time::Clock};
use tokio::net::TcpListener;

use super::{LOGIN_PAGE, NOTHING, check, poll_error};
use crate::support::{DEADLINE, FakeImds, Reply, client_of};

#[tokio::test]
async fn the_status_is_checked_before_the_body() {
    use FailureReason::{Gone, Shape, Status4xx, Status5xx, Throttled};
    let with_document = |status: &str| Reply::http(status, &[], NOTHING);
    check([
        (with_document("201 Created"), Shape, "HTTP 201"),
        (with_document("202 Accepted"), Shape, "HTTP 202"),
        (with_document("206 Partial Content"), Shape, "HTTP 206"),
        (
            Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
            Shape,
            "HTTP 204",
        ),
        (with_document("400 Bad Request"), Status4xx, "HTTP 400"),
        (with_document("404 Not Found"), Status4xx, "HTTP 404"),
        (with_document("410 Gone"), Gone, "70 seconds"),
        (
            with_document("429 Too Many Requests"),
            Throttled,
            "five requests a second",
        ),
        (
            with_document("500 Internal Server Error"),
            Status5xx,
            "HTTP 500",
        ),
        (
            with_document("503 Service Unavailable"),
            Status5xx,
            "HTTP 503",
        ),
        (with_document("599 Whatever"), Status5xx, "HTTP 599"),
        (with_document("600 Whatever"), Shape, "HTTP 600"),
        (with_document("999 Whatever"), Shape, "HTTP 999"),
    ])
    .await;
}

#[tokio::test]
async fn error_bodies_of_imds_yield_a_hint() {
    use FailureReason::Status4xx;
    let versions = r#"{"error":"Bad request. api-version is invalid or was not specified in the request.","newest-versions":["2025-04-07","2024-07-17","2024-03-15"]}"#;
    let refused = || Reply::http("400 Bad Request", &[], versions);
    let error = |status: &str| Reply::error(status, "no");
    check([
        (refused(), Status4xx, "2025-04-07"),
        (refused(), Status4xx, "--imds.api-version"),
        (error("401 Unauthorized"), Status4xx, "no credentials"),
        (error("405 Method Not Allowed"), Status4xx, "HTTP 405"),
        (error("408 Request Timeout"), Status4xx, "HTTP 408"),
        (error("418 I'm a teapot"), Status4xx, "HTTP 418"),
    ])
    .await;
}

#[tokio::test]
async fn temporary_errors_are_described_as_such() {
    use FailureReason::{Gone, Status4xx, Status5xx, Throttled};
    let long = "x".repeat(100_000);
    check([
        (Reply::error("410 Gone", "updating"), Gone, "being updated"),
        (Reply::error("429 Slow", "slow"), Throttled, "poll interval"),
        (Reply::error("500 Oops", "oops"), Status5xx, "\"oops\""),
        (
            Reply::error("502 Bad", "\u{1b}[2J\r\n"),
            Status5xx,
            "HTTP 502",
        ),
        (Reply::http("404 No", &[], long), Status4xx, "HTTP 404"),
    ])
    .await;
}

/// A page of HTML is that of a proxy, whatever its status.
#[tokio::test]
async fn a_web_page_is_that_of_a_proxy_and_no_fault_of_imds() {
    let html = [("Content-Type", "text/html; charset=utf-8")];
    for status in [
        "201 Created",
        "400 Bad Request",
        "403 Forbidden",
        "404 Not Found",
        "410 Gone",
        "429 Slow",
        "500 Oops",
        "504 Gateway Timeout",
    ] {
        for page in [
            Reply::http(status, &[], LOGIN_PAGE),
            Reply::http(status, &[], format!("\u{feff}{LOGIN_PAGE}")),
            Reply::http(status, &html, "Please log in"),
        ] {
            let error = poll_error(&FakeImds::scripted([page]).await, DEADLINE).await;
            let message = error.to_string();
            assert!(
                message.ends_with("a proxy or a captive portal answers in place of IMDS"),
                "{message}"
            );
        }
    }
}

/// Each row: the answers before, the refusal, what its message has and what it lacks.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn a_refusal_is_explained_by_its_situation() {
    let error = |status: &str, text: &str| Reply::error(status, text);
    let version = "api-version is invalid or was not specified in the request";
    for (was_read, refusal, has, lacks) in [
        (
            false,
            error("404 Not Found", "no"),
            "is this an Azure VM",
            "before",
        ),
        (
            true,
            error("404 Not Found", "no"),
            "succeeded before",
            "is this an Azure VM",
        ),
        (
            false,
            error("400 Bad Request", "no"),
            "check --imds.api-version",
            "before",
        ),
        (
            true,
            error("400 Bad Request", "no"),
            "succeeded before",
            "--imds.api-version",
        ),
        (
            true,
            error("400 Bad Request", version),
            "set --imds.api-version",
            "before",
        ),
        (
            false,
            error("400 Bad Request", "Required metadata header not specified"),
            "a proxy removes the header",
            "--imds",
        ),
        (
            true,
            error("403 Forbidden", ""),
            "GuestProxyAgent refuses",
            "another cloud",
        ),
    ] {
        let script = was_read
            .then(|| Reply::ok(NOTHING))
            .into_iter()
            .chain([refusal]);
        let imds = FakeImds::scripted(script).await;
        let mut client = client_of(&imds.base());
        let clock = Clock::start();
        if was_read {
            client.poll(DEADLINE, clock).await.unwrap();
        }
        let message = client.poll(DEADLINE, clock).await.unwrap_err().to_string();
        assert!(
            message.contains(has) && !message.contains(lacks),
            "{message}"
        );
    }
}

#[tokio::test]
async fn the_answer_to_an_approval_is_not_explained_as_one_to_a_get() {
    for (status, has) in [
        ("400 Bad Request", "the event may be over"),
        ("404 Not Found", "the event may be over"),
        ("405 Method Not Allowed", "the event may be over"),
        ("403 Forbidden", "GuestProxyAgent refuses"),
        ("503 Busy", "GuestProxyAgent cannot reach"),
    ] {
        let imds = FakeImds::scripted([Reply::http(status, &[], "")]).await;
        let id = EventId::new("7B1E04C9-52DA-4F6E-9C38-A40D7E91B265");
        let approved = client_of(&imds.base())
            .approve(&[&id], DEADLINE, Clock::start())
            .await;
        let message = approved.unwrap_err().to_string();
        assert!(message.contains(has), "{message}");
        for lacks in ["api-version", "Azure VM", "before"] {
            assert!(!message.contains(lacks), "{message}");
        }
    }
}

fn from_guest_proxy_agent(status: &str) -> Reply {
    Reply::http(status, &[("Connection", "close")], "").then_close()
}

#[tokio::test]
async fn refusals_of_the_metadata_security_protocol_are_explained() {
    use FailureReason::{Status4xx, Status5xx};
    check([
        (
            from_guest_proxy_agent("403 Forbidden"),
            Status4xx,
            "refuses this process: allow its user or its executable",
        ),
        (
            from_guest_proxy_agent("421 Misdirected Request"),
            Status4xx,
            "cannot identify the process behind this connection",
        ),
        (
            from_guest_proxy_agent("502 Bad Gateway"),
            Status5xx,
            "GuestProxyAgent cannot reach IMDS on the host",
        ),
        (
            from_guest_proxy_agent("503 Service Unavailable"),
            Status5xx,
            "GuestProxyAgent cannot reach IMDS on the host",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_closed_connection_after_a_refusal_costs_no_failure_of_the_next_poll() {
    let statuses = [
        "403 Forbidden",
        "421 Misdirected Request",
        "502 Bad Gateway",
        "503 Service Unavailable",
    ];
    let script = statuses
        .iter()
        .flat_map(|status| [from_guest_proxy_agent(status), Reply::ok(NOTHING)]);
    let imds = FakeImds::scripted(script).await;
    let mut client = client_of(&imds.base());
    let clock = Clock::start();
    for status in statuses {
        client.poll(DEADLINE, clock).await.unwrap_err();
        let next = client.poll(DEADLINE, clock).await;
        assert!(next.is_ok(), "after {status}: {next:?}");
    }
    assert_eq!(imds.connections(), 5);
}

/// `GuestProxyAgent` identifies the process of a connection, not of a request.
#[tokio::test]
async fn a_421_is_followed_by_a_new_connection() {
    let misdirected = || Reply::http("421 Misdirected Request", &[], "");
    let imds = FakeImds::scripted([misdirected(), misdirected(), Reply::ok(NOTHING)]).await;
    let mut client = client_of(&imds.base());
    let clock = Clock::start();
    for _ in 0..2 {
        client.poll(DEADLINE, clock).await.unwrap_err();
    }
    client.poll(DEADLINE, clock).await.unwrap();
    assert_eq!(imds.connections(), 3);
}

#[tokio::test]
async fn metadata_services_of_other_clouds_are_named() {
    use FailureReason::Status4xx;
    let google = [
        ("Metadata-Flavor", "Google"),
        ("Server", "Metadata Server for VM"),
    ];
    check([
        (
            Reply::http("404 Not Found", &google, LOGIN_PAGE),
            Status4xx,
            "Google Cloud",
        ),
        (
            Reply::http("404 Not Found", &[("Server", "EC2ws")], LOGIN_PAGE),
            Status4xx,
            "Amazon EC2",
        ),
    ])
    .await;
}

#[tokio::test]
async fn retry_after_of_a_429_is_kept() {
    let throttled = |value: &str| {
        Reply::http(
            "429 Too Many Requests",
            &[("Retry-After", value)],
            r#"{"error":"slow"}"#,
        )
    };
    let imds = FakeImds::scripted([throttled("7")]).await;
    let error = poll_error(&imds, DEADLINE).await;
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));

    let imds = FakeImds::scripted([throttled("Fri, 31 Dec 2999 23:59:59 GMT")]).await;
    let error = poll_error(&imds, DEADLINE).await;
    assert!(
        error.retry_after > Some(Duration::from_hours(24)),
        "{error:?}"
    );

    let imds = FakeImds::scripted([throttled("later")]).await;
    let error = poll_error(&imds, DEADLINE).await;
    assert_eq!(error.retry_after, None);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = elsewhere.local_addr().unwrap();
    let location = format!("http://us3r:pa55@{address}/login?token=5ecret#fragment");
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary",
        "308 Permanent",
    ] {
        let imds = FakeImds::scripted([Reply::http(status, &[("Location", &location)], "")]).await;
        let error = poll_error(&imds, DEADLINE).await;
        assert_eq!(error.reason, FailureReason::Redirect, "{status}: {error}");
        let message = error.to_string();
        assert!(message.contains(&format!("@{address}/")), "{message}");
        for secret in ["us3r", "pa55", "token", "5ecret"] {
            assert!(!message.contains(secret), "{message}");
        }
    }
    let no_location = FakeImds::scripted([Reply::http("300 Multiple Choices", &[], "")]).await;
    let error = poll_error(&no_location, DEADLINE).await;
    assert_eq!(error.reason, FailureReason::Redirect, "{error}");
    let followed = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(followed.is_err(), "the redirect was followed");
}

#[tokio::test]
async fn an_error_without_its_body_is_classified_by_its_status() {
    let head = "HTTP/1.1 503 Busy\r\nContent-Length: 37\r\n\r\n{";
    let imds = FakeImds::scripted([Reply::raw(head).then_hang()]).await;
    let error = poll_error(&imds, DEADLINE).await;
    assert_eq!(error.reason, FailureReason::Status5xx, "{error}");
}
