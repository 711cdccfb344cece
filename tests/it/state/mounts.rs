//! State directories on full and read-only file systems, and a control group, mounted in a mount namespace of the
//! exporter. Needs root.

use std::{
    fs,
    io::Write as _,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use super::{
    Running, at,
    disks::{fails_and_continues, recovers},
    freeze, put_state, saved, wait_for,
};
use crate::support::{
    DEADLINE, FakeImds, Reply,
    events::document,
    exporter::Metrics,
    process::{PROGRAM, Process},
};

/// An exporter in its own mount namespace, with a small file system as its state directory.
async fn on_a_small_disk(imds: &FakeImds, folder: &TempDir, mode: &str) -> (Running, PathBuf) {
    let directory = folder.path().join("disk");
    fs::create_dir(&directory).unwrap();
    let mount = format!("mount -t tmpfs -o size=256k,{mode} tmpfs \"$0\"");
    let exporter = in_mount_namespace(imds, &directory, &mount).await;
    // The directory in the namespace of the process.
    let seen = PathBuf::from(format!(
        "/proc/{}/root{}",
        exporter.process.pid(),
        directory.display()
    ));
    (exporter, seen)
}

/// An exporter in its own mount namespace; `mount` is run there with the state directory as `$0`.
async fn in_mount_namespace(imds: &FakeImds, directory: &Path, mount: &str) -> Running {
    let script = format!("{mount} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .arg(directory)
        .arg(PROGRAM);
    command.args(Running::arguments(imds, directory));
    let process = Process::start_as(&mut command);
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !process.log().contains("listening") {
        let is_refused = process.log().contains("unshare:") || process.log().contains("mount:");
        assert!(
            !is_refused && tokio::time::Instant::now() < deadline,
            "this test mounts a file system: run it as root with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN)\n{}",
            process.log()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Running::of(process).await
}

#[tokio::test]
async fn a_full_disk_is_a_write_failure_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let (mut exporter, directory) = on_a_small_disk(&imds, &folder, "rw").await;
    exporter.first_seen().await;
    wait_for(&directory, "state.json").await;
    let filler = directory.join("filler");
    // The exporter creates and removes its drafts meanwhile, so the space they free must be filled too.
    let mut file = fs::File::create(&filler).unwrap();
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while exporter.process.log().matches("state write failed").count() == 0 {
        file.write_all(&[0; 512]).ok();
        assert!(
            tokio::time::Instant::now() < deadline,
            "the disk is not full"
        );
        tokio::task::yield_now().await;
    }
    fails_and_continues(&mut exporter, &imds).await;
    drop(file);
    fs::remove_file(&filler).unwrap();
    recovers(&mut exporter, &directory).await;
}

#[tokio::test]
async fn a_state_on_a_read_only_disk_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    imds.identity(Reply::ok(r#"{"name":"web_0","vmId":"a-vm"}"#));
    let disk = folder.path().join("disk");
    put_state(&disk, &saved("a-vm"));
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
    let exporter = in_mount_namespace(&imds, &disk, mount).await;
    let first_seen = exporter.first_seen().await;
    assert!((first_seen - at().as_unix_seconds()).abs() < 1e-6);
}

#[tokio::test]
async fn a_disk_that_is_read_only_at_the_start_is_used_once_it_is_writable() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let (mut exporter, directory) = on_a_small_disk(&imds, &folder, "ro").await;
    exporter.first_seen().await;
    fails_and_continues(&mut exporter, &imds).await;
    let mut command = Command::new("nsenter");
    command.args(["--target", &exporter.process.pid().to_string(), "--mount"]);
    command.args(["mount", "-o", "remount,rw"]);
    let done = command.arg(folder.path().join("disk")).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    recovers(&mut exporter, &directory).await;
}

/// An exporter in a control group of its own.
pub(super) struct Grouped {
    pub(super) exporter: Running,
    /// Mounted until the group is removed.
    _groups: fs::File,
    group: String,
}

impl Grouped {
    pub(super) async fn start(imds: &FakeImds, directory: &Path) -> Self {
        let mount = r#"groups=$0.groups; mkdir "$groups" && mount -t cgroup2 cgroup2 "$groups" &&
            mkdir "$groups/frozen-$$" && echo $$ >"$groups/frozen-$$/cgroup.procs""#;
        let exporter = in_mount_namespace(imds, directory, mount).await;
        let pid = exporter.process.pid();
        let groups = format!("/proc/{pid}/root{}.groups", directory.display());
        let groups = fs::File::open(groups).unwrap();
        Self {
            exporter,
            group: format!("/proc/self/fd/{}/frozen-{pid}", groups.as_raw_fd()),
            _groups: groups,
        }
    }

    pub(super) async fn freeze(&self, length: Duration) {
        self.set_frozen(b"1");
        tokio::time::sleep(length).await;
        self.set_frozen(b"0");
    }

    fn set_frozen(&self, value: &[u8]) {
        let mut options = fs::File::options();
        let file = options
            .write(true)
            .open(format!("{}/cgroup.freeze", self.group));
        file.unwrap().write_all(value).unwrap();
    }

    pub(super) async fn stop(self) {
        self.exporter.process.signal("TERM");
        assert_eq!(self.exporter.process.end().await.code, Some(0));
        fs::remove_dir(self.group).unwrap();
    }
}

/// As in the rehearsal of `docs/simulator.md`.
#[tokio::test]
async fn a_frozen_control_group_is_measured_as_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Started")).await;
    let mut grouped = Grouped::start(&imds, &folder.path().join("state")).await;
    grouped.exporter.process.says("transition=started").await;
    // Three periods of what detects pauses.
    imds.until_requests(imds.event_requests() + 8).await;
    grouped.freeze(Duration::from_secs(2)).await;
    grouped
        .exporter
        .process
        .says("transition=interrupted")
        .await;
    grouped.stop().await;
}

/// The pool file is on a file system whose server, a daemon of autofs, does not answer.
#[tokio::test]
async fn a_pool_file_that_hangs_stops_neither_polls_nor_scrapes_and_needs_no_more_threads() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let mount = r#"mkfifo "$0.daemon" && exec 5<>"$0.daemon" && mkdir "$0.hyperv" &&
        setsid -w mount -it autofs -o fd=5,minproto=5,maxproto=5,indirect none "$0.hyperv" &&
        set -- "$@" "--vm.kvp-pool-file=$0.hyperv/pool""#;
    let exporter = in_mount_namespace(&imds, &folder.path().join("state"), mount).await;
    exporter.first_seen().await;
    let threads = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", exporter.process.pid()));
        tasks.unwrap().count()
    };
    let before = threads();
    for incarnation in 3..8 {
        imds.now(document(incarnation, []));
        let is_shown = |it: &Metrics| {
            it.value("azure_scheduled_events_document_incarnation") == Some(incarnation as f64)
        };
        exporter.until("the document is shown", is_shown).await;
    }
    imds.until_requests(imds.event_requests() + 5).await;
    assert_eq!(threads(), before);
    exporter.process.signal("TERM");
    assert_eq!(exporter.process.end().await.code, Some(0));
}
