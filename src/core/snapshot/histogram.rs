//! A histogram as plain data; it becomes cumulative in the exposition.

use std::time::Duration;

/// Durations by upper bounds in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one above the last.
    counts: Vec<u64>,
    pub(crate) sum: f64,
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

    /// Values with the buckets, count and sum of those that were observed since `before`, which are not kept.
    pub(crate) fn values_since(&self, before: Option<&Self>) -> Vec<f64> {
        let known = before.map_or(&[][..], |before| &before.counts);
        let lower = [0.0].into_iter().chain(self.bounds.iter().copied());
        let buckets: Vec<_> = lower
            .zip(self.buckets())
            .enumerate()
            .map(|(index, (lower, (upper, count)))| {
                let known = known.get(index).copied().unwrap_or(0);
                (lower, upper, count.saturating_sub(known))
            })
            .collect();
        let total = |width: fn(f64, f64) -> f64| -> f64 {
            let widths = buckets.iter();
            let widths = widths.map(|(lower, upper, count)| *count as f64 * width(*lower, *upper));
            widths.sum()
        };
        let sum = self.sum - before.map_or(0.0, |before| before.sum);
        let rest = (sum - total(|lower, _| lower)).max(0.0);
        let unbounded = buckets.last().map_or(0, |(_, _, count)| *count);
        let share = rest
            / total(|lower, upper| {
                if upper.is_finite() {
                    upper - lower
                } else {
                    0.0
                }
            });
        let values = buckets.into_iter().flat_map(|(lower, upper, count)| {
            let value = match unbounded {
                0 if count > 0 => lower + share * (upper - lower),
                more if upper.is_infinite() => lower + rest / more as f64,
                _ => lower,
            };
            let value = value.clamp(lower.next_up(), upper);
            std::iter::repeat_n(value, usize::try_from(count).unwrap_or(0))
        });
        values.collect()
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_have_the_buckets_and_the_sum_of_what_was_observed(
            before in prop::collection::vec(0_u64..200_000, 0..20),
            since in prop::collection::vec(0_u64..200_000, 0..20),
        ) {
            let observe = |histogram: &mut Histogram, all: &[u64]| {
                for millis in all {
                    histogram.observe(Duration::from_millis(*millis));
                }
            };
            let mut histogram = Histogram::new(&[0.5, 1.0, 5.0, 100.0]);
            observe(&mut histogram, &before);
            let known = histogram.clone();
            observe(&mut histogram, &since);
            let mut again = known.clone();
            for value in histogram.values_since(Some(&known)) {
                again.counts[again.bounds.partition_point(|bound| *bound < value)] += 1;
                again.sum += value;
            }
            prop_assert!((again.sum - histogram.sum).abs() < 1e-6, "{again:?} {histogram:?}");
            prop_assert_eq!(again.counts, histogram.counts);
        }
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_is_not_below_it() {
        let mut histogram = Histogram::new(&[1.0, 5.0]);
        for millis in [500, 1_000, 1_001, 5_000, 60_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let counts: Vec<_> = histogram.buckets().collect();
        assert_eq!(counts, [(1.0, 2), (5.0, 2), (f64::INFINITY, 1)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum - 67.501).abs() < 1e-9);
    }
}
