//! Detects pauses of this VM, and measures how long it was interrupted.
//!
//! While an event that names this VM can interrupt it soon, the event loop ticks every [`PERIOD`], and a late tick shows
//! a gap. While such an event is pending further ahead, only the time by which the wait before a poll lasted longer than
//! asked for counts: it is too short by up to one poll interval, and never too long.
//!
//! While Azure pauses a VM, its clocks can stop, and the wall clock is then corrected
//! (<https://learn.microsoft.com/azure/virtual-machines/linux/time-sync>). So a step of the wall clock against the
//! monotonic clock counts up to `MAX_CLOCK_STEP`: Azure pauses a VM for less than 10 seconds, rarely for about 30
//! (<https://learn.microsoft.com/azure/virtual-machines/maintenance-and-updates>). The time for which the process waited
//! for a processor is subtracted, and a gap in which it was stopped does not count.
//!
//! While no event of this VM is pending, such a wait alone counts, and by the monotonic clock alone: a correction of the
//! wall clock would be an interruption that nobody announced.
//!
//! A small correction that is taken for a pause does little harm: the outcome of an event that disappears beside it is
//! unknown, in place of cancelled.

use std::time::Duration;

use crate::{
    base::time::{Moment, Timestamp},
    core::lifecycle::Interruption,
};

/// The time between two ticks. Each tick wakes the process.
pub const PERIOD: Duration = Duration::from_millis(500);

/// Subtracted from a gap: the interruption began between two ticks, so a measurement is accurate to ± this value.
const MEASUREMENT_ERROR: Duration = Duration::from_millis(250);

/// Twice the longest pause that Azure documents. A larger step of the wall clock is a correction of the clock.
const MAX_CLOCK_STEP: Duration = Duration::from_mins(1);

/// What kept this process from running, without an interruption of the VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessDelay {
    /// The time that it waited for a processor, ready to run.
    pub waited: Duration,
    pub was_stopped: bool,
}

/// By how much a wait was longer than asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    /// By the monotonic clock, or a step of the wall clock.
    pub by_any_clock: Duration,
    pub by_monotonic: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PauseDetector {
    last: Option<Moment>,
    delay: ProcessDelay,
}

impl PauseDetector {
    /// One tick. Returns the interruption since the last one, from [`Interruption::MIN_LENGTH`] up.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Interruption> {
        let last = self.last.replace(now)?;
        let gap = gap(last, now).saturating_sub(MEASUREMENT_ERROR);
        self.interruption(gap, now.wall)
    }

    /// A poll that took this time has ended; it began `late` by any clock. Beside ticks it is one.
    pub(crate) fn poll(
        &mut self,
        late: Duration,
        took: Duration,
        now: Moment,
    ) -> Option<Interruption> {
        if self.last.is_some() {
            return self.tick(now);
        }
        self.interruption(late, now.wall.before(took))
    }

    fn interruption(&mut self, gap: Duration, until: Timestamp) -> Option<Interruption> {
        let length = self.length(gap);
        self.delay = ProcessDelay::default();
        length.map(|length| Interruption { until, length })
    }

    /// How long this VM was paused in a gap, from [`Interruption::MIN_LENGTH`] up.
    pub(crate) fn length(&self, gap: Duration) -> Option<Duration> {
        let length = gap.saturating_sub(self.delay.waited);
        (!self.delay.was_stopped && length >= Interruption::MIN_LENGTH).then_some(length)
    }

    pub(crate) fn delay(&mut self, delay: ProcessDelay) {
        self.delay.waited = self.delay.waited.saturating_add(delay.waited);
        self.delay.was_stopped |= delay.was_stopped;
    }

    /// The next tick starts a new measurement.
    pub(crate) fn stop_ticks(&mut self) {
        self.last = None;
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// By how much a wait from `since` to `now` was longer than asked for.
pub fn lateness(since: Moment, now: Moment, asked: Duration) -> Lateness {
    Lateness {
        by_any_clock: gap(since, now).saturating_sub(asked),
        by_monotonic: (now.awake - since.awake).saturating_sub(asked),
    }
}

/// The time between two moments, which the monotonic clock or a step of the wall clock shows.
fn gap(since: Moment, now: Moment) -> Duration {
    let by_monotonic = now.awake - since.awake;
    let by_wall = now.wall.saturating_since(since.wall);
    let is_pause = by_wall.saturating_sub(by_monotonic) <= MAX_CLOCK_STEP;
    if is_pause {
        by_monotonic.max(by_wall)
    } else {
        by_monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Moment {
        Moment::new(
            Timestamp::from_unix_seconds(1_000_000).unwrap(),
            Duration::from_secs(5),
        )
    }

    #[test]
    fn regular_ticks_are_not_an_interruption() {
        let mut detector = PauseDetector::default();
        let mut now = start();
        for _ in 0..100 {
            assert_eq!(detector.tick(now), None);
            now = now.after(PERIOD + Duration::from_millis(300));
        }
    }

    #[test]
    fn a_late_tick_measures_the_interruption() {
        let mut detector = PauseDetector::default();
        detector.tick(start());
        let now = start().after(MEASUREMENT_ERROR + Duration::from_secs(5));
        let interruption = detector.tick(now).unwrap();
        assert_eq!(
            interruption,
            Interruption {
                until: now.wall,
                length: Duration::from_secs(5)
            }
        );
    }

    #[test]
    fn a_wall_clock_set_forward_measures_an_interruption_that_stopped_the_monotonic_clock() {
        let mut detector = PauseDetector::default();
        detector.tick(start());
        let now = Moment {
            wall: start().wall.after(Duration::from_secs(9)),
            ..start().after(PERIOD)
        };
        assert_eq!(
            detector.tick(now).unwrap().length,
            Duration::from_millis(8_750)
        );
    }

    #[test]
    fn a_step_of_the_wall_clock_that_no_pause_explains_measures_nothing() {
        let stepped = |gap: Duration, step: Duration| {
            let mut detector = PauseDetector::default();
            detector.tick(start());
            let now = start().after(gap);
            let interruption = detector.tick(Moment {
                wall: now.wall.after(step),
                ..now
            });
            interruption.map(|it| it.length + MEASUREMENT_ERROR)
        };
        let (minute, hour) = (Duration::from_mins(1), Duration::from_hours(1));
        assert_eq!(stepped(PERIOD, minute), Some(minute + PERIOD));
        assert_eq!(stepped(PERIOD, minute + PERIOD), None);
        assert_eq!(stepped(PERIOD, hour), None);
        let seconds = Duration::from_secs(7);
        assert_eq!(stepped(seconds, hour), Some(seconds), "the monotonic gap");
    }

    #[test]
    fn a_delay_of_the_process_is_no_interruption() {
        let measured = |waited, was_stopped| {
            let mut detector = PauseDetector::default();
            detector.tick(start());
            let waited = Duration::from_secs(waited);
            detector.delay(ProcessDelay {
                waited,
                was_stopped,
            });
            let now = start().after(MEASUREMENT_ERROR + Duration::from_secs(5));
            let first = detector.tick(now).map(|it| it.length.as_secs());
            let now = now.after(MEASUREMENT_ERROR + Duration::from_secs(5));
            (first, detector.tick(now).map(|it| it.length.as_secs()))
        };
        assert_eq!(measured(0, false), (Some(5), Some(5)));
        assert_eq!(measured(3, false), (Some(2), Some(5)));
        assert_eq!(measured(5, false), (None, Some(5)));
        assert_eq!(measured(9, false), (None, Some(5)));
        assert_eq!(measured(0, true), (None, Some(5)));
    }

    #[test]
    fn without_ticks_a_poll_measures_by_how_much_its_wait_was_too_long() {
        let measured = |late, waited, was_stopped| {
            let mut detector = PauseDetector::default();
            let waited = Duration::from_secs(waited);
            detector.delay(ProcessDelay {
                waited,
                was_stopped,
            });
            let took = Duration::from_secs(9);
            let first = detector.poll(Duration::from_secs(late), took, start().after(took));
            assert_eq!(detector.poll(Duration::ZERO, took, start()), None);
            first.inspect(|it| assert_eq!(it.until, start().wall))
        };
        let seconds = |late, waited, was_stopped| {
            measured(late, waited, was_stopped).map(|it| it.length.as_secs())
        };
        assert_eq!(seconds(0, 0, false), None);
        assert_eq!(seconds(5, 0, false), Some(5));
        assert_eq!(seconds(5, 3, false), Some(2));
        assert_eq!(seconds(5, 5, false), None);
        assert_eq!(seconds(5, 0, true), None);
    }

    #[test]
    fn with_ticks_a_poll_is_one() {
        let mut detector = PauseDetector::default();
        detector.tick(start());
        let late = Duration::from_secs(9);
        let now = start().after(PERIOD);
        assert_eq!(detector.poll(late, Duration::ZERO, now), None);
        let now = start().after(MEASUREMENT_ERROR + Duration::from_secs(5));
        assert_eq!(
            detector.poll(Duration::ZERO, PERIOD, now).unwrap().length,
            Duration::from_millis(4_500)
        );
    }

    #[test]
    fn a_wait_is_late_by_either_clock_and_without_the_time_that_was_asked_for() {
        let hour = Duration::from_hours(1);
        let late = |monotonic: u64, wall: u64| {
            let now = Moment {
                wall: start().wall.after(Duration::from_secs(wall)),
                ..start().after(Duration::from_secs(monotonic))
            };
            let late = lateness(start(), now, hour);
            (late.by_any_clock.as_secs(), late.by_monotonic.as_secs())
        };
        assert_eq!(late(3_600, 3_600), (0, 0));
        assert_eq!(late(3_607, 3_607), (7, 7));
        assert_eq!(late(3_600, 3_609), (9, 0));
        assert_eq!(late(3_607, 9_000), (7, 7), "the clock was set");
        assert_eq!(late(3_600, 0), (0, 0));
        assert_eq!(late(20, 20), (0, 0));
    }

    #[test]
    fn a_wall_clock_set_back_measures_nothing() {
        let mut detector = PauseDetector::default();
        detector.tick(start());
        let now = Moment {
            wall: start().wall.before(Duration::from_hours(1)),
            ..start().after(PERIOD)
        };
        assert_eq!(detector.tick(now), None);
    }

    #[test]
    fn a_reset_is_not_an_interruption() {
        let mut detector = PauseDetector::default();
        detector.tick(start());
        detector.reset();
        assert_eq!(detector.tick(start().after(Duration::from_hours(1))), None);
    }
}
