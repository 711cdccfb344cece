//! Everything that is no answer of IMDS: each is a failure with its reason and with words that help, and none is a
//! document.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    document::Answer,
    imds::{Client, Endpoint, Error},
    snapshot::FailureReason,
    time::Clock,
};
use tokio::net::TcpListener;

use crate::support::{FakeImds, PATIENCE, RefusingPort, Reply, client_of, install_cryptography};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const LOGIN_PAGE: &str = "\n<!DOCTYPE html><html><body>Please log in</body></html>";

async fn refused(imds: &FakeImds, timeout: Duration) -> Error {
    let mut client = client_of(&imds.base());
    match client.poll(timeout, Clock::start()).await {
        Err(error) => error,
        Ok(answer) => panic!("it was taken for an answer: {answer:?}"),
    }
}

/// Polls once for each reply, and compares the reason and a part of the message.
async fn each(rows: impl IntoIterator<Item = (Reply, FailureReason, &'static str)>) {
    for (reply, reason, said) in rows {
        let what = format!("{reply:?}");
        let imds = FakeImds::scripted([reply]).await;
        let error = refused(&imds, PATIENCE).await;
        let shown = what.chars().take(600).collect::<String>();
        assert_eq!(error.reason(), reason, "{error}\n{shown}");
        let message = error.to_string();
        assert!(
            message.contains(said),
            "{message:?} lacks {said:?}\n{shown}"
        );
        assert!(message.len() < 1_000, "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[tokio::test]
async fn a_status_other_than_200_is_judged_before_the_body() {
    use FailureReason::{Gone, Shape, Status4xx, Status5xx, Throttled};
    let with_document = |status: &str| Reply::http(status, &[], NOTHING);
    each([
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
async fn the_error_bodies_of_imds_are_failures_that_say_what_to_do() {
    use FailureReason::Status4xx;
    let versions = r#"{"error":"Bad request. api-version is invalid or was not specified in the request.","newest-versions":["2025-04-07","2024-07-17","2024-03-15"]}"#;
    each([
        (
            Reply::error(
                "400 Bad Request",
                "Bad request. Required metadata header not specified",
            ),
            Status4xx,
            "Required metadata header not specified",
        ),
        (
            Reply::http("400 Bad Request", &[], versions),
            Status4xx,
            "2025-04-07",
        ),
        (
            Reply::http("400 Bad Request", &[], versions),
            Status4xx,
            "--imds.api-version",
        ),
        (
            Reply::error("401 Unauthorized", "no"),
            Status4xx,
            "no credentials",
        ),
        (
            Reply::error("403 Forbidden", "no"),
            Status4xx,
            "Metadata Security Protocol",
        ),
        (Reply::error("404 Not Found", "no"), Status4xx, "--imds.url"),
        (
            Reply::error("405 Method Not Allowed", "no"),
            Status4xx,
            "HTTP 405",
        ),
        (
            Reply::error("408 Request Timeout", "no"),
            Status4xx,
            "HTTP 408",
        ),
        (
            Reply::error("418 I'm a teapot", "no"),
            Status4xx,
            "HTTP 418",
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_error_bodies_of_faults_that_pass_are_failures_that_say_so() {
    use FailureReason::{Gone, Status4xx, Status5xx, Throttled};
    each([
        (Reply::error("410 Gone", "updating"), Gone, "being updated"),
        (
            Reply::error("429 Too Many Requests", "slow"),
            Throttled,
            "poll interval",
        ),
        (
            Reply::error("500 Internal Server Error", "oops"),
            Status5xx,
            "\"oops\"",
        ),
        (
            Reply::error("502 Bad Gateway", "\u{1b}[2J\r\n"),
            Status5xx,
            "HTTP 502",
        ),
        (
            Reply::http("503 Busy", &[], LOGIN_PAGE),
            Status5xx,
            "captive portal",
        ),
        (
            Reply::http("404 Not Found", &[], "x".repeat(100_000)),
            Status4xx,
            "HTTP 404",
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_metadata_of_other_clouds_are_told_by_name() {
    use FailureReason::Status4xx;
    let google = [
        ("Metadata-Flavor", "Google"),
        ("Server", "Metadata Server for VM"),
    ];
    each([
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
async fn the_pause_that_a_429_asks_for_is_kept() {
    let throttled = |value: &str| {
        Reply::http(
            "429 Too Many Requests",
            &[("Retry-After", value)],
            r#"{"error":"slow"}"#,
        )
    };
    let imds = FakeImds::scripted([throttled("7")]).await;
    let error = refused(&imds, PATIENCE).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));

    let imds = FakeImds::scripted([throttled("Fri, 31 Dec 2999 23:59:59 GMT")]).await;
    let error = refused(&imds, PATIENCE).await;
    assert!(
        error.retry_after() > Some(Duration::from_hours(24)),
        "{error:?}"
    );

    let imds = FakeImds::scripted([throttled("later")]).await;
    let error = refused(&imds, PATIENCE).await;
    assert_eq!(error, Error::Throttled { retry_after: None });
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = format!("http://{}/login", elsewhere.local_addr().unwrap());
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary",
        "308 Permanent",
    ] {
        let imds = FakeImds::scripted([Reply::http(status, &[("Location", &location)], "")]).await;
        let error = refused(&imds, PATIENCE).await;
        assert_eq!(error.reason(), FailureReason::Redirect, "{status}: {error}");
        assert!(error.to_string().contains(&location), "{error}");
    }
    let nowhere = FakeImds::scripted([Reply::http("300 Multiple Choices", &[], "")]).await;
    let error = refused(&nowhere, PATIENCE).await;
    assert_eq!(error.reason(), FailureReason::Redirect, "{error}");
    let followed = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(followed.is_err(), "somebody came to the redirect's target");
}

#[tokio::test]
async fn json_that_is_no_document_is_no_all_clear() {
    use FailureReason::Shape;
    let ok = |body: &'static str| (Reply::ok(body), Shape, "JSON");
    each([
        ok("{}"),
        ok("null"),
        ok("[]"),
        ok("7"),
        ok("\"Events\""),
        ok("true"),
        ok(r#"{"DocumentIncarnation":1}"#),
        ok(r#"{"DocumentIncarnation":1,"Events":null}"#),
        ok(r#"{"DocumentIncarnation":1,"Events":{}}"#),
        ok(r#"{"DocumentIncarnation":1,"Events":"[]"}"#),
        ok(r#"{"DocumentIncarnation":1,"Events":0}"#),
        ok(r#"{"DocumentIncarnation":1,"events":[]}"#),
        ok(r#"{"DocumentIncarnation":1,"Events":[],"Events":[]}"#),
        ok(r#"[{"DocumentIncarnation":1,"Events":[]}]"#),
        ok(r#"{"error":"Bad request"}"#),
        ok(r#"{"DocumentIncarnation":1,"Value":{"Events":[]}}"#),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_json_is_no_all_clear() {
    use FailureReason::Json;
    each([
        (Reply::ok(LOGIN_PAGE), Json, "captive portal"),
        (
            Reply::ok(r#"{"DocumentIncarnation":1,"Events":["#),
            Json,
            "no JSON",
        ),
        (Reply::ok(format!("{NOTHING}{NOTHING}")), Json, "no JSON"),
        (Reply::ok(format!("{NOTHING}\0")), Json, "no JSON"),
        (Reply::ok(format!("{NOTHING}<script/>")), Json, "no JSON"),
        (
            Reply::ok("{'DocumentIncarnation':1,'Events':[]}"),
            Json,
            "no JSON",
        ),
        (
            Reply::ok(r#"{"DocumentIncarnation":1,"Events":[],}"#),
            Json,
            "no JSON",
        ),
        (Reply::ok(b"\x1f\x8b\x08\x00garbage"), Json, "no JSON"),
        (Reply::ok("[".repeat(100_000)), Json, "no JSON"),
        (
            Reply::ok(
                NOTHING
                    .encode_utf16()
                    .flat_map(u16::to_le_bytes)
                    .collect::<Vec<_>>(),
            ),
            Json,
            "no JSON",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_empty_body_changes_nothing_at_first() {
    use FailureReason::Body;
    each([
        (Reply::ok(""), Body, "empty body"),
        (Reply::ok(" \r\n\t"), Body, "empty body"),
        (Reply::chunked([]), Body, "empty body"),
        (
            Reply::raw("HTTP/1.1 200 OK\r\n\r\n").then_close(),
            Body,
            "empty body",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_no_document() {
    use FailureReason::Body;
    let whole = format!("{NOTHING}          ");
    let chunked = || Reply::chunked([NOTHING.as_bytes()]);
    each([
        // What came is a whole document, and yet not the whole body.
        (
            Reply::ok(&whole).without_last(10).then_close(),
            Body,
            "cut off after 37 bytes",
        ),
        (
            Reply::ok(&whole).without_last(10).then_reset(),
            Body,
            "cut off after",
        ),
        (
            Reply::ok(&whole).without_last(20).then_close(),
            Body,
            "cut off after 27 bytes",
        ),
        (chunked().without_last(5).then_close(), Body, "cut off"),
        (chunked().without_last(9).then_close(), Body, "cut off"),
        (
            Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").then_close(),
            Body,
            "cut off after 0 bytes",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_body_above_the_cap_is_not_held() {
    use FailureReason::Body;
    const CAP: usize = 4 << 20;
    let spaces = " ".repeat(10 << 20);
    let padded = format!("{NOTHING}{spaces}");
    let announced = |length: &str| {
        Reply::raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{NOTHING}"
        ))
    };
    each([
        (Reply::ok(&padded), Body, "more than 4194304 bytes"),
        (
            Reply::chunked(padded.as_bytes().chunks(65_536)),
            Body,
            "more than 4194304 bytes",
        ),
        (
            Reply::ok(&padded.as_bytes()[..=CAP]),
            Body,
            "more than 4194304 bytes",
        ),
        (
            Reply::chunked([&padded.as_bytes()[..=CAP]]),
            Body,
            "more than 4194304 bytes",
        ),
        // It need not come: that it is announced is enough.
        (announced("4194305"), Body, "more than 4194304 bytes"),
        (
            announced("18446744073709551613"),
            Body,
            "more than 4194304 bytes",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_connection_without_an_answer_is_told_from_no_connection() {
    use FailureReason::Connect;
    each([
        (
            Reply::raw("").then_close(),
            Connect,
            "closed the connection",
        ),
        (
            Reply::raw("").then_reset(),
            Connect,
            "closed the connection",
        ),
        (
            Reply::raw("HTTP/1.1 200 OK\r\nContent-Le").then_close(),
            Connect,
            "closed the connection",
        ),
        (
            Reply::raw("SSH-2.0-OpenSSH_9.2p1\r\n\r\n").then_close(),
            Connect,
            "not in HTTP",
        ),
        (
            Reply::raw("\x15\x03\x01\x00\x02\x02\x46".as_bytes()).then_close(),
            Connect,
            "not in HTTP",
        ),
        (Reply::raw(NOTHING).then_close(), Connect, "not in HTTP"),
        (
            Reply::raw("HTTP/1.1 20 OK\r\n\r\n").then_close(),
            Connect,
            "not in HTTP",
        ),
        (
            Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n").then_close(),
            Connect,
            "not in HTTP",
        ),
        (
            Reply::raw(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1 << 20))).then_close(),
            Connect,
            "not in HTTP",
        ),
    ])
    .await;

    let refusing = RefusingPort::reserve();
    let error = client_of(&refusing.base())
        .poll(PATIENCE, Clock::start())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Connect, "{error}");
    let message = error.to_string();
    assert!(
        message.contains("no connection to") && message.contains("route"),
        "{message}"
    );
}

#[tokio::test]
async fn a_silent_imds_times_out_wherever_it_falls_silent() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n";
    let drop_by_drop = Reply::ok(NOTHING).in_pieces(1, Duration::from_millis(100));
    for reply in [
        Reply::silence(),
        Reply::raw("HTTP/1.1 200").then_hang(),
        Reply::raw(head).then_hang(),
        Reply::raw(format!("{head}{{\"Docu")).then_hang(),
        drop_by_drop,
        Reply::ok(NOTHING).after(PATIENCE),
    ] {
        let what = format!("{reply:?}");
        let imds = FakeImds::scripted([reply]).await;
        let error = refused(&imds, Duration::from_millis(400)).await;
        assert_eq!(error.reason(), FailureReason::Timeout, "{what}: {error}");
        assert!(error.to_string().contains("within 0.4s"), "{error}");
    }
}

#[tokio::test]
async fn a_poll_after_a_timeout_gets_its_own_answer_and_not_the_late_one() {
    let late = Reply::ok(r#"{"DocumentIncarnation":666,"Events":[]}"#);
    let imds =
        FakeImds::scripted([late.after(Duration::from_millis(600)), Reply::ok(NOTHING)]).await;
    let mut client = client_of(&imds.base());
    let error = client
        .poll(Duration::from_millis(300), Clock::start())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), FailureReason::Timeout);
    let Ok(Answer::Document { document, .. }) = client.poll(PATIENCE, Clock::start()).await else {
        panic!("the second poll failed");
    };
    assert_eq!(document.incarnation, Some(1));
}

#[tokio::test]
async fn an_error_whose_body_never_comes_is_still_told_by_its_status() {
    let head = "HTTP/1.1 503 Busy\r\nContent-Length: 37\r\n\r\n{";
    let imds = FakeImds::scripted([Reply::raw(head).then_hang()]).await;
    let error = refused(&imds, PATIENCE).await;
    assert_eq!(error.reason(), FailureReason::Status5xx, "{error}");
}

#[tokio::test]
async fn plain_http_behind_https_fails_as_tls() {
    install_cryptography();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (mut first, _) = listener.accept().await.unwrap();
        first
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let (second, _) = listener.accept().await.unwrap();
        drop(second);
        first
    });
    let mut client = Client::new(&Endpoint::new(&base, "2020-07-01").unwrap())
        .expect("this test needs certificate authorities: apt-get install ca-certificates");
    let error = client.poll(PATIENCE, Clock::start()).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Tls, "{error}");
    assert!(error.to_string().contains("plain http"), "{error}");
    let error = client.poll(PATIENCE, Clock::start()).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Tls, "{error}");
    answering.await.unwrap();
}
