//! The exporter with its Azure, its clock and its disk, beside `watch`.

use std::{collections::BTreeMap, fmt, io, sync::Arc, time::Duration};

use serde_json::json;
use tempfile::TempDir;

use super::{Op, Watch};
use crate::{
    azure::{
        Identity,
        document::{self, Answer},
    },
    base::time::{Moment, Timestamp},
    core::{
        engine::{Effect, Engine, EngineConfig, Input, SavedState},
        journal::{Entry, Journal},
        lifecycle::{SavedJournal, Transition},
        pause::Lateness,
        snapshot::Snapshot,
    },
    outputs::{
        state::{Directory, Found, fixtures::Disk},
        web::fixtures::transitions,
    },
};

struct Process {
    engine: Engine,
    directory: Directory,
    snapshot: Option<Arc<Snapshot>>,
}

type Entries = BTreeMap<Arc<str>, BTreeMap<u64, Arc<Entry>>>;

pub(super) struct Model {
    pub(super) folder: TempDir,
    pub(super) disk: Disk,
    process: Option<Process>,
    pub(super) now: Moment,
    processes: u32,
    vm: u32,
    /// The events that Azure lists, and whether they have started.
    pub(super) listed: BTreeMap<u32, bool>,
    events: u32,
    /// The journal that the next process continues.
    pub(super) id: Option<Arc<str>>,
    /// The entries that a write said to be on disk, and those that were published.
    pub(super) on_disk: Entries,
    pub(super) published: Entries,
    forgotten: u64,
    pub(super) has_forgotten: bool,
    /// A write failed, and published entries were lost.
    has_failed: bool,
    pub(super) has_lost: bool,
    pub(super) watch: Watch,
}

/// What is on disk of an entry.
fn content(entry: &Entry) -> impl PartialEq + fmt::Debug {
    let Transition { at, kind, tracked } = entry.transition.clone();
    (entry.number, entry.vm.clone(), at.wall, kind, tracked)
}

impl Model {
    pub(super) fn new() -> Self {
        let start = Timestamp::from_unix_seconds(1_794_906_000).unwrap();
        let mut model = Self {
            folder: tempfile::tempdir().unwrap(),
            disk: Disk::default(),
            process: None,
            now: Moment::new(start, Duration::from_secs(5)),
            processes: 0,
            vm: 0,
            listed: BTreeMap::new(),
            events: 0,
            id: None,
            on_disk: Entries::new(),
            published: Entries::new(),
            forgotten: 0,
            has_forgotten: false,
            has_failed: false,
            has_lost: false,
            watch: Watch::default(),
        };
        model.run(&Op::Poll);
        model.run(&Op::Read { is_killed: false });
        model
    }

    pub(super) fn run(&mut self, op: &Op) {
        self.now = self.now.after(Duration::from_millis(2_001));
        let listed: Vec<_> = self.listed.keys().copied().collect();
        match op {
            Op::Announce => {
                self.events += 1;
                self.listed.insert(self.events, false);
            }
            Op::Start(_) | Op::End(_) if listed.is_empty() => {}
            Op::Start(index) => *self.listed.get_mut(index.get(&listed)).unwrap() = true,
            Op::End(index) => drop(self.listed.remove(index.get(&listed))),
            Op::Poll => self.poll(),
            Op::Fail(steps, fault) => self.disk.fail_after(*steps, *fault),
            Op::Fill(is_full) => {
                let error = io::ErrorKind::StorageFull;
                self.disk.fail_writes(is_full.then_some(error));
            }
            Op::Kill => self.process = None,
            Op::LoseState => {
                self.process = None;
                self.disk.clear();
                self.id = None;
            }
            Op::CloneDisk => {
                self.process = None;
                self.vm += 1;
            }
            Op::Forget(kept) => {
                let journal = self.snapshot().map(|it| Arc::clone(&it.journal));
                let forgotten = journal.map_or(0, |it| it.newest.saturating_sub(*kept));
                self.has_forgotten |= forgotten > 0;
                self.forgotten = self.forgotten.max(forgotten);
            }
            Op::SetClock(seconds) => {
                let by = Duration::from_secs(seconds.unsigned_abs());
                let wall = self.now.wall;
                let is_back = *seconds < 0;
                self.now.wall = if is_back {
                    wall.before(by)
                } else {
                    wall.after(by)
                };
            }
            Op::Read { is_killed } => self.read(*is_killed),
            Op::RestartWatch => self.watch.restart(),
        }
    }

    pub(super) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.process.as_ref()?.snapshot.as_ref()
    }

    /// The process begins if none runs, and polls.
    fn poll(&mut self) {
        if self.process.is_none() {
            self.start();
        }
        let events = self.listed.iter().map(|(number, is_started)| {
            let status = if *is_started { "Started" } else { "Scheduled" };
            json!({
                "EventId": number.to_string(), "EventStatus": status, "EventType": "Freeze", "Resources": ["web_0"],
                "NotBefore": "Fri, 31 Dec 2999 23:59:59 GMT", "EventSource": "Platform",
            })
        });
        // An empty document would end nothing in the first minutes.
        let always = json!({"EventId": "always", "EventStatus": "Scheduled", "EventType": "Freeze", "Resources": ["web_9"]});
        let events: Vec<_> = events.chain([always]).collect();
        let body = json!({"DocumentIncarnation": 1, "Events": events}).to_string();
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        let (took, late) = (Duration::ZERO, Lateness::default());
        let result = Ok(Answer::Document {
            document,
            anomalies,
        });
        self.handle(Input::Polled { result, took, late });
    }

    fn start(&mut self) {
        self.disk.restart();
        self.processes += 1;
        let mut directory = Directory::on(&self.disk, self.folder.path());
        let saved = match directory.read(self.now.wall) {
            Found::State(saved) => Some(*saved),
            Found::Nothing => None,
            other => panic!("{other:?}"),
        };
        let id = |name: &str| format!("{name} {}", self.processes).into();
        let journal = directory.read_journal(saved.as_ref(), id("new"), self.now.wall);
        let next_journal_id = id("next");
        self.check_restored(&journal);
        let config = EngineConfig {
            vm_name: Some("web_0".into()),
            poll_interval: Duration::from_secs(1),
            boot_id: Some("boot".to_owned()),
            is_persistent: true,
            journal,
            next_journal_id,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, saved, self.now);
        let effects = engine.begin(self.now);
        self.process = Some(Process {
            engine,
            directory,
            snapshot: None,
        });
        if let Some(written) = self.perform(effects) {
            self.handle(written);
        }
        let identity = Identity {
            name: "web_0".to_owned(),
            vm_id: format!("vm {}", self.vm),
            ..Identity::default()
        };
        let (result, took) = (Ok(identity), Duration::ZERO);
        self.handle(Input::Identified { result, took });
    }

    fn check_restored(&mut self, journal: &Journal) {
        let id = &journal.id;
        assert!(self.id.as_ref().is_none_or(|known| known == id), "{id}");
        for (number, entry) in self.on_disk.get(id).into_iter().flatten() {
            assert!(*number <= journal.newest);
            let found = journal.get(*number).expect("no entry on disk is lost");
            assert_eq!(content(found), content(entry));
        }
        let mut published = self.published.remove(id).unwrap_or_default();
        let count = published.len();
        published.retain(|number, entry| {
            let found = journal.get(*number);
            found.is_some_and(|it| content(it) == content(entry))
        });
        self.has_lost |= published.len() < count;
        assert!(
            self.has_failed || !self.has_lost,
            "published before it was on disk"
        );
        self.published.insert(Arc::clone(id), published);
        self.forgotten = self.forgotten.min(journal.newest);
    }

    fn handle(&mut self, input: Input) {
        let mut next = Some(input);
        while let (Some(input), Some(process)) = (next.take(), &mut self.process) {
            let effects = process.engine.handle(input, self.now);
            next = self.perform(effects);
        }
    }

    /// Returns the result of the write, as the next input.
    fn perform(&mut self, effects: Vec<Effect>) -> Option<Input> {
        let mut written = None;
        for effect in effects {
            match effect {
                Effect::ForgetDocument => {
                    self.id = None;
                    self.forgotten = 0;
                }
                Effect::Write { journal, state } => written = Some(self.write(&journal, &state)?),
                Effect::Publish { snapshot, .. } => self.publish(snapshot),
                Effect::Approve(_) => {}
            }
        }
        written
    }

    /// `None` if the process was killed.
    fn write(&mut self, journal: &Journal, state: &SavedState) -> Option<Input> {
        let directory = &mut self.process.as_mut()?.directory;
        let written = directory.write(state, journal);
        if self.disk.is_killed() {
            self.process = None;
            return None;
        }
        if written.is_ok() {
            self.id = Some(Arc::clone(&journal.id));
            let on_disk = self.on_disk.entry(Arc::clone(&journal.id)).or_default();
            for entry in journal.after(0) {
                let known = on_disk.entry(entry.number);
                let known = known.or_insert_with(|| Arc::clone(entry));
                assert_eq!(content(known), content(entry));
            }
        }
        self.has_failed |= written.is_err();
        Some(Input::StateWritten(written.map_err(|it| it.to_string())))
    }

    fn publish(&mut self, snapshot: Arc<Snapshot>) {
        let journal = &snapshot.journal;
        let published = self.published.entry(Arc::clone(&journal.id)).or_default();
        published.extend(journal.after(0).map(|it| (it.number, Arc::clone(it))));
        self.process.as_mut().unwrap().snapshot = Some(snapshot);
    }

    fn read(&mut self, is_killed: bool) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let snapshot = Arc::clone(snapshot);
        let journal = &snapshot.journal;
        let answer = if self.forgotten > journal.dropped {
            let kept = journal.after(self.forgotten).map(|it| Entry::clone(it));
            let saved = SavedJournal {
                id: Arc::clone(&journal.id),
                newest: journal.newest,
                ..SavedJournal::default()
            };
            let mut cut = Journal::restore(&saved, self.forgotten, kept.collect());
            (cut.first, cut.on_disk) = (journal.first, journal.on_disk);
            let cut = Snapshot {
                journal: Arc::new(cut),
                ..(*snapshot).clone()
            };
            transitions(&cut, self.watch.after, self.now)
        } else {
            transitions(&snapshot, self.watch.after, self.now)
        };
        self.watch.read(&answer, journal, self.forgotten);
        if is_killed {
            self.watch.was_killed = true;
            self.watch.restart();
        } else {
            let printed = self.watch.printed.clone();
            self.watch.file = printed.map(|it| (it, self.watch.began.clone()));
        }
    }
}
