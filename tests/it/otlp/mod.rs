//! The export of the journal to a collector over sockets: spans arrive in order, dropped ones are counted.

mod backfill;
mod delta;
mod grpc;
mod logs;
mod metrics;
mod refusals;
mod restarts;
mod sending;
mod tls;

use std::time::Duration;

use azure_scheduled_events_exporter::{
    otlp::{sender::RetryTiming, trace},
    output_counters::{DropReason, ExportFailure},
};
use tokio::time::Instant;

use self::sending::{
    NO_LOGS, SEEN_AT, Sending, Start, TIMING, accepted, base, entry, event, exporting, stop, text,
};
use crate::support::{
    FakeImds,
    collector::{Answer, FakeCollector, gzip, partial_success},
};

#[tokio::test]
async fn exported_span_is_that_of_the_entry() {
    let collector = FakeCollector::scripted([]).await;
    let mut sending = Sending::start(&base(&collector), &[]);
    let counts = sending.send(1).await;
    assert_eq!(counts.spooled, 0);
    let received = collector.received();
    assert_eq!(received.len(), 1);
    let resource = &received[0].message.resource_spans[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert_eq!(text(attributes, "host.name").as_deref(), Some("web_0"));
    let span = &resource.scope_spans[0].spans[0];
    let made = &trace::spans(&entry(1).transition, "web_0")[0];
    assert_eq!(span.name, "scheduled_event 1");
    assert_eq!(span.trace_id, made.span_context.trace_id().to_bytes());
    assert_eq!(span.span_id, made.span_context.span_id().to_bytes());
    assert_eq!(span.parent_span_id, [0; 0]);
    let seconds = [span.start_time_unix_nano, span.end_time_unix_nano].map(|it| it / 1_000_000_000);
    assert_eq!(seconds, [SEEN_AT, SEEN_AT + 2].map(i64::unsigned_abs));
    assert_eq!(span.attributes.len(), made.attributes.len());
    let attribute = |name| text(&span.attributes, &format!("azure.scheduled_event.{name}"));
    assert_eq!(attribute("source").as_deref(), Some("Platform"));
    let resources = attribute("resources").unwrap();
    assert!(
        resources.contains("web_0") && resources.contains("web_1"),
        "{resources}"
    );
    sending.stop().await;
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let collector = FakeCollector::scripted([Answer::retry_after(503, "1")]).await;
    let mut sending = Sending::start(&base(&collector), &[]);
    sending.append([1]);
    // A new entry does not end the wait that the collector asked for.
    sending.until_failed(ExportFailure::Status5xx, 1).await;
    sending.append([2]);
    sending.until(|counts| counts.exported == 2).await;
    let received = collector.received();
    assert!(received[1].at - received[0].at >= Duration::from_millis(990));
}

/// The empty request at the start, too, is sent to a receiver that is short of something.
#[tokio::test]
async fn a_delay_after_the_first_request_holds_for_what_follows() {
    let server = FakeCollector::scripted([]).await;
    server.answer_probes(Answer::retry_after(503, "2"));
    let mut sending = Sending::start(&base(&server), &[]);
    sending.until_failed(ExportFailure::Status5xx, 1).await;
    let begin = Instant::now();
    server.answer_probes(Answer::status(200));
    sending.send(1).await;
    assert!(begin.elapsed() >= Duration::from_millis(1_900));
}

/// A delay that is shorter than our own backoff does not replace it.
#[tokio::test]
async fn a_small_delay_does_not_switch_the_backoff_off() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::retry_after(503, "1"));
    let start = Start {
        timing: RetryTiming {
            initial_backoff: Duration::from_secs(3),
            max_backoff: Duration::from_secs(3),
            ..TIMING
        },
        ..Start::default()
    };
    let mut sending = Sending::start_as(start, &base(&collector), &[]);
    sending.append([1]);
    sending.until_failed(ExportFailure::Status5xx, 2).await;
    let received = collector.received();
    // With jitter it is at least half.
    assert!(received[1].at - received[0].at >= Duration::from_millis(1_490));
}

#[tokio::test]
async fn a_partial_success_is_read_in_json_and_compressed() {
    let json = br#"{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}"#;
    let as_json = ("content-type", "application/json");
    let as_gzip = ("content-encoding", "gzip");
    for answer in [
        Answer::http(200, &[as_json], json),
        Answer::http(200, &[as_json, as_gzip], &gzip(json)),
        Answer::http(200, &[as_gzip], &gzip(&partial_success(1, "too old"))),
    ] {
        let collector = FakeCollector::scripted([answer]).await;
        let mut sending = Sending::start(&base(&collector), &[]);
        sending.append([1]);
        let counts = sending.until(|counts| counts.spooled == 0).await;
        assert_eq!(counts.dropped[&DropReason::Rejected], 1);
        assert_eq!(counts.exported, 0);
    }
}

#[tokio::test]
async fn partial_success_is_counted_and_not_sent_again() {
    let script = [
        Answer::partial(1, "too old"),
        Answer::partial(0, "only a warning"),
    ];
    let collector = FakeCollector::scripted(script).await;
    let mut sending = Sending::start(&base(&collector), &[]);
    sending.append([1, 2, 3]);
    sending.until(|counts| counts.exported == 2).await;
    sending.append([4]);
    let counts = sending.until(|counts| counts.exported == 3).await;
    assert_eq!(counts.dropped[&DropReason::Rejected], 1);
    assert_eq!(counts.failures[&ExportFailure::PartialSuccess], 1);
    assert_eq!(counts.spooled, 0);
    assert_eq!(collector.received().len(), 2);
}

#[tokio::test]
async fn spans_of_a_batch_that_was_rejected_are_not_logged_as_sent() {
    for (answer, message, sent) in [
        (
            Answer::partial(1, "no"),
            "collector rejected part of the spans",
            0,
        ),
        (
            Answer::partial(0, "hm"),
            "collector accepted spans with a warning",
            1,
        ),
    ] {
        let imds = FakeImds::standing(event("Scheduled")).await;
        let collector = FakeCollector::scripted([answer]).await;
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*base(&collector));
        let mut exporter = exporting(&imds, None, &[endpoint, NO_LOGS]);
        exporter.says(message).await;
        let log = stop(exporter).await;
        assert_eq!(log.matches("span sent").count(), sent, "{log}");
    }
}

#[tokio::test]
async fn incomplete_body_does_not_change_the_meaning_of_the_status() {
    let endless = vec![b'x'; 5 << 20];
    let script = [
        Answer::Reply(Answer::cut(200, b"").then_close()),
        Answer::Reply(Answer::cut(200, b"{\"partial").then_hang()),
        Answer::Reply(Answer::cut(200, &endless).then_hang()),
        Answer::Reply(Answer::cut(400, &endless).then_hang()),
        Answer::Reply(Answer::cut(503, b"wait").then_close()),
    ];
    let collector = FakeCollector::scripted(script).await;
    let environment = [("OTEL_EXPORTER_OTLP_TIMEOUT", "5000")];
    let mut sending = Sending::start(&base(&collector), &environment);
    for number in 1..=5 {
        sending.append([number]);
        sending.until(|counts| counts.spooled == 0).await;
    }
    let counts = sending.counts.borrow().clone();
    assert_eq!(counts.exported, 4);
    assert_eq!(counts.dropped[&DropReason::Rejected], 1);
    assert_eq!(counts.failures[&ExportFailure::Status5xx], 1);
    assert_eq!(counts.failures[&ExportFailure::Connect], 0);
    assert_eq!(counts.failures[&ExportFailure::Timeout], 0);
    assert_eq!(accepted(&collector), [1, 2, 3, 5], "each once");
}

#[tokio::test]
async fn password_in_the_endpoint_is_basic_authentication_unless_a_header_overrides_it() {
    let collector = FakeCollector::scripted([]).await;
    let endpoint = format!("http://me%40home:p%3Ass@{}", collector.address);
    let other = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x");
    for (environment, expected) in [(&[][..], "Basic bWVAaG9tZTpwOnNz"), (&[other], "Bearer x")] {
        let mut sending = Sending::start(&endpoint, environment);
        sending.send(1).await;
        let received = collector.received();
        let last = received.last().unwrap();
        assert_eq!(last.header("authorization"), Some(expected));
        assert_eq!(last.header("host"), Some(&*collector.address.to_string()));
    }
}

#[tokio::test]
async fn largest_possible_timeout_is_accepted() {
    let collector = FakeCollector::scripted([]).await;
    let environment = [("OTEL_EXPORTER_OTLP_TIMEOUT", "18446744073709551615")];
    let mut sending = Sending::start(&base(&collector), &environment);
    sending.send(1).await;
}

#[tokio::test]
async fn standard_variables_set_path_headers_and_compression() {
    let collector = FakeCollector::scripted([]).await;
    let environment = [
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20a%2Cb,x-tenant=sre",
        ),
    ];
    let mut sending = Sending::start(&format!("{}/otlp", base(&collector)), &environment);
    sending.send(1).await;
    let received = &collector.received()[0];
    assert_eq!(received.line, "POST /otlp/v1/traces HTTP/1.1");
    assert_eq!(received.header("content-encoding"), Some("gzip"));
    assert_eq!(
        received.header("content-type"),
        Some("application/x-protobuf")
    );
    assert_eq!(received.header("authorization"), Some("Bearer a,b"));
    assert_eq!(received.header("x-tenant"), Some("sre"));
    assert!(
        received
            .header("user-agent")
            .is_some_and(|agent| agent.starts_with("azure-scheduled-events-exporter/")),
        "{received:?}"
    );
    assert_eq!(accepted(&collector), [1]);
}

#[tokio::test]
async fn collector_that_hangs_resets_or_is_slow_loses_no_spans() {
    let script = [
        Answer::hang(),
        Answer::reset(),
        Answer::slow(Duration::from_millis(100)),
    ];
    let collector = FakeCollector::scripted(script).await;
    let environment = [("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")];
    let mut sending = Sending::start(&base(&collector), &environment);
    sending.append(1..=3);
    let counts = sending.until(|counts| counts.exported == 3).await;
    assert_eq!(counts.failures[&ExportFailure::Timeout], 1);
    assert_eq!(counts.failures[&ExportFailure::Connect], 1);
    assert_eq!(accepted(&collector), [1, 2, 3]);
}

#[tokio::test]
async fn a_hanging_collector_does_not_delay_what_is_added() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::hang());
    let mut sending = Sending::start(&base(&collector), &[]);
    // The sender waits for a response for ten seconds meanwhile.
    for number in 1..=50 {
        sending.append([number]);
    }
    assert_eq!(sending.counts.borrow().spooled, 50);
    assert!(collector.received().len() <= 1);
}
