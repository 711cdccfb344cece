//! What survives a restart, and what a bad file or a bad disk does: nothing but a line in the log.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    document,
    lifecycle::Tracker,
    state::{Directory, Found, Saved},
    time::{Moment, Timestamp},
};
use tempfile::TempDir;

use crate::support::{
    FakeImds, PATIENCE, Reply,
    exporter::Metrics,
    process::{PROGRAM, Process, page},
};

const FAILURES: &str = "azure_scheduled_events_state_write_failures_total";
const FIRST_SEEN: &str = "azure_scheduled_event_first_seen_timestamp_seconds{event_id=\"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265\",event_type=\"Freeze\",event_source=\"Platform\",scope=\"self\"}";

fn freeze(status: &str) -> Reply {
    Reply::ok(format!(
        r#"{{"DocumentIncarnation":2,"Events":[{{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"{status}","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"Platform","DurationInSeconds":9}}]}}"#
    ))
}

fn at() -> Timestamp {
    Timestamp::from_unix_seconds(1_794_906_000).unwrap()
}

/// A state with one life in it.
fn saved(vm_id: &str) -> Saved {
    let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;
    let now = Moment {
        wall: at(),
        monotonic: Duration::ZERO,
    };
    let mut tracker = Tracker::new(Duration::from_mins(10));
    tracker.observe(&document::parse(body).unwrap().0, Some("web_0"), now);
    Saved {
        boot_id: Some("a-boot".to_owned()),
        heartbeat_at: at(),
        document_at: Some(at()),
        own_name: Some("web_0".to_owned()),
        vm_id: Some(vm_id.to_owned()),
        lives: tracker.lives(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's file needs no atomic write"
)]
fn put(folder: &Path, text: &[u8]) {
    fs::write(folder.join("state.json"), text).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    assert!(matches!(directory.read(at()), Found::Nothing));
    let saved = saved("a-vm");
    directory.write(&saved).unwrap();
    let Found::State(read) = directory.read(at()) else {
        panic!("it is not read back")
    };
    assert_eq!(*read, saved);
    assert_eq!(names(folder.path()), ["lock", "state.json"]);
}

#[test]
fn a_file_that_cannot_be_read_is_set_aside_with_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    directory.write(&saved("a-vm")).unwrap();
    let whole = fs::read(folder.path().join("state.json")).unwrap();
    let newer = String::from_utf8(whole.clone())
        .unwrap()
        .replace("\"version\":1", "\"version\":2");
    let rows: [(&[u8], &str); 8] = [
        (b"", "empty"),
        (&whole[..whole.len() / 2], "EOF"),
        (&whole[..whole.len() - 1], "EOF"),
        (b"\0\0\0\0\0\0\0\0", "expected value"),
        (newer.as_bytes(), "newer version"),
        (b"{\"version\":1}", "missing field"),
        (b"[1,2,3]", "trailing"),
        (b"#!/bin/sh\necho not a state\n", "expected value"),
    ];
    for (number, (text, expected)) in rows.into_iter().enumerate() {
        put(folder.path(), text);
        let now = at().after(Duration::from_secs(number as u64));
        let Found::Unreadable { why, kept_as } = directory.read(now) else {
            panic!("{expected}: it was read")
        };
        assert!(
            why.contains(expected) && !why.contains('\n'),
            "{why:?} lacks {expected:?}"
        );
        assert_eq!(fs::read(kept_as.unwrap()).unwrap(), text);
        assert!(matches!(directory.read(now), Found::Nothing));
    }
    assert_eq!(names(folder.path()).len(), 9, "{:?}", names(folder.path()));
}

#[test]
fn any_byte_that_is_changed_is_read_or_refused_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    directory.write(&saved("a-vm")).unwrap();
    let whole = fs::read(folder.path().join("state.json")).unwrap();
    for place in 0..whole.len() {
        let mut text = whole.clone();
        text[place] ^= 0x15;
        put(folder.path(), &text);
        if let Found::Unreadable { kept_as, .. } = directory.read(at()) {
            assert_eq!(fs::read(kept_as.unwrap()).unwrap(), text);
        }
    }
}

#[test]
fn a_failed_write_leaves_the_old_file_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    directory.write(&saved("first")).unwrap();
    // Where the draft belongs, there is something that no file can be made of.
    fs::create_dir(folder.path().join("state.json.new")).unwrap();
    assert!(directory.write(&saved("second")).is_err());
    let Found::State(read) = directory.read(at()) else {
        panic!("the old file is gone")
    };
    assert_eq!(read.vm_id.as_deref(), Some("first"));
}

#[test]
fn what_is_there_and_no_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    fs::create_dir(folder.path().join("state.json")).unwrap();
    let Found::Unreadable { kept_as, .. } = directory.read(at()) else {
        panic!("it was read")
    };
    assert!(kept_as.unwrap().is_dir());
    directory.write(&saved("a-vm")).unwrap();
}

#[test]
fn a_directory_that_was_removed_and_made_anew_has_one_exporter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut first = Directory::open(&path).unwrap();
    fs::remove_dir_all(&path).unwrap();
    first.write(&saved("first")).unwrap();
    Directory::open(&path).unwrap_err();
    // Another exporter is faster.
    fs::remove_dir_all(&path).unwrap();
    let mut second = Directory::open(&path).unwrap();
    second.write(&saved("second")).unwrap();
    let error = first.write(&saved("first")).unwrap_err().to_string();
    assert!(error.contains("in use by another exporter"), "{error}");
    let Found::State(read) = second.read(at()) else {
        panic!("it is gone")
    };
    assert_eq!(read.vm_id.as_deref(), Some("second"));
    drop(second);
    first.write(&saved("first")).unwrap();
    Directory::open(&path).unwrap_err();
}

#[test]
fn one_directory_has_one_exporter() {
    let folder = tempfile::tempdir().unwrap();
    let first = Directory::open(folder.path()).unwrap();
    let error = Directory::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("in use by another exporter"), "{error}");
    drop(first);
    Directory::open(folder.path()).unwrap();
}

/// An exporter of ours in its own process, on a state directory.
struct Running {
    process: Process,
    address: String,
}

impl Running {
    fn arguments(imds: &FakeImds, directory: &Path) -> Vec<String> {
        vec![
            format!("--imds.url={}", imds.base()),
            format!("--state.directory={}", directory.display()),
            "--web.listen-address=127.0.0.1:0".to_owned(),
            "--imds.poll-interval=200ms".to_owned(),
        ]
    }

    async fn start(imds: &FakeImds, directory: &Path) -> Self {
        Self::of(Process::start(Self::arguments(imds, directory))).await
    }

    async fn of(mut process: Process) -> Self {
        let address = process.address().await;
        Self { process, address }
    }

    /// Scrapes until it is as `wanted`.
    async fn until(&self, what: &str, wanted: impl Fn(&Metrics) -> bool) -> Metrics {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metrics = Metrics(page(&self.address, "/metrics").await.unwrap_or_default());
            if wanted(&metrics) {
                return metrics;
            }
            let is_over = tokio::time::Instant::now() > deadline;
            assert!(
                !is_over,
                "it never came to be that {what}:\n{}\n{}",
                metrics.0,
                self.process.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn first_seen(&self) -> f64 {
        let metrics = self
            .until("the event is there", |it| it.value(FIRST_SEEN).is_some())
            .await;
        metrics.value(FIRST_SEEN).unwrap()
    }
}

#[tokio::test]
async fn a_second_exporter_on_one_directory_ends_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let first = Running::start(&imds, folder.path()).await;
    first.first_seen().await;
    let second = Process::start(Running::arguments(&imds, folder.path()))
        .end()
        .await;
    assert_eq!(second.code, Some(1), "{second:?}");
    let last = second.log.lines().last().unwrap();
    for part in [
        "error: --state.directory",
        "in use by another exporter",
        "its own directory",
    ] {
        assert!(last.contains(part), "{last}");
    }
    first.until("the first goes on", Metrics::is_up).await;
}

#[tokio::test]
async fn what_was_known_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let killed = Running::start(&imds, folder.path()).await;
    let first_seen = killed.first_seen().await;
    killed.process.signal("KILL");
    assert_eq!(killed.process.end().await.code, None);
    let mut again = Running::start(&imds, folder.path()).await;
    again
        .process
        .says("going on where an earlier process stopped")
        .await;
    let metrics = again.until("it polls", Metrics::is_up).await;
    assert!(
        (metrics.value(FIRST_SEEN).unwrap() - first_seen).abs() < 1e-6,
        "{}",
        metrics.0
    );
    let observed = "azure_scheduled_events_observed_total{event_type=\"Freeze\",scope=\"self\"}";
    assert_eq!(metrics.value(observed), Some(0.0), "it is not new");
}

#[tokio::test]
async fn a_file_of_another_vm_is_set_aside_and_none_of_its_events_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    Directory::open(folder.path())
        .unwrap()
        .write(&saved("another-vm"))
        .unwrap();
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":1,"Events":[]}"#)).await;
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.process.says("written on another VM").await;
    let metrics = exporter.until("it polls", Metrics::is_up).await;
    assert!(metrics.value(FIRST_SEEN).is_none(), "{}", metrics.0);
    let metrics = exporter.until("still", Metrics::is_up).await;
    assert!(
        !metrics.0.contains("azure_scheduled_event_info{"),
        "{}",
        metrics.0
    );
    let aside = wait_for(folder.path(), "state.json.foreign-").await;
    assert!(fs::read_to_string(aside).unwrap().contains("another-vm"));
}

#[tokio::test]
async fn a_torn_file_costs_its_content_and_not_the_start() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), b"{\"version\":1,\"ev");
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter
        .process
        .says("the state file cannot be read: starting without it")
        .await;
    exporter.first_seen().await;
    let aside = wait_for(folder.path(), "state.json.unreadable-").await;
    assert_eq!(fs::read(aside).unwrap(), b"{\"version\":1,\"ev");
    wait_for(folder.path(), "state.json").await;
}

/// The member of the state file, as text.
fn member(folder: &Path, name: &str) -> String {
    let text = fs::read(folder.join("state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    state[name].to_string()
}

#[tokio::test]
async fn the_heartbeat_on_disk_goes_on_while_imds_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let exporter = Running::start(&imds, folder.path()).await;
    exporter.first_seen().await;
    imds.now(Reply::silence());
    let asked = imds.event_requests() + 1;
    imds.until_requests(asked).await;
    let document_at = member(folder.path(), "document_at");
    for beat in 0..3 {
        let before = member(folder.path(), "heartbeat_at");
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while member(folder.path(), "heartbeat_at") == before {
            let is_over = tokio::time::Instant::now() > deadline;
            assert!(!is_over, "beat {beat} does not come");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(
        imds.event_requests(),
        asked,
        "it is one request all the time"
    );
    assert_eq!(member(folder.path(), "document_at"), document_at);
}

#[tokio::test]
async fn a_state_in_which_no_document_was_ever_read_gives_no_all_clear() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(Reply::error("500 Internal Server Error", "oops")).await;
    let killed = Running::start(&imds, folder.path()).await;
    killed
        .until("a failure is counted", |it| it.failures("status_5xx") > 0.0)
        .await;
    wait_for(folder.path(), "state.json").await;
    killed.process.signal("KILL");
    killed.process.end().await;
    let mut again = Running::start(&imds, folder.path()).await;
    again
        .process
        .says("going on where an earlier process stopped")
        .await;
    let metrics = again
        .until("a failure is counted", |it| it.failures("status_5xx") > 0.0)
        .await;
    let pending = "azure_scheduled_events_pending";
    assert!(
        !metrics.0.contains(&format!("{pending}{{")),
        "{}",
        metrics.0
    );
}

#[tokio::test]
async fn an_identity_without_an_id_makes_no_foreign_state() {
    let folder = tempfile::tempdir().unwrap();
    Directory::open(folder.path())
        .unwrap()
        .write(&saved("a-vm"))
        .unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    imds.identity(Reply::ok(r#"{"name":"web_0"}"#));
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.process.says("this VM is known").await;
    let first_seen = exporter.first_seen().await;
    assert!((first_seen - at().as_unix_seconds()).abs() < 1e-6);
    assert_eq!(member(folder.path(), "vm_id"), r#""a-vm""#);
}

#[tokio::test]
async fn after_a_foreign_state_was_thrown_away_the_document_is_asked_for_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    Directory::open(folder.path())
        .unwrap()
        .write(&saved("another-vm"))
        .unwrap();
    let tagged = Reply::http(
        "200 OK",
        &[("ETag", "\"2\"")],
        r#"{"DocumentIncarnation":2,"Events":[]}"#,
    );
    let imds = FakeImds::standing(tagged).await;
    imds.identity(Reply::error("503 Service Unavailable", "not yet"));
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.until("it polls", Metrics::is_up).await;
    imds.now(Reply::http("304 Not Modified", &[("ETag", "\"2\"")], ""));
    imds.identity(Reply::ok(r#"{"name":"web_0","vmId":"this-vm"}"#));
    exporter.process.says("written on another VM").await;
    let asked = imds.event_requests();
    imds.until_requests(asked + 1).await;
    let requests = imds.requests();
    let polls: Vec<_> = requests
        .iter()
        .filter(|request| request.target.contains("/metadata/scheduledevents"))
        .collect();
    let last = polls.last().unwrap();
    assert_eq!(last.header("if-none-match"), None);
    assert!(polls[1].header("if-none-match").is_some());
}

async fn wait_for(folder: &Path, start: &str) -> PathBuf {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let names = if folder.is_dir() {
            names(folder)
        } else {
            Vec::new()
        };
        let exact = names.iter().find(|name| *name == start);
        if let Some(name) = exact.or_else(|| {
            names
                .iter()
                .find(|name| name.starts_with(start) && start.ends_with('-'))
        }) {
            return folder.join(name);
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "no {start} in {names:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_directory_that_is_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let exporter = Running::start(&imds, &directory).await;
    let first_seen = exporter.first_seen().await;
    wait_for(&directory, "state.json").await;
    fs::remove_dir_all(&directory).unwrap();
    wait_for(&directory, "state.json").await;
    assert!((exporter.first_seen().await - first_seen).abs() < 1e-6);
}

#[tokio::test]
async fn a_directory_that_became_a_file_is_counted_and_used_again_later() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let mut exporter = Running::start(&imds, &directory).await;
    exporter.first_seen().await;
    wait_for(&directory, "state.json").await;
    fs::rename(&directory, folder.path().join("away")).unwrap();
    fs::File::create(&directory).unwrap();
    fails_and_goes_on(&mut exporter, &imds).await;
    fs::remove_file(&directory).unwrap();
    recovers(&mut exporter, &directory).await;
}

/// Writes fail: it is counted, said once, and a change is still seen and shown.
async fn fails_and_goes_on(exporter: &mut Running, imds: &FakeImds) {
    exporter
        .process
        .says("the state cannot be written: going on in memory")
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
    let said = exporter
        .process
        .log()
        .matches("the state cannot be written")
        .count();
    assert_eq!(said, 1, "{}", exporter.process.log());
}

async fn recovers(exporter: &mut Running, directory: &Path) {
    exporter.process.says("the state is written again").await;
    let text = fs::read_to_string(wait_for(directory, "state.json").await).unwrap();
    assert!(text.contains("Started"), "{text}");
}

/// An exporter in a mount namespace of its own, with a small file system as its state directory.
async fn on_a_small_disk(imds: &FakeImds, folder: &TempDir, mode: &str) -> (Running, PathBuf) {
    let directory = folder.path().join("disk");
    fs::create_dir(&directory).unwrap();
    let mount = format!("mount -t tmpfs -o size=256k,{mode} tmpfs \"$0\"");
    let exporter = in_its_own_mounts(imds, &directory, &mount).await;
    // The directory as the process sees it.
    let seen = PathBuf::from(format!(
        "/proc/{}/root{}",
        exporter.process.pid(),
        directory.display()
    ));
    (exporter, seen)
}

/// An exporter in a mount namespace of its own, where something was mounted on its state directory (`$0`).
async fn in_its_own_mounts(imds: &FakeImds, directory: &Path, mount: &str) -> Running {
    let script = format!("{mount} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .arg(directory)
        .arg(PROGRAM);
    command.args(Running::arguments(imds, directory));
    let process = Process::start_as(&mut command);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !process.log().contains("listening") {
        let is_refused = process.log().contains("unshare:") || process.log().contains("mount:");
        assert!(
            !is_refused && tokio::time::Instant::now() < deadline,
            "this test mounts a small file system: run it as root with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN)\n{}",
            process.log()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Running::of(process).await
}

#[tokio::test]
async fn a_full_disk_is_counted_and_the_exporter_goes_on_in_memory_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let (mut exporter, directory) = on_a_small_disk(&imds, &folder, "rw").await;
    exporter.first_seen().await;
    wait_for(&directory, "state.json").await;
    let filler = directory.join("filler");
    // The exporter's own drafts come and go meanwhile: what they leave is taken as well.
    let mut file = fs::File::create(&filler).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while exporter
        .process
        .log()
        .matches("the state cannot be written")
        .count()
        == 0
    {
        std::io::Write::write_all(&mut file, &[0; 512]).ok();
        assert!(
            tokio::time::Instant::now() < deadline,
            "the disk does not get full"
        );
        tokio::task::yield_now().await;
    }
    fails_and_goes_on(&mut exporter, &imds).await;
    drop(file);
    fs::remove_file(&filler).unwrap();
    recovers(&mut exporter, &directory).await;
}

#[tokio::test]
async fn a_state_on_a_disk_that_is_read_only_at_the_start_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    imds.identity(Reply::ok(r#"{"name":"web_0","vmId":"a-vm"}"#));
    let disk = folder.path().join("disk");
    let mut directory = Directory::open(&disk).unwrap();
    directory.write(&saved("a-vm")).unwrap();
    drop(directory);
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
    let exporter = in_its_own_mounts(&imds, &disk, mount).await;
    let first_seen = exporter.first_seen().await;
    assert!((first_seen - at().as_unix_seconds()).abs() < 1e-6);
}

/// Runs `mount` or `umount` where the process sees it.
fn in_its_mounts(exporter: &Running, arguments: &[&str], directory: &Path) {
    let mut command = Command::new("nsenter");
    command.args(["--target", &exporter.process.pid().to_string(), "--mount"]);
    let done = command.args(arguments).arg(directory).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

#[tokio::test]
async fn a_disk_that_turns_read_only_is_counted_and_used_again_later() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let (mut exporter, directory) = on_a_small_disk(&imds, &folder, "rw").await;
    exporter.first_seen().await;
    wait_for(&directory, "state.json").await;
    let disk = folder.path().join("disk");
    // A disk with an open file (the lock) cannot be made read-only; one that is can be put over it.
    in_its_mounts(
        &exporter,
        &["mount", "-t", "tmpfs", "-o", "ro", "tmpfs"],
        &disk,
    );
    fails_and_goes_on(&mut exporter, &imds).await;
    in_its_mounts(&exporter, &["umount"], &disk);
    recovers(&mut exporter, &directory).await;
}

#[tokio::test]
async fn a_disk_that_is_read_only_at_the_start_is_used_as_soon_as_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let (mut exporter, directory) = on_a_small_disk(&imds, &folder, "ro").await;
    exporter.first_seen().await;
    fails_and_goes_on(&mut exporter, &imds).await;
    in_its_mounts(
        &exporter,
        &["mount", "-o", "remount,rw"],
        &folder.path().join("disk"),
    );
    recovers(&mut exporter, &directory).await;
}
