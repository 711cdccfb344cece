//! A histogram as plain data; it becomes cumulative in the exposition.

use std::time::Duration;

/// Durations by upper bounds in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one above the last.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram. The bounds must ascend.
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    pub(crate) fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let index = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        self.sum += seconds;
    }

    /// Upper bound and count of each bucket, not cumulative; the last bound is infinite.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied())
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// In seconds.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_is_not_below_it() {
        let mut histogram = Histogram::new(&[1.0, 5.0]);
        for millis in [500, 1_000, 1_001, 5_000, 60_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let counts: Vec<_> = histogram.buckets().collect();
        assert_eq!(counts, [(1.0, 2), (5.0, 2), (f64::INFINITY, 1)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum() - 67.501).abs() < 1e-9);
    }
}
