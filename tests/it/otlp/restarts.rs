//! The spool goes on over ends, kills and long absences of the collector.

use azure_scheduled_events_exporter::snapshot::ExportFailure;
use tokio::time::timeout;

use super::sending::{Sending, base, numbers};
use crate::support::{
    PATIENCE, RefusingPort,
    collector::{Answer, FakeCollector},
};

#[tokio::test]
async fn after_a_long_absence_all_arrive_in_order_and_once() {
    let directory = tempfile::tempdir().unwrap();
    let refusing = RefusingPort::reserve();
    let mut sending = Sending::start(&refusing.base(), &[], Some(directory.path()));
    sending.append(1..=150).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Connect] >= 3)
        .await;
    let counts = sending.stop().await;
    assert_eq!((counts.spooled, counts.exported), (150, 0));
    // The next run of the exporter finds a collector, and goes on where the first one ended.
    let collector = FakeCollector::scripted([Answer::status(503), Answer::Reset]).await;
    let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.append(151..=160).await;
    let counts = sending.until(|counts| counts.exported == 160).await;
    assert_eq!(collector.taken(), numbers(1..=160));
    assert_eq!(counts.spooled, 0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_sender_that_is_killed_at_any_time_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let collector = FakeCollector::scripted([]).await;
    let mut next = 1;
    for kill in 0..40 {
        let sending = Sending::start(&base(&collector), &[], Some(directory.path()));
        sending.append(next..=next + 2).await;
        next += 3;
        let wanted = usize::try_from(kill % 4).unwrap();
        let before = collector.received().len();
        // Checked whenever another task has run, so that the kill comes right after the request.
        let requests = async {
            while collector.received().len() < before + wanted {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, requests).await.unwrap();
        sending.running.abort();
    }
    let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.until(|counts| counts.spooled == 0).await;
    let taken = collector.taken();
    let mut once = taken.clone();
    once.sort_by_key(|name| name.parse::<u64>().unwrap());
    once.dedup();
    println!(
        "40 kills: {} spans, {} of them twice",
        once.len(),
        taken.len() - once.len()
    );
    assert_eq!(once, numbers(1..=120));
}

#[tokio::test]
async fn the_end_sends_what_it_can_and_keeps_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let collector = FakeCollector::scripted([]).await;
    let sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.append(1..=20).await;
    let counts = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (20, 0));
    // A collector that hangs is given up after the time that is left for it.
    collector.now(Answer::Hang);
    let sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.append(21..=25).await;
    let counts = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (0, 5));
    collector.now(Answer::status(200));
    let mut sending = Sending::start(&base(&collector), &[], Some(directory.path()));
    sending.until(|counts| counts.exported == 5).await;
    assert_eq!(collector.taken(), numbers(1..=25));
}

#[tokio::test]
async fn without_a_directory_the_end_tries_until_its_time_is_over() {
    let collector = FakeCollector::scripted([Answer::status(503), Answer::status(503)]).await;
    let sending = Sending::start(&base(&collector), &[], None);
    sending.append([1]).await;
    let counts = sending.stop().await;
    assert_eq!((counts.exported, counts.spooled), (1, 0));
}
