//! The requests to IMDS of every kind, since the start of the process.

use std::time::Duration;

use super::Histogram;
use crate::azure::FailureReason;

/// Upper bounds of the duration of a request to IMDS: usually milliseconds, up to two minutes for the first.
const REQUEST_BOUNDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 130.0,
];

#[derive(Debug, Clone, PartialEq)]
pub struct RequestCounters {
    pub(crate) requests: u64,
    /// By reason, in the order of [`FailureReason::ALL`].
    failures: [u64; FailureReason::ALL.len()],
    pub(crate) duration: Histogram,
}

impl Default for RequestCounters {
    fn default() -> Self {
        Self {
            requests: 0,
            failures: [0; FailureReason::ALL.len()],
            duration: Histogram::new(REQUEST_BOUNDS),
        }
    }
}

impl RequestCounters {
    /// By reason, zeros included.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (FailureReason, u64)> {
        FailureReason::ALL.into_iter().zip(self.failures)
    }

    pub(crate) fn count(&mut self, took: Duration, failed: Option<FailureReason>) {
        self.requests += 1;
        self.duration.observe(took);
        let index =
            failed.and_then(|reason| FailureReason::ALL.iter().position(|known| *known == reason));
        if let Some(count) = index.and_then(|index| self.failures.get_mut(index)) {
            *count += 1;
        }
    }
}
