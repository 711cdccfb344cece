//! The last transitions of events, numbered in the order in which they happened: what `/api/v1/transitions` serves.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::ApprovalDecision;
use crate::{
    azure::event::{EventId, Status},
    base::time::Timestamp,
    core::lifecycle::{TrackedEvent, Transition, TransitionKind},
};

/// Transitions that are kept.
const MAX_KEPT: usize = 1_000;
/// The texts of their events, in bytes: a large event may change with each poll.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// One transition that readers are told of.
#[derive(Debug, Clone)]
pub struct NumberedTransition {
    /// From 1 on in each process.
    pub number: u64,
    pub at: Timestamp,
    /// `announced`, `advisory`, `rescheduled`, `changed`, `started` or `ended`.
    pub name: &'static str,
    /// The event as the document that caused the transition left it.
    pub tracked: Arc<TrackedEvent>,
    /// The decision about its approval then.
    pub approval: Option<ApprovalDecision>,
    /// It happened in an earlier process, and the event is as that process knew it last.
    pub is_restored: bool,
}

#[derive(Debug, Clone)]
pub struct TransitionHistory {
    /// Identifies the numbering: another process begins again.
    pub process_started_at: Timestamp,
    /// The number of the last transition; 0 before the first one.
    pub newest: u64,
    kept: VecDeque<NumberedTransition>,
    /// The sum of all that are kept.
    text_bytes: usize,
}

impl TransitionHistory {
    pub(crate) fn new(process_started_at: Timestamp) -> Self {
        Self {
            process_started_at,
            newest: 0,
            kept: VecDeque::new(),
            text_bytes: 0,
        }
    }

    /// The number of the first transition that is kept, or of the next one.
    pub(crate) fn oldest(&self) -> u64 {
        let first = self.kept.front();
        first.map_or(self.newest.saturating_add(1), |first| first.number)
    }

    /// Those with a higher number. All of them if this process has not reached `number`, which is of an earlier one.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = &NumberedTransition> {
        let number = if number > self.newest { 0 } else { number };
        self.kept.iter().filter(move |kept| kept.number > number)
    }

    /// Adds transitions: by their time, and what a document ends before what it announces.
    pub(crate) fn record(
        &mut self,
        transitions: &[Transition],
        approvals: &BTreeMap<EventId, ApprovalDecision>,
    ) {
        // A document that announces an event as Started causes two transitions of it.
        let mut last = BTreeMap::new();
        for Transition { at, tracked, .. } in transitions {
            if tracked.is_pending() {
                last.insert((*at, &tracked.event.id), tracked);
            }
        }
        let mut ordered: Vec<_> = transitions.iter().collect();
        ordered.sort_by_key(|it| (it.at, !matches!(it.kind, TransitionKind::Ended(_))));
        for transition in ordered {
            let Some(name) = name(transition) else {
                continue;
            };
            let Transition { at, tracked, .. } = transition;
            let last = last.get(&(*at, &tracked.event.id));
            let tracked = last.filter(|_| tracked.is_pending()).unwrap_or(&tracked);
            let approval = approvals.get(&tracked.event.id).cloned();
            self.push(*at, name, tracked, approval, false);
        }
    }

    /// Adds what the records of restored events show of the transitions in earlier processes.
    pub(crate) fn restore(&mut self, events: &[Arc<TrackedEvent>]) {
        let mut found: Vec<_> = events.iter().flat_map(transitions_of).collect();
        found.sort_by_key(|(at, name, _)| (*at, *name != "ended"));
        for (at, name, tracked) in found {
            self.push(at, name, tracked, None, true);
        }
    }

    fn push(
        &mut self,
        at: Timestamp,
        name: &'static str,
        tracked: &Arc<TrackedEvent>,
        approval: Option<ApprovalDecision>,
        is_restored: bool,
    ) {
        self.newest = self.newest.saturating_add(1);
        self.text_bytes += tracked.event.text_bytes();
        self.kept.push_back(NumberedTransition {
            number: self.newest,
            at,
            name,
            tracked: Arc::clone(tracked),
            approval,
            is_restored,
        });
        while self.kept.len() > MAX_KEPT || self.text_bytes > MAX_TEXT_BYTES && self.kept.len() > 1
        {
            if let Some(dropped) = self.kept.pop_front() {
                self.text_bytes -= dropped.tracked.event.text_bytes();
            }
        }
    }
}

/// `None` for one that readers see in the members of the event alone.
fn name(transition: &Transition) -> Option<&'static str> {
    let event = &transition.tracked.event;
    match &transition.kind {
        TransitionKind::Announced | TransitionKind::Returned => {
            Some(beginning(&transition.tracked))
        }
        TransitionKind::Rescheduled(_) => Some("rescheduled"),
        TransitionKind::StatusChanged(_) if event.status == Status::Started => Some("started"),
        TransitionKind::StatusChanged(_) | TransitionKind::Amended { .. } => Some("changed"),
        TransitionKind::Started => Some("started"),
        TransitionKind::Ended(_) => Some("ended"),
        TransitionKind::Approved
        | TransitionKind::ApprovedElsewhere
        | TransitionKind::Interrupted(_) => None,
    }
}

fn beginning(tracked: &TrackedEvent) -> &'static str {
    if tracked.event.is_advisory() {
        "advisory"
    } else {
        "announced"
    }
}

/// The transitions of an event whose times are known.
fn transitions_of(
    tracked: &Arc<TrackedEvent>,
) -> impl Iterator<Item = (Timestamp, &'static str, &Arc<TrackedEvent>)> {
    let mut found = vec![(tracked.first_seen_at, beginning(tracked))];
    let moved = tracked.reschedulings.iter();
    found.extend(moved.map(|change| (change.at, "rescheduled")));
    found.extend(tracked.started_at.map(|at| (at, "started")));
    let end = tracked.end.map(|end| (end.at, "ended"));
    let is_other = found
        .iter()
        .chain(&end)
        .all(|(at, _)| *at != tracked.changed_at);
    found.extend(is_other.then_some((tracked.changed_at, "changed")));
    found.extend(end);
    found.into_iter().map(move |(at, name)| (at, name, tracked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        assessment::fixtures::{at, tracked},
        lifecycle::{End, Outcome},
    };

    fn event(id: &str, change: impl FnOnce(&mut TrackedEvent)) -> Arc<TrackedEvent> {
        let mut event = tracked("Reboot", "Platform", Some(900));
        event.event.id = EventId::new(id);
        change(&mut event);
        Arc::new(event)
    }

    fn transition(kind: TransitionKind, tracked: &Arc<TrackedEvent>) -> Transition {
        let tracked = Arc::clone(tracked);
        let at = at(0);
        Transition { at, kind, tracked }
    }

    fn recorded(transitions: &[Transition]) -> TransitionHistory {
        let mut history = TransitionHistory::new(at(0));
        history.record(transitions, &BTreeMap::new());
        history
    }

    fn names(history: &TransitionHistory, after: u64) -> Vec<(u64, &'static str)> {
        history
            .after(after)
            .map(|it| (it.number, it.name))
            .collect()
    }

    #[test]
    fn what_a_document_ends_comes_before_what_it_announces() {
        let ended = event("A", |event| {
            let outcome = Outcome::Completed;
            event.end = Some(End { at: at(0), outcome });
        });
        let history = recorded(&[
            transition(TransitionKind::Announced, &event("B", |_| ())),
            transition(TransitionKind::Approved, &event("B", |_| ())),
            transition(TransitionKind::Ended(Outcome::Completed), &ended),
        ]);
        assert_eq!(names(&history, 0), [(1, "ended"), (2, "announced")]);
        assert_eq!(names(&history, 1), [(2, "announced")]);
        assert_eq!(names(&history, 2), []);
        // This process has not reached it: it is the number of an earlier one.
        assert_eq!(names(&history, 3).len(), 2);
    }

    #[test]
    fn an_event_that_is_announced_as_started_has_started_in_both_transitions() {
        let started = event("A", |event| {
            event.event.status = Status::Started;
            event.started_at = Some(at(0));
        });
        let history = recorded(&[
            transition(TransitionKind::Announced, &event("A", |_| ())),
            transition(TransitionKind::Started, &started),
        ]);
        let phases = history.after(0).map(|it| it.tracked.phase().as_str());
        assert_eq!(phases.collect::<Vec<_>>(), ["started", "started"]);
    }

    #[test]
    fn the_oldest_are_dropped_beyond_a_number_or_a_size() {
        let small = event("A", |_| ());
        let many = vec![transition(TransitionKind::Announced, &small); MAX_KEPT + 5];
        let history = recorded(&many);
        assert_eq!((history.oldest(), history.newest), (6, 1_005));
        assert_eq!(history.after(0).count(), MAX_KEPT);
        let large = event("A", |event| {
            event.event.description = Some("x".repeat(MAX_TEXT_BYTES / 2).into());
        });
        let history = recorded(&vec![transition(TransitionKind::Announced, &large); 5]);
        assert_eq!((history.oldest(), history.newest), (5, 5));
        assert_eq!(recorded(&[]).oldest(), 1);
    }

    #[test]
    fn restored_events_have_the_transitions_that_their_records_show() {
        let ended = event("A", |event| {
            event.first_seen_at = at(10);
            event.started_at = Some(at(20));
            event.changed_at = at(30);
            let outcome = Outcome::Completed;
            event.end = Some(End {
                at: at(30),
                outcome,
            });
        });
        let open = event("B", |event| {
            event.first_seen_at = at(15);
            event.changed_at = at(25);
        });
        let mut history = TransitionHistory::new(at(40));
        history.restore(&[ended, open]);
        let found = names(&history, 0).into_iter().map(|(_, name)| name);
        let expected = ["announced", "announced", "started", "changed", "ended"];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
