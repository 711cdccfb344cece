//! The series that have ended. Pure.
//!
//! A receiver shows the last value of a series for minutes, unless a data point says that there is none
//! (<https://opentelemetry.io/docs/specs/otel/metrics/data-model/#no-recorded-value>). Prometheus makes a staleness
//! marker of such a point; the Collector's Prometheus exporter removes the series.

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    mem,
};

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{DataPointFlags, Gauge, Metric, ResourceMetrics, Sum, metric::Data},
};
use prost::Message as _;

use super::metric_requests::split_off;
use crate::base::time::Moment;

/// Points of ended series that are kept while no push is accepted, and those of the last push.
const MAX_ENDED: usize = 4_000;

/// The attributes of a resource that receivers use as labels of its series.
const IDENTIFYING: [&str; 3] = ["service.namespace", "service.name", "service.instance.id"];

/// The series that receivers may have: those that ended since the last accepted push, in this order, and the last
/// push's.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedPushes(Vec<ResourceMetrics>);

impl UnconfirmedPushes {
    /// These metrics, and one point for each series that has ended since the last accepted push.
    pub(super) fn next(&mut self, live: ResourceMetrics, now: Moment) -> Vec<ResourceMetrics> {
        let mut known = series(&live);
        let former = mem::take(&mut self.0).into_iter();
        let mut ended: Vec<_> = former
            .filter_map(|push| ended(push, &mut known, now))
            .collect();
        while ended.len() > 1 && ended.iter().map(metrics).sum::<usize>() > MAX_ENDED {
            ended.remove(0);
        }
        self.0.clone_from(&ended);
        self.0.push(live.clone());
        ended.insert(0, live);
        ended
    }

    /// The last push was accepted.
    pub(super) fn confirm(&mut self) {
        self.0.drain(..self.0.len().saturating_sub(1));
    }
}

/// The number of metrics. Of ended series, each point is one.
fn metrics(of: &ResourceMetrics) -> usize {
    of.scope_metrics.iter().map(|it| it.metrics.len()).sum()
}

fn series(of: &ResourceMetrics) -> HashSet<u64> {
    let resource = identity(of);
    let metrics = of.scope_metrics.iter().flat_map(|scope| &scope.metrics);
    metrics.flat_map(|it| hashes(&resource, it)).collect()
}

/// What receivers distinguish resources by.
fn identity(of: &ResourceMetrics) -> Vec<u8> {
    let mut attributes: Vec<_> = of.resource.iter().flat_map(|it| &it.attributes).collect();
    attributes.retain(|attribute| IDENTIFYING.contains(&attribute.key.as_str()));
    // The SDK has no order of them.
    attributes.sort_by(|a, b| a.key.cmp(&b.key));
    let encoded = attributes.into_iter().flat_map(KeyValue::encode_to_vec);
    encoded.collect()
}

/// The series of each point of a metric.
pub(super) fn hashes(resource: &[u8], metric: &Metric) -> Vec<u64> {
    let hash = |attributes: &[KeyValue]| {
        let attributes: Vec<_> = attributes.iter().map(KeyValue::encode_to_vec).collect();
        let mut hasher = DefaultHasher::new();
        (resource, &metric.name, attributes).hash(&mut hasher);
        hasher.finish()
    };
    match &metric.data {
        Some(Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. })) => {
            let points = data_points.iter();
            points.map(|point| hash(&point.attributes)).collect()
        }
        Some(Data::Histogram(histogram)) => {
            let points = histogram.data_points.iter();
            points.map(|point| hash(&point.attributes)).collect()
        }
        _ => Vec::new(),
    }
}

/// The series that are not known, or none.
fn ended(
    mut of: ResourceMetrics,
    known: &mut HashSet<u64>,
    now: Moment,
) -> Option<ResourceMetrics> {
    let resource = identity(&of);
    let at = u64::try_from(now.wall.as_unix_nanos()).unwrap_or(0);
    for scope in &mut of.scope_metrics {
        let metrics = mem::take(&mut scope.metrics).into_iter();
        let ended = metrics.flat_map(|metric| ended_points(metric, &resource, known, at));
        scope.metrics = ended.collect();
    }
    of.scope_metrics.retain(|scope| !scope.metrics.is_empty());
    (!of.scope_metrics.is_empty()).then_some(of)
}

/// Each point is a metric of its own: in a metric, the Collector's Prometheus exporter ignores what follows the first
/// point without a value (<https://github.com/open-telemetry/opentelemetry-collector-contrib/pull/51289>).
fn ended_points(
    mut metric: Metric,
    resource: &[u8],
    known: &mut HashSet<u64>,
    at: u64,
) -> Vec<Metric> {
    let hashes = hashes(resource, &metric).into_iter();
    let is_ended: Vec<_> = hashes.map(|series| known.insert(series)).collect();
    let mut ended = Vec::new();
    for (index, is_ended) in is_ended.into_iter().enumerate().rev() {
        let mut point = split_off(&mut metric, index);
        if is_ended {
            remove_value(&mut point, at);
            ended.push(point);
        }
    }
    ended
}

fn remove_value(metric: &mut Metric, at: u64) {
    let numbers = match &mut metric.data {
        Some(Data::Gauge(gauge)) => &mut gauge.data_points,
        Some(Data::Sum(sum)) => &mut sum.data_points,
        Some(Data::Histogram(histogram)) => {
            for point in &mut histogram.data_points {
                point.flags = DataPointFlags::NoRecordedValueMask as u32;
                point.start_time_unix_nano = point.start_time_unix_nano.min(at);
                point.time_unix_nano = at;
                // The bounds are kept: each is a series of its own in Prometheus.
                point.bucket_counts.fill(0);
                point.count = 0;
                point.sum = Some(0.0);
            }
            return;
        }
        _ => return,
    };
    for point in numbers {
        point.flags = DataPointFlags::NoRecordedValueMask as u32;
        point.start_time_unix_nano = point.start_time_unix_nano.min(at);
        point.time_unix_nano = at;
        point.value = None;
        point.exemplars.clear();
    }
}
