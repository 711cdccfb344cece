//! The progress of one started scenario: its next change and its repetitions.

use std::{ops::Range, sync::Arc, time::Duration};

use super::scenario::{Fault, FaultSpec, Scenario};
use crate::time::Moment;

/// The minimum length of a phase at any speed, so that a client that polls once a second sees each phase.
const MIN_PHASE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct ScenarioRun {
    pub(super) scenario: Arc<Scenario>,
    pub(super) number: u64,
    pub(super) cycle: u64,
    pub(super) started: Moment,
    /// How many events have been announced in this cycle.
    pub(super) announced: usize,
    /// The number of resets in this cycle.
    pub(super) resets: usize,
    /// The monotonic time of the first request for events in this cycle.
    pub(super) first_request: Option<Duration>,
}

/// A change of the simulated state, with the index of the run or of the pending event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Announcement(usize),
    Reset(usize),
    Restart(usize),
    RunEnd(usize),
    Event(usize),
}

impl ScenarioRun {
    pub(super) fn new(scenario: Arc<Scenario>, number: u64, started: Moment) -> Self {
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

    /// How often the scenario has restarted.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// The monotonic time of an offset in the scenario.
    pub(super) fn time_at(&self, offset: Duration, speed: f64) -> Duration {
        self.started.monotonic.saturating_add(scaled(offset, speed))
    }

    pub(super) fn period(&self, speed: f64) -> Option<Duration> {
        self.scenario
            .repeat_every
            .map(|every| scaled_phase(every, speed))
    }

    /// The monotonic times between which a fault is active.
    pub(super) fn fault_window(&self, spec: &FaultSpec, speed: f64) -> Range<Duration> {
        let planned = self.time_at(spec.at, speed);
        let start = match spec.fault {
            Fault::Enabling => self
                .first_request
                .map_or(Duration::MAX, |first| first.max(planned)),
            _ => planned,
        };
        start..start.saturating_add(scaled_phase(spec.duration, speed))
    }

    /// The monotonic time after which nothing more happens.
    fn end(&self, speed: f64) -> Duration {
        let faults = self.scenario.faults.iter();
        let recovered = faults.map(|spec| self.fault_window(spec, speed).end);
        recovered
            .chain([self.time_at(self.scenario.length(), speed)])
            .max()
            .unwrap_or_default()
    }

    /// The next change and its monotonic time. The run ends or restarts after all other changes.
    pub(super) fn next_change(&self, index: usize, speed: f64) -> (Duration, Change) {
        let announcement = self
            .scenario
            .events
            .get(self.announced)
            .map(|event| (event.at, Change::Announcement(index)));
        let reset = self
            .scenario
            .resets
            .get(self.resets)
            .map(|at| (*at, Change::Reset(index)));
        let first = announcement
            .into_iter()
            .chain(reset)
            .min_by_key(|(at, _)| *at);
        match (first, self.period(speed)) {
            (Some((at, change)), _) => (self.time_at(at, speed), change),
            (None, Some(period)) => (
                self.started.monotonic.saturating_add(period),
                Change::Restart(index),
            ),
            (None, None) => (self.end(speed), Change::RunEnd(index)),
        }
    }

    /// Starts the next cycle. After two missed periods, skips to the cycle that `now` is in.
    pub(super) fn restart(&mut self, period: Duration, now: Moment) {
        let elapsed = now.monotonic.saturating_sub(self.started.monotonic);
        let into_cycle = Duration::from_nanos(
            u64::try_from(elapsed.as_nanos() % period.as_nanos()).unwrap_or(0),
        );
        let step = if elapsed > period.saturating_mul(2) {
            elapsed.saturating_sub(into_cycle)
        } else {
            period
        };
        self.started = self.started.after(step);
        self.cycle += 1;
        self.announced = 0;
        self.resets = 0;
        self.first_request = None;
    }
}

/// Divides the length of a visible phase by the speed, but not below [`MIN_PHASE`].
pub(super) fn scaled_phase(length: Duration, speed: f64) -> Duration {
    scaled(length, speed).max(length.min(MIN_PHASE))
}

pub(super) fn scaled(length: Duration, speed: f64) -> Duration {
    Duration::try_from_secs_f64(length.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}
