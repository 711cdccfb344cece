//! Reading and writing the state file, and the lock of its directory.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::Duration,
};

use azure_scheduled_events_exporter::{
    journal::Journal,
    state::{Directory, Found},
};
use serde_json::{Value, json};

use super::{at, names, put, saved};
use crate::support::log;

fn write(directory: &mut Directory, vm_id: &str) -> io::Result<()> {
    directory.write(&saved(vm_id), &Journal::default())
}

#[test]
fn a_written_state_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    assert!(matches!(directory.read(at()), Found::Nothing));
    let saved = saved("a-vm");
    directory.write(&saved, &Journal::default()).unwrap();
    let Found::State(read) = directory.read(at()) else {
        panic!("no state")
    };
    assert_eq!(*read, saved);
    assert_eq!(names(folder.path()), ["lock", "state.json"]);
    for name in ["lock", "state.json"] {
        let file = folder.path().join(name).metadata().unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn an_invalid_file_is_kept_under_another_name_by_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    write(&mut directory, "a-vm").unwrap();
    let whole = fs::read(folder.path().join("state.json")).unwrap();
    let newer = String::from_utf8(whole.clone())
        .unwrap()
        .replace("\"version\":3", "\"version\":4");
    let older = newer.replace("\"version\":4", "\"version\":2");
    let rows: [(&[u8], &str); 9] = [
        (b"", "empty"),
        (&whole[..whole.len() / 2], "EOF"),
        (&whole[..whole.len() - 1], "EOF"),
        (b"\0\0\0\0\0\0\0\0", "expected value"),
        (newer.as_bytes(), "newer version"),
        (older.as_bytes(), "older version"),
        (b"{\"version\":3}", "missing field"),
        (b"[1,2,3]", "trailing"),
        (b"#!/bin/sh\necho not a state\n", "expected value"),
    ];
    for (number, (text, expected)) in rows.into_iter().enumerate() {
        put(folder.path(), text);
        let now = at().after(Duration::from_secs(number as u64));
        let Found::Unreadable(why) = directory.read(now) else {
            panic!("{expected}: not unreadable")
        };
        assert!(
            why.contains(expected) && !why.contains('\n'),
            "{why:?} lacks {expected:?}"
        );
        assert_eq!(fs::read(folder.path().join("state.json")).unwrap(), text);
        write(&mut directory, "a-vm").unwrap();
        let kept_as = format!("state.json.unreadable-{}", 1_794_906_000 + number);
        assert_eq!(fs::read(folder.path().join(kept_as)).unwrap(), text);
        assert!(matches!(directory.read(now), Found::State(_)));
    }
    assert_eq!(names(folder.path()).len(), 11, "{:?}", names(folder.path()));
}

/// The paths of all members that are null, false, zero or empty.
fn empty_members(value: &Value, path: &str, found: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => return,
    };
    for (name, member) in members {
        let path = format!("{path}/{name}");
        let is_empty = [json!(null), json!(false), json!(0), json!([])].contains(member);
        if is_empty && value.is_object() {
            found.push(path.clone());
        }
        empty_members(member, &path, found);
    }
}

#[test]
fn a_file_that_lacks_a_counter_a_flag_or_a_list_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    let saved = saved("a-vm");
    directory.write(&saved, &Journal::default()).unwrap();
    let whole = fs::read(folder.path().join("state.json")).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    let mut paths = Vec::new();
    empty_members(&whole, "", &mut paths);
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let mut file = whole.clone();
        let parent = file.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(name).unwrap();
        put(folder.path(), file.to_string().as_bytes());
        let Found::State(read) = directory.read(at()) else {
            panic!("{path} is missing: no state")
        };
        assert_eq!(*read, saved, "{path}");
    }
}

/// A directory in place of the file makes reading fail for any user, root included.
#[test]
fn an_io_error_leaves_the_file_in_place_until_the_first_write() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    fs::create_dir(folder.path().join("state.json")).unwrap();
    let found = directory.read(at());
    assert!(matches!(found, Found::Unavailable(_)), "{found:?}");
    assert_eq!(names(folder.path()), ["lock", "state.json"]);
    write(&mut directory, "a-vm").unwrap();
    assert!(folder.path().join("state.json.unread-1794906000").is_dir());
    assert!(matches!(directory.read(at()), Found::State(_)));
}

#[test]
fn a_temporary_io_error_does_not_set_the_file_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let mut directory = Directory::open(folder.path()).unwrap();
    write(&mut directory, "a-vm").unwrap();
    let good = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    directory.read(at());
    fs::remove_dir(&path).unwrap();
    put(folder.path(), &good);
    assert!(matches!(directory.read(at()), Found::State(_)));
    write(&mut directory, "a-vm").unwrap();
    assert_eq!(names(folder.path()), ["lock", "state.json"]);
}

#[test]
fn an_unread_file_that_cannot_be_renamed_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    fs::create_dir(folder.path().join("state.json")).unwrap();
    directory.read(at());
    // A directory cannot replace a file.
    fs::File::create(folder.path().join("state.json.unread-1794906000")).unwrap();
    write(&mut directory, "a-vm").unwrap_err();
    assert!(folder.path().join("state.json").is_dir());
}

#[test]
fn a_recreated_directory_is_locked_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut first = Directory::open(&path).unwrap();
    fs::remove_dir_all(&path).unwrap();
    write(&mut first, "first").unwrap();
    Directory::open(&path).unwrap_err();
    // Another exporter creates the directory first.
    fs::remove_dir_all(&path).unwrap();
    let mut second = Directory::open(&path).unwrap();
    write(&mut second, "second").unwrap();
    let error = write(&mut first, "first").unwrap_err().to_string();
    assert!(error.contains("in use by another exporter"), "{error}");
    let Found::State(read) = second.read(at()) else {
        panic!("no state")
    };
    assert_eq!(read.vm_id.as_deref(), Some("second"));
    drop(second);
    write(&mut first, "first").unwrap();
    Directory::open(&path).unwrap_err();
}

#[test]
fn the_log_says_what_of_an_earlier_version_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["spool", "spool-logs"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::File::create(path("spool").join("1.otlp")).unwrap();
    symlink(path("elsewhere"), path("journal")).unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    let ((), lines) = log::capture(|| {
        let journal = directory.read_journal(None, "new".into(), at());
        directory.write(&saved("a-vm"), &journal).unwrap();
    });
    let messages: Vec<_> = lines.iter().map(|line| &*line.message).collect();
    assert_eq!(
        messages,
        [
            "spool of an earlier version: not sent; remove it",
            "journal without its state: entries are not sent",
            "previous journal kept",
        ]
    );
    assert_eq!(lines[0].field("path"), path("spool").to_str());
    assert!(path("journal.unread-1794906000").is_symlink());
}
