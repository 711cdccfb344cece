//! The transitions of events, from what was printed of each event and the newest answer of the exporter. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    event::{EventId, EventScope},
    text::escape_json,
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
    /// What an exporter that was restarted without its state may lack.
    fn keep_of(&mut self, was: &Self) {
        self.content.scope = was.content.scope.revised(self.content.scope);
        if self.not_before.is_none() {
            self.not_before.clone_from(&was.not_before);
        }
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
            found.push((Transition::Started, self.started_at.as_deref()));
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
