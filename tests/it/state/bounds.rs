//! The size of the state file, and what may be in its place.

use std::{fs, os::unix::fs::symlink, process::Command, time::Duration};

use azure_scheduled_events_exporter::{
    document,
    engine::SavedState,
    journal::Journal,
    lifecycle::Tracker,
    state::{Directory, Found},
    time::Moment,
};
use serde_json::{Value, json};

use super::{at, names, saved};

/// A document of almost 4 MiB. While it has an unreadable entry, missing events do not end.
fn largest_document(number: u64, is_complete: bool) -> document::Document {
    let names: Vec<_> = (0..30).map(|name| format!("{name:0>250}")).collect();
    let event = |id| json!({"EventId": format!("{number}-{id}"), "Resources": names});
    let mut events: Vec<_> = (0..500).map(event).collect();
    events.extend((!is_complete).then_some(Value::Null));
    let body = json!({"DocumentIncarnation": number, "Events": events}).to_string();
    assert!(body.len() > (3 << 20) && body.len() < 4 << 20);
    document::parse(body.as_bytes()).unwrap().0
}

#[test]
fn the_largest_state_of_present_missing_and_ended_events_is_written_and_read_back() {
    let mut tracker = Tracker::default();
    let now = |seconds| Moment::new(at(), Duration::from_secs(seconds));
    for (number, is_complete) in (0..).zip([true, true, true, true, false, false, false]) {
        let document = largest_document(number, is_complete);
        tracker.observe(&document, Some("web_0"), now(number));
    }
    let state = SavedState {
        events: tracker.events(now(7)),
        ..saved("a-vm")
    };
    let ended = state.events.iter().filter(|it| !it.is_pending()).count();
    assert!(ended > 900 && state.events.len() - ended > 1_400, "{ended}");
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    directory.write(&state, &Journal::default()).unwrap();
    let length = fs::metadata(folder.path().join("state.json"))
        .unwrap()
        .len();
    assert!(length > 16 << 20, "{length}");
    let Found::State(read) = directory.read(at()) else {
        panic!("no state")
    };
    assert!(
        read.events.len() == state.events.len(),
        "{}",
        read.events.len()
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
