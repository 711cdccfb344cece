//! The spool survives restarts, kills and outages of the collector.

use azure_scheduled_events_exporter::{otlp::sender::RetryTiming, output_counters::ExportFailure};

use super::sending::{Sending, TIMING, base, numbers};
use crate::support::{
    DEADLINE, RefusingPort,
    collector::{Answer, FakeCollector},
};

/// A flush that ends once all is sent.
const PATIENT: RetryTiming = RetryTiming {
    flush_timeout: DEADLINE,
    ..TIMING
};

#[tokio::test]
async fn spans_arrive_in_order_and_once_after_an_outage() {
    let directory = tempfile::tempdir().unwrap();
    let refusing = RefusingPort::reserve();
    let mut sending = Sending::start(&refusing.base(), &[], Some(directory.path()));
    sending.append(1..=150).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Connect] >= 3)
        .await;
    let counts = sending.stop().await;
    assert_eq!((counts.spooled, counts.exported), (150, 0));
    let collector = FakeCollector::scripted([Answer::status(503), Answer::reset()]).await;
    let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.append(151..=160).await;
    let counts = sending.until(|counts| counts.exported == 160).await;
    assert_eq!(collector.accepted(), numbers(1..=160));
    assert_eq!(counts.spooled, 0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn shutdown_flushes_the_spool_and_keeps_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let collector = FakeCollector::scripted([]).await;
    let sending = Sending::start_with(PATIENT, &base(&collector), &[], Some(directory.path()));
    sending.append(1..=20).await;
    let counts = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (20, 0));
    // A hanging collector is abandoned after the flush timeout.
    collector.now(Answer::hang());
    let sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.append(21..=25).await;
    let counts = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (0, 5));
    collector.now(Answer::status(200));
    let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.until(|counts| counts.exported == 5).await;
    assert_eq!(collector.accepted(), numbers(1..=25));
}

#[tokio::test]
async fn shutdown_retries_spans_in_memory_until_the_flush_timeout() {
    let collector = FakeCollector::scripted([Answer::status(503), Answer::status(503)]).await;
    let sending = Sending::start_with(PATIENT, &base(&collector), &[], None);
    sending.append([1]).await;
    let counts = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (1, 0));
}
