//! Errors that follow from the body of a 200.

use azure_scheduled_events_exporter::FailureReason;

use super::{LOGIN_PAGE, NOTHING, check};
use crate::support::Reply;

/// The goldens of `documents` and the properties of `malformed` have every other body.
#[tokio::test]
async fn a_body_that_is_no_document_is_an_error() {
    use FailureReason::{Json, Shape};
    check([
        (Reply::ok("{}"), Shape, "JSON"),
        (Reply::ok(r#"{"error":"Bad request"}"#), Shape, "JSON"),
        (Reply::ok(LOGIN_PAGE), Json, "captive portal"),
        (Reply::ok(format!("{NOTHING}{NOTHING}")), Json, "not JSON"),
        (Reply::ok(b"\x1f\x8b\x08\x00garbage"), Json, "not JSON"),
        (Reply::ok("[".repeat(100_000)), Json, "not JSON"),
    ])
    .await;
}

#[tokio::test]
async fn an_empty_body_is_an_error() {
    use FailureReason::Body;
    check([
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
async fn a_truncated_body_is_an_error() {
    use FailureReason::Body;
    let whole = format!("{NOTHING}          ");
    let chunked = || Reply::chunked([NOTHING.as_bytes()]);
    check([
        // The received part is a complete document, but not the complete body.
        (
            Reply::ok(&whole).without_last(10).then_close(),
            Body,
            "truncated after 37 bytes",
        ),
        (
            Reply::ok(&whole).without_last(10).then_reset(),
            Body,
            "truncated after",
        ),
        (
            Reply::ok(&whole).without_last(20).then_close(),
            Body,
            "truncated after 27 bytes",
        ),
        (chunked().without_last(5).then_close(), Body, "truncated"),
        (chunked().without_last(9).then_close(), Body, "truncated"),
        (
            Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").then_close(),
            Body,
            "truncated after 0 bytes",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_body_above_the_limit_is_an_error() {
    use FailureReason::Body;
    const CAP: usize = 4 << 20;
    let spaces = " ".repeat(10 << 20);
    let padded = format!("{NOTHING}{spaces}");
    let announced = |length: &str| {
        Reply::raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{NOTHING}"
        ))
    };
    check([
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
        // The Content-Length alone is enough.
        (announced("4194305"), Body, "more than 4194304 bytes"),
        (
            announced("18446744073709551613"),
            Body,
            "more than 4194304 bytes",
        ),
    ])
    .await;
}
