//! Writes metrics of the catalog. The metadata is written once, before the first sample.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::exemplar::CounterWithExemplar,
};

use super::catalog::Metric;
use crate::{event::EventId, snapshot::Histogram};

pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

pub(super) struct Family<'a> {
    encoder: MetricEncoder<'a>,
}

/// Writes the metadata. Call it only if there is at least one sample.
pub(super) fn begin<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    metric: &Metric,
) -> Result<Family<'a>, fmt::Error> {
    let (stem, unit) = metric.stem_and_unit();
    let encoder = encoder.encode_descriptor(stem, metric.help, unit, metric.kind.metric_type())?;
    Ok(Family { encoder })
}

/// A gauge without labels; nothing if the value is unknown.
pub(super) fn optional_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    value: Option<f64>,
) -> fmt::Result {
    value.map_or(Ok(()), |value| begin(encoder, metric)?.gauge(&[], value))
}

/// A counter without labels.
pub(super) fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    value: u64,
) -> fmt::Result {
    begin(encoder, metric)?.counter(&[], value)
}

impl Family<'_> {
    pub(super) fn gauge(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        self.sample(labels, |encoder| encoder.encode_gauge(&value))
    }

    pub(super) fn int_gauge(&mut self, labels: Labels<'_>, value: i64) -> fmt::Result {
        self.sample(labels, |encoder| encoder.encode_gauge(&value))
    }

    pub(super) fn counter(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        self.sample(labels, |encoder| {
            encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None)
        })
    }

    pub(super) fn fractional_counter(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        self.sample(labels, |encoder| {
            encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None)
        })
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) -> fmt::Result {
        let buckets: Vec<_> = histogram.buckets().collect();
        self.sample(labels, |encoder| {
            encoder.encode_histogram::<NoLabelSet>(
                histogram.sum(),
                histogram.count(),
                &buckets,
                None,
            )
        })
    }

    /// A counter of events, with the trace of the last one as exemplar.
    pub(super) fn event_counter(
        &mut self,
        labels: Labels<'_>,
        value: u64,
        last: Option<&EventId>,
    ) -> fmt::Result {
        let Some(last) = last.filter(|_| value > 0) else {
            return self.counter(labels, value);
        };
        let trace_id = format!("{:032x}", u128::from_be_bytes(last.trace_id()));
        let counter = CounterWithExemplar::<[(&str, String); 1]>::default();
        counter.inc_by(value - 1, None, None);
        counter.inc_by(1, Some([("trace_id", trace_id)]), None);
        counter.encode(self.encoder.encode_family(&LabelPairs(labels))?)
    }

    /// Without labels, the encoder must not write braces.
    fn sample(
        &mut self,
        labels: Labels<'_>,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        if labels.is_empty() {
            write(&mut self.encoder)
        } else {
            write(&mut self.encoder.encode_family(&LabelPairs(labels))?)
        }
    }
}

#[derive(Debug)]
struct LabelPairs<'a>(Labels<'a>);

impl EncodeLabelSet for LabelPairs<'_> {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>,
    ) -> fmt::Result {
        self.0.encode(encoder)
    }
}
