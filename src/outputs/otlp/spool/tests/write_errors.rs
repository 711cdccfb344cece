//! Disks that cannot be written, and directories that disappear.

use super::*;

#[test]
fn batches_wait_in_memory_in_order_until_the_disk_recovers() {
    for kind in [
        io::ErrorKind::StorageFull,
        io::ErrorKind::ReadOnlyFilesystem,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let files = FaultyFilesystem::default();
        let mut spool = open(directory.path(), &files);
        spool.append(batch(1), now(0));
        files.fail_writes(Some(kind));
        spool.append(batch(2), now(0));
        spool.append(batch(3), now(0));
        assert_eq!(counts(&spool).write_failures, 2);
        assert_eq!(file_names(directory.path()).len(), 1);
        spool.maintain();
        assert_eq!(counts(&spool).write_failures, 3);
        files.fail_writes(None);
        spool.append(batch(4), now(0));
        spool.maintain();
        assert_eq!(file_names(directory.path()).len(), 4);
        assert_eq!(
            drain(&mut open(directory.path(), &FaultyFilesystem::default())),
            [1, 2, 3, 4]
        );
    }
}

#[test]
fn completed_batch_that_cannot_be_removed_is_removed_later_and_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let files = FaultyFilesystem::default();
    let mut spool = open(directory.path(), &files);
    spool.append(batch(1), now(0));
    files.fail_writes(Some(io::ErrorKind::ReadOnlyFilesystem));
    assert_eq!(drain(&mut spool), [1]);
    assert_eq!(
        (counts(&spool).spooled, file_names(directory.path()).len()),
        (0, 1)
    );
    files.fail_writes(None);
    spool.maintain();
    assert!(file_names(directory.path()).is_empty());
}

#[test]
fn removed_directory_is_created_again() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("spool");
    let mut spool = open(&directory, &FaultyFilesystem::default());
    spool.append(batch(1), now(0));
    std::fs::remove_dir_all(&directory).unwrap();
    spool.append(batch(2), now(0));
    assert_eq!(drain(&mut spool), [2]);
    assert_eq!(dropped(&spool, DropReason::Unreadable), 1);
}

#[test]
fn batches_of_a_directory_that_becomes_usable_later_are_sent() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("spool");
    let mut earlier = open(&directory, &FaultyFilesystem::default());
    earlier.append(batch(1), now(0));
    let moved = parent.path().join("moved");
    std::fs::rename(&directory, &moved).unwrap();
    OsFilesystem
        .write(&directory, b"a file is in its place")
        .unwrap();
    let mut spool = open(&directory, &FaultyFilesystem::default());
    spool.append(batch(2), now(1));
    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(&moved, &directory).unwrap();
    spool.maintain();
    assert_eq!(file_names(&directory).len(), 2);
    spool.append(batch(3), now(2));
    assert_eq!(counts(&spool).spooled, 3);
    assert_eq!(drain(&mut spool), [1, 2, 3]);
    assert_eq!(counts(&spool).spooled, 0);
}
