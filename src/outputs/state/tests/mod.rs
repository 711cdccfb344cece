//! The journal and the state over kills, errors and damage.

mod damage;
mod disk;
mod disk_errors;
mod kills;
mod start;

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;

use super::*;
use crate::{
    azure::{
        document,
        event::{EventId, EventScope},
    },
    base::time::Moment,
    core::{
        journal::Entry,
        lifecycle::{SavedJournal, TrackedEvent, Tracker, Transition, TransitionKind},
    },
};
use disk::{Disk, Fault};

fn at(seconds: u64) -> Timestamp {
    let start = Timestamp::from_unix_seconds(1_794_906_000).unwrap();
    start.after(Duration::from_secs(seconds))
}

/// What an engine knows, and what is told of it.
struct Exporter {
    folder: TempDir,
    disk: Disk,
    directory: Option<Directory>,
    model: TrackedEvent,
    /// Seconds, processes and records so far: each record has a description of its own.
    now: u64,
    events: BTreeMap<EventId, Arc<TrackedEvent>>,
    journal: Journal,
    /// The journal whose entries must be found after a restart.
    id: Option<Arc<str>>,
    /// The entries of each journal that a write said to be on disk.
    on_disk: BTreeMap<Arc<str>, BTreeMap<u64, Arc<Entry>>>,
}

impl Exporter {
    fn start() -> Self {
        let body = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"1","EventStatus":"Scheduled","EventType":"Freeze","Resources":["web_0"],"NotBefore":""}]}"#;
        let (document, _) = document::parse(body).unwrap();
        let mut tracker = Tracker::default();
        let now = Moment::new(at(0), Duration::ZERO);
        tracker.observe(&document, Some("web_0"), now);
        let mut exporter = Self {
            folder: tempfile::tempdir().unwrap(),
            disk: Disk::default(),
            directory: None,
            model: (*tracker.events(now)[0]).clone(),
            now: 0,
            events: BTreeMap::new(),
            journal: Journal::default(),
            id: None,
            on_disk: BTreeMap::new(),
        };
        exporter.restart();
        exporter
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn saved(&self) -> SavedState {
        SavedState {
            boot_id: None,
            heartbeat_at: at(self.now),
            monotonic: crate::base::time::MonotonicTime::default(),
            document_at: None,
            set_back: Duration::ZERO,
            document_incarnation: None,
            warm_up_until: None,
            vm_name: None,
            metadata_name: None,
            vm_id: Some("a-vm".to_owned()),
            journal: Some(SavedJournal {
                id: Arc::clone(&self.journal.id),
                newest: self.journal.newest,
                cursors: BTreeMap::new(),
            }),
            events: self.events.values().cloned().collect(),
        }
    }

    /// An event changes.
    fn append(&mut self, id: u8, scope: EventScope, bytes: usize) {
        self.now += 1;
        let mut tracked = self.model.clone();
        tracked.shown.id = EventId::new(&id.to_string());
        tracked.shown.description = Some(format!("{} {}", self.now, "x".repeat(bytes)).into());
        tracked.scope = scope;
        let tracked = Arc::new(tracked);
        self.events
            .insert(tracked.shown.id.clone(), Arc::clone(&tracked));
        let transition = Transition {
            at: Moment::new(at(self.now), Duration::ZERO),
            kind: TransitionKind::Announced,
            tracked,
        };
        self.journal.append([Entry::new(transition, None)]);
    }

    fn append_own(&mut self, entries: u8) {
        (0..entries).for_each(|id| self.append(id, EventScope::Own, 0));
    }

    fn tell(&mut self, entries: u8) {
        self.append_own(entries);
        assert!(self.write());
    }

    /// Whether everything that was told is on disk.
    fn write(&mut self) -> bool {
        let saved = self.saved();
        let written = self
            .directory
            .as_mut()
            .unwrap()
            .write(&saved, &self.journal);
        if written.is_ok() {
            let id = &self.journal.id;
            self.id = Some(Arc::clone(id));
            let on_disk = self.on_disk.entry(Arc::clone(id)).or_default();
            for entry in self.journal.after(0) {
                let before = on_disk
                    .entry(entry.number)
                    .or_insert_with(|| Arc::clone(entry));
                assert_same(before, entry);
            }
        }
        written.is_ok()
    }

    /// The disk is that of another VM.
    fn discard_foreign(&mut self) {
        self.now += 1;
        self.journal
            .discard_foreign(&format!("journal {}", self.now).into());
        let own = self.journal.after(0).map(|entry| &entry.transition.tracked);
        let ids: HashSet<_> = own.map(|tracked| tracked.shown.id.clone()).collect();
        self.events.retain(|id, _| ids.contains(id));
        self.id = None;
    }

    /// The process ends, another one starts and finds what must not be lost.
    fn restart(&mut self) {
        self.now += 1;
        self.disk.restart();
        self.directory = None;
        let mut directory = Directory::open(self.folder.path()).unwrap();
        directory.files = Box::new(self.disk.clone());
        let found = match directory.read(at(self.now)) {
            Found::State(saved) => Some(*saved),
            Found::Nothing => None,
            other => panic!("{other:?}"),
        };
        let new_id = format!("journal {}", self.now).into();
        self.journal = directory.read_journal(found.as_ref(), new_id, at(self.now));
        self.directory = Some(directory);
        let mut state = found.unwrap_or_else(|| SavedState {
            events: Vec::new(),
            ..self.saved()
        });
        self.journal.replay(&mut state);
        let events = state.events.into_iter();
        self.events = events.map(|it| (it.shown.id.clone(), it)).collect();
        self.check();
        self.journal.append([]);
    }

    fn check(&self) {
        let id = &self.journal.id;
        assert!(self.id.as_ref().is_none_or(|known| known == id), "{id}");
        let nothing = BTreeMap::new();
        let on_disk = self.on_disk.get(id).unwrap_or(&nothing);
        assert!(self.journal.newest >= on_disk.keys().last().copied().unwrap_or(0));
        for (number, entry) in on_disk {
            match self.journal.get(*number) {
                Some(found) => assert_same(found, entry),
                None => assert!(self.fell_off(entry, on_disk), "entry {number} is lost"),
            }
        }
        let known = on_disk.values().chain(self.journal.after(0));
        for record in known.map(|entry| &entry.transition.tracked) {
            let (found, told) = (&self.events[&record.shown.id], record);
            assert!(
                version(found) >= version(told),
                "{found:?} is older than {told:?}"
            );
        }
        let missing = (self.journal.oldest()..=self.journal.newest)
            .filter(|number| self.journal.get(*number).is_none());
        assert_eq!(missing.count(), 0, "oldest {}", self.journal.oldest());
    }

    /// The later entries of its kind take all space that it has.
    fn fell_off(&self, entry: &Entry, on_disk: &BTreeMap<u64, Arc<Entry>>) -> bool {
        let mut all = on_disk.clone();
        all.extend(self.journal.after(0).map(|it| (it.number, Arc::clone(it))));
        let is_own = entry.transition.tracked.scope == EventScope::Own;
        let later = all.range(entry.number..).map(|(_, it)| it);
        let same = later.filter(|it| (it.transition.tracked.scope == EventScope::Own) == is_own);
        let bytes: usize = same.map(|it| it.to_json().unwrap().unwrap().len()).sum();
        bytes > if is_own { 2 << 20 } else { 1 << 20 }
    }

    /// Entries that were on disk and are in no file.
    fn lost_lines(&self) -> usize {
        let files = self.disk.all();
        let lines = files
            .iter()
            .flat_map(|file| file.split_inclusive(|it| *it == b'\n'));
        let lines: HashSet<_> = lines.collect();
        let told = self.on_disk.values().flat_map(BTreeMap::values);
        let line = |it: &Arc<Entry>| journal_file::line(&it.to_json().unwrap().unwrap());
        told.map(line)
            .filter(|line| !lines.contains(&**line))
            .count()
    }
}

fn assert_same(one: &Entry, other: &Entry) {
    let of = |entry: &Entry| (entry.number, entry.vm.clone(), entry.transition.clone());
    assert_eq!(of(one), of(other));
}

fn version(tracked: &TrackedEvent) -> u64 {
    let description = tracked.shown.description.as_ref().unwrap();
    description.split(' ').next().unwrap().parse().unwrap()
}

fn numbers(journal: &Journal) -> Vec<u64> {
    journal.after(0).map(|entry| entry.number).collect()
}
