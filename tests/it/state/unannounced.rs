//! Interruptions of this VM that no event announced, measured by the whole exporter. Its state says that events have had
//! the time to appear.

#[cfg(feature = "root-tests")]
use std::{fs, process::Command};
use std::{path::Path, time::Duration};

use azure_scheduled_events_exporter::{engine::SavedState, time::Clock};

#[cfg(feature = "root-tests")]
use super::mounts::Grouped;
use super::{put_state, saved_at};
#[cfg(feature = "root-tests")]
use crate::support::{DEADLINE, wait_until};
use crate::support::{
    FakeImds, Reply,
    events::document,
    exporter::{Exporter, Metrics, settings},
};

const COUNT: &str = "azure_scheduled_events_unannounced_interruption_seconds_count";
#[cfg(feature = "root-tests")]
const SUM: &str = "azure_scheduled_events_unannounced_interruption_seconds_sum";
const LENGTH: Duration = Duration::from_secs(2);

fn nothing() -> Reply {
    document(3, [])
}

fn put_old_state(directory: &Path) {
    let now = Clock::start().now().wall;
    let events = Vec::new();
    let state = SavedState {
        events,
        ..saved_at(now, "Freeze")
    };
    put_state(directory, &state);
}

/// A poll of this process has succeeded, and no event can be missing because it has not appeared yet.
fn counts(metrics: &Metrics) -> bool {
    metrics.is_up() && metrics.value("azure_scheduled_events_warming_up") == Some(0.0)
}

fn last_success(metrics: &Metrics) -> Option<f64> {
    metrics.value("azure_scheduled_events_last_success_timestamp_seconds")
}

/// Waits until the exporter has handled the request that it waits for now.
async fn until_handled(imds: &FakeImds) {
    imds.until_requests(imds.event_requests() + 3).await;
}

async fn answer_slowly(imds: &FakeImds) {
    imds.now(nothing().after(LENGTH));
    imds.until_requests(imds.event_requests() + 1).await;
    imds.now(nothing());
    until_handled(imds).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the event loop is to stand still"
)]
fn stand_still() {
    std::thread::sleep(LENGTH);
}

#[tokio::test]
async fn a_poll_that_begins_late_is_an_unannounced_interruption_and_a_slow_answer_is_none() {
    let folder = tempfile::tempdir().unwrap();
    put_old_state(folder.path());
    let imds = FakeImds::standing(nothing()).await;
    let mut settings = settings(&imds.base());
    settings.state = Some(folder.path().to_owned());
    let exporter = Exporter::start(settings);
    exporter.until("interruptions count", counts).await;
    answer_slowly(&imds).await;
    let metrics = exporter.metrics().await;
    assert_eq!(metrics.value(COUNT), Some(0.0));
    let last = last_success(&metrics);
    let is_between_polls = |it: &Metrics| last_success(it) > last;
    exporter.until("the end of a poll", is_between_polls).await;
    stand_still();
    let is_counted = |it: &Metrics| it.value(COUNT) == Some(1.0);
    exporter.until("the interruption counts", is_counted).await;
    exporter.stop().await;
}

/// How long the main thread of a process has waited for a processor.
#[cfg(feature = "root-tests")]
fn run_queue_wait(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let nanos = text.split_whitespace().nth(1).unwrap().parse();
    Duration::from_nanos(nanos.unwrap())
}

/// Three loops on the processor of a process that runs when nothing else does.
#[cfg(feature = "root-tests")]
async fn starve(pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let (_, allowed) = status.split_once("Cpus_allowed_list:").unwrap();
    let mut cpus = allowed.trim_start().split(|it: char| !it.is_ascii_digit());
    let cpu = cpus.next().unwrap();
    let idle = format!("taskset -p -c {cpu} {pid} && chrt -i -p 0 {pid}");
    let status = Command::new("sh").args(["-c", &idle]).status();
    assert!(status.unwrap().success(), "{idle}");
    let before = run_queue_wait(pid);
    // They end by themselves, also if this test fails.
    let busy = ["-c", cpu, "sh", "-c", "ulimit -t 30; while :; do :; done"];
    let mut loops = [(); 3].map(|()| Command::new("taskset").args(busy).spawn().unwrap());
    wait_until(DEADLINE, "it waits for its processor", || {
        (run_queue_wait(pid) > before + 3 * LENGTH).then_some(())
    })
    .await;
    for child in &mut loops {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[cfg(feature = "root-tests")]
#[tokio::test]
async fn a_frozen_control_group_is_unannounced_and_no_other_delay_of_the_process_is() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    put_old_state(&directory);
    let imds = FakeImds::standing(nothing()).await;
    let grouped = Grouped::start(&imds, &directory).await;
    let exporter = &grouped.exporter;
    exporter.until("interruptions count", counts).await;
    exporter.process.signal("STOP");
    tokio::time::sleep(LENGTH).await;
    exporter.process.signal("CONT");
    until_handled(&imds).await;
    answer_slowly(&imds).await;
    let metrics = exporter.until("a scrape", counts).await;
    assert_eq!(metrics.value(COUNT), Some(0.0), "{}", metrics.0);
    let last = last_success(&metrics);
    let is_between_polls = |it: &Metrics| last_success(it) > last;
    exporter.until("the end of a poll", is_between_polls).await;
    let began = tokio::time::Instant::now();
    let frozen = Duration::from_secs(3);
    grouped.freeze(frozen).await;
    let is_counted = |it: &Metrics| it.value(COUNT) == Some(1.0);
    let metrics = exporter.until("the interruption counts", is_counted).await;
    let sum = metrics.value(SUM).unwrap();
    // Short by a poll interval of 200 ms, and by what a busy machine adds to it.
    let bounds = frozen.as_secs_f64() - 1.0..began.elapsed().as_secs_f64();
    assert!(bounds.contains(&sum), "{sum}, not in {bounds:?}");
    // Last: it takes a capability to leave this policy of the scheduler.
    starve(exporter.process.pid()).await;
    until_handled(&imds).await;
    let metrics = exporter.until("a scrape", counts).await;
    assert_eq!(metrics.value(COUNT), Some(1.0), "{}", metrics.0);
    grouped.stop().await;
}
