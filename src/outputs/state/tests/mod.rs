//! Errors of the disk, damaged files and what a process finds at its start. The kills are beside `watch`, which shows what
//! is lost.

mod damage;
mod disk_errors;
mod start;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

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
use fixtures::{Disk, Fault};

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
            owner: None,
            vm_id: Some("a-vm".to_owned()),
            journal: SavedJournal {
                id: Arc::clone(&self.journal.id),
                newest: self.journal.newest,
                cursors: BTreeMap::new(),
            },
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

    fn add(&mut self, entries: u8) {
        self.append_own(entries);
        assert!(self.write());
    }

    /// Whether journal and state are on disk.
    fn write(&mut self) -> bool {
        let saved = self.saved();
        let directory = self.directory.as_mut().unwrap();
        directory.write(&saved, &self.journal).is_ok()
    }

    /// The process ends, and another one starts.
    fn restart(&mut self) {
        self.now += 1;
        self.disk.restart();
        self.directory = None;
        let mut directory = Directory::on(&self.disk, self.folder.path());
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
        self.journal.append([]);
    }
}

fn numbers(journal: &Journal) -> Vec<u64> {
    journal.after(0).map(|entry| entry.number).collect()
}
