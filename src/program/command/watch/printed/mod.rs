//! What was printed, and what follows from an answer of the exporter. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    azure::event::{EventId, EventScope},
    base::text::escape_json,
};

/// The version of [`Printed`] in the file of `--since`.
const VERSION: u32 = 4;

const MISSED: &str = "transitions missed: the exporter does not keep them any more";
const OTHER_JOURNAL: &str = "the exporter has lost the numbers of its transitions: what happened since the last line is not known, and lines may be repeated; set its --state.directory";

/// What is read of `/api/v1/transitions`.
#[derive(Debug, Deserialize)]
pub(super) struct TransitionsAnswer<'a> {
    /// Identifies the numbering.
    journal: &'a str,
    now: &'a str,
    /// False until the exporter has read a document.
    has_document: bool,
    pub(super) vm: AnsweredVm,
    /// The first number of this process of the exporter.
    first: u64,
    /// From this number on, all are kept.
    oldest: u64,
    newest: u64,
    newest_at: Option<&'a str>,
    /// The last number that is not given again after a crash.
    on_disk: u64,
    /// The time of the number that was asked for.
    after_at: Option<&'a str>,
    /// The events that have not ended, if no number was asked for.
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
    /// The scope of the event before, if it changed.
    was_scope: Option<EventScope>,
    #[serde(borrow)]
    event: &'a RawValue,
}

#[derive(Debug, Deserialize)]
struct EventHead {
    #[serde(rename = "EventId")]
    id: EventId,
    scope: EventScope,
    advisory: bool,
}

#[derive(Serialize)]
struct PrintedLine<'a> {
    at: &'a str,
    transition: &'a str,
    event: &'a RawValue,
}

/// What was printed, as the file of `--since` keeps it: all up to a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Printed {
    version: u32,
    journal: String,
    pub(super) number: u64,
    /// The time of that number. A number that was not on disk can be given again, with another time.
    at: Option<String>,
    on_disk: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The exporter does not know yet what is open.
    Wait,
    /// The answer does not begin where the printed lines end: ask for what follows this number, or for everything.
    Ask(Option<u64>),
    Print(Printed, News),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Lines of JSON, each with its line break.
    pub(super) lines: String,
    /// Why lines may be missing before them.
    pub(super) gap: Option<&'static str>,
}

impl Printed {
    /// `None` if the content is not that of a file of this version.
    pub(super) fn from_json(content: &[u8]) -> Option<Self> {
        let printed = serde_json::from_slice(content).ok();
        printed.filter(|printed: &Self| printed.version == VERSION)
    }

    /// What follows from the answer about what comes after `asked`. Without earlier lines (`was`), the open events are
    /// pending, and what happened before is not printed.
    ///
    /// # Errors
    /// When an event lacks a member.
    pub(super) fn advance(
        was: Option<&Self>,
        asked: Option<u64>,
        answer: &TransitionsAnswer<'_>,
        all: bool,
    ) -> serde_json::Result<Step> {
        let mut news = News::default();
        let after = match was {
            Some(was) if was.journal == answer.journal => {
                let after = was.resume_after(asked, answer);
                if asked != Some(after) {
                    return Ok(Step::Ask(Some(after)));
                }
                // The last line may be another one by now, of which nothing is left.
                let is_doubtful = was.number > was.on_disk && answer.oldest > was.number;
                let is_missed = is_doubtful || answer.oldest > after.saturating_add(1);
                news.gap = is_missed.then_some(MISSED);
                after
            }
            _ if !answer.has_document => return Ok(Step::Wait),
            _ => {
                let Some(open) = &answer.open else {
                    return Ok(Step::Ask(None));
                };
                news.gap = was.map(|_| OTHER_JOURNAL);
                let after = was.map_or(answer.newest, |_| answer.first.saturating_sub(1));
                news.lines = pending_lines(open, answer, after, all)?;
                after
            }
        };
        for transition in answer.after(after) {
            let head: EventHead = serde_json::from_str(transition.event.get())?;
            if let Some(name) = transition.name(&head, all) {
                news.lines += &line(transition.at, name, transition.event)?;
            }
        }
        let printed = Self {
            version: VERSION,
            journal: answer.journal.to_owned(),
            number: answer.newest,
            at: answer.newest_at.map(str::to_owned),
            on_disk: answer.on_disk,
        };
        Ok(Step::Print(printed, news))
    }

    /// The number after which the lines go on, in the same journal.
    fn resume_after(&self, asked: Option<u64>, answer: &TransitionsAnswer<'_>) -> u64 {
        match asked {
            // The answer to the number has shown that it was given again.
            Some(asked) if asked == self.on_disk => asked,
            Some(asked) if asked == self.number && self.is_given_again(answer) => self.on_disk,
            _ => self.number,
        }
    }

    /// Whether the number may be that of something else now: it was not on disk when the exporter was killed.
    fn is_given_again(&self, answer: &TransitionsAnswer<'_>) -> bool {
        let is_same = self.number <= answer.newest && self.at.as_deref() == answer.after_at;
        // Then something is missed anyway, and lines from long ago must not be repeated.
        let is_forgotten = answer.oldest > self.number;
        !is_same && !is_forgotten
    }
}

impl<'a> TransitionsAnswer<'a> {
    fn after(&self, number: u64) -> impl Iterator<Item = &AnsweredTransition<'a>> {
        let transitions = self.transitions.iter();
        transitions.filter(move |it| it.number > number)
    }
}

impl AnsweredTransition<'_> {
    /// What it is called in its line. `None` if it has none: it is about other VMs.
    fn name(&self, head: &EventHead, all: bool) -> Option<&str> {
        let is_own = head.scope == EventScope::Own;
        let was_own = self.was_scope.map_or(is_own, |was| was == EventScope::Own);
        if !all && is_own && !was_own && self.transition == "changed" {
            return Some(if head.advisory {
                "advisory"
            } else {
                "announced"
            });
        }
        // The line about an event that names this VM no longer is its last one, unless it comes back.
        (all || is_own || was_own).then_some(self.transition)
    }
}

/// The lines of the open events, except those that `answer` has a transition of after the number.
fn pending_lines(
    open: &[&RawValue],
    answer: &TransitionsAnswer<'_>,
    after: u64,
    all: bool,
) -> serde_json::Result<String> {
    let read = |event: &RawValue| serde_json::from_str::<EventHead>(event.get());
    let with_transition = answer.after(after).map(|it| Ok(read(it.event)?.id));
    let with_transition = with_transition.collect::<serde_json::Result<BTreeSet<_>>>()?;
    let mut lines = String::new();
    for event in open {
        let head = read(event)?;
        if (all || head.scope == EventScope::Own) && !with_transition.contains(&head.id) {
            let name = if head.advisory { "advisory" } else { "pending" };
            lines += &line(answer.now, name, event)?;
        }
    }
    Ok(lines)
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
mod tests;
