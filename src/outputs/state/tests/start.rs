//! What a process finds at its start.

use super::*;

/// An exporter that has told three entries.
fn ended() -> Exporter {
    let mut exporter = Exporter::start();
    exporter.add(3);
    exporter
}

fn range(journal: &Journal) -> (u64, u64, u64) {
    (journal.first, journal.oldest(), journal.newest)
}

#[test]
fn entries_behind_the_state_are_applied_to_it() {
    let mut exporter = ended();
    let counted = exporter.disk.get(&exporter.path("state.json")).unwrap();
    exporter.append(0, EventScope::Own, 0);
    exporter.append(7, EventScope::Other, 0);
    exporter.append(7, EventScope::Other, 0);
    assert!(exporter.write());
    let told = exporter.events.clone();
    exporter.disk.put(&exporter.path("state.json"), counted);
    exporter.restart();
    assert_eq!(exporter.events, told);
    assert_eq!(range(&exporter.journal), (7, 1, 6));
}

#[test]
fn a_journal_that_is_lost_or_behind_the_state_keeps_its_id_and_repeats_no_number() {
    let mut exporter = ended();
    let path = exporter.path("journal");
    let behind = exporter.disk.get(&path).unwrap();
    exporter.add(2);
    for left in [None, Some(behind)] {
        exporter.disk.delete(&path);
        if let Some(left) = &left {
            exporter.disk.put(&path, left.clone());
        }
        exporter.restart();
        assert_eq!(&*exporter.journal.id, "journal 1");
        assert_eq!(range(&exporter.journal), (6, 6, 5));
        assert!(exporter.write());
        assert_eq!(exporter.disk.names(), ["journal", "state.json"]);
    }
    exporter.add(1);
    exporter.restart();
    assert_eq!(numbers(&exporter.journal), [1, 2, 3, 6]);
    assert_eq!(range(&exporter.journal), (7, 6, 6));
}

#[test]
fn a_journal_without_a_state_is_kept_and_another_one_begins() {
    let mut exporter = ended();
    let journal = exporter.disk.get(&exporter.path("journal")).unwrap();
    let path = exporter.path("state.json");
    exporter.disk.delete(&path);
    exporter.restart();
    let now = exporter.now;
    assert_eq!(*exporter.journal.id, format!("journal {now}"));
    assert_eq!(range(&exporter.journal), (1, 1, 0));
    exporter.add(1);
    let kept = format!("journal.unread-{:.0}", at(now).as_unix_seconds());
    assert_eq!(exporter.disk.get(&exporter.path(&kept)), Some(journal));
    assert_eq!(exporter.disk.names(), ["journal", &*kept, "state.json"]);
    exporter.restart();
    assert_eq!(numbers(&exporter.journal), [1]);
}
