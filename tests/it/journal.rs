//! The process is killed between any two steps of a write, or the disk fails: what readers are told of each event, against
//! an oracle that knows only what Azure had.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    Identity,
    document::{self, Answer},
    engine::{Effect, Engine, EngineConfig, Input, SavedState},
    journal::{Entry, Journal},
    lifecycle::{SavedJournal, TransitionKind},
    snapshot::Snapshot,
    time::{Moment, Timestamp},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{
    driven_engine::config,
    events::{event, numbered_id},
};

/// What Azure lists before a poll.
#[derive(Debug, Clone)]
enum Change {
    Nothing,
    Announce,
    Start(prop::sample::Index),
    End(prop::sample::Index),
}

/// What becomes of the first write of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    /// Killed with so many of its entries on disk, and the state as before.
    KilledAfterEntries(usize),
    /// Killed with journal and state on disk, before readers are told.
    KilledAfterState,
    /// The disk fails with so many of its entries on disk.
    Failed(usize),
}

#[derive(Debug, Clone)]
struct Poll {
    change: Change,
    fate: Fate,
    /// The wall clock is set by this many seconds before it.
    jump: i64,
    is_read: bool,
}

fn polls(fails: bool) -> impl Strategy<Value = Vec<Poll>> {
    let change = prop_oneof![
        1 => Just(Change::Nothing),
        2 => Just(Change::Announce),
        1 => any::<prop::sample::Index>().prop_map(Change::Start),
        2 => any::<prop::sample::Index>().prop_map(Change::End),
    ];
    let fate = prop_oneof![
        6 => Just(Fate::Written),
        2 => (0_usize..3).prop_map(Fate::KilledAfterEntries),
        1 => Just(Fate::KilledAfterState),
        2 => (0_usize..3).prop_map(move |entries| {
            if fails { Fate::Failed(entries) } else { Fate::Written }
        }),
    ];
    let jump = prop_oneof![6 => Just(0), 1 => -4_000_i64..4_000];
    let poll = (change, fate, jump, prop::bool::weighted(0.7));
    let poll = poll.prop_map(|(change, fate, jump, is_read)| Poll {
        change,
        fate,
        jump,
        is_read,
    });
    prop::collection::vec(poll, 1..60)
}

/// What Azure has: by number, whether the event has started.
#[derive(Default)]
struct Azure {
    listed: BTreeMap<usize, bool>,
    next: usize,
}

impl Azure {
    fn apply(&mut self, change: &Change) {
        let listed: Vec<_> = self.listed.keys().copied().collect();
        match change {
            Change::Announce => {
                self.listed.insert(self.next, false);
                self.next += 1;
            }
            Change::Start(index) if !listed.is_empty() => {
                self.listed.insert(*index.get(&listed), true);
            }
            Change::End(index) if !listed.is_empty() => {
                self.listed.remove(index.get(&listed));
            }
            _ => {}
        }
    }

    fn document(&self) -> Answer {
        let events = self.listed.iter().map(|(number, is_started)| {
            let status = if *is_started { "Started" } else { "Scheduled" };
            event(&json!({"EventId": numbered_id(*number), "EventStatus": status}))
        });
        // Without one that is always listed, an empty document would end nothing in the first minutes.
        let always = event(&json!({"EventId": "always", "Resources": ["web_9"]}));
        let events: Vec<Value> = events.chain([always]).collect();
        let body = json!({"DocumentIncarnation": 1, "Events": events}).to_string();
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        Answer::Document {
            document,
            anomalies,
        }
    }
}

/// What is on disk.
#[derive(Default)]
struct Disk {
    state: Option<SavedState>,
    entries: Vec<Entry>,
}

impl Disk {
    fn append(&mut self, journal: &Journal, most: usize) {
        let last = self.entries.last().map_or(0, |entry| entry.number);
        let new = journal.after(last).take(most);
        self.entries.extend(new.map(|entry| Entry::clone(entry)));
    }

    fn start(&self, now: Moment) -> Engine {
        let saved = self.state.as_ref().and_then(|state| state.journal.clone());
        let journal = match saved {
            Some(saved) => Journal::restore(&saved, 0, self.entries.clone()),
            None => Journal::new("journal"),
        };
        let config = EngineConfig {
            journal,
            ..config(Some("web_0"), 0)
        };
        Engine::new(config, self.state.clone(), now)
    }
}

/// A reader as `docs/http.md` describes it.
#[derive(Default)]
struct Reader {
    number: u64,
    at: Option<Timestamp>,
    on_disk: u64,
    /// The transitions of each event, in order.
    told: BTreeMap<String, Vec<&'static str>>,
    was_reset: bool,
}

impl Reader {
    fn read(&mut self, snapshot: &Snapshot) {
        let journal = &snapshot.journal;
        let at = |number| journal.get(number).map(|entry: &Arc<Entry>| entry.at());
        if at(self.number) != self.at {
            self.was_reset = true;
            self.number = self.on_disk;
        }
        for entry in journal.after(self.number) {
            let name = match entry.transition.kind {
                TransitionKind::Announced => "announced",
                TransitionKind::Started => "started",
                TransitionKind::Ended(_) => "ended",
                _ => continue,
            };
            let id = entry.transition.tracked.shown.id.as_str();
            self.told.entry(id.to_owned()).or_default().push(name);
        }
        self.number = journal.newest;
        (self.at, self.on_disk) = (at(journal.newest), journal.on_disk);
    }
}

struct Setup {
    azure: Azure,
    disk: Disk,
    engine: Option<Engine>,
    reader: Reader,
    /// The events that some reader could have been told of.
    published: BTreeSet<String>,
    now: Moment,
}

impl Setup {
    fn new() -> Self {
        let start = Timestamp::from_unix_seconds(1_794_906_000).unwrap();
        let mut setup = Self {
            azure: Azure::default(),
            disk: Disk::default(),
            engine: None,
            reader: Reader::default(),
            published: BTreeSet::new(),
            now: Moment::new(start, Duration::from_secs(5)),
        };
        setup.poll(Fate::Written, true);
        setup
    }

    fn poll(&mut self, fate: Fate, is_read: bool) {
        if self.engine.is_none() {
            let mut engine = self.disk.start(self.now);
            let effects = engine.begin(self.now);
            self.engine = Some(engine);
            self.perform(effects, Fate::Written, is_read);
        }
        let input = Input::Polled {
            result: Ok(self.azure.document()),
            took: Duration::ZERO,
            late: Duration::ZERO,
        };
        self.handle(input, fate, is_read);
    }

    fn handle(&mut self, input: Input, fate: Fate, is_read: bool) {
        if let Some(engine) = &mut self.engine {
            let effects = engine.handle(input, self.now);
            self.perform(effects, fate, is_read);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>, fate: Fate, is_read: bool) {
        for effect in effects {
            match effect {
                Effect::Write { journal, state } => {
                    let most = match fate {
                        Fate::KilledAfterEntries(most) | Fate::Failed(most) => most,
                        Fate::Written | Fate::KilledAfterState => usize::MAX,
                    };
                    self.disk.append(&journal, most);
                    if matches!(fate, Fate::Written | Fate::KilledAfterState) {
                        self.disk.state = Some(*state);
                    }
                    match fate {
                        Fate::Written => {
                            self.handle(Input::StateWritten(Ok(())), fate, is_read);
                        }
                        Fate::Failed(_) => {
                            let failed = Input::StateWritten(Err("disk".to_owned()));
                            self.handle(failed, fate, is_read);
                        }
                        Fate::KilledAfterEntries(_) | Fate::KilledAfterState => {
                            self.engine = None;
                            return;
                        }
                    }
                }
                Effect::Publish { snapshot, .. } => {
                    let events = snapshot.events.iter();
                    let ids = events.map(|event| event.shown.id.as_str().to_owned());
                    self.published.extend(ids);
                    if is_read {
                        self.reader.read(&snapshot);
                    }
                }
                _ => {}
            }
        }
    }

    fn run(&mut self, polls: &[Poll]) {
        for poll in polls {
            self.azure.apply(&poll.change);
            self.now = self.now.after(Duration::from_secs(2));
            let jump = Duration::from_secs(poll.jump.unsigned_abs());
            self.now.wall = if poll.jump < 0 {
                self.now.wall.before(jump)
            } else {
                self.now.wall.after(jump)
            };
            self.poll(poll.fate, poll.is_read);
        }
        self.azure.listed.clear();
        for _ in 0..3 {
            self.now = self.now.after(Duration::from_secs(2));
            self.poll(Fate::Written, true);
        }
        self.published.remove("always");
        self.reader.told.remove("always");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_event_is_announced_and_ends_once_whenever_the_process_is_killed(polls in polls(false)) {
        let mut setup = Setup::new();
        setup.run(&polls);
        prop_assert!(!setup.reader.was_reset);
        let told: BTreeSet<_> = setup.reader.told.keys().cloned().collect();
        prop_assert!(told.is_superset(&setup.published), "{told:?}");
        for (id, told) in &setup.reader.told {
            let expected: [&[_]; 2] = [&["announced", "ended"], &["announced", "started", "ended"]];
            prop_assert!(expected.contains(&&told[..]), "{id}: {told:?}");
        }
    }

    /// What was told and was not on disk can be told again, after a kill.
    #[test]
    fn each_event_is_announced_and_ends_although_the_disk_fails_too(polls in polls(true)) {
        let mut setup = Setup::new();
        setup.run(&polls);
        for id in &setup.published {
            let told = setup.reader.told.get(id).cloned().unwrap_or_default();
            prop_assert!(told.contains(&"announced") || !setup.disk_knew(id), "{id}: {told:?}");
            prop_assert!(told.contains(&"ended") || !setup.disk_knew(id), "{id}: {told:?}");
        }
    }
}

impl Setup {
    /// Whether a process in the end knew the event, as one that was on disk or that Azure still listed.
    fn disk_knew(&self, id: &str) -> bool {
        let state = self.disk.state.as_ref();
        let mut events = state.into_iter().flat_map(|state| &state.events);
        events.any(|event| event.shown.id.as_str() == id)
    }
}

/// What an earlier version wrote has no journal.
#[test]
fn a_state_without_a_journal_begins_one_and_announces_nothing_again() {
    let mut setup = Setup::new();
    setup.azure.apply(&Change::Announce);
    setup.poll(Fate::Written, true);
    let state = setup.disk.state.as_mut().unwrap();
    assert_eq!(
        state.journal.take(),
        Some(SavedJournal {
            id: "journal".into(),
            newest: 2,
            ..SavedJournal::default()
        })
    );
    (setup.disk.entries, setup.engine) = (Vec::new(), None);
    setup.reader = Reader::default();
    setup.poll(Fate::Written, true);
    assert_eq!(setup.reader.told, BTreeMap::new());
}

#[test]
fn a_write_that_began_before_a_foreign_state_was_discarded_counts_no_entry_of_the_next_journal() {
    let mut setup = Setup::new();
    setup.disk.state.as_mut().unwrap().vm_id = Some("another-vm".to_owned());
    let mut engine = setup.disk.start(setup.now);
    let effects = engine.begin(setup.now);
    assert!(matches!(effects[0], Effect::Write { .. }), "{effects:?}");
    let identity = Identity {
        name: "web_0".to_owned(),
        vm_id: "a-vm".to_owned(),
        ..Identity::default()
    };
    let (result, took) = (Ok(identity), Duration::ZERO);
    engine.handle(Input::Identified { result, took }, setup.now);
    engine.handle(Input::StateWritten(Ok(())), setup.now);
    let journal = engine.snapshot(setup.now).journal;
    assert_eq!(
        (&*journal.id, journal.newest, journal.on_disk),
        ("next", 0, 0)
    );
}
