//! The exporter and `watch` are killed at any moment, and disk and clock fail: what Azure had and what was on disk, against
//! what is printed. Engine, files, JSON and `watch` are those of the program.

mod model;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::{prelude::*, sample::Index};
use serde_json::Value;

use self::model::Model;
use super::super::*;
use crate::{
    azure::event::EventScope,
    core::journal::Journal,
    outputs::{
        state::{fixtures::Fault, journal_file},
        web::fixtures::transitions,
    },
};

#[derive(Debug, Clone)]
enum Op {
    Announce,
    Start(Index),
    End(Index),
    Poll,
    /// After this number of steps of the disk.
    Fail(usize, Fault),
    /// The disk is full, or has space again.
    Fill(bool),
    Kill,
    LoseState,
    /// The disk is that of another VM from now on.
    CloneDisk,
    /// Only this many entries are kept.
    Forget(u64),
    /// The wall clock is set by this many seconds.
    SetClock(i64),
    /// One request of `watch`. Killed: it has printed, and not written its file.
    Read {
        is_killed: bool,
    },
    RestartWatch,
}

fn op() -> impl Strategy<Value = Op> {
    let fault = prop_oneof![
        3 => Just(Fault::Kill),
        1 => Just(Fault::PowerLoss),
        1 => Just(Fault::Error),
    ];
    prop_oneof![
        8 => Just(Op::Announce),
        3 => any::<Index>().prop_map(Op::Start),
        6 => any::<Index>().prop_map(Op::End),
        20 => Just(Op::Poll),
        6 => (0..24_usize, fault).prop_map(|(steps, fault)| Op::Fail(steps, fault)),
        2 => any::<bool>().prop_map(Op::Fill),
        3 => Just(Op::Kill),
        1 => Just(Op::LoseState),
        1 => Just(Op::CloneDisk),
        1 => (0..4_u64).prop_map(Op::Forget),
        3 => (-4_000_i64..4_000).prop_map(Op::SetClock),
        14 => prop::bool::weighted(0.1).prop_map(|is_killed| Op::Read { is_killed }),
        2 => Just(Op::RestartWatch),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    event: String,
    transition: String,
    /// Two moments never have the same text.
    at: String,
}

fn line(json: &Value) -> Line {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Line {
        event: text(&json["event"]["EventId"]),
        transition: text(&json["transition"]),
        at: text(&json["at"]),
    }
}

/// The journal, and the number after which its lines begin.
type Began = (Arc<str>, u64);

#[derive(Default)]
struct Watch {
    printed: Option<Printed>,
    /// What its file has, with `began` of then.
    file: Option<(Printed, Option<Began>)>,
    after: Option<u64>,
    lines: Vec<Line>,
    gaps: Vec<&'static str>,
    began: Option<Began>,
    /// The events and times of what was read before it was on disk.
    doubtful: BTreeSet<(String, String)>,
    was_killed: bool,
    journals: BTreeSet<Arc<str>>,
}

impl Watch {
    fn restart(&mut self) {
        (self.printed, self.began) = match self.file.clone() {
            Some((printed, began)) => (Some(printed), began),
            None => (None, None),
        };
        self.after = self.printed.as_ref().map(|it| it.number);
    }

    fn read(&mut self, answer: &str, journal: &Journal, forgotten: u64) {
        let answer: TransitionsAnswer<'_> = serde_json::from_str(answer).unwrap();
        let step = Printed::advance(self.printed.as_ref(), self.after, &answer, false).unwrap();
        let (printed, news) = match step {
            Step::Wait => return,
            Step::Ask(after) => {
                self.after = after;
                return;
            }
            Step::Print(printed, news) => (printed, news),
        };
        if self.began.as_ref().is_none_or(|(id, _)| *id != journal.id) {
            let number = match self.began {
                None => journal.newest,
                Some(_) => forgotten.max(journal.first - 1),
            };
            self.began = Some((Arc::clone(&journal.id), number));
        }
        self.journals.insert(Arc::clone(&journal.id));
        let doubtful = journal.after(journal.on_disk).map(|it| {
            let id = it.transition.tracked.shown.id.to_string();
            (id, it.at().rfc3339_millis())
        });
        self.doubtful.extend(doubtful);
        let lines = news.lines.lines();
        self.lines
            .extend(lines.map(|it| line(&serde_json::from_str(it).unwrap())));
        self.gaps.extend(news.gap);
        self.after = Some(printed.number);
        self.printed = Some(printed);
    }
}

impl Model {
    /// The disk works, and everything is read.
    fn settle(&mut self) {
        self.disk.repair();
        self.disk.fail_writes(None);
        for _ in 0..3 {
            self.run(&Op::Poll);
        }
        for _ in 0..4 {
            self.run(&Op::Read { is_killed: false });
        }
    }

    /// What happened in the last journal since `watch` has read it, and was not lost.
    fn expected(&self) -> Vec<Line> {
        let answer = transitions(self.snapshot().unwrap(), None, self.now);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let (_, after) = self.watch.began.as_ref().unwrap();
        let all = answer["transitions"].as_array().unwrap().iter();
        let new = all.filter(|it| it["number"].as_u64().unwrap() > *after);
        let own = new.filter(|it| it["event"]["scope"] == "self");
        own.map(line).collect()
    }

    /// All events have ended in the end.
    fn finish(&mut self) {
        self.settle();
        let is_missed = |it: &Self| it.watch.gaps.contains(&MISSED);
        for event in self.listed.keys().map(u32::to_string) {
            let is_printed = self.watch.lines.iter().any(|it| it.event == event);
            assert!(is_printed || is_missed(self), "{event} was never printed");
        }
        self.listed.clear();
        self.settle();
        let watch = &self.watch;
        let lines = watch.lines.iter().filter(|it| it.transition != "pending");
        let mut counts: BTreeMap<&Line, usize> = BTreeMap::new();
        for line in lines.clone() {
            *counts.entry(line).or_default() += 1;
        }
        let expected = self.expected();
        let missing = expected.iter().find(|it| !counts.contains_key(it));
        assert!(
            is_missed(self) || missing.is_none(),
            "not printed: {missing:?}"
        );
        let mut once = BTreeSet::new();
        for line in expected.iter().filter(|it| it.transition != "interrupted") {
            assert!(once.insert((&line.event, &line.transition)), "{line:?}");
        }
        let may_miss = self.has_forgotten || self.has_lost;
        assert!(may_miss || !is_missed(self));
        if watch.was_killed {
            return;
        }
        let renumbered = watch.gaps.iter().filter(|gap| **gap == OTHER_JOURNAL);
        assert_eq!(renumbered.count(), watch.journals.len() - 1);
        for (line, count) in counts {
            let doubt = (line.event.clone(), line.at.clone());
            let may_repeat = self.has_lost && watch.doubtful.contains(&doubt);
            assert!(count == 1 || may_repeat, "{line:?} {count} times");
        }
        if !self.has_lost && watch.gaps.is_empty() {
            assert_eq!(lines.cloned().collect::<Vec<_>>(), expected);
            self.check_each_event();
        }
    }

    /// Entries that were on disk are in some file, also those of another VM.
    fn check_files(&self) {
        let files = self.disk.all();
        let lines = files
            .iter()
            .flat_map(|file| file.split_inclusive(|it| *it == b'\n'));
        let lines: BTreeSet<_> = lines.collect();
        for entry in self.on_disk.values().flat_map(BTreeMap::values) {
            let line = journal_file::line(&entry.to_json().unwrap().unwrap());
            assert!(lines.contains(&*line), "{entry:?}");
        }
    }

    /// Each event that could be seen was announced once and has ended once.
    fn check_each_event(&self) {
        for entry in self.published.values().flat_map(BTreeMap::values) {
            let event = &entry.transition.tracked.shown.id;
            let lines = self.watch.lines.iter();
            let lines = lines.filter(|it| it.event == event.as_str());
            let names = lines.map(|it| &*it.transition);
            let names: Vec<_> = names.filter(|it| *it != "interrupted").collect();
            let full: [&[_]; 2] = [&["announced", "ended"], &["announced", "started", "ended"]];
            let is_other = entry.transition.tracked.scope == EventScope::Other;
            assert!(is_other || full.contains(&&names[..]), "{event}: {names:?}");
        }
    }
}

impl Op {
    /// Some lines may be repeated or missing after it.
    fn may_lose(&self) -> bool {
        matches!(
            self,
            Self::Fail(_, Fault::Error)
                | Self::Fill(_)
                | Self::LoseState
                | Self::CloneDisk
                | Self::Forget(_)
                | Self::Read { is_killed: true }
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_event_is_printed_once_whenever_something_is_killed_or_fails(
        may_lose: bool,
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut model = Model::new();
        for op in ops.iter().filter(|op| may_lose || !op.may_lose()) {
            model.run(op);
        }
        model.finish();
        prop_assert!(may_lose || !model.has_lost && model.watch.gaps.is_empty());
    }
}

/// Appends and replacements, restarts, and the disk of another VM.
#[test]
fn kill_at_any_step_of_the_disk_loses_and_repeats_nothing() {
    use Op::{Announce, CloneDisk, Kill, Poll};
    for fault in [Fault::Kill, Fault::PowerLoss, Fault::Error] {
        for steps in 0.. {
            let mut model = Model::new();
            model.disk.fail_after(steps, fault);
            for op in [
                Announce, Announce, Poll, Announce, Poll, Kill, Poll, Announce, Poll, CloneDisk,
                Announce, Poll, Poll, Announce, Poll, Kill, Announce, Poll,
            ] {
                model.run(&op);
            }
            let was_hit = model.disk.repair();
            model.finish();
            model.check_files();
            if !was_hit {
                assert!(steps > 70, "{fault:?}: {steps}");
                break;
            }
        }
    }
}
