//! What was printed of each event, and the lines that follow from an answer of the exporter. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    azure::event::{EventId, EventScope},
    base::text::escape_json,
};

/// Ended events that are remembered: as many as an exporter keeps.
const MAX_ENDED: usize = 1_000;

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
    pub(super) vm: Vm,
    oldest: u64,
    newest: u64,
    /// The events that have not ended, if all was requested.
    #[serde(borrow)]
    open: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    transitions: Vec<AnsweredTransition<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Vm {
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

impl EventHead {
    fn beginning(&self) -> &'static str {
        if self.advisory {
            "advisory"
        } else {
            "announced"
        }
    }
}

#[derive(Serialize)]
struct PrintedLine<'a> {
    at: &'a str,
    transition: &'a str,
    event: &'a RawValue,
}

/// What the lines of an event have said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent")]
struct EventRecord {
    id: EventId,
    is_open: bool,
    /// The event named this VM in its last line, or those of all VMs were printed.
    is_named: bool,
    is_advisory: bool,
    is_started: bool,
    not_before: Option<String>,
    last_transition: String,
    last_at: String,
}

/// What was printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Printed {
    process: String,
    /// The number of the last transition of that process.
    number: u64,
    /// The next request is for what follows that number. Otherwise it is for all that the exporter knows.
    is_complete: bool,
    /// The time of the answer that changed this last.
    as_of: String,
    /// What happened until then, in earlier processes of the exporter, was printed or had no line.
    restored_until: String,
    all: bool,
    events: Vec<EventRecord>,
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
            let until = was.map_or(answer.as_of, |was| was.as_of.as_str());
            until.clone_into(&mut printed.restored_until);
        }
        for numbered in answer.transitions.iter().filter(|_| was.is_some()) {
            let is_new = !is_same_process || numbered.number > printed.number;
            let is_known = numbered.restored && numbered.at <= printed.restored_until.as_str();
            if is_new && !is_known {
                printed.follow(numbered, all, &mut news.lines)?;
            }
        }
        if let Some(open) = &answer.open {
            let mut ids = BTreeSet::new();
            for event in open {
                let pending = AnsweredTransition {
                    number: answer.newest,
                    at: answer.now,
                    transition: "pending",
                    restored: false,
                    event,
                };
                ids.insert(printed.follow(&pending, all, &mut news.lines)?);
            }
            // A document that may lack an open event does not show that it is over.
            let is_complete = !answer.warming_up && answer.unreadable_entries == 0;
            if is_complete {
                news.lost = printed.forget_absent(&ids);
            }
            let mut known = printed.events.iter().filter(|it| it.is_open);
            printed.is_complete = is_complete || known.all(|it| ids.contains(&it.id));
        }
        answer.process.clone_into(&mut printed.process);
        (printed.number, printed.all) = (answer.newest, all);
        printed.limit_ended();
        if was != Some(&printed) {
            answer.as_of.clone_into(&mut printed.as_of);
        }
        Ok(Some((printed, news)))
    }

    /// Adds the line of a transition, unless it was printed or the event names other VMs. Returns the id of the event.
    fn follow(
        &mut self,
        numbered: &AnsweredTransition<'_>,
        all: bool,
        lines: &mut String,
    ) -> serde_json::Result<EventId> {
        let head: EventHead = serde_json::from_str(numbered.event.get())?;
        let known = self.events.iter().position(|record| record.id == head.id);
        let known = known.map(|position| self.events.remove(position));
        let transition = match &known {
            Some(record) => record.transition(numbered, &head),
            None => Some(first_transition(numbered.transition, &head)),
        };
        let is_named = all || head.scope == EventScope::Own;
        // The line for an event that names this VM no longer is its last one, unless it comes back.
        let is_printed = is_named || known.as_ref().is_some_and(EventRecord::is_followed);
        let Some(transition) = transition.filter(|_| is_printed) else {
            self.events.extend(known);
            return Ok(head.id);
        };
        lines.push_str(&line(numbered.at, transition, numbered.event)?);
        self.events.push(EventRecord {
            is_open: transition != "ended",
            is_named,
            is_advisory: head.advisory,
            is_started: match transition {
                "started" => true,
                "pending" => head.phase == "started",
                "announced" | "advisory" => false,
                _ => head.phase != "scheduled" && known.as_ref().is_some_and(|it| it.is_started),
            },
            not_before: head.not_before.or(known.and_then(|it| it.not_before)),
            last_transition: transition.to_owned(),
            last_at: numbered.at.to_owned(),
            id: head.id.clone(),
        });
        Ok(head.id)
    }

    /// Returns the open events that the exporter does not know any more. They count as ended.
    fn forget_absent(&mut self, ids: &BTreeSet<EventId>) -> Vec<EventId> {
        let absent = self.events.iter_mut().filter(|it| !ids.contains(&it.id));
        let mut lost = Vec::new();
        for record in absent.filter(|it| it.is_open) {
            record.is_open = false;
            lost.extend(record.is_named.then(|| record.id.clone()));
        }
        lost
    }

    /// Forgets the events that ended, or left this VM, longest ago.
    fn limit_ended(&mut self) {
        let over = self.events.iter().filter(|it| !it.is_followed()).count();
        let mut surplus = over.saturating_sub(MAX_ENDED);
        self.events.retain(|record| {
            let is_dropped = surplus > 0 && !record.is_followed();
            surplus -= usize::from(is_dropped);
            !is_dropped
        });
    }
}

/// The transition to print for the first one that is known of an event.
fn first_transition<'a>(found: &'a str, head: &EventHead) -> &'a str {
    match found {
        "pending" if head.advisory => "advisory",
        "changed" => head.beginning(),
        found => found,
    }
}

impl EventRecord {
    /// It is open, and its next transition is printed.
    fn is_followed(&self) -> bool {
        self.is_open && self.is_named
    }

    /// The transition to print for one of the exporter. `None` where an earlier line has said it, perhaps by another
    /// process of the exporter, which knew more of the event.
    fn transition<'a>(
        &self,
        numbered: &AnsweredTransition<'a>,
        head: &EventHead,
    ) -> Option<&'a str> {
        let (found, at) = (numbered.transition, numbered.at);
        if found == self.last_transition && at == self.last_at {
            return None;
        }
        let continues = self.is_followed() && self.is_advisory == head.advisory;
        match found {
            "pending" if self.is_followed() => None,
            "announced" | "advisory" if continues => {
                let is_moved = head.not_before.is_some() && head.not_before != self.not_before;
                (is_moved && !head.advisory).then_some("rescheduled")
            }
            "changed" if continues => Some(found),
            "started" if continues && self.is_started => None,
            "ended" if !self.is_open => None,
            found => Some(first_transition(found, head)),
        }
    }
}

/// Without layout, which a member of Azure may have.
fn line(at: &str, transition: &str, event: &RawValue) -> serde_json::Result<String> {
    let mut compact = String::with_capacity(event.get().len());
    let (mut in_string, mut is_escaped) = (false, false);
    for character in event.get().chars() {
        if in_string || !character.is_ascii_whitespace() {
            compact.push(character);
        }
        in_string ^= character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
    }
    let event = &*RawValue::from_string(compact)?;
    let line = PrintedLine {
        at,
        transition,
        event,
    };
    Ok(escape_json(serde_json::to_string(&line)? + "\n"))
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
    type Found<'a> = (u64, &'a str, &'a str, Value);

    fn answer(process: &str, oldest: u64, found: &[Found<'_>], open: Option<&[Value]>) -> Value {
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
        let one = |event: &Value| [event.clone()];
        for (found, now_open, expected) in [
            // Without its state, it announces the event again.
            (
                vec![(1, "x", "announced", open.clone())],
                Some(one(&open)),
                vec![],
            ),
            (
                vec![(1, "x", "announced", moved.clone())],
                Some(one(&moved)),
                vec!["rescheduled x"],
            ),
            (
                vec![(1, "earlier", "announced", open.clone())],
                Some(one(&open)),
                vec![],
            ),
            (vec![], None, vec!["lost E"]),
        ] {
            let mut printed = None;
            follow(&mut printed, &pending);
            assert_eq!(
                follow(&mut printed, &answer("b", 1, &found, None)),
                (vec![], true)
            );
            let now_open = now_open.as_ref().map_or(&[][..], |open| open.as_slice());
            let (lines, asks_for_all) =
                follow(&mut printed, &answer("b", 1, &found, Some(now_open)));
            assert_eq!(lines, expected, "{found:?}");
            assert!(!asks_for_all);
        }
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
