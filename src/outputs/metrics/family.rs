//! A metric of the catalog with its samples, as the collector gives it to both back ends; and its text.

use std::{borrow::Cow, fmt};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::exemplar::CounterWithExemplar,
};

use super::catalog::{Kind, Metric};
use crate::core::snapshot::{ExemplarCounter, Histogram};

/// A name of the catalog, and the value.
pub(in crate::outputs) type Label<'a> = (&'static str, Cow<'a, str>);

#[derive(Debug, Clone, Copy)]
pub(in crate::outputs) enum SampleValue<'a> {
    /// Not negative in a counter.
    Int(i64),
    Float(f64),
    /// The trace of the last event is the exemplar. Text 0.0.4 has none.
    Events(&'a ExemplarCounter),
    Histogram(&'a Histogram),
}

/// It is not written without samples.
#[derive(Debug)]
pub(in crate::outputs) struct Family<'a> {
    pub(in crate::outputs) metric: &'static Metric,
    pub(in crate::outputs) samples: Vec<(Vec<Label<'a>>, SampleValue<'a>)>,
}

impl<'a> Family<'a> {
    pub(in crate::outputs) fn new<L: Into<Vec<Label<'a>>>, V: Into<SampleValue<'a>>>(
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> Self {
        let samples = samples.into_iter();
        let samples = samples.map(|(labels, value)| (labels.into(), value.into()));
        Self {
            metric,
            samples: samples.collect(),
        }
    }

    /// Without labels; without a sample if the value is unknown.
    pub(in crate::outputs) fn single(
        metric: &'static Metric,
        value: Option<impl Into<SampleValue<'a>>>,
    ) -> Self {
        Self::new(metric, value.map(|value| ([], value)))
    }

    pub(super) fn encode_text(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.samples.is_empty() {
            return Ok(());
        }
        let (name, unit) = self.metric.stem_and_unit();
        let kind = self.metric.kind.metric_type();
        let mut encoder = encoder.encode_descriptor(name, self.metric.help, unit, kind)?;
        let is_counter = self.metric.kind == Kind::Counter;
        self.samples.iter().try_for_each(|(labels, value)| {
            encode(encoder.encode_family(labels)?, *value, is_counter)
        })
    }
}

fn encode(mut encoder: MetricEncoder<'_>, value: SampleValue<'_>, is_counter: bool) -> fmt::Result {
    match value {
        SampleValue::Events(ExemplarCounter {
            count,
            last: Some(last),
        }) if *count > 0 => {
            let trace_id = format!("{:032x}", u128::from_be_bytes(last.id.trace_id()));
            let counter = CounterWithExemplar::<[(&str, String); 1]>::default();
            counter.inc_by(count - 1, None, None);
            counter.inc_by(1, Some([("trace_id", trace_id)]), None);
            counter.encode(encoder)
        }
        SampleValue::Events(counter) => encode(encoder, counter.count.into(), is_counter),
        SampleValue::Int(value) if is_counter => {
            encoder.encode_counter::<NoLabelSet, u64, f64>(&value.unsigned_abs(), None)
        }
        SampleValue::Float(value) if is_counter => {
            encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None)
        }
        SampleValue::Int(value) => encoder.encode_gauge(&value),
        SampleValue::Float(value) => encoder.encode_gauge(&value),
        SampleValue::Histogram(histogram) => {
            let buckets: Vec<_> = histogram.buckets().collect();
            let (sum, count) = (histogram.sum(), histogram.count());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

impl From<bool> for SampleValue<'_> {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<i64> for SampleValue<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for SampleValue<'_> {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for SampleValue<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a ExemplarCounter> for SampleValue<'a> {
    fn from(counter: &'a ExemplarCounter) -> Self {
        Self::Events(counter)
    }
}

impl<'a> From<&'a Histogram> for SampleValue<'a> {
    fn from(histogram: &'a Histogram) -> Self {
        Self::Histogram(histogram)
    }
}
