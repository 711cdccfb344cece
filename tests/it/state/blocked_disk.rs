//! A disk that hangs. Any user can run this: the thread that writes to the disk is stopped in a log line that it writes
//! between two operations of one write.

use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError, mpsc},
};

use super::put;
use crate::support::{
    DEADLINE, FakeImds, Reply,
    exporter::{Exporter, settings},
    log, wait_until,
};

const FREEZE: &str = r#"{"DocumentIncarnation":1,"Events":[{"EventId":"A0000000-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Started","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"","Description":"","EventSource":"Platform","DurationInSeconds":5}]}"#;
const FAILURES: &str = "azure_scheduled_events_state_write_failures_total";
const PENDING: &str = r#"azure_scheduled_events_pending{event_type="Freeze",scope="self"}"#;

fn state_contains(folder: &Path, text: &str) -> bool {
    fs::read_to_string(folder.join("state.json")).is_ok_and(|state| state.contains(text))
}

#[tokio::test]
async fn a_disk_that_hangs_stops_neither_polls_nor_scrapes_and_is_not_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    // The first write keeps this file under another name, and logs that.
    put(folder.path(), b"not a state");
    let (unblock, release) = mpsc::channel();
    let (blocked, release) = (folder.path().display().to_string(), Mutex::new(release));
    // Blocks the thread that logs the path of a file in the folder, until `unblock` is closed.
    log::on_each_line(move |line| {
        if line
            .field("kept_as")
            .is_some_and(|path| path.contains(&blocked))
        {
            let release = release.lock().unwrap_or_else(PoisonError::into_inner);
            release.recv().unwrap_or_default();
        }
    });
    let imds = FakeImds::standing(Reply::ok(FREEZE)).await;
    let mut settings = settings(&imds.base());
    settings.state = Some(folder.path().to_owned());
    let exporter = Exporter::start(settings);
    exporter
        .until(
            "the event is shown although its state is not on disk",
            |it| it.value(PENDING) == Some(1.0) && it.value(FAILURES) == Some(1.0),
        )
        .await;
    imds.until_requests(imds.event_requests() + 15).await;
    let metrics = exporter.metrics().await;
    assert_eq!(metrics.value(FAILURES), Some(1.0), "one write, one failure");
    let interruption = "observed_interruption_seconds_count";
    assert!(!metrics.0.contains(interruption), "{}", metrics.0);
    assert!(!state_contains(folder.path(), "A0000000"));
    drop::<mpsc::Sender<()>>(unblock);
    wait_until(DEADLINE, "the state is written", || {
        state_contains(folder.path(), "A0000000").then_some(())
    })
    .await;
    exporter.stop().await;
}
