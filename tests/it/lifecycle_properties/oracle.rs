//! The expected outcomes: read from the documents by the rules of docs/internals/design.md, without the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use azure_scheduled_events_exporter::{
    document::Document,
    event::{Event, EventId, EventType, Status},
    lifecycle::{Outcome, Transition, TransitionKind},
    time::{Moment, Timestamp},
};

/// Of a poll interval of 1 s.
const MAX_GAP: Duration = Duration::from_secs(10);

/// What the documents have shown of one event.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent")]
struct Seen {
    /// As listed last.
    event: Option<Event>,
    listed_at: Option<Timestamp>,
    /// The last one that was given.
    not_before: Option<Timestamp>,
    was_started: bool,
    was_approved: bool,
    was_approved_elsewhere: bool,
    /// A later document listed it as Scheduled.
    is_scheduled_since: bool,
    has_ended: bool,
    /// The VM was booted while it was pending, and no document since then listed it as Scheduled.
    has_booted: bool,
}

impl Seen {
    fn list(&mut self, event: &Event, now: Timestamp) {
        self.listed_at = Some(now);
        self.has_ended = false;
        self.not_before = event.not_before.or(self.not_before);
        self.was_started |= event.status == Status::Started && !is_advice(event);
        if event.status == Status::Scheduled {
            self.has_booted = false;
            let soon = now.after(Duration::from_secs(10));
            self.was_approved_elsewhere &= event.not_before.is_none_or(|due| due <= soon);
            self.is_scheduled_since = self.is_approved();
        }
        self.event = Some(event.clone());
    }

    fn is_approved(&self) -> bool {
        self.was_approved || self.was_approved_elsewhere
    }

    fn outcome(&self, now: Timestamp, is_cancellation_certain: bool) -> Outcome {
        let event = self.event.as_ref().unwrap();
        let is_restart = matches!(event.event_type, EventType::Reboot | EventType::Redeploy);
        let is_own = event.resources.as_deref() == Some(&["web_0".into()]);
        let was_listed_until = |due: Timestamp| self.listed_at.unwrap().after(MAX_GAP) >= due;
        let ran_on_time = self
            .not_before
            .is_some_and(|due| now >= due && was_listed_until(due));
        if is_advice(event) && !self.was_started {
            Outcome::Unknown
        } else if self.was_started
            || self.is_approved() && !self.is_scheduled_since
            || ran_on_time
            || self.has_booted && is_restart && is_own
        {
            Outcome::Completed
        } else if is_cancellation_certain
            && !self.is_approved()
            && event.status == Status::Scheduled
            && self.not_before.is_some_and(|due| now < due)
        {
            Outcome::Cancelled
        } else {
            Outcome::Unknown
        }
    }
}

fn is_advice(event: &Event) -> bool {
    event.status == Status::Advisory || event.event_type == EventType::SpotRebalanceRecommendation
}

fn is_interruption(transition: &Transition) -> bool {
    matches!(transition.kind, TransitionKind::Interrupted(_))
}

/// Watches the same documents as the engine.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    seen: BTreeMap<EventId, Seen>,
    /// Those of the last document.
    listed: BTreeSet<EventId>,
    last_poll: Option<Moment>,
    /// From the last poll to the restart.
    before_restart: Duration,
    /// Since the last document.
    has_restarted: bool,
    /// This VM was interrupted since the last poll.
    was_interrupted: bool,
}

impl Oracle {
    pub(super) fn observe(&mut self, document: &Document, transitions: &[Transition], now: Moment) {
        // The first interruption after a restart may be that of the boot, or one that was measured since.
        let is_ambiguous = self.has_restarted && transitions.iter().any(is_interruption);
        if !is_ambiguous {
            self.interrupt(transitions);
        }
        let is_certain = self.is_watched(now) && document.is_complete();
        let ids = document.events.iter().map(|event| event.id.clone());
        let ids: BTreeSet<_> = ids.collect();
        // An event that becomes another one was not seen to be cancelled.
        self.listed.retain(|id| !ids.contains(id));
        self.check(transitions, is_certain, is_ambiguous, now);
        self.listed = ids;
        for event in &document.events {
            self.seen
                .entry(event.id.clone())
                .or_default()
                .list(event, now.wall);
        }
        self.approve(transitions);
        self.has_restarted = false;
        self.polled(now);
    }

    /// The last document still holds.
    pub(super) fn confirm(&mut self, transitions: &[Transition], now: Moment) {
        self.check(transitions, false, false, now);
        for id in &self.listed {
            let seen = self.seen.get_mut(id).unwrap();
            seen.listed_at = Some(now.wall);
            let event = seen.event.as_ref().unwrap();
            seen.is_scheduled_since |= event.status == Status::Scheduled && seen.is_approved();
        }
        self.polled(now);
    }

    pub(super) fn interrupt(&mut self, transitions: &[Transition]) {
        self.was_interrupted |= transitions.iter().any(is_interruption);
    }

    pub(super) fn approve(&mut self, transitions: &[Transition]) {
        for one in transitions {
            let seen = self.seen.get_mut(&one.tracked.shown.id).unwrap();
            seen.was_approved |= one.kind == TransitionKind::Approved;
            seen.was_approved_elsewhere |= one.kind == TransitionKind::ApprovedElsewhere;
        }
    }

    pub(super) fn restart(&mut self, has_booted: bool, now: Moment) {
        if let Some(last) = self.last_poll.replace(now) {
            let wall = now.wall.saturating_since(last.wall);
            let step_back = last.wall.saturating_since(now.wall);
            self.before_restart += wall.max(step_back);
        }
        for seen in self.seen.values_mut() {
            seen.has_booted |= has_booted && !seen.has_ended;
        }
        // The state does not say what was measured since the last poll.
        self.was_interrupted = false;
        self.has_restarted = true;
    }

    fn polled(&mut self, now: Moment) {
        self.last_poll = Some(now);
        self.before_restart = Duration::ZERO;
        self.was_interrupted = false;
    }

    /// No start can have been missed since the last poll.
    fn is_watched(&self, now: Moment) -> bool {
        let elapsed = |last: Moment| {
            let monotonic = now.monotonic - last.monotonic;
            monotonic.max(now.wall.saturating_since(last.wall)) + self.before_restart
        };
        !self.was_interrupted && self.last_poll.is_some_and(|last| elapsed(last) <= MAX_GAP)
    }

    fn check(
        &mut self,
        transitions: &[Transition],
        is_certain: bool,
        is_ambiguous: bool,
        now: Moment,
    ) {
        for one in transitions {
            let id = &one.tracked.shown.id;
            match one.kind {
                TransitionKind::Announced => drop(self.seen.insert(id.clone(), Seen::default())),
                TransitionKind::Ended(outcome) => {
                    let seen = self.seen.get_mut(id).unwrap();
                    seen.has_ended = true;
                    let is_certain = is_certain && self.listed.contains(id);
                    let expected = seen.outcome(now.wall, is_certain);
                    let is_either = is_ambiguous && expected == Outcome::Cancelled;
                    if !is_either || outcome != Outcome::Unknown {
                        assert_eq!(outcome, expected, "{seen:?} {:?}", one.tracked);
                    }
                }
                _ => {}
            }
        }
    }
}
