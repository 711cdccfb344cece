//! A disk that fails for a while, and files that others change.

use std::io::ErrorKind;

use super::*;

/// An exporter whose journal has one entry.
fn running() -> Exporter {
    let mut exporter = Exporter::start();
    exporter.add(1);
    exporter
}

#[test]
fn entries_are_appended_and_a_heartbeat_leaves_the_journal_alone() {
    let mut exporter = running();
    // The journal and the state.
    assert_eq!(exporter.disk.writes(), (0, 2));
    assert!(exporter.write());
    assert_eq!(exporter.disk.writes(), (0, 3));
    exporter.add(2);
    assert_eq!(exporter.disk.writes(), (1, 4));
    exporter.restart();
    exporter.add(1);
    assert_eq!(exporter.disk.writes(), (2, 5));
    exporter.restart();
    assert_eq!(numbers(&exporter.journal), [1, 2, 3, 4]);
}

#[test]
fn a_journal_without_entries_has_no_file() {
    let mut exporter = Exporter::start();
    assert!(exporter.write());
    assert_eq!(exporter.disk.names(), ["state.json"]);
    exporter.restart();
    assert_eq!(
        (&*exporter.journal.id, exporter.journal.newest),
        ("journal 1", 0)
    );
}

#[test]
fn a_full_file_is_replaced_by_the_entries_that_are_kept() {
    let mut exporter = running();
    let mut longest = 0;
    for _ in 0..40 {
        exporter.append(1, EventScope::Own, 100 << 10);
        assert!(exporter.write());
        let length = exporter.disk.get(&exporter.path("journal")).unwrap().len();
        assert!(length <= 4 << 20, "{length}");
        longest = longest.max(length);
    }
    assert!(longest > (39 * 100) << 10, "{longest}");
    exporter.restart();
    assert!(
        exporter.journal.oldest() > 15,
        "{}",
        exporter.journal.oldest()
    );
}

#[test]
fn after_a_failed_sync_of_an_append_the_file_is_replaced() {
    let mut exporter = running();
    exporter.append_own(1);
    // Two parts are written, then synced.
    exporter.disk.fail_after(2, Fault::Error);
    assert!(exporter.write());
    assert!(exporter.disk.repair());
    assert_eq!(exporter.disk.writes(), (1, 4));
    exporter.add(1);
    assert_eq!(exporter.disk.writes(), (2, 5));
    exporter.restart();
    assert_eq!(numbers(&exporter.journal), [1, 2, 3]);
}

#[test]
fn the_state_is_written_also_if_the_journal_cannot_be() {
    let mut exporter = running();
    exporter.append_own(1);
    exporter.disk.put(&exporter.path("journal"), "changed");
    // The draft that takes its place cannot be written.
    exporter.disk.fail_after(0, Fault::Error);
    assert!(!exporter.write());
    exporter.restart();
    // What the journal has lost does not get its number again.
    assert_eq!((exporter.journal.newest, exporter.journal.oldest()), (2, 3));
    assert_eq!(exporter.events.len(), 1);
}

#[test]
fn a_full_or_read_only_disk_is_used_again_when_it_can_be() {
    for kind in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem] {
        let mut exporter = running();
        exporter.disk.fail_writes(Some(kind));
        for _ in 0..3 {
            exporter.append_own(1);
            assert!(!exporter.write());
        }
        exporter.disk.fail_writes(None);
        assert!(exporter.write());
        exporter.restart();
        assert_eq!(numbers(&exporter.journal), [1, 2, 3, 4]);
        assert_eq!(exporter.disk.names(), ["journal", "state.json"]);
    }
}

#[test]
fn a_file_that_was_removed_or_changed_is_replaced() {
    for change in [None, Some("grown"), Some("")] {
        let mut exporter = running();
        let path = exporter.path("journal");
        match change {
            None => exporter.disk.delete(&path),
            Some(end) => {
                let whole = exporter.disk.get(&path).unwrap();
                let start = if end.is_empty() { 10 } else { whole.len() };
                exporter
                    .disk
                    .put(&path, [&whole[..start], end.as_bytes()].concat());
            }
        }
        exporter.add(1);
        exporter.restart();
        assert_eq!(numbers(&exporter.journal), [1, 2], "{change:?}");
    }
}
