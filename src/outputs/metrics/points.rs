//! Metrics of the catalog as data points of OTLP, in OpenTelemetry's own messages
//! (<https://opentelemetry.io/docs/specs/otel/metrics/data-model/>).
//!
//! Sums and histograms are cumulative since the start of the process: no counter is restored from the state.

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Exemplar, Gauge, Histogram as OtlpHistogram, HistogramDataPoint,
        Metric as OtlpMetric, NumberDataPoint, Sum, exemplar, metric::Data, number_data_point,
    },
};

use super::{
    catalog::Kind,
    family::{Family, Label, SampleValue},
};
use crate::{
    base::time::Timestamp,
    core::snapshot::{Histogram, LastEvent},
};

/// `start` is when the counters were 0.
pub(super) fn metric(family: &Family<'_>, start: Timestamp, now: Timestamp) -> OtlpMetric {
    let (start, now) = (nanos(start), nanos(now));
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let samples = family.samples.iter();
    let data = match family.metric.kind {
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: samples
                .filter_map(|(labels, value)| number(labels, *value, 0, now))
                .collect(),
        }),
        Kind::Counter => Data::Sum(Sum {
            aggregation_temporality,
            is_monotonic: true,
            data_points: samples
                .filter_map(|(labels, value)| number(labels, *value, start, now))
                .collect(),
        }),
        Kind::Histogram => Data::Histogram(OtlpHistogram {
            aggregation_temporality,
            data_points: samples
                .filter_map(|(labels, value)| match value {
                    SampleValue::Histogram(it) => Some(histogram(labels, it, start, now)),
                    _ => None,
                })
                .collect(),
        }),
    };
    let (stem, _) = family.metric.stem_and_unit();
    OtlpMetric {
        name: stem.to_owned(),
        description: family.metric.help.to_owned(),
        unit: family.metric.unit.to_owned(),
        data: Some(data),
        ..OtlpMetric::default()
    }
}

fn number(
    labels: &[Label<'_>],
    value: SampleValue<'_>,
    start: u64,
    now: u64,
) -> Option<NumberDataPoint> {
    let (value, last) = match value {
        SampleValue::Events(counter) => (counter.count.into(), counter.last.as_ref()),
        value => (value, None),
    };
    let value = match value {
        SampleValue::Int(value) => number_data_point::Value::AsInt(value),
        SampleValue::Float(value) => number_data_point::Value::AsDouble(value),
        SampleValue::Events(_) | SampleValue::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        exemplars: last.map(exemplar).into_iter().collect(),
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram(
    labels: &[Label<'_>],
    histogram: &Histogram,
    start: u64,
    now: u64,
) -> HistogramDataPoint {
    let (mut bounds, counts): (Vec<f64>, Vec<u64>) = histogram.buckets().unzip();
    // OTLP implies the last bound, which is infinite.
    bounds.pop();
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: histogram.count(),
        sum: Some(histogram.sum()),
        bucket_counts: counts,
        explicit_bounds: bounds,
        ..HistogramDataPoint::default()
    }
}

fn attributes(labels: &[Label<'_>]) -> Vec<KeyValue> {
    let attribute = |(key, value): &Label<'_>| KeyValue {
        key: (*key).to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.to_string())),
        }),
        ..KeyValue::default()
    };
    labels.iter().map(attribute).collect()
}

fn exemplar(last: &LastEvent) -> Exemplar {
    Exemplar {
        time_unix_nano: nanos(last.at),
        trace_id: last.id.trace_id().to_vec(),
        value: Some(exemplar::Value::AsInt(1)),
        ..Exemplar::default()
    }
}

/// 0, which is "unknown", for a time before 1970.
fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_unix_nanos()).unwrap_or(0)
}
