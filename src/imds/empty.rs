//! When a row of empty bodies is to be believed. Pure: takes the moment.

use std::time::Duration;

use crate::time::Moment;

/// How long nothing but empty bodies must have come until they mean "no events".
const EMPTY_UNTIL_SETTLED: Duration = Duration::from_mins(1);
/// Two empty bodies that are further apart than this are not "nothing but empty bodies": nobody looked between them.
const EMPTY_FURTHEST_APART: Duration = Duration::from_secs(30);

/// How long nothing but empty bodies has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EmptyBodies {
    /// When the first and the last of this row came, by the monotonic clock.
    row: Option<(Duration, Duration)>,
}

impl EmptyBodies {
    /// One more. Says whether the row is long enough to be believed.
    pub(super) fn came(&mut self, now: Moment) -> bool {
        let now = now.monotonic;
        let first = self
            .row
            .filter(|(_, last)| now.saturating_sub(*last) <= EMPTY_FURTHEST_APART)
            .map_or(now, |(first, _)| first);
        self.row = Some((first, now));
        now.saturating_sub(first) >= EMPTY_UNTIL_SETTLED
    }

    /// Something else came, or nothing.
    pub(super) fn interrupted(&mut self) {
        self.row = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn moment(seconds: u64) -> Moment {
        let start = Moment {
            wall: Timestamp::UNIX_EPOCH,
            monotonic: Duration::ZERO,
        };
        start.after(Duration::from_secs(seconds))
    }

    fn settles_at(seconds: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut empty_bodies = EmptyBodies::default();
        seconds
            .into_iter()
            .find(|at| empty_bodies.came(moment(*at)))
    }

    #[test]
    fn empty_bodies_are_believed_after_a_minute_of_nothing_else() {
        assert_eq!(settles_at(0..200), Some(60));
        assert_eq!(settles_at((5..200).step_by(15)), Some(65));
    }

    #[test]
    fn empty_bodies_with_silence_between_them_are_not_believed() {
        assert_eq!(settles_at([0, 61, 122, 183]), None);
    }

    #[test]
    fn anything_else_begins_the_minute_anew() {
        let mut empty_bodies = EmptyBodies::default();
        assert!(!(0..60).any(|at| empty_bodies.came(moment(at))));
        empty_bodies.interrupted();
        assert!(!(60..120).any(|at| empty_bodies.came(moment(at))));
        assert!(empty_bodies.came(moment(120)));
        assert!(empty_bodies.came(moment(121)), "it stays believed");
    }
}
