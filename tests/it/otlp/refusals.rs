//! Statuses after which this exporter keeps spans, where the specification drops them, and 413.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    otlp::{Signal, sender::RetryTiming},
    output_counters::{DropReason, ExportCounts, ExportFailure},
};

use super::sending::{Sending, Start, TIMING, accepted, base, event, exporting, numbers, stop};
use crate::support::{
    FakeImds,
    collector::{Answer, FakeCollector},
    log,
};

/// Nothing is retried during a test, unless something is added.
fn hourly() -> Start {
    Start {
        timing: RetryTiming {
            initial_backoff: Duration::from_hours(1),
            max_backoff: Duration::from_hours(1),
            ..TIMING
        },
        ..Start::default()
    }
}

#[tokio::test]
async fn a_token_that_is_refused_for_a_while_loses_no_spans() {
    for (status, reason) in [
        (401, ExportFailure::Status4xx),
        (404, ExportFailure::Status4xx),
        (307, ExportFailure::Redirect),
        (407, ExportFailure::Status4xx),
        (500, ExportFailure::Status5xx),
    ] {
        let collector = FakeCollector::scripted([]).await;
        collector.now(Answer::status(status));
        let mut sending = Sending::start(&base(&collector), &[]);
        sending.append([1, 2, 3]);
        let counts = sending.until(|counts| counts.failures[&reason] >= 5).await;
        assert_eq!((counts.spooled, counts.exported), (3, 0), "{status}");
        collector.now(Answer::status(200));
        let counts = sending.until(|counts| counts.exported == 3).await;
        assert_eq!(counts.dropped.values().sum::<u64>(), 0, "{status}");
        assert_eq!(counts.failures[&ExportFailure::Rejected], 0, "{status}");
        let mut accepted = accepted(&collector);
        accepted.sort_unstable();
        assert_eq!(accepted, [1, 2, 3], "{status}");
    }
}

/// The headers are read at the start only.
#[tokio::test]
async fn spans_survive_the_restart_that_brings_a_new_token() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(401));
    let directory = tempfile::tempdir().unwrap();
    let endpoint = base(&collector);
    let start = |headers| {
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", headers);
        let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), headers];
        exporting(&imds, Some(directory.path()), &environment)
    };
    let mut refused = start("authorization=Bearer%20expired");
    let line = refused.says("trace export failed").await;
    assert!(line.contains("reason=status_4xx"), "{line}");
    let log = stop(refused).await;
    assert_eq!(log.matches("trace export failed").count(), 1, "{log}");
    assert_eq!(log.matches("dropped").count(), 0, "{log}");
    collector.now(Answer::status(200));
    let mut renewed = start("authorization=Bearer%20renewed");
    renewed.says("span sent").await;
    assert_eq!(collector.accepted(), ["scheduled_event announced"]);
    let received = collector.received();
    let last = received.last().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer renewed"));
}

#[tokio::test]
async fn a_new_span_is_sent_at_once_and_before_refused_ones() {
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::Refuse("scheduled_event 1", 500));
    let mut sending = Sending::start_as(hourly(), &base(&collector), &[]);
    for number in [10, 11] {
        sending.append([number]);
        let failures = number - 9;
        sending
            .until_failed(ExportFailure::Status5xx, failures)
            .await;
    }
    let counts = sending.send(2).await;
    assert_eq!(counts.spooled, 2, "the refused spans are kept");
    assert_eq!(collector.received()[2].spans().count(), 1);
    assert_eq!(accepted(&collector), [2]);
    // All are sent as soon as the collector accepts one.
    collector.now(Answer::status(200));
    sending.append([3]);
    sending.until(|counts| counts.exported == 4).await;
    let mut accepted = accepted(&collector);
    accepted.sort_unstable();
    assert_eq!(accepted, [2, 3, 10, 11]);
}

/// As a Collector without a working pipeline: an empty request says nothing about the content.
#[tokio::test]
async fn a_collector_that_accepts_only_empty_requests_loses_no_spans() {
    for status in [401, 500, 503] {
        let collector = FakeCollector::scripted([]).await;
        collector.now(Answer::status(status));
        let mut sending = Sending::start(&base(&collector), &[]);
        sending.until(|counts| counts.is_up == Some(true)).await;
        let failures = |counts: &ExportCounts| counts.failures.values().sum::<u64>();
        for number in 1..=20 {
            sending.append([number]);
            let before = failures(&sending.counts.borrow());
            sending.until(|counts| failures(counts) > before + 2).await;
        }
        assert!(!collector.probes().is_empty());
        assert_eq!(sending.counts.borrow().spooled, 20);
        collector.now(Answer::status(200));
        let counts = sending.until(|counts| counts.exported == 20).await;
        assert_eq!(counts.dropped.values().sum::<u64>(), 0);
        let mut accepted = accepted(&collector);
        accepted.sort_unstable();
        assert_eq!(accepted, numbers(1..=20), "each once");
    }
}

#[tokio::test]
async fn of_entries_that_are_refused_together_only_those_that_are_refused_alone_are_dropped() {
    for (status, failure, reason) in [
        (413, ExportFailure::TooLarge, DropReason::TooLarge),
        (400, ExportFailure::Rejected, DropReason::Rejected),
    ] {
        let collector = FakeCollector::scripted([]).await;
        collector.now(Answer::Refuse("scheduled_event 2", status));
        let mut sending = Sending::start(&base(&collector), &[]);
        sending.append(1..=4);
        let counts = sending.until(|counts| counts.spooled == 0).await;
        assert_eq!((counts.exported, counts.dropped[&reason]), (3, 1));
        assert_eq!(counts.dropped.values().sum::<u64>(), 1);
        assert_eq!(counts.failures[&failure], 2);
        assert_eq!(accepted(&collector), [1, 3, 4]);
    }
}

/// Also where what it refuses is dropped.
#[tokio::test]
async fn a_receiver_that_answers_as_none_of_otlp_is_down_until_it_takes_something() {
    let (this, recovered) = (thread::current().id(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&recovered);
    log::on_each_line(move |line| {
        let is_recovery = line.message.ends_with(" export recovered");
        if is_recovery && thread::current().id() == this {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let page = Answer::http(
        200,
        &[("content-type", "text/html")],
        b"<html>Welcome</html>",
    );
    let answers = [
        (Answer::status(415), ExportFailure::Status4xx),
        (Answer::status(404), ExportFailure::Status4xx),
        (page, ExportFailure::NotOtlp),
    ];
    let signals = [Signal::Traces, Signal::Logs].into_iter();
    let cases = signals.flat_map(|signal| answers.clone().map(|answer| (signal, answer)));
    for (number, (signal, (answer, reason))) in cases.enumerate() {
        let collector = FakeCollector::scripted([]).await;
        let start = Start {
            signal,
            ..Start::default()
        };
        let mut sending = Sending::start_as(start, &base(&collector), &[]);
        sending.send(1).await;
        collector.now(Answer::status(503));
        sending.append([2]);
        sending.until_failed(ExportFailure::Status5xx, 1).await;
        collector.now(answer);
        let counts = sending.until_failed(reason, 1).await;
        assert_eq!(counts.is_up, Some(false), "{signal:?}, {reason:?}");
        assert_eq!(recovered.load(Ordering::Relaxed), number);
        collector.now(Answer::status(200));
        sending.append([3]);
        let counts = sending.until(|counts| counts.spooled == 0).await;
        assert_eq!(counts.is_up, Some(true), "{signal:?}, {reason:?}");
        assert_eq!(recovered.load(Ordering::Relaxed), number + 1);
    }
}
