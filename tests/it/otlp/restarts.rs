//! What is unsent survives restarts and outages of the collector.

use std::fs;

use azure_scheduled_events_exporter::{
    journal::Journal, lifecycle::SavedCursor, otlp::sender::RetryTiming,
    output_counters::ExportFailure,
};

use serde_json::Value;

use super::sending::{
    NO_LOGS, Sending, Start, TIMING, accepted, base, event, exporting, numbers, restored, stop,
};
use crate::support::{
    DEADLINE, FakeImds, RefusingPort,
    collector::{Answer, FakeCollector},
};

/// A flush that ends once all is sent.
const PATIENT: RetryTiming = RetryTiming {
    flush_timeout: DEADLINE,
    ..TIMING
};

/// The next process, with what the one before left on disk.
fn next((journal, saved): &(Journal, SavedCursor)) -> Start {
    Start {
        kept: Some((restored(journal), saved.clone())),
        is_durable: true,
        ..Start::default()
    }
}

fn durable() -> Start {
    Start {
        is_durable: true,
        ..Start::default()
    }
}

#[tokio::test]
async fn spans_arrive_in_order_and_once_after_an_outage() {
    let refusing = RefusingPort::reserve();
    let mut sending = Sending::start_as(durable(), &refusing.base(), &[]);
    for number in 1..=150 {
        sending.append([number]);
    }
    sending.until_failed(ExportFailure::Connect, 3).await;
    let (counts, kept) = sending.stop().await;
    assert_eq!((counts.spooled, counts.exported), (150, 0));
    let collector = FakeCollector::scripted([Answer::status(503), Answer::reset()]).await;
    let mut sending = Sending::start_as(next(&kept), &base(&collector), &[]);
    sending.confirm_owner();
    sending.append(151..=160);
    let counts = sending.until(|counts| counts.exported == 160).await;
    assert_eq!(accepted(&collector), numbers(1..=160));
    assert_eq!(counts.spooled, 0);
    let (_, (_, saved)) = sending.stop().await;
    assert_eq!((saved.sent, saved.ahead.len()), (160, 0));
}

#[tokio::test]
async fn shutdown_sends_the_rest_and_keeps_what_is_left() {
    let collector = FakeCollector::scripted([]).await;
    let start = Start {
        timing: PATIENT,
        ..durable()
    };
    let mut sending = Sending::start_as(start, &base(&collector), &[]);
    sending.append(1..=20);
    let (counts, kept) = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (20, 0));
    // A hanging collector is abandoned after the flush timeout.
    collector.now(Answer::hang());
    let mut sending = Sending::start_as(next(&kept), &base(&collector), &[]);
    sending.append(21..=25);
    let (counts, kept) = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (0, 5));
    collector.now(Answer::status(200));
    let mut sending = Sending::start_as(next(&kept), &base(&collector), &[]);
    sending.confirm_owner();
    sending.until(|counts| counts.exported == 5).await;
    assert_eq!(accepted(&collector), numbers(1..=25));
}

#[tokio::test]
async fn shutdown_retries_spans_in_memory_until_the_flush_timeout() {
    let collector = FakeCollector::scripted([Answer::status(503), Answer::status(503)]).await;
    let start = Start {
        timing: PATIENT,
        ..Start::default()
    };
    let mut sending = Sending::start_as(start, &base(&collector), &[]);
    sending.append([1]);
    let (counts, _) = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (1, 0));
}

#[tokio::test]
async fn the_state_says_what_was_sent_at_shutdown() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::status(503));
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*base(&collector));
    let mut process = exporting(&imds, Some(directory.path()), &[endpoint, NO_LOGS]);
    process.says("trace export failed").await;
    let sent = || {
        let state = fs::read(directory.path().join("state.json")).unwrap();
        let state: Value = serde_json::from_slice(&state).unwrap();
        state["journal"]["cursors"]["traces"]["sent"].clone()
    };
    assert_eq!(sent(), 0);
    collector.now(Answer::status(200));
    stop(process).await;
    assert_eq!(collector.accepted(), ["scheduled_event announced"]);
    assert_ne!(sent(), 0);
}
