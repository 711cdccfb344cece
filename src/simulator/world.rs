//! The state of the simulated Azure: pending events, active faults, running scenarios.
//!
//! Time is an argument, and no task runs in the background. [`World::advance`] applies all changes that are due, in
//! order and with their own times, so tests simulate hours without waiting.

use std::{ops::Range, sync::Arc, time::Duration};

use super::{
    ids::event_id,
    rate_limiter::RateLimiter,
    scenario::{EventSpec, Fault, FaultSpec, Scenario},
    scenario_run::{Change, ScenarioRun, scaled, scaled_phase},
    vm::Vm,
};
use crate::{
    event::EventId,
    time::{Moment, Timestamp},
};

const MAX_RUNS: usize = 100;
/// After (re-)enabling.
const FIRST_INCARNATION: u64 = 1;

#[derive(Debug)]
pub struct World {
    vm: Vm,
    speed: f64,
    id_seed: u64,
    incarnation: u64,
    /// How many scenarios have been started.
    started: u64,
    runs: Vec<ScenarioRun>,
    pending: Vec<PendingEvent>,
    rate_limiter: RateLimiter,
}

/// An event in the document.
#[derive(Debug, Clone)]
pub struct PendingEvent {
    pub id: EventId,
    pub(super) spec: EventSpec,
    pub(super) resources: Vec<Box<str>>,
    /// The name of its scenario.
    pub(super) scenario: Box<str>,
    /// `None` once the event has started, or if an advisory has none.
    pub not_before: Option<Timestamp>,
    pub(super) phase: EventPhase,
    pub(super) is_approved: bool,
    /// The monotonic time of the next change.
    pub(super) changes_at: Duration,
    next: NextChange,
    /// Scaled by the speed.
    started_for: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventPhase {
    Scheduled,
    Started,
    Advisory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextChange {
    Start,
    /// The event leaves the document.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_RUNS} scenarios are running already: clear them first")]
pub struct TooManyScenarios;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event {0:?} is pending")]
pub struct NoSuchEvent(String);

impl PendingEvent {
    /// `EventStatus`.
    pub(super) fn status(&self) -> &'static str {
        match self.phase {
            EventPhase::Scheduled => "Scheduled",
            EventPhase::Started => "Started",
            EventPhase::Advisory => "Advisory",
        }
    }

    /// Whether its next change is the start.
    pub(super) fn will_start(&self) -> bool {
        self.next == NextChange::Start
    }

    fn start(&mut self, at: Duration) {
        self.phase = EventPhase::Started;
        self.not_before = None;
        self.next = NextChange::End;
        self.changes_at = at.saturating_add(self.started_for);
    }

    /// Moves the start forward; a start or cancellation that comes first stays.
    fn approve(&mut self, at: Duration, speed: f64) {
        self.is_approved = true;
        let wait = self.spec.starts_after_approval.unwrap_or_default();
        let wait = scaled_phase(wait, speed);
        let starts_at = at.saturating_add(wait);
        if starts_at < self.changes_at {
            self.next = NextChange::Start;
            self.changes_at = starts_at;
        }
    }
}

impl World {
    /// Creates a simulation without events and faults. `id_seed` is part of each event id.
    pub fn new(vm: Vm, speed: f64, id_seed: u64) -> Self {
        Self {
            vm,
            speed,
            id_seed,
            incarnation: FIRST_INCARNATION,
            started: 0,
            runs: Vec::new(),
            pending: Vec::new(),
            rate_limiter: RateLimiter::default(),
        }
    }

    /// Starts a scenario; those that are running continue.
    pub fn start(&mut self, scenario: Arc<Scenario>, now: Moment) -> Result<(), TooManyScenarios> {
        self.advance(now);
        if self.runs.len() >= MAX_RUNS {
            return Err(TooManyScenarios);
        }
        self.started += 1;
        self.runs
            .push(ScenarioRun::new(scenario, self.started, now));
        self.advance(now);
        Ok(())
    }

    /// Ends all scenarios, events and faults.
    pub fn clear(&mut self, now: Moment) {
        self.advance(now);
        self.runs.clear();
        if !self.pending.is_empty() {
            self.pending.clear();
            self.incarnation += 1;
        }
    }

    /// Approves events, which start at once unless their scenario delays the start. Has no effect on events that have
    /// started already and on advisories. If one id is unknown, no event is approved.
    pub fn approve(&mut self, ids: &[EventId], now: Moment) -> Result<(), NoSuchEvent> {
        self.advance(now);
        if let Some(unknown) = ids
            .iter()
            .find(|id| !self.pending.iter().any(|event| event.id == **id))
        {
            return Err(NoSuchEvent(unknown.as_str().to_owned()));
        }
        let speed = self.speed;
        for event in &mut self.pending {
            if event.phase == EventPhase::Scheduled && ids.contains(&event.id) {
                event.approve(now.monotonic, speed);
            }
        }
        self.advance(now);
        Ok(())
    }

    /// Applies all changes that are due at `now`.
    pub fn advance(&mut self, now: Moment) {
        while let Some((at, change)) = self.next().filter(|(at, _)| *at <= now.monotonic) {
            self.apply(change, at, now);
        }
    }

    /// The monotonic time of the next change.
    pub fn next_change(&self) -> Option<Duration> {
        self.next().map(|(at, _)| at)
    }

    /// The active fault and the monotonic time of its end; of several, the one that started last. A delay of enabling
    /// comes after all others.
    pub(super) fn fault(&self, now: Moment) -> Option<(FaultSpec, Duration)> {
        self.active_faults(now)
            .max_by_key(|(spec, window)| (spec.fault != Fault::Enabling, window.start))
            .map(|(spec, window)| (spec, window.end))
    }

    fn active_faults(&self, now: Moment) -> impl Iterator<Item = (FaultSpec, Range<Duration>)> {
        let windows = self.runs.iter().flat_map(move |run| {
            let faults = run.scenario.faults.iter();
            faults.map(move |spec| (*spec, run.fault_window(spec, self.speed)))
        });
        windows.filter(move |(_, window)| window.contains(&now.monotonic))
    }

    /// Incarnation and events of the document that a request gets. The request starts the delay of enabling, if a
    /// scenario waits for it.
    pub(super) fn deliver(&mut self, now: Moment) -> (u64, &[PendingEvent]) {
        for run in &mut self.runs {
            run.first_request.get_or_insert(now.monotonic);
        }
        let is_enabling = self
            .active_faults(now)
            .any(|(spec, _)| spec.fault == Fault::Enabling);
        if is_enabling {
            (FIRST_INCARNATION, &[])
        } else {
            (self.incarnation, &self.pending)
        }
    }

    /// Returns whether the rate limit accepts a request at `now`, and counts it.
    pub(super) fn accept_request(&mut self, now: Moment) -> bool {
        self.rate_limiter.accept(now.monotonic)
    }

    /// The events in the document, in the order of their announcement.
    pub fn pending(&self) -> &[PendingEvent] {
        &self.pending
    }

    /// The running scenarios.
    pub fn runs(&self) -> &[ScenarioRun] {
        &self.runs
    }

    /// `DocumentIncarnation`.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn vm(&self) -> &Vm {
        &self.vm
    }

    /// The factor by which all waiting is shortened.
    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    fn next(&self) -> Option<(Duration, Change)> {
        let events = self
            .pending
            .iter()
            .enumerate()
            .map(|(index, event)| (event.changes_at, Change::Event(index)));
        let runs = self
            .runs
            .iter()
            .enumerate()
            .map(|(index, run)| run.next_change(index, self.speed));
        // `min_by_key` returns the first minimum: at equal times an event ends before the next is announced.
        events.chain(runs).min_by_key(|(at, _)| *at)
    }

    fn apply(&mut self, change: Change, at: Duration, now: Moment) {
        let speed = self.speed;
        match change {
            Change::Announcement(index) => self.announce(index),
            Change::Reset(index) => {
                if let Some(run) = self.runs.get_mut(index) {
                    run.resets += 1;
                }
                self.incarnation = FIRST_INCARNATION;
            }
            Change::Restart(index) => {
                if let Some(run) = self.runs.get_mut(index)
                    && let Some(period) = run.period(speed)
                {
                    run.restart(period, now);
                }
            }
            Change::RunEnd(index) => {
                self.runs.remove(index);
            }
            Change::Event(index) => {
                self.incarnation += 1;
                match self.pending.get_mut(index) {
                    Some(event) if event.next == NextChange::Start => event.start(at),
                    _ => drop(self.pending.remove(index)),
                }
            }
        }
    }

    fn announce(&mut self, index: usize) {
        let speed = self.speed;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Some(spec) = run.scenario.events.get(run.announced) else {
            return;
        };
        let id = event_id([self.id_seed, run.number, run.cycle, run.announced as u64]);
        let announced_at = run.time_at(spec.at, speed);
        // The cancellation is scaled separately, so that NotBefore stays after it at any speed.
        let canceled_after = spec.canceled_after.map(|wait| scaled_phase(wait, speed));
        let notice = spec.notice.map(|notice| {
            let remaining = notice.saturating_sub(spec.canceled_after.unwrap_or_default());
            scaled_phase(remaining, speed).saturating_add(canceled_after.unwrap_or_default())
        });
        let not_before = notice.map(|notice| {
            let offset = scaled(spec.at, speed).saturating_add(notice);
            run.started.wall.after(offset)
        });
        let mut event = PendingEvent {
            id,
            resources: spec
                .resources
                .iter()
                .map(|resource| self.vm.resource(resource))
                .collect(),
            scenario: run.scenario.name.clone(),
            not_before,
            phase: EventPhase::Scheduled,
            is_approved: false,
            changes_at: announced_at,
            next: NextChange::Start,
            started_for: scaled_phase(spec.shown_for(), speed),
            spec: spec.clone(),
        };
        match (canceled_after, notice) {
            _ if spec.is_advisory() => {
                event.phase = EventPhase::Advisory;
                event.next = NextChange::End;
                event.changes_at = announced_at.saturating_add(event.started_for);
            }
            (Some(wait), _) => {
                event.next = NextChange::End;
                event.changes_at = announced_at.saturating_add(wait);
            }
            (None, Some(wait)) => event.changes_at = announced_at.saturating_add(wait),
            (None, None) => event.start(announced_at),
        }
        run.announced += 1;
        self.incarnation += 1;
        self.pending.push(event);
    }
}
