mod properties;

use super::{
    RequestResult::{Accepted, MayBeContent, Refused, Unavailable},
    *,
};
use crate::{
    azure::event::EventScope,
    core::{
        assessment::fixtures::{moment, tracked},
        lifecycle::{SavedJournal, Transition, TransitionKind},
    },
};

const REJECTED: RequestResult = Refused(DropReason::Rejected);

/// An entry with so many records; one without records is about another VM.
fn entry(records: u64, bytes: usize) -> Entry {
    let mut event = tracked("Reboot", "Platform", Some(900));
    event.shown.duration_seconds = Some(records);
    event.shown.description = Some("x".repeat(bytes).into());
    if records == 0 {
        event.scope = EventScope::Other;
    }
    Entry::new(
        Transition {
            at: moment(0),
            kind: TransitionKind::Announced,
            tracked: Arc::new(event),
        },
        None,
    )
}

fn records(entry: &Entry) -> u64 {
    let records = entry.transition.tracked.shown.duration_seconds;
    records.unwrap_or(0)
}

fn numbers(entries: &[Arc<Entry>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

fn dropped(entries: &[(Arc<Entry>, DropReason)]) -> Vec<(u64, DropReason)> {
    let entries = entries.iter();
    entries.map(|(it, reason)| (it.number, *reason)).collect()
}

/// As the process after a restart finds it, before it is known whose it is.
fn restored(journal: &Journal) -> Journal {
    let saved = SavedJournal {
        id: Arc::clone(&journal.id),
        newest: journal.newest,
        ..SavedJournal::default()
    };
    let entries = journal.after(0).map(|entry| (**entry).clone()).collect();
    let mut restored = Journal::restore(&saved, journal.dropped, entries);
    restored.first = journal.newest + 1;
    restored
}

struct Sender {
    journal: Journal,
    cursor: Cursor,
}

impl Sender {
    /// With entries of so many records each.
    fn new(entries: &[u64]) -> Self {
        let mut sender = Self::restored(Journal::new("a"), None);
        sender.add(entries.iter().map(|records| entry(*records, 0)));
        sender
    }

    fn restored(journal: Journal, saved: Option<&SavedCursor>) -> Self {
        let cursor = Cursor::new(&Arc::new(journal.clone()), saved, records);
        Self { journal, cursor }
    }

    fn add(&mut self, entries: impl IntoIterator<Item = Entry>) -> u64 {
        let dropped = self.journal.append(entries);
        self.cursor
            .update(&Arc::new(self.journal.clone()), &dropped)
    }

    fn confirm_owner(&mut self) {
        self.journal.ownership.is_doubtful = false;
        self.add([]);
    }

    fn next(&mut self) -> Vec<u64> {
        numbers(&self.cursor.next_entries())
    }

    fn apply(&mut self, result: RequestResult) -> Vec<(u64, DropReason)> {
        dropped(&self.cursor.apply(result))
    }

    fn send(&mut self, result: RequestResult) -> Vec<u64> {
        let sent = self.next();
        assert_eq!(self.apply(result), [], "{sent:?}");
        sent
    }

    fn saved(&self) -> SavedCursor {
        self.cursor.saved(&self.journal)
    }

    fn saved_after(&self, sent: u64) -> SavedCursor {
        SavedCursor {
            sent,
            ..self.saved()
        }
    }
}

#[test]
fn entries_are_sent_in_order_and_those_without_records_are_passed_over() {
    let mut sender = Sender::new(&[0, 2, 0, 1, 0]);
    assert_eq!(sender.cursor.unsent(), 3);
    assert_eq!(sender.send(Accepted), [2, 4]);
    assert_eq!(sender.next(), [0; 0]);
    assert_eq!((sender.cursor.unsent(), sender.saved().sent), (0, 5));
    sender.add([entry(1, 0)]);
    assert_eq!(sender.send(Accepted), [6]);
    assert_eq!(sender.saved(), Sender::new(&[]).saved_after(6));
}

#[test]
fn a_request_has_up_to_256_kib_and_at_least_one_entry() {
    let mut sender = Sender::new(&[]);
    let sizes = [100, 100, 100, 300, 0].map(|kib| entry(1, kib << 10));
    sender.add(sizes);
    assert_eq!(sender.send(Accepted), [1, 2]);
    assert_eq!(sender.send(Accepted), [3]);
    assert_eq!(sender.send(Accepted), [4]);
    assert_eq!(sender.send(Accepted), [5]);
}

#[test]
fn entries_that_may_be_another_vms_wait_and_the_others_are_sent_ahead_of_them() {
    let mut sender = Sender::new(&[1, 0, 1]);
    sender = Sender::restored(restored(&sender.journal), Some(&SavedCursor::default()));
    assert_eq!(sender.next(), [0; 0]);
    sender.add([entry(1, 0)]);
    assert_eq!(sender.send(Accepted), [4]);
    assert_eq!(sender.next(), [0; 0]);
    let saved = sender.saved();
    assert_eq!((saved.sent, saved.ahead), (0, BTreeSet::from([4])));
    sender.confirm_owner();
    assert_eq!(sender.send(Accepted), [1, 3]);
    assert_eq!(sender.saved().sent, 4);
}

#[test]
fn another_journal_is_sent_from_its_first_entry() {
    let mut sender = Sender::new(&[1, 1, 1]);
    assert_eq!(sender.send(Accepted), [1, 2, 3]);
    sender.add([entry(1, 0)]);
    assert_eq!(sender.next(), [4]);
    sender.journal.discard_foreign(&"b".into());
    // The state is written before the cursor has the new journal.
    assert_eq!(sender.saved(), SavedCursor::default());
    sender.add([]);
    assert_eq!(sender.cursor.unsent(), 4);
    // The answer to what was sent of the other one says nothing about these.
    assert_eq!(sender.apply(REJECTED), []);
    assert_eq!(sender.send(Accepted), [1, 2, 3, 4]);
    assert_eq!(sender.cursor.unsent(), 0);
}

#[test]
fn a_signal_that_was_not_sent_before_has_only_what_this_process_adds() {
    let sender = Sender::restored(restored(&Sender::new(&[1, 1]).journal), None);
    assert_eq!((sender.saved().sent, sender.cursor.unsent()), (2, 0));
    assert_eq!(sender.cursor.lost(), 0);
}

/// Damaged lines, and entries that an earlier process dropped for the bounds: `kept` are left, all up to `bounded` were
/// dropped before.
#[test]
fn numbers_that_the_journal_lost_before_they_were_sent_are_counted() {
    let lost = |kept: &[u64], bounded: u64, sent: u64, ahead: &[u64]| {
        let journal = Sender::new(&[1, 1, 0, 1, 1]).journal;
        let saved = SavedJournal {
            id: Arc::clone(&journal.id),
            newest: journal.newest,
            ..SavedJournal::default()
        };
        let entries = journal.after(0).map(|entry| (**entry).clone());
        let entries = entries.filter(|entry| kept.contains(&entry.number));
        let mut journal = Journal::restore(&saved, 0, entries.collect());
        (journal.first, journal.bounded) = (6, bounded);
        let saved = SavedCursor {
            sent,
            ahead: ahead.iter().copied().collect(),
        };
        let mut sender = Sender::restored(journal, Some(&saved));
        let lost = sender.cursor.lost();
        assert_eq!(sender.next(), [0; 0], "it is not known whose they are");
        lost
    };
    assert_eq!(lost(&[1, 2, 3, 4, 5], 0, 0, &[]), 0);
    assert_eq!(lost(&[1, 2, 3, 4, 5], 0, 5, &[]), 0);
    assert_eq!(lost(&[], 0, 0, &[]), 5);
    assert_eq!(lost(&[], 0, 3, &[5]), 1);
    assert_eq!(lost(&[1, 2], 0, 1, &[]), 3);
    assert_eq!(lost(&[1, 2], 0, 4, &[]), 1);
    assert_eq!(lost(&[1, 3, 4, 5], 0, 0, &[]), 1);
    assert_eq!(lost(&[1, 3, 4, 5], 2, 0, &[]), 0);
    assert_eq!(lost(&[1, 3, 5], 2, 0, &[]), 1);
    assert_eq!(lost(&[1, 3, 5], 2, 0, &[4]), 0);
    assert_eq!(lost(&[1, 3, 4, 5], 0, 0, &[5]), 1);
}

#[test]
fn several_entries_that_are_refused_are_repeated_singly_and_a_single_one_is_dropped() {
    let mut sender = Sender::new(&[1, 1, 1]);
    assert_eq!(sender.send(REJECTED), [1, 2, 3]);
    sender.add([entry(1, 0)]);
    assert_eq!(sender.send(Accepted), [4]);
    assert_eq!(sender.send(Accepted), [1]);
    assert_eq!(sender.next(), [2]);
    let too_large = DropReason::TooLarge;
    assert_eq!(sender.apply(Refused(too_large)), [(2, too_large)]);
    assert_eq!(sender.send(Accepted), [3]);
    assert_eq!(sender.next(), [0; 0]);
    assert_eq!(sender.saved().sent, 4);
}

#[test]
fn what_could_not_be_delivered_is_sent_as_before() {
    let mut sender = Sender::new(&[1, 1]);
    for _ in 1..MAX_FAILURES_IN_ORDER {
        assert_eq!(sender.send(Unavailable), [1, 2]);
    }
    sender.add([entry(1, 0)]);
    assert_eq!(sender.send(Accepted), [1, 2, 3]);
}

#[test]
fn after_eight_failures_in_a_row_each_entry_is_sent_singly_after_newer_ones() {
    let mut sender = Sender::new(&[1, 1]);
    for _ in 0..MAX_FAILURES_IN_ORDER {
        assert_eq!(sender.send(Unavailable), [1, 2]);
    }
    assert_eq!(sender.send(Unavailable), [1]);
    assert_eq!(sender.send(Unavailable), [2]);
    sender.add([entry(1, 0)]);
    assert_eq!(sender.send(Accepted), [3]);
    assert_eq!(sender.send(Accepted), [1]);
    // The next failure is the first one again.
    assert_eq!(sender.send(Unavailable), [2]);
    assert_eq!(sender.send(Accepted), [2]);
}

#[test]
fn an_entry_that_always_fails_is_dropped_after_eight_failures_while_others_are_accepted() {
    let mut sender = Sender::new(&[1]);
    for _ in 0..100 {
        assert_eq!(sender.send(MayBeContent), [1], "nothing else is accepted");
    }
    for other in 2..=MAX_PROVEN_FAILURES.into() {
        sender.add([entry(1, 0)]);
        assert_eq!(sender.send(Accepted), [other]);
        assert_eq!(sender.send(MayBeContent), [1]);
        assert_eq!(sender.send(MayBeContent), [1]);
    }
    sender.add([entry(1, 0)]);
    assert_eq!(sender.send(Accepted), [9]);
    assert_eq!(sender.next(), [1]);
    assert_eq!(sender.apply(MayBeContent), [(1, DropReason::Rejected)]);
    assert_eq!((sender.cursor.unsent(), sender.saved().sent), (0, 9));
}

#[test]
fn entries_that_failed_take_turns() {
    let mut sender = Sender::new(&[1, 1, 1]);
    assert_eq!(sender.send(MayBeContent), [1, 2, 3]);
    assert_eq!(sender.send(MayBeContent), [1]);
    assert_eq!(sender.send(Unavailable), [2]);
    assert_eq!(sender.send(MayBeContent), [2]);
    assert_eq!(sender.send(Accepted), [3]);
    assert_eq!(sender.send(MayBeContent), [1]);
    assert_eq!(sender.send(Accepted), [2]);
}

/// So many entries that the former ones fall off, and the first of these; four are left.
fn displace(sender: &mut Sender) -> u64 {
    sender.add((0..5).map(|_| entry(1, 450 << 10)))
}

#[test]
fn entries_that_fall_off_before_they_were_sent_are_counted_once() {
    let mut sender = Sender::new(&[2, 0, 3]);
    assert_eq!(displace(&mut sender), 2 + 3 + 1);
    assert_eq!(sender.cursor.unsent(), 4);
    assert_eq!(sender.next(), [5]);
}

#[test]
fn the_answer_decides_about_an_entry_in_flight_that_falls_off() {
    for (result, expected) in [
        (Accepted, vec![]),
        (Unavailable, vec![(1, DropReason::SpoolFull)]),
        (REJECTED, vec![(1, DropReason::Rejected)]),
    ] {
        let mut sender = Sender::new(&[2]);
        assert_eq!(sender.next(), [1]);
        assert_eq!(displace(&mut sender), 1);
        assert_eq!(sender.cursor.unsent(), 2 + 4);
        assert_eq!(sender.apply(result), expected);
        assert_eq!(sender.cursor.unsent(), 4);
    }
}

#[test]
fn events_of_other_vms_beside_an_unsent_entry_cost_no_request_and_no_memory() {
    let mut sender = Sender::new(&[1]);
    assert_eq!(sender.send(MayBeContent), [1]);
    for _ in 0..10 {
        sender.add((0..1_000).map(|_| entry(0, 0)));
        assert_eq!(sender.send(MayBeContent), [1]);
        assert_eq!(sender.saved(), SavedCursor::default());
    }
    assert_eq!(sender.send(Accepted), [1]);
    assert_eq!(sender.next(), [0; 0]);
    assert_eq!(sender.saved().sent, 10_001);
}

#[test]
fn a_saved_cursor_that_is_ahead_of_the_journal_skips_nothing_new() {
    let mut sender = Sender::new(&[1]);
    let saved = sender.saved_after(u64::MAX);
    sender = Sender::restored(sender.journal, Some(&saved));
    assert_eq!(sender.send(Accepted), [1]);
}
