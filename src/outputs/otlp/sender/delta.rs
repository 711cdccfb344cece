//! Delta temporality: counters and histograms as what is new since the last point that was accepted. Pure.
//!
//! The start of a point is the time of the accepted one before it
//! (<https://opentelemetry.io/docs/specs/otel/metrics/data-model/#temporality>), at first the start of the process.
//! What was not accepted is not subtracted, and so is part of a later point.

use std::collections::HashMap;

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest as Request,
    metrics::v1::{
        AggregationTemporality, DataPointFlags, Metric, metric::Data, number_data_point::Value,
    },
};

use super::series::hashes;

/// The values of one series that were accepted so far.
#[derive(Debug, Default)]
struct AcceptedTotal {
    /// The time of the last accepted point, in Unix nanoseconds.
    until: u64,
    int: i64,
    /// The value of a counter that is no integer, or the sum of a histogram.
    float: f64,
    count: u64,
    buckets: Vec<u64>,
}

/// By the hash of the series.
#[derive(Debug, Default)]
pub(super) struct AcceptedTotals(HashMap<u64, AcceptedTotal>);

impl AcceptedTotals {
    /// Makes deltas of the cumulative counters and histograms.
    pub(super) fn subtract_from(&self, metrics: &mut [Metric]) {
        for metric in metrics {
            let totals: Vec<_> = hashes(&[], metric)
                .iter()
                .map(|it| self.0.get(it))
                .collect();
            match &mut metric.data {
                Some(Data::Sum(sum)) => {
                    sum.aggregation_temporality = AggregationTemporality::Delta.into();
                    for (point, total) in sum.data_points.iter_mut().zip(totals) {
                        let Some(total) = total else { continue };
                        let start = total.until.min(point.time_unix_nano);
                        point.start_time_unix_nano = start;
                        point.exemplars.retain(|it| it.time_unix_nano >= start);
                        point.value = point.value.map(|value| match value {
                            Value::AsInt(value) => Value::AsInt(value.saturating_sub(total.int)),
                            Value::AsDouble(value) => {
                                Value::AsDouble((value - total.float).max(0.0))
                            }
                        });
                    }
                }
                Some(Data::Histogram(histogram)) => {
                    histogram.aggregation_temporality = AggregationTemporality::Delta.into();
                    for (point, total) in histogram.data_points.iter_mut().zip(totals) {
                        let Some(total) = total else { continue };
                        point.start_time_unix_nano = total.until.min(point.time_unix_nano);
                        point.count = point.count.saturating_sub(total.count);
                        point.sum = point.sum.map(|sum| (sum - total.float).max(0.0));
                        for (bucket, counted) in point.bucket_counts.iter_mut().zip(&total.buckets)
                        {
                            *bucket = bucket.saturating_sub(*counted);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the deltas of a request that was accepted.
    pub(super) fn add(&mut self, request: &Request) {
        let scopes = request
            .resource_metrics
            .iter()
            .flat_map(|of| &of.scope_metrics);
        for metric in scopes.flat_map(|of| &of.metrics) {
            let series = hashes(&[], metric).into_iter();
            match &metric.data {
                Some(Data::Sum(sum)) => {
                    for (point, series) in sum.data_points.iter().zip(series) {
                        // The end of a series has no value.
                        let Some(value) = point.value else { continue };
                        let total = self.0.entry(series).or_default();
                        total.until = point.time_unix_nano;
                        match value {
                            Value::AsInt(value) => total.int = total.int.saturating_add(value),
                            Value::AsDouble(value) => total.float += value,
                        }
                    }
                }
                Some(Data::Histogram(histogram)) => {
                    for (point, series) in histogram.data_points.iter().zip(series) {
                        if point.flags == DataPointFlags::NoRecordedValueMask as u32 {
                            continue;
                        }
                        let total = self.0.entry(series).or_default();
                        total.until = point.time_unix_nano;
                        total.count = total.count.saturating_add(point.count);
                        total.float += point.sum.unwrap_or_default();
                        total.buckets.resize(point.bucket_counts.len(), 0);
                        for (counted, bucket) in total.buckets.iter_mut().zip(&point.bucket_counts)
                        {
                            *counted = counted.saturating_add(*bucket);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
