//! The back end for OTLP: metrics of the catalog as data points, in OpenTelemetry's own messages
//! (<https://opentelemetry.io/docs/specs/otel/metrics/data-model/>).
//!
//! Sums and histograms are cumulative since the start of the process: no counter is restored from the state.

use std::fmt;

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Exemplar, Gauge, Histogram as OtlpHistogram, HistogramDataPoint,
        Metric as OtlpMetric, NumberDataPoint, Sum, exemplar, metric::Data, number_data_point,
    },
};

use super::{
    catalog::{Kind, Metric},
    sample::{Label, Number},
};
use crate::{
    snapshot::{Histogram, LastEvent},
    time::Timestamp,
};

/// The metrics of one push.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) metrics: Vec<OtlpMetric>,
    times: Times,
}

/// In nanoseconds of Unix time.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// When the counters were 0.
    start: u64,
    now: u64,
}

impl Points {
    pub(super) fn new(start: Timestamp, now: Timestamp) -> Self {
        Self {
            metrics: Vec::new(),
            times: Times {
                start: nanos(start),
                now: nanos(now),
            },
        }
    }

    /// Adds a metric, to which the next points belong.
    pub(super) fn begin(&mut self, metric: &Metric) {
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        let data = match metric.kind {
            Kind::Gauge => Data::Gauge(Gauge::default()),
            Kind::Counter => Data::Sum(Sum {
                aggregation_temporality,
                is_monotonic: true,
                ..Sum::default()
            }),
            Kind::Histogram => Data::Histogram(OtlpHistogram {
                aggregation_temporality,
                ..OtlpHistogram::default()
            }),
        };
        let (stem, _) = metric.stem_and_unit();
        self.metrics.push(OtlpMetric {
            name: stem.to_owned(),
            description: metric.help.to_owned(),
            unit: metric.unit.to_owned(),
            data: Some(data),
            ..OtlpMetric::default()
        });
    }

    /// Of the metric that was added last.
    fn data(&mut self) -> Option<&mut Data> {
        self.metrics.last_mut()?.data.as_mut()
    }

    /// A gauge or a counter, with the trace of the last counted event as exemplar.
    pub(super) fn number(
        &mut self,
        labels: &[Label<'_>],
        value: Number,
        last: Option<&LastEvent>,
    ) -> fmt::Result {
        let value = match value {
            Number::Int(value) => number_data_point::Value::AsInt(value),
            Number::Float(value) => number_data_point::Value::AsDouble(value),
        };
        let times = self.times;
        let (points, start) = match self.data() {
            Some(Data::Gauge(gauge)) => (&mut gauge.data_points, 0),
            Some(Data::Sum(sum)) => (&mut sum.data_points, times.start),
            _ => return Err(fmt::Error),
        };
        points.push(NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: start,
            time_unix_nano: times.now,
            exemplars: last.map(exemplar).into_iter().collect(),
            value: Some(value),
            ..NumberDataPoint::default()
        });
        Ok(())
    }

    pub(super) fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) -> fmt::Result {
        let times = self.times;
        let Some(Data::Histogram(data)) = self.data() else {
            return Err(fmt::Error);
        };
        let (mut bounds, counts): (Vec<f64>, Vec<u64>) = histogram.buckets().unzip();
        // OTLP implies the last bound, which is infinite.
        bounds.pop();
        data.data_points.push(HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            count: histogram.count(),
            sum: Some(histogram.sum()),
            bucket_counts: counts,
            explicit_bounds: bounds,
            ..HistogramDataPoint::default()
        });
        Ok(())
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
