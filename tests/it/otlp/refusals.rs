//! Statuses after which this exporter keeps spans, where the specification drops them, and 413.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    otlp::sender::RetryTiming,
    output_counters::{DropReason, ExportFailure},
    time::Clock,
};

use super::sending::{Sending, TIMING, base, batch, batch_of, event, numbers};
use crate::support::{
    FakeImds,
    collector::{Answer, FakeCollector},
    process::{Process, exporter},
};

/// A batch is not retried during a test, unless another one is appended.
const HOURLY: RetryTiming = RetryTiming {
    initial_backoff: Duration::from_hours(1),
    max_backoff: Duration::from_hours(1),
    ..TIMING
};

#[tokio::test]
async fn a_token_that_is_refused_for_a_while_loses_no_spans() {
    for (status, reason) in [
        (401, ExportFailure::Status4xx),
        (403, ExportFailure::Status4xx),
        (404, ExportFailure::Status4xx),
        (405, ExportFailure::Status4xx),
        (301, ExportFailure::Redirect),
        (303, ExportFailure::Redirect),
        (308, ExportFailure::Redirect),
        (407, ExportFailure::Status4xx),
        (408, ExportFailure::Status4xx),
        (500, ExportFailure::Status5xx),
        (501, ExportFailure::Status5xx),
        (507, ExportFailure::Status5xx),
    ] {
        let collector = FakeCollector::scripted([]).await;
        collector.now(Answer::status(status));
        let directory = tempfile::tempdir().unwrap();
        let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
        sending.append([1, 2, 3]).await;
        let counts = sending.until(|counts| counts.failures[&reason] >= 5).await;
        assert_eq!((counts.spooled, counts.exported), (3, 0), "{status}");
        collector.now(Answer::status(200));
        let counts = sending.until(|counts| counts.exported == 3).await;
        assert_eq!(counts.dropped.values().sum::<u64>(), 0, "{status}");
        assert_eq!(counts.failures[&ExportFailure::Rejected], 0, "{status}");
        let mut accepted = collector.accepted();
        accepted.sort();
        assert_eq!(accepted, numbers(1..=3), "{status}");
    }
}

/// The headers are read at the start only.
#[tokio::test]
async fn spans_survive_the_restart_that_brings_a_new_token() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(401));
    let directory = tempfile::tempdir().unwrap();
    let start = |token: &str| {
        let mut command = exporter(&imds);
        command
            .arg(format!("--state.directory={}", directory.path().display()))
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", base(&collector))
            .env(
                "OTEL_EXPORTER_OTLP_HEADERS",
                format!("authorization=Bearer%20{token}"),
            );
        Process::start_as(&mut command)
    };
    let mut refused = start("expired");
    let line = refused.says("trace export failed").await;
    assert!(line.contains("reason=status_4xx"), "{line}");
    refused.signal("TERM");
    let log = refused.end().await.log;
    assert_eq!(log.matches("trace export failed").count(), 1, "{log}");
    assert_eq!(log.matches("dropped").count(), 0, "{log}");
    collector.now(Answer::status(200));
    let mut renewed = start("renewed");
    renewed.says("span sent").await;
    assert_eq!(collector.accepted(), ["scheduled_event announced"]);
    let received = collector.received();
    let last = received.last().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer renewed"));
}

#[tokio::test]
async fn a_new_span_is_sent_at_once_and_before_refused_ones() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::Refuse("1", 500));
    let mut sending = Sending::start_with(HOURLY, &base(&collector), &[], None);
    for number in [10, 11] {
        sending.append([number]).await;
        sending
            .until(|counts| counts.failures[&ExportFailure::Status5xx] == number - 9)
            .await;
    }
    sending.append([2]).await;
    let counts = sending.until(|counts| counts.exported == 1).await;
    assert_eq!(counts.spooled, 2, "the refused spans are kept");
    assert_eq!(collector.received()[2].spans().count(), 1);
    assert_eq!(collector.accepted(), ["2"]);
}

#[tokio::test]
async fn a_batch_whose_requests_always_fail_does_not_hold_up_the_batches_behind_it() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::Refuse("1", 503));
    let mut sending = Sending::start(&base(&collector), &[], None);
    for number in [10, 2, 3] {
        sending.spool.append(batch(number), Clock::start().now());
    }
    let counts = sending.until(|counts| counts.exported == 2).await;
    assert_eq!(counts.spooled, 1);
    assert_eq!(collector.accepted(), ["2", "3"]);
}

#[tokio::test]
async fn all_refused_batches_are_sent_as_soon_as_the_collector_accepts_one() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(401));
    let mut sending = Sending::start_with(HOURLY, &base(&collector), &[], None);
    for number in 1..=4 {
        sending.spool.append(batch(number), Clock::start().now());
    }
    sending
        .until(|counts| counts.failures[&ExportFailure::Status4xx] == 1)
        .await;
    collector.now(Answer::status(200));
    sending.append([5]).await;
    sending.until(|counts| counts.exported == 5).await;
    assert_eq!(collector.accepted(), ["2", "3", "4", "5", "1"]);
}

#[tokio::test]
async fn a_batch_that_is_too_large_for_the_collector_is_dropped_and_counted() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::Refuse("2", 413));
    let directory = tempfile::tempdir().unwrap();
    let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.spool.append(batch_of(1..=4), Clock::start().now());
    sending.spool.append(batch(5), Clock::start().now());
    let counts = sending.until(|counts| counts.exported == 1).await;
    assert_eq!(counts.spooled, 0);
    assert_eq!(counts.dropped[&DropReason::TooLarge], 4);
    assert_eq!(counts.dropped.values().sum::<u64>(), 4);
    assert_eq!(counts.failures[&ExportFailure::TooLarge], 1);
    assert_eq!(collector.accepted(), ["5"]);
}
