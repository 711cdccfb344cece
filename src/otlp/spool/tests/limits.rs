//! What the limits drop.

use super::*;

fn rejected(rejected: u64) -> Completion {
    Completion {
        rejected,
        ..Completion::default()
    }
}

#[test]
fn oldest_batches_are_dropped_and_counted_at_the_limits() {
    let directory = tempfile::tempdir().unwrap();
    let size = codec::encode(&batch(1)).unwrap().len() as u64;
    for directory in [Some(directory.path()), None] {
        let limits = SpoolLimits {
            bytes: 3 * size + size / 2,
            ..SpoolLimits::default()
        };
        let mut spool = Spool::open(directory, Box::new(FaultyFilesystem::default()), limits);
        for number in 1..=5 {
            spool.append(&batch(number), at(0));
        }
        assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
        assert_eq!(spool.counts().spooled, 3);
        assert_eq!(drain(&mut spool, at(0)), [3, 4, 5]);
    }
    let limits = SpoolLimits {
        batches: 2,
        ..SpoolLimits::default()
    };
    let mut spool = Spool::open(
        Some(directory.path()),
        Box::new(FaultyFilesystem::default()),
        limits,
    );
    for number in 1..=5 {
        spool.append(&batch(number), at(0));
    }
    assert_eq!(drain(&mut spool, at(0)), [4, 5]);
    assert!(file_names(directory.path()).is_empty());
}

#[test]
fn expired_batches_are_dropped_and_a_clock_step_of_an_hour_drops_none() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), &FaultyFilesystem::default());
    spool.append(&batch(1), at(0));
    spool.append(&batch(2), at(-3_600));
    spool.append(&batch(3), at(3_600));
    spool.maintain(at(-3_600));
    assert_eq!(spool.counts().spooled, 3);
    spool.maintain(at(7 * 86_400 + 1));
    assert_eq!(dropped(&spool, DropReason::Age), 2);
    assert_eq!(drain(&mut spool, at(7 * 86_400)), [3]);
}

#[test]
fn batch_that_was_dropped_while_leased_is_counted_once() {
    let limits = SpoolLimits {
        batches: 1,
        ..SpoolLimits::default()
    };
    let mut spool = Spool::open(None, Box::new(FaultyFilesystem::default()), limits);
    spool.append(&batch(1), at(0));
    let lease = spool.next(at(0), None).unwrap();
    spool.append(&batch(2), at(0));
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 1);
    spool.complete(lease.id, rejected(1));
    assert_eq!(dropped(&spool, DropReason::Rejected), 0);
    let lease = spool.next(at(0), None).unwrap();
    spool.complete(lease.id, rejected(1));
    assert_eq!(dropped(&spool, DropReason::Rejected), 1);
    assert_eq!(spool.counts().spooled, 0);
}

#[test]
fn memory_is_bounded_while_the_disk_fails() {
    let directory = tempfile::tempdir().unwrap();
    let size = codec::encode(&batch(1)).unwrap().len() as u64;
    let files = FaultyFilesystem::default();
    let limits = SpoolLimits {
        memory_bytes: 2 * size + size / 2,
        ..SpoolLimits::default()
    };
    let mut spool = Spool::open(Some(directory.path()), Box::new(files.clone()), limits);
    spool.append(&batch(1), at(0));
    files.fail_writes(Some(io::ErrorKind::StorageFull));
    for number in 2..=5 {
        spool.append(&batch(number), at(0));
    }
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
    assert_eq!(drain(&mut spool, at(0)), [1, 4, 5]);
}
