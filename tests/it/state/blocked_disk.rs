//! A disk that hangs: a FIFO in the place of the file that is written first, so that the write waits for a reader.

use std::{fs::File, io::Read as _, process::Command};

use azure_scheduled_events_exporter::config::StateStorage;

use crate::support::{
    FakeImds, Reply,
    exporter::{Exporter, settings},
};

const FREEZE: &str = r#"{"DocumentIncarnation":1,"Events":[{"EventId":"A0000000-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"Platform","DurationInSeconds":5}]}"#;
const FAILURES: &str = "azure_scheduled_events_state_write_failures_total";
const PENDING: &str = r#"azure_scheduled_events_pending{event_type="Freeze",scope="self"}"#;

#[tokio::test]
async fn a_disk_that_hangs_stops_neither_polls_nor_scrapes_and_is_not_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("state.json.new");
    let made = Command::new("mkfifo").arg(&draft).status().unwrap();
    assert!(made.success(), "mkfifo is part of coreutils");
    let imds = FakeImds::standing(Reply::ok(FREEZE)).await;
    let mut settings = settings(&imds.base());
    settings.state = StateStorage::Directory(folder.path().to_owned());
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
    // The write ends, and the next ones find a file in the place of the FIFO.
    let unblocked = std::thread::spawn(move || {
        let mut written = Vec::new();
        let mut reader = File::open(&draft).unwrap();
        // The exporter removes it too, when its write ends.
        std::fs::remove_file(&draft).ok();
        reader.read_to_end(&mut written).unwrap();
    });
    let state = folder.path().join("state.json");
    let deadline = tokio::time::Instant::now() + crate::support::DEADLINE;
    while !state.exists() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "no state was written"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    unblocked.join().unwrap();
    exporter.stop().await;
}
