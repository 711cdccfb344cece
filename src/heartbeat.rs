//! Measures how long this VM was interrupted.
//!
//! While an event that names this VM is pending, the event loop ticks every [`PERIOD`]. A late tick shows a gap: on the
//! monotonic clock if it continued during the interruption, else on the wall clock, which is set forward afterwards.

use std::time::Duration;

use crate::{lifecycle::Interruption, time::Moment};

/// The time between two ticks. Each tick wakes the process twice while an event is pending, which may be a week.
pub const PERIOD: Duration = Duration::from_millis(500);

/// Subtracted from a gap: the interruption began between two ticks, so a measurement is accurate to ± this value.
const MEASUREMENT_ERROR: Duration = Duration::from_millis(250);

/// The last tick.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heartbeat {
    last: Option<Moment>,
}

impl Heartbeat {
    /// One tick. Returns the interruption since the last one, from [`Interruption::MIN_LENGTH`] up.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Interruption> {
        let last = self.last.replace(now)?;
        let by_monotonic = now.monotonic.saturating_sub(last.monotonic);
        let by_wall = now.wall.saturating_since(last.wall);
        let length = by_monotonic.max(by_wall).saturating_sub(MEASUREMENT_ERROR);
        (length >= Interruption::MIN_LENGTH).then_some(Interruption {
            until: now.wall,
            length,
        })
    }

    /// Called when no event is pending: the next tick starts a new measurement.
    pub(crate) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn start() -> Moment {
        Moment {
            wall: Timestamp::from_unix_seconds(1_000_000).unwrap(),
            monotonic: Duration::from_secs(5),
        }
    }

    #[test]
    fn regular_ticks_are_not_an_interruption() {
        let mut heartbeat = Heartbeat::default();
        let mut now = start();
        for _ in 0..100 {
            assert_eq!(heartbeat.tick(now), None);
            now = now.after(PERIOD + Duration::from_millis(300));
        }
    }

    #[test]
    fn a_late_tick_measures_the_interruption() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.tick(start());
        let now = start().after(MEASUREMENT_ERROR + Duration::from_secs(5));
        let interruption = heartbeat.tick(now).unwrap();
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
        let mut heartbeat = Heartbeat::default();
        heartbeat.tick(start());
        let now = Moment {
            wall: start().wall.after(Duration::from_secs(9)),
            ..start().after(PERIOD)
        };
        assert_eq!(
            heartbeat.tick(now).unwrap().length,
            Duration::from_millis(8_750)
        );
    }

    #[test]
    fn a_wall_clock_set_back_measures_nothing() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.tick(start());
        let now = Moment {
            wall: start().wall.before(Duration::from_hours(1)),
            ..start().after(PERIOD)
        };
        assert_eq!(heartbeat.tick(now), None);
    }

    #[test]
    fn a_reset_is_not_an_interruption() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.tick(start());
        heartbeat.reset();
        assert_eq!(heartbeat.tick(start().after(Duration::from_hours(1))), None);
    }
}
