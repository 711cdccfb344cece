//! The file for node_exporter's textfile collector, and an exporter without a port.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use crate::support::{
    DEADLINE, FakeImds, Reply, ask_until,
    exporter::Metrics,
    process::{PROGRAM, Process, exporter, page},
    wait_until,
};

const EVENT: &str = r#"{"DocumentIncarnation":1,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;
const NO_PORT: &str = "--web.listen-address=none";

/// An exporter with a file instead of a port.
fn without_port(imds: &FakeImds, path: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args([NO_PORT, "--imds.poll-interval=200ms", "--vm.name=web_0"])
        .arg(format!("--imds.url={}", imds.base()))
        .arg(format!("--textfile.path={}", path.display()));
    command
}

/// Waits until the file has this text.
async fn until(path: &Path, text: &str) -> String {
    wait_until(DEADLINE, text, || {
        let content = fs::read_to_string(path).ok()?;
        content.contains(text).then_some(content)
    })
    .await
}

#[tokio::test]
async fn without_a_port_the_file_has_the_events_until_the_exporter_ends() {
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":1,"Events":[]}"#)).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.prom");
    // Drafts of an exporter that was killed, and of one that is writing.
    let draft = |id| fs::File::create(folder.path().join(format!("events.prom.{id}.new"))).unwrap();
    draft("0a1b2c3d").set_modified(UNIX_EPOCH).unwrap();
    draft("4e5f6071");
    let mut process = Process::start_as(&mut without_port(&imds, &path));
    process.says("no HTTP server").await;
    until(&path, "azure_scheduled_events_imds_requests_total ").await;
    imds.now(Reply::ok(EVENT));
    let text = until(&path, "azure_scheduled_event_info{").await;
    assert!(text.contains("azure_scheduled_events_up 1"), "{text}");
    for unwanted in ["process_", "build_info", "# EOF", "# UNIT"] {
        assert!(!text.contains(unwanted), "{unwanted}");
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "another user reads it");
    process.signal("TERM");
    let ended = process.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(!ended.log.contains("msg=listening"), "{}", ended.log);
    let mut left = fs::read_dir(folder.path()).unwrap();
    let left = left.by_ref().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["events.prom.4e5f6071.new"]);
}

/// A `DaemonSet` with a surge has two exporters with one file for a while. Each writes it again after 15 s, so only a
/// shorter round shows something.
#[tokio::test]
async fn the_end_of_an_exporter_leaves_the_file_of_another_one() {
    let imds = FakeImds::standing(Reply::ok(EVENT)).await;
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.prom");
        let begun = tokio::time::Instant::now();
        let old = Process::start_as(&mut without_port(&imds, &path));
        until(&path, "azure_scheduled_events_vm_info{").await;
        until(&path, "azure_scheduled_event_info{").await;
        let new = Process::start_as(without_port(&imds, &path).arg("--metrics.resources"));
        let of_new = "azure_scheduled_event_resource_info{";
        until(&path, of_new).await;
        old.signal("TERM");
        assert!(!old.end().await.log.contains("cannot be"));
        let kept = fs::read_to_string(&path).unwrap_or_default();
        if begun.elapsed() < Duration::from_secs(15) {
            assert!(kept.contains(of_new), "{kept}");
            new.signal("TERM");
            new.end().await;
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            return;
        }
    }
    panic!("two exporters take 15 s to start, each time");
}

#[tokio::test]
async fn a_later_failure_is_logged_once_counted_and_repeated() {
    let imds = FakeImds::standing(Reply::ok(EVENT)).await;
    let folder = tempfile::tempdir().unwrap();
    let (directory, hidden) = (folder.path().join("a"), folder.path().join("b"));
    fs::create_dir(&directory).unwrap();
    let path = directory.join("events.prom");
    let mut command = exporter(&imds);
    command.arg(format!("--textfile.path={}", path.display()));
    let mut process = Process::start_as(&mut command);
    let address = process.address().await;
    until(&path, "azure_scheduled_event_info{").await;
    fs::rename(&directory, &hidden).unwrap();
    // An event that ends is a change.
    imds.now(Reply::ok(r#"{"DocumentIncarnation":2,"Events":[]}"#));
    process.says("metrics cannot be written to the file").await;
    // Counted after it is logged.
    let none = "azure_scheduled_events_textfile_write_failures_total 0\n";
    let metrics = async || Metrics(page(&address, "/metrics").await.unwrap());
    ask_until("it is counted", metrics, |it| !it.0.contains(none)).await;
    fs::rename(&hidden, &directory).unwrap();
    imds.now(Reply::ok(EVENT.replace("7B1E04C9", "8C1E04C9")));
    process.says("metrics are written to the file again").await;
    until(&path, "8C1E04C9").await;
    process.signal("TERM");
    let log = process.end().await.log;
    assert_eq!(log.matches("cannot be written").count(), 1, "{log}");
}
