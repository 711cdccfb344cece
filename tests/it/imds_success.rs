//! Successful requests to IMDS.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    RequestError,
    document::{AnomalyKind, Answer, Document},
    imds::Client,
    time::Clock,
};

use crate::support::{DEADLINE, FakeImds, Reply, client_of, endpoint, install_cryptography};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Tue, 17 Nov 2026 09:15:42 GMT","Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":9}]}"#;

async fn poll(client: &mut Client) -> Result<Answer, RequestError> {
    client.poll(DEADLINE).await
}

fn document(answer: Result<Answer, RequestError>) -> Document {
    match answer {
        Ok(Answer::Document { document, .. }) => document,
        other => panic!("not a document: {other:?}"),
    }
}

#[tokio::test]
async fn every_api_version_is_requested_by_name() {
    install_cryptography();
    for version in [
        "2017-03-01",
        "2017-08-01",
        "2017-11-01",
        "2019-01-01",
        "2019-04-01",
        "2019-08-01",
        "2020-07-01",
    ] {
        let imds = FakeImds::of_version(version, Reply::ok(NOTHING)).await;
        let mut client = Client::new(&endpoint(&imds.base(), version), Clock::start()).unwrap();
        assert_eq!(document(poll(&mut client).await).incarnation, Some(1));
    }
}

#[tokio::test]
async fn many_polls_use_one_connection_also_after_an_error_with_a_body() {
    let error = Reply::error("500 Internal Server Error", "try again");
    let script = [Reply::ok(NOTHING), error.clone(), error, Reply::ok(FREEZE)];
    let imds = FakeImds::scripted(script).await;
    let mut client = client_of(&imds.base());
    poll(&mut client).await.unwrap();
    poll(&mut client).await.unwrap_err();
    poll(&mut client).await.unwrap_err();
    document(poll(&mut client).await);
    client.identify(DEADLINE).await.unwrap();
    assert_eq!(imds.requests().len(), 5);
    assert_eq!(imds.connections(), 1);
}

#[tokio::test]
async fn a_closed_connection_is_reopened() {
    let closing = Reply::ok(NOTHING).then_close();
    let imds = FakeImds::scripted([closing.clone(), closing, Reply::ok(FREEZE)]).await;
    let mut client = client_of(&imds.base());
    document(poll(&mut client).await);
    assert_eq!(poll(&mut client).await, Ok(Answer::Unchanged));
    assert_eq!(document(poll(&mut client).await).events.len(), 1);
    assert_eq!(imds.connections(), 3);
}

/// A lower bound, so the speed of the machine does not matter.
#[tokio::test]
async fn requests_of_every_kind_start_at_least_200_ms_apart() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let mut client = client_of(&imds.base());
    let clock = Clock::start();
    let began = clock.now().monotonic;
    client.identify(DEADLINE).await.unwrap();
    for _ in 0..3 {
        client.poll(DEADLINE).await.unwrap();
    }
    let took = clock.now().monotonic - began;
    assert!(took >= Duration::from_millis(600), "{took:?}");
}

#[tokio::test]
async fn an_unchanged_document_is_a_304() {
    let tagged = Reply::http("200 OK", &[("ETag", "\"2\"")], FREEZE);
    let unchanged = Reply::http("304 Not Modified", &[("ETag", "\"2\"")], "");
    let imds = FakeImds::scripted([tagged, unchanged.clone(), unchanged]).await;
    let mut client = client_of(&imds.base());
    document(poll(&mut client).await);
    assert_eq!(poll(&mut client).await, Ok(Answer::Unchanged));
    assert_eq!(poll(&mut client).await, Ok(Answer::Unchanged));
    let etags: Vec<_> = imds
        .requests()
        .iter()
        .map(|request| request.header("if-none-match").map(str::to_owned))
        .collect();
    assert_eq!(etags, [None, Some("\"2\"".into()), Some("\"2\"".into())]);
}

#[tokio::test]
async fn only_the_bytes_of_the_last_document_are_the_same() {
    const SCHEDULED: &str =
        r#"{"DocumentIncarnation":1,"Events":[{"EventId":"A","EventStatus":"Scheduled"}]}"#;
    const STARTED: &str =
        r#"{"DocumentIncarnation":2,"Events":[{"EventId":"A","EventStatus":"Started"}]}"#;
    let imds = FakeImds::standing(Reply::ok(SCHEDULED)).await;
    let mut client = client_of(&imds.base());
    let mut poll = async |reply| {
        imds.now(reply);
        poll(&mut client).await
    };
    let is_document = |answer| matches!(answer, Ok(Answer::Document { .. }));
    assert!(is_document(poll(Reply::ok(SCHEDULED)).await));
    assert_eq!(poll(Reply::ok(SCHEDULED)).await, Ok(Answer::Unchanged));
    assert!(is_document(poll(Reply::ok(STARTED)).await));
    assert!(
        is_document(poll(Reply::ok(SCHEDULED)).await),
        "it has changed back"
    );
    assert!(
        poll(Reply::error("503 Service Unavailable", ""))
            .await
            .is_err()
    );
    assert!(poll(Reply::ok("{}")).await.is_err());
    assert_eq!(
        poll(Reply::ok(SCHEDULED)).await,
        Ok(Answer::Unchanged),
        "a failure changes nothing that is known"
    );
    let tagged = poll(Reply::http("200 OK", &[("ETag", "\"7\"")], SCHEDULED)).await;
    assert_eq!(tagged, Ok(Answer::Unchanged));
    let confirmed = poll(Reply::http("304 Not Modified", &[], "")).await;
    assert_eq!(confirmed, Ok(Answer::Unchanged), "by the new tag");
}

#[tokio::test]
async fn only_a_valid_document_changes_the_etag() {
    let tagged = |tag: &str, body: &str| Reply::http("200 OK", &[("ETag", tag)], body);
    let imds = FakeImds::scripted([
        tagged("\"bad\"", "{}"),
        tagged("W/\"1\"", NOTHING),
        tagged("\"bad\"", "<html>"),
        tagged("\"bad\"", ""),
        tagged("\"bad\"", FREEZE).without_last(9).then_close(),
        Reply::http("500 Oops", &[("ETag", "\"bad\"")], FREEZE),
        tagged("\"2\"", FREEZE),
        Reply::ok(NOTHING),
        Reply::ok(NOTHING),
    ])
    .await;
    let mut client = client_of(&imds.base());
    for _ in 0..9 {
        poll(&mut client).await.ok();
    }
    let etags: Vec<_> = imds
        .requests()
        .iter()
        .map(|request| request.header("if-none-match").unwrap_or("-").to_owned())
        .collect();
    let etag = "W/\"1\"";
    assert_eq!(
        etags,
        ["-", "-", etag, etag, etag, etag, etag, "\"2\"", "-"]
    );
}

/// It is parsed each time.
#[tokio::test]
async fn the_same_document_of_more_than_half_a_mebibyte_is_a_document_again() {
    for (length, is_kept) in [(512 << 10, true), ((512 << 10) + 1, false)] {
        let padded = format!("{NOTHING}{}", " ".repeat(length - NOTHING.len()));
        let imds = FakeImds::standing(Reply::ok(padded)).await;
        let mut client = client_of(&imds.base());
        document(poll(&mut client).await);
        let again = poll(&mut client).await;
        assert_eq!(again == Ok(Answer::Unchanged), is_kept, "{length}");
    }
}

#[tokio::test]
async fn a_response_is_read_in_any_form() {
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let until_close = format!("HTTP/1.1 200 OK\r\n\r\n{FREEZE}");
    let text = ("Content-Type", "text/plain");
    for (form, reply) in [
        ("slow", Reply::ok(FREEZE).after(Duration::from_millis(700))),
        (
            "in pieces",
            Reply::ok(FREEZE).in_pieces(60, Duration::from_millis(5)),
        ),
        ("chunked", Reply::chunked(FREEZE.as_bytes().chunks(7))),
        (
            "until the connection is closed",
            Reply::raw(until_close.as_str()).then_close(),
        ),
        (
            "after an interim response",
            Reply::raw(format!("{interim}{until_close}")).then_close(),
        ),
        ("of another type", Reply::http("200 OK", &[text], FREEZE)),
        ("without a type", Reply::http("200 OK", &[], FREEZE)),
    ] {
        let imds = FakeImds::scripted([reply]).await;
        let answer = poll(&mut client_of(&imds.base())).await;
        assert_eq!(document(answer).events.len(), 1, "{form}");
    }
}

#[tokio::test]
async fn a_byte_order_mark_and_surrounding_white_space_are_ignored() {
    let marked = format!("\u{feff}{NOTHING}");
    let spaced = format!("\r\n  {NOTHING}\r\n\r\n");
    let imds = FakeImds::scripted([Reply::ok(marked), Reply::ok(spaced)]).await;
    let mut client = client_of(&imds.base());
    assert_eq!(document(poll(&mut client).await).incarnation, Some(1));
    assert_eq!(document(poll(&mut client).await).incarnation, Some(1));
}

#[tokio::test]
async fn an_id_of_a_megabyte_costs_only_that_event() {
    let id = "A".repeat(1 << 20);
    let mut body = format!(
        r#"{{"DocumentIncarnation":3,"Events":[{{"EventId":"{id}","EventType":"Freeze"}},{}"#,
        FREEZE.split_once("\"Events\":[").unwrap().1
    );
    body.push_str(&" ".repeat((4 << 20) - body.len()));
    let imds = FakeImds::scripted([Reply::ok(&body)]).await;
    let mut client = client_of(&imds.base());
    let Ok(Answer::Document {
        document,
        anomalies,
    }) = poll(&mut client).await
    else {
        panic!("a body of exactly 4 MiB is rejected");
    };
    assert_eq!(document.events.len(), 1);
    assert_eq!(document.unreadable.entries, 1);
    let described = &anomalies.described;
    let kinds: Vec<_> = described.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [AnomalyKind::Event]);
    assert!(described.iter().all(|it| it.detail.len() < 1_000));
}
