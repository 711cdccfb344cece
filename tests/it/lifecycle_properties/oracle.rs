//! The expected outcomes and lengths: read from the documents by the rules of docs/internals/design.md, without the
//! engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use azure_scheduled_events_exporter::{
    document::Document,
    event::{Event, EventId, EventType, Status},
    lifecycle::{Outcome, Transition, TransitionKind},
    time::{Moment, MonotonicTime, Timestamp},
};

/// Of a poll interval of 1 s.
const MAX_GAP: Duration = Duration::from_secs(10);
/// No event announces a duration.
const MIN_RUN: Duration = Duration::from_secs(10);
const MAX_DOWN_EARLY: Duration = Duration::from_mins(1);

/// What the documents have shown of one event.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent")]
struct Seen {
    /// As listed last.
    event: Option<Event>,
    listed_at: Option<Moment>,
    /// The last one that was given.
    not_before: Option<Timestamp>,
    was_started: bool,
    approved_at: Option<MonotonicTime>,
    is_approved_elsewhere: bool,
    /// An interruption was measured since it was listed.
    was_interrupted: bool,
    has_ended: bool,
    /// A boot of the VM that the event explains, and no document since then listed it as Scheduled.
    has_booted: bool,
    /// When it was first seen, by the clock of the test.
    began: Duration,
}

impl Seen {
    fn list(&mut self, event: &Event, now: Moment) {
        self.listed_at = Some(now);
        self.was_interrupted = false;
        self.has_ended = false;
        self.not_before = event.not_before.or(self.not_before);
        self.was_started |= event.status == Status::Started && !is_advice(event);
        if event.status == Status::Scheduled {
            self.has_booted = false;
            let soon = now.wall.after(Duration::from_secs(10));
            if self.is_approved_elsewhere && event.not_before.is_some_and(|due| due > soon) {
                self.approved_at = None;
                self.is_approved_elsewhere = false;
            }
        }
        self.event = Some(event.clone());
    }

    /// Whether the event can have booted the VM, which ran until then.
    fn explains_boot(&self, ran_until: Timestamp) -> bool {
        let is_due = |due| ran_until.after(MAX_DOWN_EARLY) >= due;
        self.was_started || self.approved_at.is_some() || self.not_before.is_none_or(is_due)
    }

    fn outcome(&self, now: Moment, is_cancellation_certain: bool) -> Outcome {
        let event = self.event.as_ref().unwrap();
        let is_restart = matches!(event.event_type, EventType::Reboot | EventType::Redeploy);
        let is_own = event.resources.as_deref() == Some(&["web_0".into()]);
        let listed_at = self.listed_at.unwrap();
        let was_listed_until = |due: Timestamp| listed_at.wall.after(MAX_GAP) >= due;
        let ran_on_time = self
            .not_before
            .is_some_and(|due| now.wall >= due && was_listed_until(due));
        let ran_after_approval = self.approved_at.is_some_and(|approved_at| {
            let left_next = listed_at.monotonic <= approved_at;
            self.was_interrupted || left_next && now.monotonic - approved_at >= MIN_RUN
        });
        if is_advice(event) && !self.was_started {
            Outcome::Unknown
        } else if self.was_started
            || ran_after_approval
            || ran_on_time
            || self.has_booted && is_restart && is_own
        {
            Outcome::Completed
        } else if is_cancellation_certain
            && self.approved_at.is_none()
            && event.status == Status::Scheduled
            && self
                .not_before
                .is_some_and(|due| now.wall < due && listed_at.wall < due)
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
    /// By how much the clock was set back while the exporter did not run.
    set_back: Duration,
    /// Since the last document.
    has_restarted: bool,
    /// This VM was interrupted since the last poll.
    was_interrupted: bool,
    /// The time that has passed: within a process, and over a restart by the wall clock.
    pub(super) elapsed: Duration,
}

impl Oracle {
    pub(super) fn observe(
        &mut self,
        document: &Document,
        unreadable: Option<&EventId>,
        transitions: &[Transition],
        now: Moment,
    ) {
        // The first interruption after a restart may be that of the boot, or one that was measured since.
        let is_ambiguous = self.has_restarted && transitions.iter().any(is_interruption);
        let was_interrupted = self.was_interrupted;
        self.interrupt(transitions);
        if is_ambiguous {
            self.was_interrupted = was_interrupted;
        }
        let is_certain = self.is_watched(now) && document.is_complete();
        let ids = document.events.iter().map(|event| event.id.clone());
        let ids: BTreeSet<_> = ids.collect();
        for one in transitions {
            let is_kept = unreadable.filter(|id| !ids.contains(*id)) == Some(&one.tracked.shown.id);
            let is_end = matches!(one.kind, TransitionKind::Ended(_));
            assert!(!(is_kept && is_end), "its entry cannot be read: {one:?}");
        }
        // An event that becomes another one was not seen to be cancelled.
        self.listed.retain(|id| !ids.contains(id));
        let is_certain = is_certain || unreadable.is_some() && self.is_watched(now);
        self.check(transitions, is_certain, is_ambiguous, now);
        self.listed = ids;
        for event in &document.events {
            self.seen
                .entry(event.id.clone())
                .or_default()
                .list(event, now);
        }
        self.approve(transitions, now);
        self.has_restarted = false;
        self.polled(now);
    }

    /// The last document still holds.
    pub(super) fn confirm(&mut self, transitions: &[Transition], now: Moment) {
        self.interrupt(transitions);
        self.check(transitions, false, false, now);
        for id in &self.listed {
            let seen = self.seen.get_mut(id).unwrap();
            seen.listed_at = Some(now);
            seen.was_interrupted = false;
        }
        self.polled(now);
    }

    pub(super) fn interrupt(&mut self, transitions: &[Transition]) {
        for one in transitions.iter().filter(|one| is_interruption(one)) {
            self.was_interrupted = true;
            let seen = self.seen.get_mut(&one.tracked.shown.id).unwrap();
            seen.was_interrupted = true;
        }
    }

    pub(super) fn approve(&mut self, transitions: &[Transition], now: Moment) {
        for one in transitions {
            let seen = self.seen.get_mut(&one.tracked.shown.id).unwrap();
            let is_elsewhere = one.kind == TransitionKind::ApprovedElsewhere;
            if is_elsewhere || one.kind == TransitionKind::Approved {
                seen.approved_at = Some(now.monotonic);
                seen.is_approved_elsewhere = is_elsewhere;
            }
        }
    }

    /// The exporter, which wrote its state at `stopped`, runs again.
    pub(super) fn restart(&mut self, has_booted: bool, stopped: Moment, now: Moment) {
        self.set_back += stopped.wall.saturating_since(now.wall);
        self.elapsed += now.wall.saturating_since(stopped.wall);
        for seen in self.seen.values_mut().filter(|seen| !seen.has_ended) {
            seen.has_booted |= has_booted && seen.explains_boot(stopped.wall);
        }
        // The state does not say what was measured since the last poll.
        self.was_interrupted = false;
        self.has_restarted = true;
    }

    fn polled(&mut self, now: Moment) {
        self.last_poll = Some(now);
        self.set_back = Duration::ZERO;
        self.was_interrupted = false;
    }

    /// No start can have been missed since the last poll.
    fn is_watched(&self, now: Moment) -> bool {
        let elapsed = |last: Moment| now.monotonic - last.monotonic + self.set_back;
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
            let (id, tracked) = (&one.tracked.shown.id, &one.tracked);
            let length = |seen: &Seen| self.elapsed.saturating_sub(seen.began);
            match one.kind {
                TransitionKind::Announced => {
                    let began = self.elapsed;
                    let seen = Seen {
                        began,
                        ..Seen::default()
                    };
                    self.seen.insert(id.clone(), seen);
                }
                TransitionKind::Started => {
                    let notice = tracked.started_at.unwrap();
                    let notice = notice.saturating_since(tracked.first_seen_at);
                    assert_eq!(notice, length(&self.seen[id]), "{tracked:?}");
                }
                TransitionKind::Ended(outcome) => {
                    let lasted = tracked
                        .end
                        .unwrap()
                        .at
                        .saturating_since(tracked.first_seen_at);
                    assert_eq!(lasted, length(&self.seen[id]), "{tracked:?}");
                    let seen = self.seen.get_mut(id).unwrap();
                    seen.has_ended = true;
                    let is_certain = is_certain && self.listed.contains(id);
                    let expected = seen.outcome(now, is_certain);
                    let is_either = is_ambiguous && expected == Outcome::Cancelled;
                    if !is_either || outcome != Outcome::Unknown {
                        assert_eq!(outcome, expected, "{seen:?} {tracked:?}");
                    }
                }
                _ => {}
            }
        }
    }
}
