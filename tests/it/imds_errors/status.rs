//! Errors that follow from the status of the response.

use std::time::Duration;

use azure_scheduled_events_exporter::{FailureReason, event::EventId};
use tokio::net::TcpListener;

use super::{LOGIN_PAGE, NOTHING, check, poll_error};
use crate::support::{DEADLINE, FakeImds, Reply, client_of};

#[tokio::test]
async fn the_status_is_checked_before_the_body() {
    use FailureReason::{Gone, Redirect, Shape, Status4xx, Status5xx, Throttled};
    let without_body = "HTTP/1.1 503 Busy\r\nContent-Length: 37\r\n\r\n{";
    let without_body = Reply::raw(without_body).then_hang();
    let unconditional = Reply::http("304 Not Modified", &[], "");
    let no_content = Reply::raw("HTTP/1.1 204 No Content\r\n\r\n");
    let row = |status, reason, words| (Reply::http(status, &[], NOTHING), reason, words);
    check([
        row("201 Created", Shape, "HTTP 201"),
        row("202 Accepted", Shape, "HTTP 202"),
        row("206 Partial Content", Shape, "HTTP 206"),
        (no_content, Shape, "HTTP 204"),
        (unconditional, Redirect, "unconditional"),
        (without_body, Status5xx, "HTTP 503"),
        row("400 Bad Request", Status4xx, "HTTP 400"),
        row("404 Not Found", Status4xx, "HTTP 404"),
        row("410 Gone", Gone, "70 seconds"),
        row("429 Slow", Throttled, "five requests a second"),
        row("500 Internal Server Error", Status5xx, "HTTP 500"),
        row("503 Service Unavailable", Status5xx, "HTTP 503"),
        row("599 Whatever", Status5xx, "HTTP 599"),
        row("600 Whatever", Shape, "HTTP 600"),
        row("999 Whatever", Shape, "HTTP 999"),
    ])
    .await;
}

#[tokio::test]
async fn refusals_yield_a_hint() {
    use FailureReason::{Status4xx, Status5xx};
    let versions = r#"{"error":"Bad request. api-version is invalid or was not specified in the request.","newest-versions":["2025-04-07","2024-07-17","2024-03-15"]}"#;
    let refused = || Reply::http("400 Bad Request", &[], versions);
    let error = |status: &str| Reply::error(status, "no");
    let blank = Reply::error("502 Bad", "\u{1b}[2J\r\n");
    let long = "x".repeat(100_000);
    let google = Reply::http("404 No", &[("Metadata-Flavor", "Google")], LOGIN_PAGE);
    let amazon = Reply::http("404 No", &[("Server", "EC2ws")], LOGIN_PAGE);
    check([
        (google, Status4xx, "Google Cloud"),
        (amazon, Status4xx, "Amazon EC2"),
        (Reply::error("500 Oops", "oops"), Status5xx, "\"oops\""),
        (blank, Status5xx, "HTTP 502"),
        (Reply::http("404 No", &[], long), Status4xx, "HTTP 404"),
        (refused(), Status4xx, "2025-04-07"),
        (refused(), Status4xx, "--imds.api-version"),
        (error("401 Unauthorized"), Status4xx, "no credentials"),
        (error("405 Method Not Allowed"), Status4xx, "HTTP 405"),
        (error("408 Request Timeout"), Status4xx, "HTTP 408"),
        (error("418 I'm a teapot"), Status4xx, "HTTP 418"),
    ])
    .await;
    // The Metadata Security Protocol.
    let unreachable = "GuestProxyAgent cannot reach IMDS on the host";
    let unidentified = "cannot identify the process behind this connection";
    let refused = "refuses this process: allow its user or its executable";
    let row = |status, reason, words| (from_guest_proxy_agent(status), reason, words);
    check([
        row("403 Forbidden", Status4xx, refused),
        row("421 Misdirected Request", Status4xx, unidentified),
        row("502 Bad Gateway", Status5xx, unreachable),
        row("503 Service Unavailable", Status5xx, unreachable),
    ])
    .await;
}

/// A page of HTML is that of a proxy, whatever its status.
#[tokio::test]
async fn a_web_page_is_that_of_a_proxy_and_no_fault_of_imds() {
    let html = [("Content-Type", "text/html; charset=utf-8")];
    for status in [201, 400, 403, 404, 410, 429, 500, 504] {
        let status = format!("{status} Word");
        let status = status.as_str();
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

/// Each row: whether the document was read before, the refusal, what its message has and what it lacks.
#[tokio::test]
async fn a_refusal_is_explained_by_its_situation() {
    let version = "api-version is invalid or was not specified in the request";
    let header = "Required metadata header not specified";
    let (bad, none, forbidden) = ("400 Bad Request", "404 Not Found", "403 Forbidden");
    for (was_read, status, text, has, lacks) in [
        (false, none, "no", "is this an Azure VM", "before"),
        (true, none, "no", "succeeded before", "is this an Azure VM"),
        (false, bad, "no", "check --imds.api-version", "before"),
        (true, bad, "no", "succeeded before", "--imds.api-version"),
        (true, bad, version, "set --imds.api-version", "before"),
        (false, bad, header, "a proxy removes the header", "--imds"),
        (true, forbidden, "", "GuestProxyAgent", "another cloud"),
    ] {
        let refusal = Reply::error(status, text);
        let known = was_read.then(|| Reply::ok(NOTHING));
        let imds = FakeImds::scripted(known.into_iter().chain([refusal])).await;
        let mut client = client_of(&imds.base());
        if was_read {
            client.poll(DEADLINE).await.unwrap();
        }
        let message = client.poll(DEADLINE).await.unwrap_err().to_string();
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
        let approved = client_of(&imds.base()).approve(&[id], None, DEADLINE).await;
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
    for status in statuses {
        client.poll(DEADLINE).await.unwrap_err();
        let next = client.poll(DEADLINE).await;
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
    for _ in 0..2 {
        client.poll(DEADLINE).await.unwrap_err();
    }
    client.poll(DEADLINE).await.unwrap();
    assert_eq!(imds.connections(), 3);
}

#[tokio::test]
async fn retry_after_of_a_429_is_kept() {
    let retry_after = async |value| {
        let throttled = Reply::http("429 Too Many Requests", &[("Retry-After", value)], "{}");
        let imds = FakeImds::scripted([throttled]).await;
        poll_error(&imds, DEADLINE).await.retry_after
    };
    assert_eq!(retry_after("7").await, Some(Duration::from_secs(7)));
    let date = retry_after("Fri, 31 Dec 2999 23:59:59 GMT").await;
    assert!(date > Some(Duration::from_hours(24)), "{date:?}");
    assert_eq!(retry_after("later").await, None);
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
        let shown = format!("a redirect to http://{address}, is not followed");
        assert!(message.contains(&shown), "{message}");
        for secret in ["us3r", "pa55", "login", "token", "5ecret"] {
            assert!(!message.contains(secret), "{message}");
        }
    }
    let no_location = FakeImds::scripted([Reply::http("300 Multiple Choices", &[], "")]).await;
    let error = poll_error(&no_location, DEADLINE).await;
    assert_eq!(error.reason, FailureReason::Redirect, "{error}");
    let followed = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(followed.is_err(), "the redirect was followed");
}
