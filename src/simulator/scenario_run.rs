//! The progress of one started scenario: its next change and its repetitions.

use std::{ops::Range, time::Duration};

use super::scenario::{Fault, FaultSpec, Scenario};
use crate::base::time::{Moment, MonotonicTime};

#[derive(Debug)]
pub struct ScenarioRun {
    /// At the speed of the simulation.
    pub(super) scenario: Scenario,
    pub(super) number: u64,
    /// How often the scenario has restarted.
    pub cycle: u64,
    pub(super) started: Moment,
    /// How many events have been announced in this cycle.
    pub(super) announced: usize,
    /// The number of resets in this cycle.
    pub(super) resets: usize,
    /// The time of the first request for events in this cycle.
    pub(super) first_request: Option<MonotonicTime>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum RunChange {
    Announcement,
    Reset,
    Restart,
    End,
}

impl ScenarioRun {
    pub(super) fn new(scenario: Scenario, number: u64, started: Moment) -> Self {
        Self {
            scenario,
            number,
            cycle: 0,
            started,
            announced: 0,
            resets: 0,
            first_request: None,
        }
    }

    /// The times between which a fault is active.
    pub(super) fn fault_window(&self, spec: &FaultSpec) -> Range<MonotonicTime> {
        let planned = self.started.monotonic + spec.at;
        let start = match spec.fault {
            Fault::Enabling => self
                .first_request
                .map_or(MonotonicTime::MAX, |first| first.max(planned)),
            _ => planned,
        };
        start..start + spec.duration
    }

    /// The next change and its time. The run ends or restarts after all other changes.
    pub(super) fn next_change(&self) -> (MonotonicTime, RunChange) {
        let announcement = self.scenario.events.get(self.announced);
        let announcement = announcement.map(|event| (event.at, RunChange::Announcement));
        let faults = &self.scenario.faults;
        let reset = faults
            .iter()
            .filter(|spec| spec.fault == Fault::IncarnationReset)
            .nth(self.resets)
            .map(|spec| (spec.at, RunChange::Reset));
        let first = announcement.into_iter().chain(reset);
        let restart = self.scenario.repeat_every;
        let next = first
            .min_by_key(|(at, _)| *at)
            .or(restart.map(|period| (period, RunChange::Restart)));
        if let Some((at, change)) = next {
            return (self.started.monotonic + at, change);
        }
        let ends = faults.iter().map(|spec| self.fault_window(spec).end);
        let end = ends.max().unwrap_or(self.started.monotonic);
        (end, RunChange::End)
    }

    /// Starts the next cycle; skips those that have been missed.
    pub(super) fn restart(&mut self, now: Moment) {
        let period = self.scenario.repeat_every.unwrap_or(Duration::MAX);
        let elapsed = now.monotonic - self.started.monotonic;
        let periods = u32::try_from(elapsed.as_nanos() / period.as_nanos()).unwrap_or(u32::MAX);
        self.started = self.started.after(period.saturating_mul(periods.max(1)));
        self.cycle += 1;
        self.announced = 0;
        self.resets = 0;
        self.first_request = None;
    }
}
