//! A scenario on its way: what of it is due next, and its rounds.

use std::{ops::Range, sync::Arc, time::Duration};

use super::scenario::{PlannedFault, Scenario};
use crate::time::Moment;

/// No speed makes a phase shorter than this, so that a client that polls once a second sees each of them.
const MIN_PHASE: Duration = Duration::from_secs(2);

/// A scenario that was started.
#[derive(Debug, Clone)]
pub struct Playing {
    pub(super) scenario: Arc<Scenario>,
    pub(super) number: u64,
    pub(super) cycle: u64,
    pub(super) began: Moment,
    pub(super) announced: usize,
    pub(super) resets: usize,
}

/// The next change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    Announcement(usize),
    Reset(usize),
    Cycle(usize),
    Over(usize),
    Event(usize),
}

impl Playing {
    pub(super) fn new(scenario: Arc<Scenario>, number: u64, began: Moment) -> Self {
        Self {
            scenario,
            number,
            cycle: 0,
            began,
            announced: 0,
            resets: 0,
        }
    }

    /// What is played.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// How often it has begun anew.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    pub(super) fn at(&self, after: Duration, speed: f64) -> Duration {
        self.began.monotonic.saturating_add(quickened(after, speed))
    }

    pub(super) fn period(&self, speed: f64) -> Option<Duration> {
        self.scenario.repeat_every.map(|every| phase(every, speed))
    }

    /// From when to when a fault holds, by the monotonic clock.
    pub(super) fn stretch(&self, planned: &PlannedFault, speed: f64) -> Range<Duration> {
        let began = self.at(planned.at, speed);
        began..began.saturating_add(phase(planned.lasts, speed))
    }

    /// When nothing is to come any more.
    fn over(&self, speed: f64) -> Duration {
        let faults = self.scenario.faults.iter();
        let recovered = faults.map(|planned| self.stretch(planned, speed).end);
        recovered
            .chain([self.at(self.scenario.length(), speed)])
            .max()
            .unwrap_or_default()
    }

    /// When something of it is due next; what ends it comes last.
    pub(super) fn next(&self, index: usize, speed: f64) -> (Duration, Due) {
        let announcement = self
            .scenario
            .events
            .get(self.announced)
            .map(|event| (event.at, Due::Announcement(index)));
        let reset = self
            .scenario
            .resets
            .get(self.resets)
            .map(|at| (*at, Due::Reset(index)));
        let first = announcement
            .into_iter()
            .chain(reset)
            .min_by_key(|(at, _)| *at);
        match (first, self.period(speed)) {
            (Some((at, due)), _) => (self.at(at, speed), due),
            (None, Some(period)) => (
                self.began.monotonic.saturating_add(period),
                Due::Cycle(index),
            ),
            (None, None) => (self.over(speed), Due::Over(index)),
        }
    }

    /// Begins anew after one period, or after many where nobody has looked for so long.
    pub(super) fn turn(&mut self, period: Duration, now: Moment) {
        let elapsed = now.monotonic.saturating_sub(self.began.monotonic);
        let into = Duration::from_nanos(
            u64::try_from(elapsed.as_nanos() % period.as_nanos()).unwrap_or(0),
        );
        let is_long = elapsed > period.saturating_mul(2);
        let later = if is_long {
            elapsed.saturating_sub(into)
        } else {
            period
        };
        self.began = self.began.after(later);
        self.cycle += 1;
        self.announced = 0;
        self.resets = 0;
    }
}

/// A span of a scenario in which something is to be seen, at a speed.
pub(super) fn phase(span: Duration, speed: f64) -> Duration {
    quickened(span, speed).max(span.min(MIN_PHASE))
}

/// A span of a scenario at a speed.
pub(super) fn quickened(span: Duration, speed: f64) -> Duration {
    Duration::try_from_secs_f64(span.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}
