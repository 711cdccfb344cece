//! `--since`: what earlier runs have printed.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    process::Command,
};

use serde_json::{Value, json};

use super::{Exporter, FREEZE, REBOOT, Watch, reboot, scheduled, started};
use crate::support::{
    DEADLINE,
    process::{PROGRAM, Process, page},
    wait_until,
};

#[tokio::test]
async fn a_later_run_prints_what_has_changed_since() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watch.json");
    let since = format!("--since={}", file.display());
    let mut exporter = Exporter::start([scheduled()]).await;
    let saves = async |words: &str| {
        wait_until(DEADLINE, "the file is written", || {
            fs::read_to_string(&file)
                .is_ok_and(|text| text.contains(words))
                .then_some(())
        })
        .await;
    };
    let watch = exporter.watch(&[&since]);
    watch.prints(&["pending"]).await;
    saves(REBOOT).await;
    watch.terminate().await;

    let freeze = reboot(&json!({"EventId": FREEZE, "EventType": "Freeze"}));
    exporter.now([started(), freeze]);
    exporter.observes("started").await;
    let watch = exporter.watch(&[&since]);
    let expected = [("started", REBOOT), ("announced", FREEZE)];
    watch.prints_of(&expected).await;
    saves(FREEZE).await;
    watch.terminate().await;

    exporter.now([]);
    exporter.observes("ended").await;
    let watch = exporter.watch(&[&since]);
    watch
        .prints_of(&[("ended", REBOOT), ("ended", FREEZE)])
        .await;
    saves("\"followed\":{}").await;
    watch.terminate().await;

    // Nothing is printed again: the next line is that of a new event.
    exporter.now([reboot(&json!({"EventId": "NEW"}))]);
    exporter.observes("announced").await;
    let watch = exporter.watch(&[&since]);
    watch.prints_of(&[("announced", "NEW")]).await;
}

#[tokio::test]
async fn a_line_that_could_not_be_written_is_printed_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watch.json");
    let since = format!("--since={}", file.display());
    let exporter = Exporter::start([scheduled()]).await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(PROGRAM);
    command
        .args(["watch", &exporter.url(), &since])
        .stdout(writer);
    let ended = tokio::task::spawn_blocking(move || command.status().unwrap());
    assert_eq!(ended.await.unwrap().code(), Some(0));
    assert!(!file.exists());
    let watch = exporter.watch(&[&since]);
    watch.prints(&["pending"]).await;
}

/// A script that takes one line and closes the pipe.
#[tokio::test]
async fn a_line_that_was_read_is_not_repeated_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watch.json");
    // As `mktemp` makes it.
    File::create(&file).unwrap();
    let since = format!("--since={}", file.display());
    let mut exporter = Exporter::start([scheduled()]).await;
    let first_line = async |flags: [&str; 3]| {
        let mut process = Process::start(flags);
        let stdout = BufReader::new(process.take_stdout());
        let read = tokio::task::spawn_blocking(|| stdout.lines().next().unwrap().unwrap());
        let line: Value = serde_json::from_str(&read.await.unwrap()).unwrap();
        assert_eq!(process.end().await.code, Some(0));
        line["transition"].clone()
    };
    let flags = ["watch", &exporter.url(), &since];
    assert_eq!(first_line(flags).await, "pending");
    exporter.now([started()]);
    exporter.observes("started").await;
    assert_eq!(first_line(flags).await, "started");
    exporter.now([]);
    exporter.observes("ended").await;
    exporter.watch(&[&since]).prints(&["ended"]).await;
}

#[expect(clippy::disallowed_methods, reason = "a file of somebody else")]
#[tokio::test]
async fn a_file_of_another_program_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.json");
    for content in [
        "my notes",
        "{\"events\":[]}",
        "{\"version\":2,\"events\":[{}]}",
        "{\"version\":3,\"events\":[]}",
    ] {
        fs::write(&file, content).unwrap();
        let since = format!("--since={}", file.display());
        let ended = Process::start(["watch", &since]).end().await;
        assert_eq!((ended.code, &*ended.stdout), (Some(64), ""), "{ended:?}");
        let words = "was not written by this version of watch: name another file";
        assert!(ended.log.contains(words), "{}", ended.log);
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    let since = format!("--since={}", folder.path().display());
    let ended = Process::start(["watch", &since]).end().await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let since = format!("--since={}", inner.join("watch.json").display());
    let mut exporter = Exporter::start([]).await;
    let mut watch = exporter.watch(&[&since]);
    wait_until(DEADLINE, "the file is written", || {
        inner.join("watch.json").exists().then_some(())
    })
    .await;
    fs::remove_dir_all(&inner).unwrap();
    exporter.now([scheduled()]);
    exporter.observes("announced").await;
    watch.process.says("--since cannot be written").await;
    watch.prints(&["announced"]).await;
    exporter.now([started()]);
    watch.prints(&["announced", "started"]).await;
    fs::create_dir(&inner).unwrap();
    wait_until(DEADLINE, "the file is written again", || {
        inner.join("watch.json").exists().then_some(())
    })
    .await;
    assert_eq!(watch.logged("cannot be written"), 1);
    let again = Watch::start(&[&exporter.url(), &since]);
    exporter.now([]);
    again.prints(&["ended"]).await;
}

/// An exporter that restarts without its state begins its numbers again.
#[tokio::test]
async fn a_later_run_knows_a_restarted_exporter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watch.json");
    let since = format!("--since={}", file.display());
    let state = format!(
        "--state.directory={}",
        folder.path().join("state").display()
    );
    let exporter = Exporter::start_with([scheduled()], &[&state]).await;
    let mut watch = exporter.watch(&[&since]);
    watch.prints(&["pending"]).await;
    // The exporter restarts during a run, and between two runs.
    let moved = json!({"NotBefore": "Fri, 31 Dec 2999 23:00:00 GMT"});
    let exporter = exporter
        .restart(&mut watch, &[&state], [reboot(&moved)])
        .await;
    watch.prints(&["pending", "rescheduled"]).await;
    watch.terminate().await;
    let freeze = reboot(&json!({"EventId": FREEZE, "EventType": "Freeze"}));
    exporter.now([freeze]);
    let shows_end = async {
        let shown = || page(&exporter.address, "/api/v1/transitions");
        while !shown().await.unwrap().contains("\"ended\"") {}
    };
    tokio::time::timeout(DEADLINE, shows_end).await.unwrap();
    let mut other = exporter.watch(&[]);
    other.prints_of(&[("pending", FREEZE)]).await;
    let new = reboot(&json!({"EventId": "NEW"}));
    let exporter = exporter.restart(&mut other, &[&state], [new]).await;
    let watch = exporter.watch(&[&since]);
    let last = [("ended", FREEZE), ("announced", "NEW")];
    let before = [("ended", REBOOT), ("announced", FREEZE)];
    watch.prints_of(&[before, last].concat()).await;
    other
        .prints_of(&[&[("pending", FREEZE)], &last[..]].concat())
        .await;
}
