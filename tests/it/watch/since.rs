//! `--since`: what earlier runs have printed.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use azure_scheduled_events_exporter::time::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Exporter, FREEZE, REBOOT, Watch, reboot, scheduled, started};
use crate::support::{
    DEADLINE,
    process::{PROGRAM, Process},
    wait_until,
};

/// The file of `--since` in a folder of its own, and the flag.
fn since_file() -> (TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watch.json");
    let since = format!("--since={}", file.display());
    (folder, file, since)
}

#[tokio::test]
async fn a_later_run_prints_what_has_changed_since() {
    let (_folder, file, since) = since_file();
    let mut exporter = Exporter::start([scheduled()]).await;
    let watch = exporter.watch(&[&since]);
    watch.prints(&["pending"]).await;
    exporter.ends(watch, &file).await;

    let freeze = reboot(&json!({"EventId": FREEZE, "EventType": "Freeze"}));
    exporter.now([started(), freeze]);
    exporter.observes("started").await;
    let watch = exporter.watch(&[&since]);
    let expected = [("started", REBOOT), ("announced", FREEZE)];
    watch.prints_of(&expected).await;
    exporter.ends(watch, &file).await;

    exporter.now([]);
    exporter.observes("ended").await;
    let watch = exporter.watch(&[&since]);
    watch
        .prints_of(&[("ended", REBOOT), ("ended", FREEZE)])
        .await;
    exporter.ends(watch, &file).await;

    // Nothing is printed again: the next line is that of a new event.
    exporter.now([reboot(&json!({"EventId": "NEW"}))]);
    exporter.observes("announced").await;
    let watch = exporter.watch(&[&since]);
    watch.prints_of(&[("announced", "NEW")]).await;
}

#[tokio::test]
async fn a_line_that_could_not_be_written_is_printed_by_the_next_run() {
    let (_folder, file, since) = since_file();
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

/// A crash, a full disk, an older version.
#[expect(clippy::disallowed_methods, reason = "a file of somebody else")]
#[tokio::test]
async fn an_unreadable_file_is_kept_under_another_name_and_the_run_begins_anew() {
    let exporter = Exporter::start([scheduled()]).await;
    for content in [
        "{\"version\":4,\"journal\":\"0d5c",
        "{\"version\":3,\"process\":\"p\",\"number\":7,\"followed\":{}}",
        "{\"events\":[]}",
        &"\0".repeat(200),
        &"x".repeat(100_000),
    ] {
        let (folder, file, since) = since_file();
        fs::write(&file, content).unwrap();
        let mut watch = exporter.watch(&[&since]);
        watch.process.says("beginning anew").await;
        watch.prints(&["pending"]).await;
        exporter.ends(watch, &file).await;
        let names = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path());
        let is_kept = |path: &PathBuf| path.to_string_lossy().contains("watch.json.unreadable-");
        let kept: Vec<_> = names.filter(is_kept).collect();
        assert_eq!(kept.len(), 1, "{content}");
        assert_eq!(fs::read_to_string(&kept[0]).unwrap(), content);
        let again = exporter.watch(&[&since]);
        exporter.is_saved(&file).await;
        assert_eq!(again.logged("level=warn"), 0, "{}", again.process.log());
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_used_is_a_wrong_flag() {
    let folder = tempfile::tempdir().unwrap();
    for (path, words) in [
        (folder.path().to_owned(), "is not a regular file"),
        (
            folder.path().join("absent").join("watch.json"),
            "is not in a directory that exists",
        ),
    ] {
        let since = format!("--since={}", path.display());
        let ended = Process::start(["watch", &since]).end().await;
        assert_eq!((ended.code, &*ended.stdout), (Some(64), ""), "{ended:?}");
        let line = format!("error: --since: {} {words}\n", path.display());
        assert_eq!(ended.log, line);
    }
}

#[tokio::test]
async fn a_second_watch_with_the_same_file_says_so() {
    let (_folder, file, since) = since_file();
    let exporter = Exporter::start([scheduled()]).await;
    let first = exporter.watch(&[&since]);
    first.prints(&["pending"]).await;
    exporter.is_saved(&file).await;
    let second = Process::start(["watch", &exporter.url(), &since])
        .end()
        .await;
    assert_eq!((second.code, &*second.stdout), (Some(1), ""));
    let line = format!(
        "error: --since: {}: another watch uses this file: give each its own\n",
        file.display()
    );
    assert_eq!(second.log, line);
    exporter.now([started()]);
    first.prints(&["pending", "started"]).await;
    first.terminate().await;
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
    exporter.is_saved(&inner.join("watch.json")).await;
    watch.terminate().await;
    let again = Watch::start(&[&exporter.url(), &since]);
    exporter.now([]);
    again.prints(&["ended"]).await;
}

/// Sets the times that the file remembers an hour later: the clock has been set back by an hour since.
#[expect(clippy::disallowed_methods, reason = "a file of an earlier run")]
fn set_clock_back(file: &Path) {
    let mut saved: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let at: Timestamp = serde_json::from_value(saved["at"].clone()).unwrap();
    let later = at.after(Duration::from_hours(1));
    saved["at"] = json!(later.rfc3339_millis());
    fs::write(file, saved.to_string()).unwrap();
}

#[tokio::test]
async fn the_numbers_of_an_exporter_with_a_state_directory_go_on_whatever_the_clock_does() {
    let (folder, file, since) = since_file();
    let state = folder.path().join("state");
    let state = format!("--state.directory={}", state.display());
    let exporter = Exporter::start_with([scheduled()], &[&state]).await;
    let mut watch = exporter.watch(&[&since]);
    watch.prints(&["pending"]).await;
    // The exporter restarts during a run, and between two runs.
    let moved = json!({"NotBefore": "Fri, 31 Dec 2999 23:00:00 GMT"});
    let mut exporter = exporter
        .restart(&mut watch, &[&state], [reboot(&moved)])
        .await;
    watch.process.says("is read again").await;
    watch.prints(&["pending", "rescheduled"]).await;
    let log = watch.process.log();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.lines().next().unwrap().contains("cannot be read"));
    exporter.ends(watch, &file).await;
    let freeze = reboot(&json!({"EventId": FREEZE, "EventType": "Freeze"}));
    exporter.now([freeze]);
    exporter.observes("announced").await;
    let watch = exporter.watch(&[&since]);
    watch
        .prints_of(&[("ended", REBOOT), ("announced", FREEZE)])
        .await;
    exporter.ends(watch, &file).await;

    let mut other = exporter.watch(&[]);
    other.prints_of(&[("pending", FREEZE)]).await;
    set_clock_back(&file);
    let new = reboot(&json!({"EventId": "NEW"}));
    let exporter = exporter.restart(&mut other, &[&state], [new]).await;
    let watch = exporter.watch(&[&since]);
    let last = [("ended", FREEZE), ("announced", "NEW")];
    watch.prints_of(&last).await;
    other
        .prints_of(&[&[("pending", FREEZE)], &last[..]].concat())
        .await;
    assert_eq!(watch.logged("level=warn"), 0, "{}", watch.process.log());
}

/// Its numbers begin anew, and mean nothing beside those of the file.
#[tokio::test]
async fn a_later_run_says_that_an_exporter_without_its_state_has_lost_what_happened() {
    let (_folder, file, since) = since_file();
    let exporter = Exporter::start([scheduled()]).await;
    let watch = exporter.watch(&[&since]);
    watch.prints(&["pending"]).await;
    exporter.is_saved(&file).await;
    let freeze = reboot(&json!({"EventId": FREEZE, "EventType": "Freeze"}));
    watch.terminate().await;
    let mut other = exporter.watch(&[]);
    other.prints(&["pending"]).await;
    let exporter = exporter.restart(&mut other, &[], [freeze]).await;
    let mut watch = exporter.watch(&[&since]);
    watch.prints_of(&[("announced", FREEZE)]).await;
    watch.process.says("set its --state.directory").await;
    exporter.now([]);
    watch
        .prints_of(&[("announced", FREEZE), ("ended", FREEZE)])
        .await;
    assert_eq!(watch.logged("level=warn"), 1, "{}", watch.process.log());
}
