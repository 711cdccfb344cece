//! Failed connections, timeouts and TLS.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    FailureReason, document::Answer, event::EventId, imds::Client, time::Clock,
};

use tokio::net::TcpListener;

use super::{NOTHING, check, poll_error};
use crate::support::{
    API_VERSION, DEADLINE, FakeImds, RefusingPort, Reply, client_of, endpoint, install_cryptography,
};

#[tokio::test]
async fn a_connection_without_a_response_differs_from_no_connection() {
    use FailureReason::Connect;
    let head = "HTTP/1.1 200 OK\r\n";
    let closed = |bytes: &str| {
        (
            Reply::raw(bytes).then_close(),
            Connect,
            "closed the connection",
        )
    };
    let other = |bytes: &str| (Reply::raw(bytes).then_close(), Connect, "not in HTTP");
    let reset = Reply::raw("").then_reset();
    check([
        closed(""),
        (reset, Connect, "closed the connection"),
        closed("HTTP/1.1 200 OK\r\nContent-Le"),
        other("SSH-2.0-OpenSSH_9.2p1\r\n\r\n"),
        other("\x15\x03\x01\x00\x02\x02\x46"),
        other(NOTHING),
        other("HTTP/1.1 20 OK\r\n\r\n"),
        other(&format!("{head}Content-Length: many\r\n\r\n")),
        other(&format!("{head}X: {}", "x".repeat(1 << 20))),
    ])
    .await;

    let refusing = RefusingPort::reserve();
    let error = client_of(&refusing.base())
        .poll(DEADLINE)
        .await
        .unwrap_err();
    assert_eq!(error.reason, Connect, "{error}");
    let message = error.to_string();
    assert!(
        message.contains("no connection to") && message.contains("route"),
        "{message}"
    );
}

/// Nothing was sent: an approval that ends like this was not accepted.
#[tokio::test]
async fn a_connection_that_is_not_opened_in_time_differs_from_no_response() {
    install_cryptography();
    let mut imds = FakeImds::scripted([]).await;
    imds.stop_accepting().await;
    // It is connected, and does not answer the handshake.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = format!("https://{}", silent.local_addr().unwrap());
    for base in [imds.base(), tls] {
        let mut client = Client::new(&endpoint(&base, API_VERSION), Clock::start()).unwrap();
        let limit = Duration::from_millis(300);
        let error = client.poll(limit).await.unwrap_err();
        assert_eq!(error.reason, FailureReason::Timeout, "{error}");
        assert!(error.is_unsent, "{error}");
    }
}

/// RFC 9110, section 9.2.2.
#[tokio::test]
async fn a_get_on_a_kept_connection_that_is_closed_without_a_byte_is_repeated_once() {
    let closed = || Reply::raw("").then_close();
    let reset = || Reply::raw("").then_reset();
    let ok = || Reply::ok(NOTHING);
    let imds = FakeImds::scripted([ok(), closed(), ok(), reset(), ok(), closed(), closed()]).await;
    let mut client = client_of(&imds.base());
    let clock = Clock::start();
    for _ in 0..3 {
        client.poll(DEADLINE).await.unwrap();
    }
    let began = clock.now().monotonic;
    let error = client.poll(DEADLINE).await.unwrap_err();
    assert_eq!(error.reason, FailureReason::Connect, "{error}");
    let took = clock.now().monotonic - began;
    assert!(
        took >= Duration::from_millis(200),
        "the limit of IMDS holds: {took:?}"
    );
    assert_eq!(imds.requests().len(), 7);
}

/// IMDS may have accepted it: the document shows that.
#[tokio::test]
async fn an_approval_is_not_repeated() {
    let imds = FakeImds::scripted([Reply::ok(NOTHING), Reply::raw("").then_close()]).await;
    let mut client = client_of(&imds.base());
    client.poll(DEADLINE).await.unwrap();
    let approved = client.approve(&[EventId::new("a")], None, DEADLINE).await;
    assert!(!approved.unwrap_err().is_unsent);
}

/// hyper skips any number of them.
#[tokio::test]
async fn informational_responses_without_end_time_out() {
    let processing = "HTTP/1.1 102 Processing\r\n\r\n".repeat(100);
    let imds = FakeImds::scripted([Reply::raw(processing).then_repeat()]).await;
    let error = poll_error(&imds, Duration::from_millis(400)).await;
    assert_eq!(error.reason, FailureReason::Timeout, "{error}");
}

#[tokio::test]
async fn a_response_that_stalls_anywhere_times_out() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n";
    let slow_pieces = Reply::ok(NOTHING).in_pieces(1, Duration::from_millis(100));
    for reply in [
        Reply::silence(),
        Reply::raw("HTTP/1.1 200").then_hang(),
        Reply::raw(head).then_hang(),
        Reply::raw(format!("{head}{{\"Docu")).then_hang(),
        slow_pieces,
        Reply::ok(NOTHING).after(DEADLINE),
    ] {
        let what = format!("{reply:?}");
        let imds = FakeImds::scripted([reply]).await;
        let error = poll_error(&imds, Duration::from_millis(400)).await;
        assert_eq!(error.reason, FailureReason::Timeout, "{what}: {error}");
        assert!(error.to_string().contains("within 0.4s"), "{error}");
    }
}

#[tokio::test]
async fn a_late_response_is_not_matched_with_the_next_poll() {
    let late = Reply::ok(r#"{"DocumentIncarnation":666,"Events":[]}"#);
    let imds =
        FakeImds::scripted([late.after(Duration::from_millis(600)), Reply::ok(NOTHING)]).await;
    let mut client = client_of(&imds.base());
    let error = client.poll(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.reason, FailureReason::Timeout);
    let Ok(Answer::Document { document, .. }) = client.poll(DEADLINE).await else {
        panic!("the second poll failed");
    };
    assert_eq!(document.incarnation, Some(1));
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
    let mut client = Client::new(&endpoint(&base, API_VERSION), Clock::start())
        .expect("this test needs certificate authorities: apt-get install ca-certificates");
    let error = client.poll(DEADLINE).await.unwrap_err();
    assert_eq!(error.reason, FailureReason::Tls, "{error}");
    assert!(error.to_string().contains("plain http"), "{error}");
    let error = client.poll(DEADLINE).await.unwrap_err();
    assert_eq!(error.reason, FailureReason::Tls, "{error}");
    answering.await.unwrap();
}
