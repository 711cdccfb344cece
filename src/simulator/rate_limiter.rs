//! The rate limit of the metadata service, see
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#rate-limiting>.

use std::time::Duration;

/// Requests per [`WINDOW`].
const LIMIT: usize = 5;
const WINDOW: Duration = Duration::from_secs(1);

/// The monotonic times of the requests that were accepted within the last [`WINDOW`].
#[derive(Debug, Default)]
pub(super) struct RateLimiter(Vec<Duration>);

impl RateLimiter {
    /// Returns whether a request at `now` is accepted. A rejected request does not count.
    pub(super) fn accept(&mut self, now: Duration) -> bool {
        self.0.retain(|at| at.saturating_add(WINDOW) > now);
        let is_accepted = self.0.len() < LIMIT;
        if is_accepted {
            self.0.push(now);
        }
        is_accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_five_requests_within_any_second_are_accepted() {
        let mut limiter = RateLimiter::default();
        let at = [0, 100, 200, 300, 400, 500, 999, 1_000, 1_001, 1_100, 3_000];
        let accepted = at.map(|millis| limiter.accept(Duration::from_millis(millis)));
        let expected = [
            true, true, true, true, true, false, false, true, false, true, true,
        ];
        assert_eq!(accepted, expected);
    }
}
