//! What the limits drop.

use super::*;

#[test]
fn oldest_batches_are_dropped_and_counted_at_the_limits() {
    let directory = tempfile::tempdir().unwrap();
    let size = encoded(&batch(1)).len() as u64;
    for directory in [Some(directory.path()), None] {
        let limits = SpoolLimits {
            bytes: 3 * size + size / 2,
            ..SpoolLimits::default()
        };
        let mut spool = limited(directory, &FaultyFilesystem::default(), limits);
        for number in 1..=5 {
            spool.append(batch(number), now(0));
        }
        assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
        assert_eq!(counts(&spool).spooled, 3);
        assert_eq!(drain(&mut spool), [3, 4, 5]);
    }
    let limits = SpoolLimits {
        batches: 2,
        ..SpoolLimits::default()
    };
    let mut spool = limited(Some(directory.path()), &FaultyFilesystem::default(), limits);
    for number in 1..=5 {
        spool.append(batch(number), now(0));
    }
    assert_eq!(drain(&mut spool), [4, 5]);
    assert!(file_names(directory.path()).is_empty());
}

#[test]
fn a_step_of_the_wall_clock_drops_no_batch_and_keeps_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), &FaultyFilesystem::default());
    let years = Duration::from_hours(10 * 365 * 24);
    let walls = [at(0), at(0).after(years), at(0).before(years)];
    for (number, wall) in (1..).zip(walls) {
        spool.append(
            batch(number),
            Moment {
                wall,
                ..now(number)
            },
        );
    }
    let mut spool = open(directory.path(), &FaultyFilesystem::default());
    assert_eq!(drain(&mut spool), [1, 2, 3]);
}

/// A batch of this many spans of a kilobyte or more.
fn large(spans: u64) -> Batch {
    let mut whole = batch(1);
    for number in 2..=spans {
        whole.records.extend(batch(number).records);
    }
    for record in &mut whole.records {
        lengthen(record, 1_000);
    }
    whole
}

fn lengthen(record: &mut Record, bytes: usize) {
    match record {
        Record::Span(span) => span.status = opentelemetry::trace::Status::error("x".repeat(bytes)),
        Record::Log(record) => panic!("{record:?}"),
    }
}

#[test]
fn a_batch_that_exceeds_the_limits_is_stored_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let limits = SpoolLimits {
        bytes: 100_000,
        memory_bytes: 20_000,
        ..SpoolLimits::default()
    };
    for directory in [Some(directory.path()), None] {
        let mut spool = limited(directory, &FaultyFilesystem::default(), limits);
        spool.append(large(1_000), now(0));
        let counts = counts(&spool).clone();
        assert_eq!(
            counts.spooled + dropped(&spool, DropReason::SpoolFull),
            1_000
        );
        assert!(counts.spooled > 5, "{counts:?}");
        let mut used = 0;
        if let Some(directory) = directory {
            let listed = OsFilesystem.list(directory).unwrap();
            used = listed.iter().map(|(_, bytes)| bytes).sum();
            assert!(
                listed.iter().all(|(_, bytes)| *bytes <= 20_000),
                "{listed:?}"
            );
        }
        assert!(used <= 100_000, "{used}");
        let numbers = drain(&mut spool);
        let expected: Vec<_> = (1_001 - counts.spooled..=1_000).collect();
        assert_eq!(numbers, expected, "the youngest, in order");
    }
}

#[test]
fn a_span_that_exceeds_the_limits_alone_is_dropped_and_counted() {
    let mut spool = limited(None, &FaultyFilesystem::default(), SpoolLimits::default());
    let mut whole = large(3);
    lengthen(&mut whole.records[1], 600 << 10);
    spool.append(whole, now(0));
    assert_eq!(dropped(&spool, DropReason::TooLarge), 1);
    assert_eq!(drain(&mut spool), [1, 3]);
}

#[test]
fn the_limits_hold_for_the_files_of_an_earlier_process() {
    let directory = tempfile::tempdir().unwrap();
    let mut earlier = open(directory.path(), &FaultyFilesystem::default());
    for number in 1..=5 {
        earlier.append(batch(number), now(0));
    }
    let limits = SpoolLimits {
        batches: 3,
        ..SpoolLimits::default()
    };
    let mut spool = limited(Some(directory.path()), &FaultyFilesystem::default(), limits);
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
    assert_eq!(drain(&mut spool), [3, 4, 5]);
}

#[test]
fn batch_in_flight_is_not_dropped_and_is_counted_once() {
    let size = encoded(&batch(1)).len() as u64;
    let of_batches = |batches| SpoolLimits {
        batches,
        ..SpoolLimits::default()
    };
    let of_memory = SpoolLimits {
        memory_bytes: 2 * size + size / 2,
        ..SpoolLimits::default()
    };
    for limits in [of_batches(2), of_batches(1), of_memory] {
        let mut spool = limited(None, &FaultyFilesystem::default(), limits);
        spool.append(batch(1), now(0));
        let (id, _) = spool.next().unwrap();
        spool.append(batch(2), now(0));
        spool.append(batch(3), now(0));
        spool.complete(id, 0, DropReason::Rejected);
        let counts = counts(&spool);
        assert_eq!((counts.exported, counts.spooled), (1, 1), "{limits:?}");
        assert_eq!(counts.dropped.values().sum::<u64>(), 1, "{limits:?}");
        assert_eq!(drain(&mut spool), [3], "{limits:?}");
    }
}

#[test]
fn batch_whose_request_failed_is_dropped_first_again() {
    let limits = SpoolLimits {
        batches: 2,
        ..SpoolLimits::default()
    };
    let mut spool = limited(None, &FaultyFilesystem::default(), limits);
    spool.append(batch(1), now(0));
    spool.next().unwrap();
    spool.maintain();
    spool.append(batch(2), now(0));
    spool.append(batch(3), now(0));
    assert_eq!(drain(&mut spool), [2, 3]);
}

#[test]
fn memory_is_bounded_while_the_disk_fails() {
    let directory = tempfile::tempdir().unwrap();
    let size = encoded(&batch(1)).len() as u64;
    let files = FaultyFilesystem::default();
    let limits = SpoolLimits {
        memory_bytes: 2 * size + size / 2,
        ..SpoolLimits::default()
    };
    let mut spool = limited(Some(directory.path()), &files, limits);
    spool.append(batch(1), now(0));
    files.fail_writes(Some(io::ErrorKind::StorageFull));
    for number in 2..=5 {
        spool.append(batch(number), now(0));
    }
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
    assert_eq!(drain(&mut spool), [1, 4, 5]);
}
