//! Files that cannot be read or decoded.

use super::*;

#[test]
fn unreadable_files_are_set_aside_and_foreign_files_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut spool = open(path, &FaultyFilesystem::default());
    for number in 1..=4 {
        spool.append(batch(number), now(0));
    }
    let files = file_names(path);
    let content = read_file(&path.join(&files[0]));
    OsFilesystem
        .write(&path.join(&files[0]), &content[..content.len() / 2])
        .unwrap();
    OsFilesystem
        .write(&path.join(&files[1]), b"{\"version\":\"1\",\"records\":[]}")
        .unwrap();
    // The name says how many records it has.
    OsFilesystem.write(&path.join(&files[2]), b"").unwrap();
    // Of an earlier version.
    let earlier = "01794906942123456789-3.json";
    OsFilesystem.write(&path.join(earlier), b"{}").unwrap();
    OsFilesystem
        .write(&path.join("notes.txt"), b"by hand")
        .unwrap();
    OsFilesystem
        .write(&path.join(format!("{}{DRAFT_SUFFIX}", files[3])), b"{")
        .unwrap();
    let mut spool = open(path, &FaultyFilesystem::default());
    assert_eq!(drain(&mut spool), [4]);
    assert_eq!(dropped(&spool, DropReason::Unreadable), 3);
    assert_eq!(counts(&spool).spooled, 0);
    let mut left: Vec<_> = files[..3]
        .iter()
        .map(|name| format!("{name}{ASIDE}"))
        .collect();
    left.extend([earlier, "notes.txt"].map(str::to_owned));
    left.sort();
    assert_eq!(file_names(path), left);
}

fn read_file(path: &Path) -> Vec<u8> {
    OsFilesystem.read(path, 1 << 20).unwrap()
}

#[test]
fn file_that_is_too_large_is_set_aside_unread_and_displaces_no_batch() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    open(path, &FaultyFilesystem::default()).append(batch(1), now(0));
    let name = "01794906942000000009-3.otlp";
    let sparse = std::fs::File::create(path.join(name)).unwrap();
    sparse.set_len(2 << 30).unwrap();
    let mut spool = open(path, &FaultyFilesystem::default());
    assert_eq!(dropped(&spool, DropReason::Unreadable), 3);
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 0);
    assert_eq!(drain(&mut spool), [1]);
    assert_eq!(file_names(path), [format!("{name}{ASIDE}")]);
}

#[test]
fn transient_read_error_keeps_the_batch_and_delays_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let files = FaultyFilesystem::default();
    let mut spool = open(directory.path(), &files);
    for number in 1..=3 {
        spool.append(batch(number), now(0));
    }
    let denied = io::ErrorKind::PermissionDenied;
    files.0.lock().unwrap().read_errors = vec![denied];
    let (id, leased) = spool.next().unwrap();
    assert_eq!(numbers_of(&leased), [2]);
    spool.complete(id, 0, DropReason::Rejected);
    files.0.lock().unwrap().read_errors = vec![denied; 2];
    assert!(spool.next().is_none());
    assert_eq!(dropped(&spool, DropReason::Unreadable), 0);
    assert_eq!(counts(&spool).spooled, 2, "they are kept");
    assert_eq!(numbers_of(&spool.next().unwrap().1), [3]);
}

#[test]
fn file_with_the_largest_numbers_is_foreign() {
    for name in [
        format!("{}-1.otlp", u64::MAX),
        format!("{:020}-{}.otlp", 1, u64::MAX),
    ] {
        assert_foreign(name);
    }
}

fn assert_foreign(name: String) {
    let directory = tempfile::tempdir().unwrap();
    OsFilesystem
        .write(&directory.path().join(&name), b"{}")
        .unwrap();
    let mut spool = open(directory.path(), &FaultyFilesystem::default());
    spool.append(batch(1), now(0));
    assert_eq!(drain(&mut spool), [1]);
    assert_eq!(file_names(directory.path()), [name]);
}

#[test]
fn number_of_files_that_are_set_aside_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), &FaultyFilesystem::default());
    for number in 1..=40 {
        spool.append(batch(number), now(0));
    }
    for name in file_names(directory.path()) {
        OsFilesystem
            .write(&directory.path().join(name), b"?")
            .unwrap();
    }
    assert!(drain(&mut spool).is_empty());
    assert_eq!(dropped(&spool, DropReason::Unreadable), 40);
    assert_eq!(file_names(directory.path()).len(), MAX_SET_ASIDE);
}
