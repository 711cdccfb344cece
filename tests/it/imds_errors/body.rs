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

fn unreadable(reply: Reply, words: &'static str) -> (Reply, FailureReason, &'static str) {
    (reply, FailureReason::Body, words)
}

#[tokio::test]
async fn an_empty_body_is_an_error() {
    let without_length = Reply::raw("HTTP/1.1 200 OK\r\n\r\n").then_close();
    let blank = Reply::ok(" \r\n\t");
    let replies = [Reply::ok(""), blank, Reply::chunked([]), without_length];
    check(replies.map(|reply| unreadable(reply, "empty body"))).await;
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    let whole = |without| Reply::ok(format!("{NOTHING}          ")).without_last(without);
    let chunked = |without| Reply::chunked([NOTHING.as_bytes()]).without_last(without);
    let no_length = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    check([
        // The received part is a complete document, but not the complete body.
        unreadable(whole(10).then_close(), "truncated"),
        unreadable(whole(10).then_reset(), "truncated"),
        unreadable(whole(20).then_close(), "truncated"),
        unreadable(chunked(5).then_close(), "truncated"),
        unreadable(chunked(9).then_close(), "truncated"),
        unreadable(Reply::raw(no_length).then_close(), "truncated"),
    ])
    .await;
}

#[tokio::test]
async fn a_body_above_the_limit_is_an_error() {
    let padded = format!("{NOTHING}{}", " ".repeat(10 << 20));
    let just_above = &padded.as_bytes()[..=4 << 20];
    let announced = |length: &str| {
        Reply::raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{NOTHING}"
        ))
    };
    let replies = [
        Reply::ok(&padded),
        Reply::chunked(padded.as_bytes().chunks(65_536)),
        Reply::ok(just_above),
        Reply::chunked([just_above]),
        // The Content-Length alone is enough.
        announced("4194305"),
        announced("18446744073709551613"),
    ];
    check(replies.map(|reply| unreadable(reply, "more than 4194304 bytes"))).await;
}
