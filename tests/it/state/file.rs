//! The state file is whole or set aside, and its directory has one exporter.

use std::{fs, time::Duration};

use azure_scheduled_events_exporter::state::{Directory, Found};

use super::{at, names, put, saved};

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
