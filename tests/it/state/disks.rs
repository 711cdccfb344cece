//! Whatever the disk does, it is counted and said once, the exporter goes on in memory, and writes again when it can.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use azure_scheduled_events_exporter::state::Directory;
use tempfile::TempDir;

use super::{Running, at, freeze, saved, wait_for};
use crate::support::{
    FakeImds, PATIENCE, Reply,
    process::{PROGRAM, Process},
};

const FAILURES: &str = "azure_scheduled_events_state_write_failures_total";

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
