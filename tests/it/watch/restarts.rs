//! Restarts of the exporter.

use super::{Exporter, Watch, scheduled, started};
use crate::support::{FakeImds, RefusingPort, Reply, process, process::Process};

#[tokio::test]
async fn a_restart_of_the_exporter_repeats_nothing_and_misses_nothing() {
    let state = tempfile::tempdir().unwrap();
    let flag = format!("--state.directory={}", state.path().display());
    let exporter = Exporter::start_with([scheduled()], &[&flag]).await;
    let mut watch = exporter.watch(&[]);
    watch.prints(&["pending"]).await;
    // The event starts while no exporter runs, and ends before the next request of `watch` or after it.
    let exporter = exporter.restart(&mut watch, &[&flag], [started()]).await;
    watch.process.says("is read again").await;
    watch.prints(&["pending", "started"]).await;
    exporter.now([]);
    watch.prints(&["pending", "started", "ended"]).await;
    let log = watch.process.log();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.lines().next().unwrap().contains("cannot be read"));
}

#[tokio::test]
async fn what_an_exporter_without_its_state_announces_again_is_printed_again_with_a_warning() {
    let exporter = Exporter::start([scheduled()]).await;
    let mut watch = exporter.watch(&[]);
    watch.prints(&["pending"]).await;
    let exporter = exporter.restart(&mut watch, &[], [started()]).await;
    watch.prints(&["pending", "announced", "started"]).await;
    watch.process.says("lines may be repeated").await;
    exporter.now([]);
    let lines = ["pending", "announced", "started", "ended"];
    watch.prints(&lines).await;
    assert_eq!(watch.logged("level=warn"), 2, "{}", watch.process.log());
}

#[tokio::test]
async fn an_exporter_that_starts_later_is_waited_for() {
    let imds = FakeImds::standing(Reply::ok("")).await;
    let refusing = RefusingPort::reserve();
    let address = refusing.base().trim_start_matches("http://").to_owned();
    let mut watch = Watch::start(&[&format!("--url={}", refusing.base())]);
    watch.process.says("cannot be read").await;
    drop(refusing);
    let listen = format!("--web.listen-address={address}");
    let _exporter = Process::start_as(process::exporter(&imds).arg(listen));
    watch.process.says("is read again").await;
    // It has no document yet: nothing is known, and so nothing has begun.
    imds.now(super::document([scheduled()]));
    watch.prints(&["pending"]).await;
    assert_eq!(watch.logged("level=warn"), 1, "{}", watch.process.log());
}
