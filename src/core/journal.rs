//! The journal: all changes of events that readers get, as numbered entries. Pure. The file beside the state
//! is a copy that is read once, at the start, so that the numbers go on over a restart.

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    approval::ApprovalDecision,
    lifecycle::{SavedJournal, SavedState, Transition},
    ownership::Ownership,
};
use crate::{
    azure::event::{EventScope, is_same_vm},
    base::{json, time::Timestamp},
};

/// Bytes of the entries about events that name or may name this VM. The events of a large placement group must not
/// displace them, so the others have a bound of their own.
const MAX_OWN_BYTES: usize = 2 << 20;
const MAX_OTHER_BYTES: usize = 1 << 20;
/// The longest line of an entry. A longer one has only a part of the names of VMs.
const MAX_LINE_BYTES: usize = 512 << 10;
const MAX_CUT_NAMES_BYTES: usize = 64 << 10;

/// One change of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub number: u64,
    /// The name of this VM then: the key of its spans.
    pub vm: Option<Arc<str>>,
    /// With the event as the document that caused it left it.
    pub transition: Transition,
    /// The decision about the approval then. Entries of an earlier process have none.
    #[serde(skip)]
    pub approval: Option<ApprovalDecision>,
    /// The length of its line in the file.
    #[serde(skip)]
    pub(crate) bytes: usize,
}

impl Entry {
    /// An entry that [`Journal::append`] numbers.
    pub fn new(transition: Transition, vm: Option<&Arc<str>>) -> Self {
        Self {
            number: 0,
            vm: vm.cloned(),
            transition,
            approval: None,
            bytes: 0,
        }
    }

    pub fn at(&self) -> Timestamp {
        self.transition.at.wall
    }

    /// Whether the event names or may name this VM, or named it before.
    pub fn is_ours(&self) -> bool {
        self.transition.was_scope() == EventScope::Own
            || self.transition.tracked.scope != EventScope::Other
    }

    /// The JSON of the entry, one line. `None` if it is longer than any entry of a journal.
    pub fn to_json(&self) -> serde_json::Result<Option<Vec<u8>>> {
        json::to_vec_up_to(self, MAX_LINE_BYTES)
    }

    fn measure(&mut self) {
        if let Ok(Some(line)) = self.to_json() {
            self.bytes = line.len();
            return;
        }
        self.cut_names();
        let line = self.to_json().ok().flatten();
        self.bytes = line.map_or(MAX_LINE_BYTES, |line| line.len());
    }

    /// Keeps the names that fit, that of this VM first.
    fn cut_names(&mut self) {
        let tracked = Arc::make_mut(&mut self.transition.tracked);
        let vm = self.vm.as_deref().unwrap_or_default();
        let mut names = tracked.shown.resources.take().unwrap_or_default();
        names.sort_by_key(|name| !is_same_vm(name, vm));
        let mut left = MAX_CUT_NAMES_BYTES;
        names.retain(|name| {
            let fitting = left.checked_sub(name.len());
            left = fitting.unwrap_or(left);
            fitting.is_some()
        });
        tracked.shown.resources = Some(names);
        tracked.shown.has_more_resources = true;
        tracked.reported = None;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Identifies the numbering: between two ids, numbers mean nothing.
    pub id: Arc<str>,
    /// The first number of this process.
    pub first: u64,
    /// The last number that was given; 0 before the first.
    pub newest: u64,
    /// Some entries up to this number are not kept any more.
    pub dropped: u64,
    /// Up to this number, an earlier process dropped entries for the bounds. What is missing above it, its file has lost.
    pub bounded: u64,
    /// The last number that is on disk together with the state that counts it.
    pub on_disk: u64,
    pub ownership: Ownership,
    entries: VecDeque<Arc<Entry>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self::new("")
    }
}

impl Journal {
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            first: 1,
            newest: 0,
            dropped: 0,
            bounded: 0,
            on_disk: 0,
            ownership: Ownership::default(),
            entries: VecDeque::new(),
        }
    }

    /// Entries that the file of an earlier process lost count as dropped.
    pub fn restore(saved: &SavedJournal, mut dropped: u64, entries: Vec<Entry>) -> Self {
        let last = entries.last().map_or(0, |entry| entry.number);
        if last < saved.newest {
            dropped = saved.newest;
        }
        let newest = last.max(saved.newest);
        let restored = entries.into_iter().map(|mut entry| {
            entry.measure();
            Arc::new(entry)
        });
        let mut journal = Self {
            first: newest.saturating_add(1),
            newest,
            dropped,
            on_disk: newest,
            entries: restored.collect(),
            ..Self::new(Arc::clone(&saved.id))
        };
        // The state beside it says whose it is.
        journal.ownership.is_doubtful = true;
        journal
    }

    /// Applies to a state the entries after the last one that it counts: an earlier process has published them, or was
    /// about to.
    pub fn replay(&self, state: &mut SavedState) {
        for entry in self.after(state.journal.newest) {
            let passed = entry.at().saturating_since(state.heartbeat_at);
            state.heartbeat_at = state.heartbeat_at.after(passed);
            state.monotonic = state.monotonic + passed;
            let record = &entry.transition.tracked;
            let mut events = state.events.iter_mut();
            match events.find(|known| known.shown.id == record.shown.id) {
                Some(known) => known.clone_from(record),
                None => state.events.push(Arc::clone(record)),
            }
        }
    }

    pub fn after(&self, number: u64) -> impl Iterator<Item = &Arc<Entry>> {
        let from = self.entries.partition_point(|entry| entry.number <= number);
        self.entries.range(from..)
    }

    pub fn get(&self, number: u64) -> Option<&Arc<Entry>> {
        let found = self.after(number.checked_sub(1)?).next();
        found.filter(|entry| entry.number == number)
    }

    /// The lowest number from which on all entries are kept.
    pub fn oldest(&self) -> u64 {
        self.dropped.saturating_add(1)
    }

    /// Numbers entries. Returns those that are not kept any more.
    pub fn append(&mut self, entries: impl IntoIterator<Item = Entry>) -> Vec<Arc<Entry>> {
        for mut entry in entries {
            self.newest = self.newest.saturating_add(1);
            entry.number = self.newest;
            entry.measure();
            self.entries.push_back(Arc::new(entry));
        }
        let mut dropped = self.drop_surplus(true, MAX_OWN_BYTES);
        dropped.extend(self.drop_surplus(false, MAX_OTHER_BYTES));
        let last = dropped.iter().map(|entry| entry.number).max();
        self.dropped = self.dropped.max(last.unwrap_or(0));
        dropped
    }

    fn drop_surplus(&mut self, is_ours: bool, max: usize) -> Vec<Arc<Entry>> {
        let bytes = |entries: &VecDeque<Arc<Entry>>| -> usize {
            let counted = entries.iter().filter(|entry| entry.is_ours() == is_ours);
            counted.map(|entry| entry.bytes).sum()
        };
        let mut surplus = bytes(&self.entries).saturating_sub(max);
        let mut dropped = Vec::new();
        self.entries.retain(|entry| {
            let is_kept = surplus == 0 || entry.is_ours() != is_ours;
            if !is_kept {
                surplus = surplus.saturating_sub(entry.bytes);
                dropped.push(Arc::clone(entry));
            }
            is_kept
        });
        dropped
    }

    /// Whether the entry is certainly that of this VM.
    pub fn may_send(&self, entry: &Entry) -> bool {
        !self.ownership.is_doubtful || !self.is_restored(entry)
    }

    fn is_restored(&self, entry: &Entry) -> bool {
        let id = &entry.transition.tracked.shown.id;
        entry.number < self.first || self.ownership.is_restored(id)
    }

    /// The restored entries were those of another VM: the others are numbered from 1 in a journal of their own.
    pub fn discard_foreign(&mut self, id: &Arc<str>) {
        let restored = std::mem::replace(self, Self::new(Arc::clone(id)));
        for entry in restored
            .entries
            .iter()
            .filter(|it| !restored.is_restored(it))
        {
            self.newest += 1;
            self.entries.push_back(Arc::new(Entry {
                number: self.newest,
                ..(**entry).clone()
            }));
        }
        self.ownership = restored.ownership;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        azure::event::EventId,
        core::{
            assessment::fixtures::{at, moment, tracked},
            lifecycle::{Outcome, TrackedEvent, TransitionKind},
        },
    };

    fn entry(id: &str, change: impl FnOnce(&mut TrackedEvent)) -> Entry {
        let mut event = tracked("Reboot", "Platform", Some(900));
        event.shown.id = EventId::new(id);
        change(&mut event);
        let transition = Transition {
            at: moment(0),
            kind: TransitionKind::Announced,
            tracked: Arc::new(event),
        };
        Entry::new(transition, Some(&Arc::from("web_0")))
    }

    /// About an event with texts of so many bytes.
    fn large(id: &str, scope: EventScope, bytes: usize) -> Entry {
        entry(id, |event| {
            event.scope = scope;
            event.shown.resources = Some(vec!["x".repeat(bytes).into()]);
        })
    }

    fn numbers<'a>(entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Vec<u64> {
        entries.into_iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn numbers_follow_each_other_and_identify_entries() {
        let mut journal = Journal::new("a");
        assert_eq!((journal.oldest(), journal.newest), (1, 0));
        journal.append([entry("A", |_| ()), entry("B", |_| ())]);
        journal.append([entry("C", |_| ())]);
        assert_eq!(numbers(journal.after(0)), [1, 2, 3]);
        assert_eq!(numbers(journal.after(2)), [3]);
        assert_eq!(numbers(journal.after(7)), [0; 0]);
        let id = |number| {
            journal
                .get(number)
                .map(|it| it.transition.tracked.shown.id.as_str())
        };
        assert_eq!([id(0), id(2), id(4)], [None, Some("B"), None]);
    }

    #[test]
    fn entries_about_other_vms_do_not_displace_those_about_this_one() {
        let mut journal = Journal::new("a");
        journal.append([large("own", EventScope::Own, 10)]);
        let mut dropped = Vec::new();
        for _ in 0..30 {
            dropped.extend(journal.append([large("other", EventScope::Other, 100 << 10)]));
        }
        let kept = numbers(journal.after(0));
        assert_eq!(kept.first(), Some(&1));
        assert_eq!(kept.len() - 1, MAX_OTHER_BYTES / (101 << 10));
        assert_eq!(kept.len() + dropped.len(), 31);
        assert_eq!(journal.oldest(), dropped.last().unwrap().number + 1);
        for _ in 0..30 {
            journal.append([large("unknown", EventScope::Unknown, 100 << 10)]);
        }
        let ours = journal.after(0).filter(|it| it.is_ours());
        assert_eq!(ours.count(), MAX_OWN_BYTES / (101 << 10));
        assert_eq!(journal.get(1), None);
    }

    /// Before instance metadata answer, each event may be that of this VM.
    #[test]
    fn events_that_turn_out_to_be_those_of_other_vms_do_not_displace_that_of_this_one() {
        let mut journal = Journal::new("a");
        let known = |id, scope, was_scope| {
            let mut entry = large(id, scope, 100 << 10);
            entry.transition.kind = TransitionKind::Amended { was_scope };
            entry
        };
        let (own, unknown) = (EventScope::Own, EventScope::Unknown);
        let others = (0..30).map(|_| known("other", EventScope::Other, unknown));
        journal.append([known("own", own, unknown)].into_iter().chain(others));
        assert!(journal.get(1).is_some());
        assert!(known("left", EventScope::Other, own).is_ours());
    }

    #[test]
    fn a_line_that_is_too_long_keeps_the_name_of_this_vm() {
        let mut journal = Journal::new("a");
        journal.append([entry("A", |event| {
            let names = (1..40_000).map(|number| format!("a_vm_with_a_long_name_{number}"));
            let names = names.chain(["WEB_0".to_owned()]);
            event.shown.resources = Some(names.map(Into::into).collect());
        })]);
        let entry = journal.get(1).unwrap();
        let event = &entry.transition.tracked.shown;
        assert!(event.has_more_resources);
        let names = event.resources.as_deref().unwrap();
        assert_eq!(&*names[0], "WEB_0");
        let bytes: usize = names.iter().map(|name| name.len()).sum();
        assert!(
            bytes <= MAX_CUT_NAMES_BYTES && bytes > MAX_CUT_NAMES_BYTES - 64,
            "{bytes}"
        );
        assert!(entry.to_json().unwrap().is_some());
    }

    #[test]
    fn a_restored_journal_goes_on_after_the_last_number_that_the_state_or_its_file_has() {
        let mut journal = Journal::new("a");
        journal.append(["A", "B", "C"].map(|id| entry(id, |_| ())));
        let lines: Vec<_> = journal
            .after(0)
            .map(|it| it.to_json().unwrap().unwrap())
            .collect();
        let read = |count| -> Vec<Entry> {
            let lines = lines.iter().take(count);
            lines
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect()
        };
        let restore = |newest, count| {
            let saved = SavedJournal {
                id: "a".into(),
                newest,
                ..SavedJournal::default()
            };
            Journal::restore(&saved, 0, read(count))
        };
        for (newest, count, expected) in [
            (3, 3, (3, 1)),
            (2, 3, (3, 1)),
            (3, 2, (3, 4)),
            (3, 0, (3, 4)),
        ] {
            let mut restored = restore(newest, count);
            assert_eq!(
                (restored.newest, restored.oldest()),
                expected,
                "{newest} {count}"
            );
            restored.append([entry("D", |_| ())]);
            assert_eq!(restored.newest, 4);
        }
    }

    #[test]
    fn the_records_behind_the_state_replace_those_in_it() {
        let end = |event: &mut TrackedEvent| {
            let outcome = Outcome::Completed;
            event.end = Some(crate::core::lifecycle::End { at: at(0), outcome });
        };
        let known = |id| entry(id, |_| ()).transition.tracked;
        let mut state = SavedState {
            boot_id: None,
            heartbeat_at: Timestamp::UNIX_EPOCH,
            monotonic: crate::base::time::MonotonicTime::default(),
            document_at: None,
            set_back: std::time::Duration::ZERO,
            document_incarnation: None,
            warm_up_until: None,
            vm_name: None,
            metadata_name: None,
            owner: None,
            vm_id: None,
            journal: SavedJournal {
                newest: 1,
                ..SavedJournal::default()
            },
            events: vec![known("A"), known("B")],
        };
        let mut journal = Journal::new("a");
        journal.append([entry("B", end), entry("A", end), entry("C", |_| ())]);
        journal.replay(&mut state);
        let events = state.events.iter();
        let events = events.map(|it| (it.shown.id.as_str(), it.is_pending()));
        assert_eq!(
            events.collect::<Vec<_>>(),
            [("A", false), ("B", true), ("C", true)]
        );
        assert_eq!(state.heartbeat_at, at(0));
    }
}
