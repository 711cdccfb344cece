//! The exporter and `watch` restart and are killed, the disk and the clock fail: what is printed, against what happened.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::*, event};

#[derive(Debug, Clone, Copy)]
enum Op {
    Announce,
    /// The oldest open event ends.
    End,
    /// The disk has all, and the exporter knows it.
    Write,
    /// The disk has this many more entries, and the exporter does not know it.
    WriteEntries(u64),
    Kill,
    LoseState,
    /// Only this many entries are kept.
    Forget(usize),
    SetClock(u64),
    /// One request of `watch`. Killed: it has printed, and not written its file.
    Read {
        is_killed: bool,
    },
    RestartWatch,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => Just(Op::Announce),
        3 => Just(Op::End),
        4 => Just(Op::Write),
        2 => (0..3_u64).prop_map(Op::WriteEntries),
        2 => Just(Op::Kill),
        1 => Just(Op::LoseState),
        1 => (0..4_usize).prop_map(Op::Forget),
        2 => any::<u64>().prop_map(Op::SetClock),
        9 => prop::bool::weighted(0.1).prop_map(|is_killed| Op::Read { is_killed }),
        2 => Just(Op::RestartWatch),
    ];
    prop::collection::vec(op, 1..60)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Happened {
    event: u64,
    transition: &'static str,
    /// Two moments never have the same text, and its order means nothing.
    at: String,
}

/// The exporter, as far as `/api/v1/transitions` shows it.
#[derive(Debug, Default)]
struct Exporter {
    journal: u64,
    has_directory: bool,
    /// The first one has the number 1.
    entries: Vec<Happened>,
    forgotten: usize,
    first: usize,
    on_disk: usize,
    /// What it knows of `on_disk`.
    confirmed: usize,
    open: BTreeSet<u64>,
    clock: u64,
    moments: u64,
}

impl Exporter {
    fn happen(&mut self, event: u64, transition: &'static str) {
        self.moments += 1;
        self.entries.push(Happened {
            event,
            transition,
            at: format!("{}-{}", self.clock, self.moments),
        });
    }

    /// Returns whether entries were lost. Azure lists the open events again, and not those that have ended.
    fn kill(&mut self) -> bool {
        let lost = self.entries.split_off(self.on_disk);
        self.forgotten = self.forgotten.min(self.on_disk);
        (self.first, self.confirmed) = (self.on_disk + 1, self.on_disk);
        let announced: BTreeSet<_> = lost
            .iter()
            .filter(|it| it.transition == "announced")
            .collect();
        let unknown: BTreeSet<_> = announced.iter().map(|it| it.event).collect();
        for it in &lost {
            let is_open = self.open.contains(&it.event);
            match it.transition {
                "announced" if is_open => self.happen(it.event, "announced"),
                "ended" if !unknown.contains(&it.event) => self.happen(it.event, "ended"),
                _ => {}
            }
        }
        !lost.is_empty()
    }

    fn lose_state(&mut self) {
        *self = Self {
            journal: self.journal + 1,
            has_directory: self.has_directory,
            first: 1,
            open: std::mem::take(&mut self.open),
            clock: self.clock,
            moments: self.moments,
            ..Self::default()
        };
        for event in self.open.clone() {
            self.happen(event, "announced");
        }
    }

    fn answer(&self, after: Option<u64>) -> String {
        let time = |number: usize| {
            let is_kept = number > self.forgotten;
            let entry = self.entries.get(number.wrapping_sub(1));
            entry.filter(|_| is_kept).map(|it| it.at.clone())
        };
        let id = |id: u64| event(&json!({"EventId": id.to_string()}));
        let skipped = after.map_or(0, |after| usize::try_from(after).unwrap());
        let entries = self
            .entries
            .iter()
            .enumerate()
            .skip(skipped.max(self.forgotten));
        let transitions = entries.map(|(index, it)| {
            json!({"number": index + 1, "at": it.at, "transition": it.transition, "event": id(it.event)})
        });
        let mut answer = json!({
            "journal": self.journal.to_string(), "now": "now", "has_document": true, "vm": {"name": "web_0"},
            "first": self.first, "oldest": self.forgotten + 1, "newest": self.entries.len(),
            "newest_at": time(self.entries.len()), "on_disk": self.confirmed,
            "after_at": after.and_then(|_| time(skipped)), "transitions": transitions.collect::<Vec<_>>(),
        });
        if after.is_none() {
            answer["open"] = self.open.iter().map(|event| id(*event)).collect();
        }
        answer.to_string()
    }
}

#[derive(Debug, Default)]
struct Setup {
    exporter: Exporter,
    events: u64,
    /// What the run of `watch` has printed.
    printed: Option<Printed>,
    /// What its file has, with `began` of then.
    file: Option<(Printed, Option<(u64, usize)>)>,
    after: Option<u64>,
    lines: Vec<Happened>,
    gaps: Vec<&'static str>,
    /// The journal, and the number after which its lines begin.
    began: Option<(u64, usize)>,
    /// Printed before the exporter knew that they were on disk.
    doubtful: BTreeSet<Happened>,
    has_lost: bool,
    has_forgotten: bool,
    was_killed: bool,
    journals_read: BTreeSet<u64>,
}

impl Setup {
    fn new(has_directory: bool) -> Self {
        let exporter = Exporter {
            has_directory,
            first: 1,
            ..Exporter::default()
        };
        Self {
            exporter,
            ..Self::default()
        }
    }

    fn perform(&mut self, op: Op) {
        let exporter = &mut self.exporter;
        match op {
            Op::Announce => {
                self.events += 1;
                exporter.open.insert(self.events);
                exporter.happen(self.events, "announced");
            }
            Op::End => {
                if let Some(event) = exporter.open.pop_first() {
                    exporter.happen(event, "ended");
                }
            }
            Op::Write if exporter.has_directory => {
                exporter.on_disk = exporter.entries.len();
                exporter.confirmed = exporter.on_disk;
            }
            Op::WriteEntries(count) if exporter.has_directory => {
                let count = usize::try_from(count).unwrap();
                exporter.on_disk = (exporter.on_disk + count).min(exporter.entries.len());
            }
            Op::Kill if exporter.has_directory => self.has_lost |= exporter.kill(),
            Op::Kill | Op::LoseState => exporter.lose_state(),
            Op::Forget(kept) => {
                let forgotten = exporter.entries.len().saturating_sub(kept);
                exporter.forgotten = exporter.forgotten.max(forgotten);
                self.has_forgotten |= forgotten > 0;
            }
            Op::SetClock(time) => exporter.clock = time,
            Op::Read { is_killed } => self.read(is_killed),
            Op::RestartWatch => self.restart_watch(),
            Op::Write | Op::WriteEntries(_) => {}
        }
    }

    fn restart_watch(&mut self) {
        (self.printed, self.began) = match self.file.clone() {
            Some((printed, began)) => (Some(printed), began),
            None => (None, None),
        };
        self.after = self.printed.as_ref().map(|it| it.number);
    }

    fn read(&mut self, is_killed: bool) {
        let text = self.exporter.answer(self.after);
        let answer: TransitionsAnswer<'_> = serde_json::from_str(&text).unwrap();
        let step = Printed::advance(self.printed.as_ref(), self.after, &answer, false).unwrap();
        let (printed, news) = match step {
            Step::Wait => panic!("it has a document"),
            Step::Ask(after) => {
                self.after = after;
                return;
            }
            Step::Print(printed, news) => (printed, news),
        };
        let exporter = &self.exporter;
        if self
            .began
            .is_none_or(|(journal, _)| journal != exporter.journal)
        {
            let is_first = self.began.is_none();
            let number = if is_first {
                exporter.entries.len()
            } else {
                exporter.forgotten.max(exporter.first - 1)
            };
            self.began = Some((exporter.journal, number));
        }
        self.journals_read.insert(exporter.journal);
        let doubtful = exporter.entries.iter().skip(exporter.confirmed);
        self.doubtful.extend(doubtful.cloned());
        self.lines.extend(news.lines.lines().map(happened));
        self.gaps.extend(news.gap);
        self.after = Some(printed.number);
        self.printed = Some(printed.clone());
        if is_killed {
            self.was_killed = true;
            self.restart_watch();
        } else {
            self.file = Some((printed, self.began));
        }
    }

    /// What happened in the last journal since it was first read, and was not lost.
    fn expected(&self) -> &[Happened] {
        let (_, number) = self.began.unwrap();
        self.exporter.entries.get(number..).unwrap_or_default()
    }
}

fn happened(line: &str) -> Happened {
    let line: Value = serde_json::from_str(line).unwrap();
    let names = ["pending", "announced", "ended"];
    let name = |it: &&&str| line["transition"] == **it;
    Happened {
        event: line["event"]["EventId"].as_str().unwrap().parse().unwrap(),
        transition: names.iter().find(name).unwrap(),
        at: line["at"].as_str().unwrap().to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_transition_is_printed_and_only_a_doubtful_one_again(has_directory: bool, ops in ops()) {
        let mut setup = Setup::new(has_directory);
        for op in ops {
            setup.perform(op);
        }
        setup.perform(Op::Write);
        for _ in 0..4 {
            setup.perform(Op::Read { is_killed: false });
        }
        let mut counts: BTreeMap<&Happened, usize> = BTreeMap::new();
        for line in setup.lines.iter().filter(|it| it.transition != "pending") {
            *counts.entry(line).or_default() += 1;
        }
        if !setup.gaps.contains(&MISSED) {
            for it in setup.expected() {
                prop_assert!(counts.contains_key(it), "not printed: {it:?}");
            }
            for event in &setup.exporter.open {
                prop_assert!(setup.lines.iter().any(|it| it.event == *event), "{event} was never printed");
            }
        }
        prop_assert!(setup.has_forgotten || !setup.gaps.contains(&MISSED));
        let renumbered = setup.gaps.iter().filter(|gap| **gap == OTHER_JOURNAL).count();
        if !setup.was_killed {
            prop_assert_eq!(renumbered, setup.journals_read.len() - 1);
            for (line, count) in counts {
                let may_repeat = setup.has_lost && setup.doubtful.contains(line);
                prop_assert!(count == 1 || may_repeat, "{line:?} {count} times");
            }
        }
        let is_plain = !setup.was_killed && !setup.has_lost && setup.gaps.is_empty();
        if is_plain {
            let lines: Vec<_> = setup.lines.iter().filter(|it| it.transition != "pending").cloned().collect();
            prop_assert_eq!(&lines[..], setup.expected());
        }
    }
}
