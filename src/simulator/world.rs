//! What is going on in the simulated Azure at a moment: events that are announced, start and end, and faults.
//!
//! Time is an argument. Nothing runs between two looks: [`World::advance`] catches up with all that was due, in its
//! order, each at its own time. So hours are played in a test without waiting, and a simulator that nobody asks is idle.

use std::{sync::Arc, time::Duration};

use super::{
    ids::event_id,
    limit::Recent,
    playing::{Due, Playing, phase, quickened},
    scenario::{Fault, Planned, Scenario},
    vm::Vm,
};
use crate::{
    event::EventId,
    time::{Moment, Timestamp},
};

/// More scenarios than this at the same time are refused.
const MAX_PLAYING: usize = 100;

/// The simulated Azure.
#[derive(Debug)]
pub struct World {
    vm: Vm,
    speed: f64,
    /// Makes the ids of this world its own.
    seed: u64,
    incarnation: u64,
    started: u64,
    playing: Vec<Playing>,
    pending: Vec<Pending>,
    recent: Recent,
}

/// An event in the document.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Its id, the same until its end.
    pub id: EventId,
    /// What it is.
    pub planned: Planned,
    /// Whom it names.
    pub resources: Vec<Box<str>>,
    /// The scenario that it is from.
    pub scenario: Box<str>,
    /// `None` once it has started.
    pub not_before: Option<Timestamp>,
    /// When it changes next, by the monotonic clock.
    pub changes_at: Duration,
    /// For how long it will be Started.
    started_for: Duration,
}

/// Too many scenarios at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_PLAYING} scenarios are played already: clear them first")]
pub struct TooMany;

/// An approval of an event that there is not, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event {0:?} is pending")]
pub struct NoSuchEvent(String);

impl Pending {
    /// Whether it has started.
    pub fn is_started(&self) -> bool {
        self.not_before.is_none()
    }
}

impl World {
    /// A calm world.
    pub fn new(vm: Vm, speed: f64, now: Moment) -> Self {
        Self {
            vm,
            speed,
            seed: now.wall.as_unix_seconds().to_bits(),
            incarnation: 1,
            started: 0,
            playing: Vec::new(),
            pending: Vec::new(),
            recent: Recent::default(),
        }
    }

    /// Begins to play a scenario, beside those that are played.
    pub fn start(&mut self, scenario: Arc<Scenario>, now: Moment) -> Result<(), TooMany> {
        self.advance(now);
        if self.playing.len() >= MAX_PLAYING {
            return Err(TooMany);
        }
        self.started += 1;
        self.playing.push(Playing::new(scenario, self.started, now));
        self.advance(now);
        Ok(())
    }

    /// Ends everything: no event, no fault.
    pub fn clear(&mut self, now: Moment) {
        self.advance(now);
        self.playing.clear();
        if !self.pending.is_empty() {
            self.pending.clear();
            self.incarnation += 1;
        }
    }

    /// Starts events before their time. One that has started already counts as approved; where one id is unknown,
    /// nothing is approved.
    pub fn approve(&mut self, ids: &[EventId], now: Moment) -> Result<(), NoSuchEvent> {
        self.advance(now);
        if let Some(unknown) = ids
            .iter()
            .find(|id| !self.pending.iter().any(|event| event.id == **id))
        {
            return Err(NoSuchEvent(unknown.as_str().to_owned()));
        }
        for event in self
            .pending
            .iter_mut()
            .filter(|event| !event.is_started() && ids.contains(&event.id))
        {
            event.begin(now.monotonic);
            self.incarnation += 1;
        }
        Ok(())
    }

    /// Catches up with all that was due until `now`.
    pub fn advance(&mut self, now: Moment) {
        while let Some((at, due)) = self.next().filter(|(at, _)| *at <= now.monotonic) {
            self.take(due, at, now);
        }
    }

    /// When the next change is due, by the monotonic clock.
    pub fn next_change(&self) -> Option<Duration> {
        self.next().map(|(at, _)| at)
    }

    /// The fault that is active, and when it is over by the monotonic clock; of several, the one that began last.
    pub fn fault(&self, now: Moment) -> Option<(Fault, Duration)> {
        let stretches = self.playing.iter().flat_map(|playing| {
            let faults = playing.scenario.faults.iter();
            faults.map(move |planned| (playing.stretch(planned, self.speed), planned.fault))
        });
        stretches
            .filter(|(stretch, _)| stretch.contains(&now.monotonic))
            .max_by_key(|(stretch, _)| stretch.start)
            .map(|(stretch, fault)| (fault, stretch.end))
    }

    /// Whether a request comes too soon after too many others; it counts as one of them.
    pub(super) fn is_too_many(&mut self, now: Moment) -> bool {
        self.recent.is_too_many(now.monotonic)
    }

    /// The events, in the order of their announcement.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// The scenarios that are played.
    pub fn playing(&self) -> &[Playing] {
        &self.playing
    }

    /// `DocumentIncarnation`.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The VM that all this happens to.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// By how much waiting is shortened.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    fn next(&self) -> Option<(Duration, Due)> {
        let events = self
            .pending
            .iter()
            .enumerate()
            .map(|(index, event)| (event.changes_at, Due::Event(index)));
        let steps = self
            .playing
            .iter()
            .enumerate()
            .map(|(index, playing)| playing.next(index, self.speed));
        // What ends at the same time comes first, so that one event can follow directly upon another.
        events.chain(steps).min_by_key(|(at, _)| *at)
    }

    fn take(&mut self, due: Due, at: Duration, now: Moment) {
        let speed = self.speed;
        match due {
            Due::Announcement(index) => self.announce(index),
            Due::Reset(index) => {
                if let Some(playing) = self.playing.get_mut(index) {
                    playing.resets += 1;
                }
                self.incarnation = 1;
            }
            Due::Cycle(index) => {
                if let Some(playing) = self.playing.get_mut(index)
                    && let Some(period) = playing.period(speed)
                {
                    playing.turn(period, now);
                }
            }
            Due::Over(index) => {
                self.playing.remove(index);
            }
            Due::Event(index) => {
                self.incarnation += 1;
                match self.pending.get_mut(index) {
                    Some(event)
                        if !event.is_started() && event.planned.canceled_after.is_none() =>
                    {
                        event.begin(at);
                    }
                    _ => drop(self.pending.remove(index)),
                }
            }
        }
    }

    fn announce(&mut self, index: usize) {
        let speed = self.speed;
        let Some(playing) = self.playing.get_mut(index) else {
            return;
        };
        let Some(planned) = playing.scenario.events.get(playing.announced) else {
            return;
        };
        let id = event_id([
            self.seed,
            playing.number,
            playing.cycle,
            playing.announced as u64,
        ]);
        let announced_at = playing.at(planned.at, speed);
        // What is canceled has a NotBefore that never comes.
        let canceled_after = planned.canceled_after.map(|wait| phase(wait, speed));
        let notice = planned.notice.map(|notice| {
            let rest = notice.saturating_sub(planned.canceled_after.unwrap_or_default());
            phase(rest, speed).saturating_add(canceled_after.unwrap_or_default())
        });
        let due_after = |notice: Duration| quickened(planned.at, speed).saturating_add(notice);
        let mut event = Pending {
            id,
            resources: planned
                .resources
                .iter()
                .map(|resource| self.vm.resource(resource))
                .collect(),
            scenario: playing.scenario.name.clone(),
            not_before: notice.map(|notice| playing.began.wall.after(due_after(notice))),
            changes_at: announced_at,
            started_for: phase(planned.started_for, speed),
            planned: planned.clone(),
        };
        match canceled_after.or(notice) {
            Some(wait) => event.changes_at = announced_at.saturating_add(wait),
            None => event.begin(announced_at),
        }
        playing.announced += 1;
        self.incarnation += 1;
        self.pending.push(event);
    }
}

impl Pending {
    fn begin(&mut self, at: Duration) {
        self.not_before = None;
        self.changes_at = at.saturating_add(self.started_for);
    }
}
