//! A kill loses no batch.

use super::*;

/// Appends and completes batches, kills the process at a step, restarts it, and continues. Returns how often each batch
/// was delivered, and whether the step was reached.
fn deliveries_with_kill_at(step: usize, directory: &Path) -> (BTreeMap<u64, usize>, bool) {
    const BATCHES: u64 = 6;
    let mut delivered = BTreeMap::new();
    let mut deliver = |spool: &mut Spool| {
        let (id, leased) = spool.next()?;
        for number in numbers_of(&leased) {
            *delivered.entry(number).or_default() += 1;
        }
        spool.complete(id, 0, DropReason::Rejected);
        Some(())
    };
    let mut files = FaultyFilesystem::killed_at(step);
    let mut spool = open(directory, &files);
    let mut next = 1;
    let mut was_killed = false;
    while next <= BATCHES || counts(&spool).spooled > 0 {
        if next <= BATCHES {
            spool.append(batch(next), now(0));
            // A killed process appends the batch again.
            next += u64::from(!files.is_killed());
        }
        if !files.is_killed() && next.is_multiple_of(2) || next > BATCHES {
            deliver(&mut spool);
        }
        if files.is_killed() {
            was_killed = true;
            files = FaultyFilesystem::default();
            spool = open(directory, &files);
        }
    }
    (delivered, was_killed)
}

#[test]
fn kill_at_any_step_loses_no_batch_and_repeats_each_at_most_once() {
    let mut kills = 0;
    let mut repeated = 0;
    for step in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let (delivered, was_killed) = deliveries_with_kill_at(step, directory.path());
        let numbers: Vec<_> = delivered.keys().copied().collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "killed at step {step}");
        assert!(
            delivered.values().all(|times| *times <= 2),
            "killed at step {step}: {delivered:?}"
        );
        assert!(
            file_names(directory.path()).is_empty(),
            "killed at step {step}"
        );
        repeated += delivered.values().filter(|times| **times > 1).count();
        if !was_killed {
            break;
        }
        kills += 1;
    }
    println!("killed at each of {kills} steps: 0 batches lost, {repeated} sent twice");
    assert!(kills > 60, "{kills}");
}
