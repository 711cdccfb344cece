//! What the engine has to announce, start and end, with which outcome, and how long that took: the contract's rules for
//! the entries of documents, by a clock of the test.

use std::{collections::BTreeMap, time::Duration};

use azure_scheduled_events_exporter::{
    event::EventId,
    lifecycle::{Outcome, TrackedEvent, Transition, TransitionKind},
    time::Moment,
};

use super::{
    EVENTS, Lost, Observations, Observed, Reply, id,
    known_event::{
        DISABLED_AFTER, Fate, Known, Listing, MAX_DOWN_EARLY, MAX_GAP, Pause, between, is_advice,
    },
};

/// What readers have to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Announced,
    Returned,
    Started,
    /// With one of these outcomes.
    Ended(Vec<Outcome>),
}

/// Reads the same documents as the engine.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    known: [Option<Known>; EVENTS],
    last_success: Option<Duration>,
    /// By how much the clock was set back over restarts since then.
    set_back: Duration,
    warm_up: Option<Duration>,
    was_paused: Pause,
    /// Of this process.
    documents: usize,
    requested: BTreeMap<usize, usize>,
    /// The time that has passed: within a process, and over a restart by the wall clock.
    pub(super) elapsed: Duration,
}

impl Oracle {
    pub(super) fn has_document(&self) -> bool {
        self.documents > 0
    }

    pub(super) fn observe(
        &mut self,
        events: &Observations,
        lost: Lost,
        transitions: &[Transition],
        now: Moment,
    ) {
        let is_boot = !self.has_document();
        if !is_boot {
            self.tick(transitions);
        }
        let is_watched = self.age().is_some_and(|age| age <= MAX_GAP);
        self.begin_warm_up();
        let is_empty = lost == Lost::Nothing && events.iter().all(Option::is_none);
        for (index, event) in events.iter().enumerate() {
            let listing = Listing {
                index,
                lost,
                is_empty,
            };
            let own: Vec<_> = transitions
                .iter()
                .filter(|it| it.tracked.shown.id == id(index))
                .collect();
            let interruption = if is_boot {
                self.boot(index, *event, &listing, now)
            } else {
                None
            };
            let expected = match event {
                Some(observed) => self.list(index, *observed, lost == Lost::Event(index), now),
                None => self.miss(&listing, is_watched, now),
            };
            self.check(index, &expected, &own);
            if is_boot {
                assert_interruption(interruption, &own);
            }
            self.approve(index, &own);
        }
        self.documents += 1;
        self.succeed();
    }

    /// The last document still holds.
    pub(super) fn confirm(&mut self, transitions: &[Transition], now: Moment) {
        self.tick(transitions);
        self.begin_warm_up();
        for index in 0..EVENTS {
            let own: Vec<_> = transitions
                .iter()
                .filter(|it| it.tracked.shown.id == id(index))
                .collect();
            let elapsed = self.elapsed;
            let mut expected = Vec::new();
            if let Some(known) = self.pending(index) {
                match known.missing {
                    None => known.confirm(elapsed, now),
                    Some((_, Some(until))) if elapsed >= until => {
                        let outcomes = known.outcomes(false, Pause::No, elapsed, now);
                        expected.push(Change::Ended(outcomes));
                    }
                    Some(_) => {}
                }
            }
            self.check(index, &expected, &own);
        }
        self.succeed();
    }

    /// Pauses of this VM may have been measured.
    pub(super) fn tick(&mut self, transitions: &[Transition]) {
        let elapsed = self.elapsed;
        for one in transitions {
            if matches!(one.kind, TransitionKind::Interrupted(_)) {
                self.was_paused = Pause::Measured;
                let is_its = |known: &&mut Option<Known>| {
                    known
                        .as_ref()
                        .is_some_and(|it| it.first_seen_at == Some(one.tracked.first_seen_at))
                };
                let index = (0..EVENTS)
                    .find(|index| id(*index) == one.tracked.shown.id)
                    .unwrap();
                let known = self
                    .known
                    .get_mut(index)
                    .filter(is_its)
                    .and_then(Option::as_mut);
                let known = known.unwrap();
                known.was_interrupted |= elapsed > known.listed;
            }
        }
    }

    /// The engine has asked for these approvals.
    pub(super) fn request<'a>(&mut self, ids: impl Iterator<Item = &'a EventId>) {
        let mut requested = BTreeMap::new();
        for asked in ids {
            let index = (0..EVENTS).find(|index| id(*index) == *asked).unwrap();
            *requested.entry(index).or_default() += 1;
        }
        for (index, count) in &requested {
            let before = self.requested.get(index).copied().unwrap_or_default();
            if *count > before {
                self.known[*index].as_mut().unwrap().sent += 1;
            }
        }
        self.requested = requested;
    }

    pub(super) fn answer(&mut self, indices: &[usize], reply: Reply, transitions: &[Transition]) {
        for index in indices {
            let was_sent = self.requested.remove(index).is_some();
            let elapsed = self.elapsed;
            let own = transitions
                .iter()
                .filter(|it| it.tracked.shown.id == id(*index))
                .count();
            let Some(known) = self.pending(*index) else {
                assert_eq!(own, 0, "an answer about an ended event");
                continue;
            };
            let is_new = known.approved.is_none() || known.is_approved_elsewhere;
            assert_eq!(own == 1, reply == Reply::Accepted && is_new, "{known:?}");
            match reply {
                Reply::Accepted if is_new => {
                    known.approved = Some(elapsed);
                    known.is_approved_elsewhere = false;
                }
                Reply::Refused if was_sent && is_new => known.sent = known.sent.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// The exporter, which wrote its state at `stopped`, runs again.
    pub(super) fn restart(&mut self, has_booted: bool, stopped: Moment, now: Moment) {
        let down_since = self.elapsed;
        self.set_back += stopped.wall.saturating_since(now.wall);
        self.elapsed += now.wall.saturating_since(stopped.wall);
        for known in self.known.iter_mut().flatten() {
            known.set_due(self.elapsed, now);
            let is_due = |due| stopped.wall.after(MAX_DOWN_EARLY) >= due;
            let explains = known.started.is_some()
                || known.may_be_approved()
                || known.not_before.is_none_or(is_due);
            if has_booted && known.ended.is_none() && explains {
                known.has_booted = true;
                if known.restarts_vm() {
                    known.down_since.get_or_insert(down_since);
                }
            }
        }
        if self.was_paused != Pause::No {
            self.was_paused = Pause::BeforeRestart;
        }
        self.documents = 0;
        self.requested.clear();
    }

    /// The events that readers see.
    pub(super) fn assert_shown(&self, events: &[std::sync::Arc<TrackedEvent>]) {
        let shown: Vec<_> = events
            .iter()
            .map(|it| (it.shown.id.clone(), it.is_pending()))
            .collect();
        let known = self.known.iter().enumerate();
        let expected = known.filter_map(|(index, known)| {
            let known = known.as_ref().filter(|it| it.is_shown(self.elapsed))?;
            Some((id(index), known.ended.is_none()))
        });
        assert_eq!(shown, expected.collect::<Vec<_>>());
    }

    fn pending(&mut self, index: usize) -> Option<&mut Known> {
        self.known[index].as_mut().filter(|it| it.ended.is_none())
    }

    fn age(&self) -> Option<Duration> {
        Some(between(self.last_success?, self.elapsed) + self.set_back)
    }

    fn begin_warm_up(&mut self) {
        if self.age().is_none_or(|age| age >= DISABLED_AFTER) {
            self.warm_up = Some(self.elapsed);
        }
    }

    fn succeed(&mut self) {
        self.last_success = Some(self.elapsed);
        self.set_back = Duration::ZERO;
        self.was_paused = Pause::No;
    }

    /// The length of the interruption that the first document after a boot shows.
    fn boot(
        &mut self,
        index: usize,
        event: Option<Observed>,
        listing: &Listing,
        now: Moment,
    ) -> Option<Duration> {
        let (elapsed, warm_up) = (self.elapsed, self.warm_up);
        let known = self.pending(index)?;
        let down_since = known.down_since.take()?;
        let is_kept = event.is_none() && known.fate(listing, warm_up, elapsed, now) != Fate::End;
        if is_kept {
            return None;
        }
        let length = between(down_since, elapsed);
        let is_over = event.is_none_or(|it| it.status != Some("Scheduled"));
        let is_own = known.is_own == Some(true) && !known.is_advice();
        let is_measured = is_over && is_own && length >= Duration::from_secs(1);
        known.was_interrupted |= is_measured;
        is_measured.then_some(length)
    }

    /// `is_contradicted`: the document has another entry with its id, so it does not end the event.
    fn list(
        &mut self,
        index: usize,
        observed: Observed,
        is_contradicted: bool,
        now: Moment,
    ) -> Vec<Change> {
        let (elapsed, paused) = (self.elapsed, self.was_paused);
        let is_other = |was: &Known| {
            was.is_advice() != is_advice(observed.status.or(was.status), observed.event_type)
        };
        let known = self.known[index].take().filter(|it| it.is_shown(elapsed));
        let mut changes = Vec::new();
        let known = match known {
            None => {
                changes.push(Change::Announced);
                Known::new(observed, None, elapsed, now)
            }
            Some(mut was) if is_other(&was) && is_contradicted && was.ended.is_none() => {
                was.reported_status = observed.status;
                was.confirm(elapsed, now);
                was.missing = None;
                was
            }
            Some(was) if is_other(&was) => {
                if was.ended.is_none() {
                    changes.push(Change::Ended(was.outcomes(false, paused, elapsed, now)));
                }
                changes.push(Change::Announced);
                Known::new(observed, Some(&was), elapsed, now)
            }
            Some(mut known) => {
                if known.ended.is_some() {
                    changes.push(Change::Returned);
                }
                known.read(observed, elapsed, now);
                known
            }
        };
        let known = self.known[index].insert(known);
        if known.status == Some("Started") && !known.is_advice() && known.started.is_none() {
            known.started = Some(elapsed);
            changes.push(Change::Started);
        }
        changes
    }

    fn miss(&mut self, listing: &Listing, is_watched: bool, now: Moment) -> Vec<Change> {
        let (elapsed, warm_up, paused) = (self.elapsed, self.warm_up, self.was_paused);
        let Some(known) = self.pending(listing.index) else {
            return Vec::new();
        };
        match known.fate(listing, warm_up, elapsed, now) {
            Fate::End => vec![Change::Ended(
                known.outcomes(is_watched, paused, elapsed, now),
            )],
            Fate::Keep(until) => {
                let since = known.missing.map_or(elapsed, |(since, _)| since);
                known.missing = Some((since, until));
                Vec::new()
            }
        }
    }

    fn approve(&mut self, index: usize, transitions: &[&Transition]) {
        for one in transitions {
            let is_elsewhere = one.kind == TransitionKind::ApprovedElsewhere;
            if is_elsewhere || one.kind == TransitionKind::Approved {
                let known = self.known[index].as_mut().unwrap();
                known.approved = Some(self.elapsed);
                known.is_approved_elsewhere = is_elsewhere;
            }
        }
    }

    /// Readers were told what they had to be, with the right lengths.
    fn check(&mut self, index: usize, expected: &[Change], transitions: &[&Transition]) {
        let mut expected = expected.iter();
        for one in transitions {
            let is_expected = match one.kind {
                TransitionKind::Announced => expected.next() == Some(&Change::Announced),
                TransitionKind::Returned { .. } => expected.next() == Some(&Change::Returned),
                TransitionKind::Started => expected.next() == Some(&Change::Started),
                TransitionKind::Ended(outcome) => {
                    let next = expected.next();
                    matches!(next, Some(Change::Ended(outcomes)) if outcomes.contains(&outcome))
                }
                _ => true,
            };
            assert!(
                is_expected,
                "{one:?}\n{:?}\n{transitions:?}",
                self.known[index]
            );
        }
        let left: Vec<_> = expected.collect();
        assert!(left.is_empty(), "{left:?} {:?}", self.known[index]);
        self.check_lengths(index, transitions);
    }

    fn check_lengths(&mut self, index: usize, transitions: &[&Transition]) {
        let elapsed = self.elapsed;
        let Some(known) = self.known[index].as_mut() else {
            return;
        };
        // The end of another event with the same id comes first.
        for one in transitions.iter().rev() {
            let event = &one.tracked;
            match one.kind {
                TransitionKind::Announced => {
                    known.first_seen_at = Some(event.first_seen_at);
                    break;
                }
                TransitionKind::Ended(_) => {
                    known.ended = Some(elapsed);
                    let lasted = event.end.unwrap().at.saturating_since(event.first_seen_at);
                    assert_eq!(lasted, between(known.began, elapsed), "{event:?}");
                }
                TransitionKind::Started => {
                    let notice = event.started_at.unwrap();
                    let notice = notice.saturating_since(event.first_seen_at);
                    assert_eq!(notice, between(known.began, elapsed), "{event:?}");
                }
                _ => {}
            }
        }
        let is_same = |it: &&Transition| Some(it.tracked.first_seen_at) == known.first_seen_at;
        assert!(transitions.last().is_none_or(is_same), "{transitions:?}");
    }
}

fn assert_interruption(length: Option<Duration>, transitions: &[&Transition]) {
    let lengths = transitions.iter().filter_map(|it| match &it.kind {
        TransitionKind::Interrupted(interruption) => Some(interruption.length),
        _ => None,
    });
    assert_eq!(
        lengths.collect::<Vec<_>>(),
        Vec::from_iter(length),
        "{transitions:?}"
    );
}
