//! What was printed, and the lines that follow from an answer of the exporter. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    azure::event::{EventId, EventScope},
    base::text::escape_json,
};

/// The version of [`Printed`] in the file of `--since`; others are refused.
pub(super) const VERSION: u32 = 3;

/// What is read of `/api/v1/transitions`.
#[derive(Debug, Deserialize)]
pub(super) struct TransitionsAnswer<'a> {
    /// Identifies the process that gives the numbers.
    process: &'a str,
    /// The time of what the exporter knew then.
    as_of: &'a str,
    now: &'a str,
    /// False until the exporter has read a document.
    has_document: bool,
    warming_up: bool,
    unreadable_entries: u64,
    pub(super) vm: AnsweredVm,
    oldest: u64,
    newest: u64,
    /// The events that have not ended, if all was requested.
    #[serde(borrow)]
    open: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    transitions: Vec<AnsweredTransition<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AnsweredVm {
    /// `None` while the exporter does not know it.
    pub(super) name: Option<String>,
    /// `--vm.name` of the exporter and the name in instance metadata differ.
    #[serde(default)]
    pub(super) name_mismatch: bool,
}

#[derive(Debug, Deserialize)]
struct AnsweredTransition<'a> {
    number: u64,
    at: &'a str,
    transition: &'a str,
    /// It happened in an earlier process of the exporter.
    restored: bool,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// What is read of an event.
#[derive(Debug, Deserialize)]
struct EventHead {
    #[serde(rename = "EventId")]
    id: EventId,
    scope: EventScope,
    advisory: bool,
    phase: String,
    not_before: Option<String>,
}

#[derive(Serialize)]
struct PrintedLine<'a> {
    at: &'a str,
    transition: &'a str,
    event: &'a RawValue,
}

/// How far the lines of an open event have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Advisory,
    Announced,
    Started,
}

/// An open event whose next transition is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FollowedEvent {
    stage: Stage,
    /// The last one that was given.
    not_before: Option<String>,
}

/// What was printed, as the file of `--since` keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Printed {
    pub(super) version: u32,
    process: String,
    /// The number of the last transition of that process.
    number: u64,
    /// The next request is for what follows that number. Otherwise it is for all that the exporter knows.
    is_complete: bool,
    /// The time of the answer that changed this last: what happened until then was printed, or had no line.
    as_of: String,
    /// What happened until then in earlier processes of the exporter was printed, or had no line. The exporter may list
    /// it late: it restores transitions when it knows the name of its VM.
    restored_until: String,
    all: bool,
    /// Those that name this VM, or any with `all`.
    followed: BTreeMap<EventId, FollowedEvent>,
}

/// What follows from an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Lines of JSON, each with its line break.
    pub(super) lines: String,
    /// Transitions that the exporter had forgotten when it was asked.
    pub(super) missed: u64,
    /// Open events that the exporter does not know any more, so that nothing is known about their end.
    pub(super) lost: Vec<EventId>,
}

impl Printed {
    /// The number to ask for, with `all` as now. `None` asks for all that the exporter knows.
    pub(super) fn after(&self, all: bool) -> Option<u64> {
        (self.is_complete && self.all == all).then_some(self.number)
    }

    /// The lines that follow from an answer. Without earlier ones (`was`), the open events are pending. `None` while the
    /// exporter has no document: it knows nothing.
    ///
    /// # Errors
    /// When an event lacks a member.
    pub(super) fn advance(
        was: Option<&Self>,
        answer: &TransitionsAnswer<'_>,
        all: bool,
    ) -> serde_json::Result<Option<(Self, News)>> {
        if !answer.has_document {
            return Ok(None);
        }
        let (mut printed, mut news) = (was.cloned().unwrap_or_default(), News::default());
        (printed.version, printed.all) = (VERSION, all);
        let is_same_process = printed.process == answer.process;
        let next = printed.number.saturating_add(1);
        if answer.open.is_none() && (!is_same_process || answer.oldest > next) {
            // It has restarted, or has forgotten transitions: all that it knows is needed.
            printed.is_complete = false;
            return Ok(Some((printed, news)));
        }
        if is_same_process {
            news.missed = answer.oldest.saturating_sub(next);
        } else {
            let until = was.map_or(answer.as_of, |was| &was.as_of);
            until.clone_into(&mut printed.restored_until);
        }
        for numbered in answer.transitions.iter().filter(|_| was.is_some()) {
            let is_known = is_same_process && numbered.number < next
                || numbered.restored && numbered.at <= printed.restored_until.as_str();
            if !is_known {
                let may_repeat = !is_same_process || numbered.restored;
                printed.follow(numbered, may_repeat, &mut news.lines)?;
            }
        }
        if let Some(open) = &answer.open {
            let mut ids = BTreeSet::new();
            for event in open {
                let head: EventHead = serde_json::from_str(event.get())?;
                ids.insert(head.id.clone());
                if printed.is_named(&head) && !printed.followed.contains_key(&head.id) {
                    let pending = if head.advisory { "advisory" } else { "pending" };
                    news.lines.push_str(&line(answer.now, pending, event)?);
                    printed.record(pending, head);
                }
            }
            // A document that may lack an open event does not show that it is over.
            if !answer.warming_up && answer.unreadable_entries == 0 {
                let lost = printed.followed.extract_if(.., |id, _| !ids.contains(id));
                news.lost = lost.map(|(id, _)| id).collect();
            }
            printed.is_complete = printed.followed.keys().all(|id| ids.contains(id));
        }
        answer.process.clone_into(&mut printed.process);
        printed.number = answer.newest;
        if was != Some(&printed) {
            answer.as_of.clone_into(&mut printed.as_of);
        }
        Ok(Some((printed, news)))
    }

    fn is_named(&self, head: &EventHead) -> bool {
        self.all || head.scope == EventScope::Own
    }

    /// Adds the line of a transition, unless the event names other VMs. A transition that may repeat one of an earlier
    /// process of the exporter has a line if it says something new.
    fn follow(
        &mut self,
        numbered: &AnsweredTransition<'_>,
        may_repeat: bool,
        lines: &mut String,
    ) -> serde_json::Result<()> {
        let head: EventHead = serde_json::from_str(numbered.event.get())?;
        let followed = self.followed.get(&head.id);
        let stage = followed.map(|it| it.stage);
        // The line for an event that names this VM no longer is its last one, unless it comes back.
        if stage.is_none() && !self.is_named(&head) {
            return Ok(());
        }
        let is_moved = head.not_before.is_some()
            && followed.is_some_and(|it| it.not_before != head.not_before);
        let transition = match (numbered.transition, stage) {
            ("announced", Some(Stage::Announced | Stage::Started)) if may_repeat && is_moved => {
                "rescheduled"
            }
            ("advisory", Some(Stage::Advisory))
            | ("announced", Some(Stage::Announced | Stage::Started))
            | ("started", Some(Stage::Started))
                if may_repeat =>
            {
                return Ok(());
            }
            ("changed", None) if head.advisory => "advisory",
            ("changed", None) => "announced",
            (transition, _) => transition,
        };
        lines.push_str(&line(numbered.at, transition, numbered.event)?);
        self.record(transition, head);
        Ok(())
    }

    /// Remembers the line of a transition.
    fn record(&mut self, transition: &str, head: EventHead) {
        let before = self.followed.remove(&head.id);
        if transition == "ended" || !self.is_named(&head) {
            return;
        }
        let stage = match transition {
            "advisory" => Stage::Advisory,
            "started" => Stage::Started,
            "pending" if head.phase == "started" => Stage::Started,
            "changed" | "rescheduled" => before.as_ref().map_or(Stage::Announced, |it| it.stage),
            _ => Stage::Announced,
        };
        // Azure blanks it at the start.
        let not_before = head.not_before.or(before.and_then(|it| it.not_before));
        self.followed
            .insert(head.id, FollowedEvent { stage, not_before });
    }
}

fn line(at: &str, transition: &str, event: &RawValue) -> serde_json::Result<String> {
    let line = serde_json::to_string(&PrintedLine {
        at,
        transition,
        event,
    })?;
    // A member of Azure may have layout. Strings have their line breaks escaped.
    Ok(escape_json(line.replace(['\n', '\r'], " ") + "\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(members: &Value) -> Value {
        let mut event = json!({
            "EventId": "E", "scope": "self", "advisory": false, "phase": "scheduled", "not_before": "due",
        });
        for (name, value) in members.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    /// Number, time and name of a transition, and the event after it.
    type FoundTransition<'a> = (u64, &'a str, &'a str, Value);

    fn answer(
        process: &str,
        oldest: u64,
        found: &[FoundTransition<'_>],
        open: Option<&[Value]>,
    ) -> Value {
        let newest = found.last().map_or(oldest - 1, |(number, ..)| *number);
        let transitions = found.iter().map(|(number, at, transition, event)| {
            let restored = at.starts_with("earlier");
            json!({"number": number, "at": at, "transition": transition, "restored": restored, "event": event})
        });
        json!({
            "process": process, "as_of": "known", "now": "now", "has_document": true, "warming_up": false, "unreadable_entries": 0,
            "vm": {"name": "web_0"}, "oldest": oldest, "newest": newest, "open": open,
            "transitions": transitions.collect::<Vec<_>>(),
        })
    }

    /// What is printed after these answers, and whether all is asked for then.
    fn follow(printed: &mut Option<Printed>, answer: &Value) -> (Vec<String>, bool) {
        let text = answer.to_string();
        let answer: TransitionsAnswer<'_> = serde_json::from_str(&text).unwrap();
        let advanced = Printed::advance(printed.as_ref(), &answer, false);
        let (now, news) = advanced.unwrap().unwrap();
        // As a later run reads it.
        let saved = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Printed>(&saved).unwrap(), now);
        let asks_for_all = now.after(false).is_none();
        *printed = Some(now);
        let lines = news.lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            format!(
                "{} {}",
                line["transition"].as_str().unwrap(),
                line["at"].as_str().unwrap()
            )
        });
        let missed = (news.missed > 0).then(|| format!("missed {}", news.missed));
        let lost = news.lost.iter().map(|id| format!("lost {}", id.as_str()));
        (lines.chain(missed).chain(lost).collect(), asks_for_all)
    }

    #[test]
    fn transitions_of_one_process_are_printed_by_their_number() {
        let mut printed = None;
        let mut next = |answer: Value| follow(&mut printed, &answer);
        let (open, running) = (event(&json!({})), event(&json!({"phase": "started"})));
        let first = [(1, "1", "announced", open.clone())];
        let first = answer("a", 1, &first, Some(std::slice::from_ref(&open)));
        assert_eq!(next(first), (vec!["pending now".to_owned()], false));
        let found = [
            (2, "2", "started", running.clone()),
            (3, "3", "changed", open.clone()),
            // The clock was set back.
            (4, "1", "started", running),
        ];
        let (lines, _) = next(answer("a", 1, &found, None));
        assert_eq!(lines, ["started 2", "changed 3", "started 1"]);
        let ended = event(&json!({"phase": "ended"}));
        let later = [(9, "9", "ended", ended)];
        assert_eq!(next(answer("a", 8, &later, None)), (vec![], true));
        let (lines, asks_for_all) = next(answer("a", 8, &later, Some(&[])));
        assert_eq!(
            (lines, asks_for_all),
            (vec!["ended 9".to_owned(), "missed 3".to_owned()], false)
        );
    }

    #[test]
    fn another_process_repeats_nothing_that_was_printed() {
        let open = event(&json!({}));
        let pending = answer("a", 1, &[], Some(std::slice::from_ref(&open)));
        let moved = event(&json!({"not_before": "later"}));
        for (found, now_open, expected) in [
            // Without its state, it announces the event again.
            (vec![(1, "x", "announced", open.clone())], true, vec![]),
            (
                vec![(1, "x", "announced", moved)],
                true,
                vec!["rescheduled x"],
            ),
            (
                vec![(1, "earlier", "announced", open.clone())],
                true,
                vec![],
            ),
            (vec![], false, vec!["lost E"]),
        ] {
            let mut printed = None;
            follow(&mut printed, &pending);
            assert_eq!(
                follow(&mut printed, &answer("b", 1, &found, None)),
                (vec![], true)
            );
            let now_open = &[open.clone()][..usize::from(now_open)];
            let (lines, asks_for_all) =
                follow(&mut printed, &answer("b", 1, &found, Some(now_open)));
            assert_eq!(lines, expected, "{found:?}");
            assert!(!asks_for_all);
        }
    }

    /// It restores them when it knows the name of its VM, after the first answers.
    #[test]
    fn transitions_of_an_earlier_process_that_are_listed_late_are_not_repeated() {
        let (open, ended) = (event(&json!({})), event(&json!({"phase": "ended"})));
        let restored = [
            (1, "earlier", "announced", open.clone()),
            (2, "earlier", "started", open.clone()),
            (3, "earlier", "ended", ended),
            (4, "x", "announced", open.clone()),
        ];
        let mut printed = None;
        follow(&mut printed, &answer("a", 9, &[], Some(&[])));
        follow(&mut printed, &answer("b", 1, &[], None));
        follow(&mut printed, &answer("b", 1, &[], Some(&[])));
        let (lines, _) = follow(&mut printed, &answer("b", 1, &restored, None));
        assert_eq!(lines, ["announced x"]);
        // A first run of `watch`.
        let mut printed = None;
        follow(&mut printed, &answer("b", 1, &[], Some(&[])));
        let (lines, _) = follow(&mut printed, &answer("b", 1, &restored, None));
        assert_eq!(lines, ["announced x"]);
    }

    #[test]
    fn an_answer_that_may_lack_an_event_does_not_lose_it() {
        let open = event(&json!({}));
        let pending = answer("a", 1, &[], Some(std::slice::from_ref(&open)));
        for (member, value) in [
            ("warming_up", json!(true)),
            ("unreadable_entries", json!(1)),
        ] {
            let mut printed = None;
            follow(&mut printed, &pending);
            let mut incomplete = answer("b", 1, &[], Some(&[]));
            incomplete[member] = value;
            assert_eq!(
                follow(&mut printed, &incomplete),
                (vec![], true),
                "{member}"
            );
        }
    }
}
