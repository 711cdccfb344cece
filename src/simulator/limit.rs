//! The limit of requests, see
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#rate-limiting>.

use std::{collections::VecDeque, time::Duration};

/// So many requests are answered within [`WINDOW`].
const MOST: usize = 5;
const WINDOW: Duration = Duration::from_secs(1);

/// The requests that were answered within the last second, by the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Duration>);

impl Recent {
    /// Whether a request at this moment is one too many. One that is refused does not count against the next.
    pub(super) fn is_too_many(&mut self, now: Duration) -> bool {
        while self
            .0
            .front()
            .is_some_and(|at| at.saturating_add(WINDOW) <= now)
        {
            self.0.pop_front();
        }
        let is_full = self.0.len() >= MOST;
        if !is_full {
            self.0.push_back(now);
        }
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_requests_in_any_second_are_answered() {
        let mut recent = Recent::default();
        let at = [0, 100, 200, 300, 400, 500, 999, 1_000, 1_001, 1_100, 3_000];
        let refused = at.map(|millis| recent.is_too_many(Duration::from_millis(millis)));
        let expected = [
            false, false, false, false, false, true, true, false, true, false, false,
        ];
        assert_eq!(refused, expected);
    }
}
