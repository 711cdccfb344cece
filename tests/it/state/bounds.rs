//! The size of the state file, and what may be in its place.

use std::{fs, os::unix::fs::symlink, process::Command, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    engine::SavedState,
    event::{EventId, EventScope},
    journal::Journal,
    lifecycle::{End, Outcome},
    state::{Directory, Found, MAX_BYTES},
};

use super::{at, names, saved};

/// A state with events of a mebibyte each: scope and, for an ended one, the seconds since its end.
fn large(events: &[(EventScope, Option<u64>)]) -> SavedState {
    let mut state = saved("a-vm");
    let model = Arc::clone(&state.events[0]);
    let event = |(number, (scope, ended))| {
        let mut tracked = (*model).clone();
        tracked.shown.id = EventId::new(&format!("{number:04}"));
        tracked.shown.description = Some("x".repeat(1 << 20).into());
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
    directory
        .write(&large(&events), &Journal::default())
        .unwrap();
    let length = fs::metadata(folder.path().join("state.json"))
        .unwrap()
        .len();
    assert!(length <= MAX_BYTES as u64, "{length}");
    let Found::State(read) = directory.read(at()) else {
        panic!("no state")
    };
    let ids: Vec<_> = read.events.iter().map(|it| it.shown.id.as_str()).collect();
    let expected: Vec<_> = (11..26).map(|number| format!("{number:04}")).collect();
    assert_eq!(ids, expected, "nine of twenty ended events");
    events.extend([(EventScope::Own, None); 12]);
    directory
        .write(&large(&events), &Journal::default())
        .unwrap();
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
