//! The size of the state file, and what may be in its place.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    sync::Arc,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    engine::SavedState,
    event::{EventId, EventScope},
    lifecycle::{End, Outcome},
    state::{Directory, Found, MAX_BYTES},
};

use super::{Running, at, freeze, names, saved, wait_for};
use crate::support::{FakeImds, exporter::Metrics};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A state with events of a mebibyte each: scope and, for an ended one, the seconds since its end.
fn large(events: &[(EventScope, Option<u64>)]) -> SavedState {
    let mut state = saved("a-vm");
    let model = Arc::clone(&state.events[0]);
    let event = |(number, (scope, ended))| {
        let mut tracked = (*model).clone();
        tracked.event.id = EventId::new(&format!("{number:04}"));
        tracked.event.description = Some("x".repeat(1 << 20).into());
        tracked.scope = scope;
        tracked.end = Option::map(ended, |seconds| End {
            at: at().before(Duration::from_secs(seconds)),
            outcome: Outcome::Completed,
        });
        Arc::new(tracked)
    };
    state.events = events.iter().copied().enumerate().map(event).collect();
    state
}

#[test]
fn a_state_that_is_too_large_leaves_out_the_oldest_ended_events_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    let mut events: Vec<_> = (0..20)
        .map(|it| (EventScope::Own, Some(100 - it)))
        .collect();
    events.extend([(EventScope::Other, None); 3]);
    events.extend([(EventScope::Own, None); 3]);
    directory.write(&large(&events)).unwrap();
    let length = fs::metadata(folder.path().join("state.json"))
        .unwrap()
        .len();
    assert!(length <= MAX_BYTES as u64, "{length}");
    let Found::State(read) = directory.read(at()) else {
        panic!("no state")
    };
    let ids: Vec<_> = read.events.iter().map(|it| it.event.id.as_str()).collect();
    let expected: Vec<_> = (11..26).map(|number| format!("{number:04}")).collect();
    assert_eq!(ids, expected, "nine of twenty ended events");
    events.extend([(EventScope::Own, None); 12]);
    directory.write(&large(&events)).unwrap();
    let Found::State(read) = directory.read(at()) else {
        panic!("no state")
    };
    assert_eq!(read.events.len(), 15);
    assert!(
        read.events
            .iter()
            .all(|it| it.scope == EventScope::Own && it.is_pending())
    );
}

#[test]
fn a_sparse_file_of_two_gibibytes_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = fs::File::create(folder.path().join("state.json")).unwrap();
    sparse.set_len(2 << 30).unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    let Found::Unreadable { why } = directory.read(at()) else {
        panic!("not unreadable")
    };
    assert_eq!(why, "larger than 16777216 bytes");
    directory.write(&saved("a-vm")).unwrap();
    let kept_as = folder.path().join("state.json.unreadable-1794906000");
    assert_eq!(fs::metadata(kept_as).unwrap().len(), 2 << 30);
}

#[tokio::test]
async fn files_are_for_the_exporter_alone_and_no_symbolic_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    Directory::open(&other)
        .unwrap()
        .write(&saved("a-vm"))
        .unwrap();
    let content = fs::read(other.join("state.json")).unwrap();
    let directory = folder.path().join("new").join("state");
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let exporter = Running::start(&imds, &directory).await;
    wait_for(&directory, "state.json").await;
    assert_eq!(mode(&directory), 0o700);
    for name in ["lock", "state.json"] {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
    }
    exporter.process.signal("KILL");
    exporter.process.end().await;
    fs::remove_file(directory.join("state.json")).unwrap();
    for name in ["state.json", "state.json.new"] {
        symlink(other.join("state.json"), directory.join(name)).unwrap();
    }
    let mut exporter = Running::start(&imds, &directory).await;
    exporter.process.says("state file unreadable").await;
    exporter.until("it polls", Metrics::is_up).await;
    wait_for(&directory, "state.json.unread-").await;
    wait_for(&directory, "state.json").await;
    assert_eq!(fs::read(other.join("state.json")).unwrap(), content);
    assert!(
        directory
            .join("state.json")
            .symlink_metadata()
            .unwrap()
            .is_file()
    );
    assert_eq!(names(&other), ["lock", "state.json"]);
}

#[test]
fn a_symbolic_link_or_a_fifo_in_place_of_the_lock_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    symlink(folder.path().join("elsewhere"), &lock).unwrap();
    Directory::open(folder.path()).unwrap_err();
    assert_eq!(names(folder.path()), ["lock"]);
    fs::remove_file(&lock).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&lock)
            .status()
            .unwrap()
            .success()
    );
    Directory::open(folder.path()).unwrap_err();
}
