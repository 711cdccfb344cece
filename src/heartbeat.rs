//! Measures how long this VM stood still, by its own pulse.
//!
//! While an event that names this VM is pending, the event loop beats twice a second, and with each poll. A beat that comes late shows
//! a gap: by the monotonic clock where that went on during the pause, and by the wall clock, which is set forward after
//! it, where it did not. At rest there is no pulse, and it costs nothing.

use std::time::Duration;

use crate::{lifecycle::Interruption, time::Moment};

/// From one beat to the next. Each costs two wake-ups of the process, for as long as an event is pending, which may be a
/// week.
pub const PERIOD: Duration = Duration::from_millis(500);

/// How much of a gap was no pause: the pause began somewhere between two beats, so what is measured is right to this much
/// either way.
const MEASUREMENT_ERROR: Duration = Duration::from_millis(250);

/// The last beat.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heartbeat {
    last: Option<Moment>,
}

impl Heartbeat {
    /// One beat. Says how long this VM stood still since the last one, where that is long enough to count.
    pub fn tick(&mut self, now: Moment) -> Option<Interruption> {
        let last = self.last.replace(now)?;
        let by_monotonic = now.monotonic.saturating_sub(last.monotonic);
        let by_wall = now.wall.saturating_since(last.wall);
        let length = by_monotonic.max(by_wall).saturating_sub(MEASUREMENT_ERROR);
        (length >= Interruption::MIN_LENGTH).then_some(Interruption {
            until: now.wall,
            length,
        })
    }

    /// There is nothing to measure for: the next beat is the first of a new row.
    pub fn reset(&mut self) {
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
    fn a_regular_pulse_is_no_interruption() {
        let mut heartbeat = Heartbeat::default();
        let mut now = start();
        for _ in 0..100 {
            assert_eq!(heartbeat.tick(now), None);
            now = now.after(PERIOD + Duration::from_millis(300));
        }
    }

    #[test]
    fn a_late_beat_measures_the_pause() {
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
    fn a_wall_clock_set_forward_measures_a_pause_that_stopped_the_monotonic_clock() {
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
    fn rest_is_no_interruption() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.tick(start());
        heartbeat.reset();
        assert_eq!(heartbeat.tick(start().after(Duration::from_hours(1))), None);
    }
}
