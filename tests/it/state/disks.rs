//! A state directory that cannot be written to: failures are counted and logged once, the exporter continues in memory,
//! and writes again as soon as it can.

use std::{fs, path::Path, process::Command};

use super::{Running, freeze, wait_for};
use crate::support::{
    FakeImds,
    process::{PROGRAM, Process},
};

const FAILURES: &str = "azure_scheduled_events_state_write_failures_total";

#[tokio::test]
async fn a_file_in_place_of_the_directory_is_a_write_failure_until_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let mut exporter = Running::start(&imds, &directory).await;
    exporter.first_seen().await;
    wait_for(&directory, "state.json").await;
    fs::rename(&directory, folder.path().join("away")).unwrap();
    fs::File::create(&directory).unwrap();
    fails_and_continues(&mut exporter, &imds).await;
    fs::remove_file(&directory).unwrap();
    recovers(&mut exporter, &directory).await;
}

/// Failed writes are counted and logged once, and a change of the event is still shown.
pub(super) async fn fails_and_continues(exporter: &mut Running, imds: &FakeImds) {
    exporter
        .process
        .says("state write failed: continuing in memory")
        .await;
    let failing = exporter
        .until("failures are counted", |it| it.value(FAILURES) > Some(1.0))
        .await;
    assert!(failing.is_up(), "{}", failing.0);
    imds.now(freeze("Started"));
    exporter
        .until("the event has started", |it| {
            it.0.contains("azure_scheduled_event_started_timestamp_seconds{")
        })
        .await;
    let logged = exporter.process.log().matches("state write failed").count();
    assert_eq!(logged, 1, "{}", exporter.process.log());
}

pub(super) async fn recovers(exporter: &mut Running, directory: &Path) {
    exporter.process.says("state write recovered").await;
    let text = fs::read_to_string(wait_for(directory, "state.json").await).unwrap();
    assert!(text.contains("Started"), "{text}");
}

/// `RLIMIT_FSIZE` of 0 makes every write to a file fail, as on a full disk, and needs no privileges. Its signal does not
/// end the exporter.
#[tokio::test]
async fn writes_that_fail_from_the_start_are_retried() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -S -f 0; exec \"$@\"", "sh"])
        .arg(PROGRAM)
        .args(Running::arguments(&imds, &directory));
    let mut exporter = Running::of(Process::start_as(&mut command)).await;
    exporter.first_seen().await;
    fails_and_continues(&mut exporter, &imds).await;
    let pid = exporter.process.pid().to_string();
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid, "--fsize=unlimited:"]);
    let status = prlimit.status();
    assert!(status.unwrap().success(), "{prlimit:?}");
    recovers(&mut exporter, &directory).await;
}
