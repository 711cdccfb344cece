//! The delay before a failed operation is repeated.

use std::time::Duration;

/// The delay after the given number of consecutive failures: `first`, doubled with each further failure up to `max`.
pub(crate) fn exponential(first: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    first.saturating_mul(factor).min(max)
}

/// [`exponential`] with jitter: between half of it and all of it, for `random` from 0 to 1, so that a fleet that lost
/// its server does not reconnect at one instant.
pub(crate) fn backoff(first: Duration, max: Duration, failures: u32, random: f64) -> Duration {
    exponential(first, max, failures).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_maximum_with_jitter() {
        let millis = |failures, random| {
            backoff(
                Duration::from_secs(1),
                Duration::from_mins(1),
                failures,
                random,
            )
            .as_millis()
        };
        assert_eq!(
            [0, 1, 2, 3, 7, u32::MAX].map(|n| millis(n, 1.0)),
            [1_000, 1_000, 2_000, 4_000, 60_000, 60_000]
        );
        assert_eq!(
            [1, 2, 3, 7, u32::MAX].map(|n| millis(n, 0.0)),
            [500, 1_000, 2_000, 30_000, 30_000]
        );
    }
}
