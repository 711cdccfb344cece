//! The transitions of events, from what was printed of each event and the newest answer of the exporter. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    azure::event::{EventId, EventScope},
    base::text::escape_json,
};

/// Events that are known at most before those that the exporter has forgotten are dropped: more than an exporter has.
const MAX_KNOWN: usize = 12_000;

/// What is read of `/api/v1/events`.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<'a> {
    /// The time of the answer.
    now: &'a str,
    /// False until the exporter has read a document.
    has_document: bool,
    warming_up: bool,
    unreadable_entries: u64,
    pub(super) vm: Vm,
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Vm {
    /// `None` while the exporter does not know it.
    pub(super) name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Transition {
    Pending,
    Announced,
    Advisory,
    Rescheduled,
    Changed,
    Started,
    Ended,
}

#[derive(Serialize)]
struct Line<'a> {
    at: &'a str,
    transition: Transition,
    event: &'a RawValue,
}

/// The state of an event as it was last printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EventState {
    #[serde(rename = "EventId")]
    id: EventId,
    #[serde(rename = "EventStatus")]
    status: String,
    #[serde(flatten)]
    content: Content,
    advisory: bool,
    /// The last one that was given.
    not_before: Option<String>,
    first_seen_at: String,
    /// `None` for an event that is Scheduled, or Scheduled again.
    started_at: Option<String>,
    ended_at: Option<String>,
    reschedulings: Vec<Rescheduling>,
    /// The start that an earlier answer had. A start that follows keeps this time in the answers, and has another one.
    #[serde(default)]
    known_start: Option<String>,
}

/// A difference in one of these is the transition `changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    #[serde(rename = "EventType")]
    event_type: String,
    #[serde(rename = "ResourceType")]
    resource_type: Option<String>,
    #[serde(rename = "Resources")]
    resources: Option<Vec<String>>,
    #[serde(rename = "Description")]
    description: Option<String>,
    #[serde(rename = "EventSource")]
    source: Option<String>,
    #[serde(rename = "DurationInSeconds")]
    duration_seconds: i64,
    scope: EventScope,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rescheduling {
    at: String,
    to: String,
}

/// What was printed of each event that the exporter may still know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Printed {
    events: Vec<EventState>,
}

/// What follows from an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Lines of JSON, each with its line break.
    pub(super) lines: String,
    /// Open events that the exporter does not know any more, so that nothing is known about their end.
    pub(super) lost: Vec<EventId>,
}

impl Printed {
    /// The transitions between an earlier answer and this one, of the events that name this VM, or of all. Without an
    /// earlier one (`was`), the open events are pending. `None` while the exporter has no document: it knows nothing.
    ///
    /// # Errors
    /// When an event lacks a member.
    pub(super) fn advance(
        was: Option<&Self>,
        answer: &Answer<'_>,
        all: bool,
    ) -> serde_json::Result<Option<(Self, News)>> {
        if !answer.has_document {
            return Ok(None);
        }
        let known = was.map_or(&[][..], |was| &was.events);
        let mut known: BTreeMap<_, _> = known.iter().map(|state| (&state.id, state)).collect();
        let is_named = |state: &EventState| all || state.content.scope == EventScope::Own;
        let (mut events, mut news) = (Vec::new(), News::default());
        for event in &answer.events {
            let mut state: EventState = serde_json::from_str(event.get())?;
            let before = known.remove(&state.id);
            if let Some(before) = before {
                state.keep_of(before);
            }
            // The line for an event that names this VM no longer is its last one, unless it comes back.
            if is_named(&state) || before.is_some_and(is_named) {
                let transitions = match was {
                    None => state.at_the_start(),
                    Some(_) => state.since(before, before.is_some_and(is_named)),
                };
                for (transition, at) in transitions {
                    let at = at.unwrap_or(answer.now);
                    news.lines.push_str(&line(at, transition, event)?);
                }
            }
            if is_named(&state) || before.is_some() {
                events.push(state);
            }
        }
        // Those that the answer lacks. A document that may lack an open event does not show that it is over.
        let is_complete = !answer.warming_up && answer.unreadable_entries == 0;
        if is_complete || events.len() + known.len() > MAX_KNOWN {
            let open = known
                .values()
                .filter(|state| state.ended_at.is_none() && is_named(state));
            news.lost = open.map(|state| state.id.clone()).collect();
        } else {
            events.extend(known.into_values().cloned());
        }
        Ok(Some((Self { events }, news)))
    }
}

type Found<'a> = Vec<(Transition, Option<&'a str>)>;

impl EventState {
    /// What the answer may lack, such as that of an exporter that was restarted without its state.
    fn keep_of(&mut self, was: &Self) {
        self.content.scope = was.content.scope.revised(self.content.scope);
        if self.not_before.is_none() {
            self.not_before.clone_from(&was.not_before);
        }
        let known_start = was.started_at.as_ref().or(was.known_start.as_ref());
        self.known_start = known_start.cloned();
    }

    fn beginning(&self) -> Transition {
        if self.advisory {
            Transition::Advisory
        } else {
            Transition::Announced
        }
    }

    fn at_the_start(&self) -> Found<'_> {
        let transition = match self.beginning() {
            Transition::Announced => Transition::Pending,
            other => other,
        };
        let is_open = self.ended_at.is_none();
        is_open.then_some((transition, None)).into_iter().collect()
    }

    /// The transitions since `was`, in their order, each with its time where the exporter tells it. An event that was
    /// not named had left this VM.
    fn since<'a>(&'a self, was: Option<&Self>, was_named: bool) -> Found<'a> {
        let mut found = Vec::new();
        // It is new or back, was over, or has become maintenance or an advisory.
        let begins = was.is_none_or(|was| {
            let is_over = was.ended_at.is_some() && was.ended_at != self.ended_at;
            !was_named || is_over || was.advisory != self.advisory
        });
        if begins {
            let is_new = was.is_none_or(|was| was.first_seen_at != self.first_seen_at);
            found.push((
                self.beginning(),
                is_new.then_some(self.first_seen_at.as_str()),
            ));
        }
        let is_known =
            |change: &Rescheduling| was.is_some_and(|was| was.reschedulings.contains(change));
        let moved: Vec<_> = self
            .reschedulings
            .iter()
            .filter(|it| !is_known(it))
            .collect();
        let is_moved = was.is_some_and(|was| was.not_before != self.not_before);
        if moved.is_empty() && is_moved && !begins {
            found.push((Transition::Rescheduled, None));
        }
        let times = moved.into_iter().map(|change| change.at.as_str());
        found.extend(times.map(|at| (Transition::Rescheduled, Some(at))));
        let is_start_known = was.is_some_and(|was| match self.ended_at {
            None => was.started_at.is_some() && !begins,
            Some(_) => was.started_at == self.started_at || was.started_at.is_some() && !begins,
        });
        let starts = self.started_at.is_some() && !self.advisory && !is_start_known;
        let is_changed = was
            .is_some_and(|was| was.content != self.content || was.status != self.status && !starts);
        if is_changed && !begins {
            found.push((Transition::Changed, None));
        }
        if starts {
            let is_first = self.started_at != self.known_start;
            let at = self.started_at.as_deref().filter(|_| is_first);
            found.push((Transition::Started, at));
        }
        if self.ended_at.is_some() && was.is_none_or(|was| was.ended_at != self.ended_at) {
            found.push((Transition::Ended, self.ended_at.as_deref()));
        }
        found
    }
}

/// Without the layout of the answer, which has several lines.
fn line(at: &str, transition: Transition, event: &RawValue) -> serde_json::Result<String> {
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
    let line = Line {
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

    /// An event of `/api/v1/events`, with some members replaced.
    fn event(members: &Value) -> Value {
        let mut event = json!({
            "EventId": "E", "EventStatus": "Scheduled", "EventType": "Reboot", "ResourceType": "VirtualMachine",
            "Resources": ["web_0"], "Description": "", "EventSource": "Platform", "DurationInSeconds": -1,
            "scope": "self", "advisory": false, "not_before": null, "first_seen_at": "first",
            "started_at": null, "ended_at": null, "reschedulings": [],
        });
        for (name, value) in members.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    fn answer(now: u32, events: &[Value]) -> Value {
        json!({
            "now": now.to_string(), "has_document": true, "warming_up": false, "unreadable_entries": 0,
            "vm": {"name": "web_0"}, "events": events,
        })
    }

    /// What follows from each answer after the first one: times and transitions, and lost events as `lost`.
    fn follow(answers: &[Value]) -> Vec<String> {
        let mut printed: Option<Printed> = None;
        let mut found = Vec::new();
        for (number, value) in answers.iter().enumerate() {
            let text = value.to_string();
            let answer: Answer<'_> = serde_json::from_str(&text).unwrap();
            let (now, news) = Printed::advance(printed.as_ref(), &answer, false)
                .unwrap()
                .unwrap();
            // As a later run reads it.
            let saved = serde_json::to_string(&now).unwrap();
            assert_eq!(serde_json::from_str::<Printed>(&saved).unwrap(), now);
            printed = Some(now);
            if number > 0 {
                found.extend(news.lines.lines().map(|line| {
                    let line: Value = serde_json::from_str(line).unwrap();
                    let text = |name: &str| line[name].as_str().unwrap().to_owned();
                    format!("{} {}", text("transition"), text("at"))
                }));
                found.extend(news.lost.iter().map(|id| format!("lost {}", id.as_str())));
            }
        }
        found
    }

    fn of_states(states: &[Value]) -> Vec<String> {
        let answers = states.iter().zip(0..);
        let answers = answers.map(|(members, now)| answer(now, &[event(members)]));
        follow(&answers.collect::<Vec<_>>())
    }

    #[test]
    fn a_start_after_a_start_has_a_time_of_its_own() {
        let started = json!({"EventStatus": "Started", "started_at": "start"});
        let states = [json!({}), started.clone(), json!({}), started.clone()];
        assert_eq!(
            of_states(&states),
            ["started start", "changed 2", "started 3"]
        );
        let ended = json!({"EventStatus": "Started", "started_at": "start", "ended_at": "end"});
        let states = [json!({}), started.clone(), ended, started];
        let expected = ["started start", "ended end", "announced 3", "started 3"];
        assert_eq!(of_states(&states), expected);
    }

    #[test]
    fn an_advisory_that_becomes_maintenance_is_announced() {
        let advisory = json!({"EventStatus": "Advisory", "advisory": true});
        let maintenance = json!({"first_seen_at": "later"});
        assert_eq!(of_states(&[advisory, maintenance]), ["announced later"]);
    }

    #[test]
    fn an_event_whose_scope_becomes_known_is_announced_if_it_names_this_vm() {
        let unknown = json!({"scope": "unknown"});
        assert_eq!(
            of_states(&[unknown.clone(), json!({})]),
            ["announced first"]
        );
        assert!(of_states(&[unknown, json!({"scope": "other"})]).is_empty());
    }

    #[test]
    fn an_open_event_that_the_exporter_forgot_is_lost_unless_the_answer_may_lack_it() {
        let open = answer(0, &[event(&json!({}))]);
        let none = answer(1, &[]);
        assert_eq!(
            follow(&[open.clone(), none.clone(), none.clone()]),
            ["lost E"]
        );
        let ended = answer(0, &[event(&json!({"ended_at": "end"}))]);
        assert!(follow(&[ended, none.clone()]).is_empty());
        for (member, value) in [
            ("warming_up", json!(true)),
            ("unreadable_entries", json!(1)),
        ] {
            let mut incomplete = none.clone();
            incomplete[member] = value;
            let again = answer(2, &[event(&json!({}))]);
            assert!(
                follow(&[open.clone(), incomplete, again]).is_empty(),
                "{member}"
            );
        }
    }
}
