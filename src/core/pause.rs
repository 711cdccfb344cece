//! Detects pauses of this VM, and measures how long it was interrupted.
//!
//! While an event that names this VM is pending, the event loop ticks every [`PERIOD`]. A late tick shows a gap. If the
//! monotonic clock continued during the interruption, the gap is on it, and is taken as it is.
//!
//! While Azure pauses a VM, its clocks can stop, and the wall clock is then corrected by the length of the pause
//! (<https://learn.microsoft.com/azure/virtual-machines/linux/time-sync>). This looks like any other correction of the
//! clock, so a step of the wall clock against the monotonic clock counts up to `MAX_CLOCK_STEP`: Azure pauses a VM for
//! less than 10 seconds, rarely for about 30
//! (<https://learn.microsoft.com/azure/virtual-machines/maintenance-and-updates>). With a larger step, also that of a
//! suspended or hibernated VM, only the gap on the monotonic clock counts.
//!
//! A process that waits for a processor, or is stopped, ticks late too. Neither interrupts the VM: the time that it
//! waited is subtracted, and a gap with a stop does not count.
//!
//! A correction of up to a minute that is taken for a pause is the smaller error: an interruption is no evidence that
//! an event ran. It only makes the outcome of an event that disappears beside it unknown, in place of cancelled.

use std::time::Duration;

use crate::{base::time::Moment, core::lifecycle::Interruption};

/// The time between two ticks. Each tick wakes the process while an event is pending, which may be a week.
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
    /// It was stopped, and continued.
    pub was_stopped: bool,
}

/// The last tick.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PauseDetector {
    last: Option<Moment>,
    /// The delays since then.
    delay: ProcessDelay,
}

impl PauseDetector {
    /// One tick. Returns the interruption since the last one, from [`Interruption::MIN_LENGTH`] up.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Interruption> {
        let delay = std::mem::take(&mut self.delay);
        let last = self.last.replace(now)?;
        if delay.was_stopped {
            return None;
        }
        let by_monotonic = now.monotonic - last.monotonic;
        let by_wall = now.wall.saturating_since(last.wall);
        let is_pause = by_wall.saturating_sub(by_monotonic) <= MAX_CLOCK_STEP;
        let gap = if is_pause {
            by_monotonic.max(by_wall)
        } else {
            by_monotonic
        };
        let length = gap.saturating_sub(MEASUREMENT_ERROR.saturating_add(delay.waited));
        (length >= Interruption::MIN_LENGTH).then_some(Interruption {
            until: now.wall,
            length,
        })
    }

    /// The process was delayed since the last tick.
    pub(crate) fn delay(&mut self, delay: ProcessDelay) {
        self.delay.waited = self.delay.waited.saturating_add(delay.waited);
        self.delay.was_stopped |= delay.was_stopped;
    }

    /// Whether the next tick measures something.
    pub(crate) fn is_running(&self) -> bool {
        self.last.is_some()
    }

    /// Called when no event is pending: the next tick starts a new measurement.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Timestamp;

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
