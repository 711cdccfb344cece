//! Writes metrics of the catalog to one of two back ends: text, or data points of OTLP. The metadata is written once,
//! before the first sample.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::exemplar::CounterWithExemplar,
};

use super::{
    catalog::{Labels, Metric},
    exposition::Format,
    labels::{SeriesLabels, SharedLabels},
    points::Points,
};
use crate::snapshot::{Histogram, LastEvent};

/// Where the metrics are written to.
pub(super) enum Backend<'a> {
    Text(Format, DescriptorEncoder<'a>),
    Otlp(&'a mut Points),
}

pub(super) enum Family<'a> {
    Text(Format, MetricEncoder<'a>),
    Otlp(&'a mut Points),
}

/// Writes the metadata. Call it only if there is at least one sample.
pub(super) fn begin<'a>(
    backend: &'a mut Backend<'_>,
    metric: &Metric,
) -> Result<Family<'a>, fmt::Error> {
    Ok(match backend {
        Backend::Text(format, encoder) => {
            let (name, unit) = match format {
                Format::OpenMetrics => metric.stem_and_unit(),
                Format::Text => (metric.name, None),
            };
            let kind = metric.kind.metric_type();
            let encoder = encoder.encode_descriptor(name, metric.help, unit, kind)?;
            Family::Text(*format, encoder)
        }
        Backend::Otlp(points) => {
            points.begin(metric);
            Family::Otlp(points)
        }
    })
}

/// A gauge without labels; nothing if the value is unknown.
pub(super) fn optional_gauge(
    backend: &mut Backend<'_>,
    metric: &Metric,
    value: Option<f64>,
) -> fmt::Result {
    value.map_or(Ok(()), |value| begin(backend, metric)?.gauge(&[], value))
}

/// A counter without labels.
pub(super) fn counter(backend: &mut Backend<'_>, metric: &Metric, value: u64) -> fmt::Result {
    begin(backend, metric)?.counter(&[], value)
}

impl Family<'_> {
    pub(super) fn gauge(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        match self {
            Self::Text(_, encoder) => sample(encoder, labels, &value),
            Self::Otlp(points) => points.float(labels, value),
        }
    }

    pub(super) fn int_gauge(&mut self, labels: Labels<'_>, value: i64) -> fmt::Result {
        match self {
            Self::Text(_, encoder) => sample(encoder, labels, &value),
            Self::Otlp(points) => points.int(labels, value),
        }
    }

    /// A gauge with labels that it shares with other series, and its own.
    pub(super) fn shared_gauge(
        &mut self,
        shared: &SharedLabels<'_>,
        own: Labels<'_>,
        value: f64,
    ) -> fmt::Result {
        match self {
            Self::Text(_, encoder) => shared_sample(encoder, shared, own, &value),
            Self::Otlp(points) => points.float(&shared.with(own), value),
        }
    }

    pub(super) fn shared_int_gauge(
        &mut self,
        shared: &SharedLabels<'_>,
        own: Labels<'_>,
        value: i64,
    ) -> fmt::Result {
        match self {
            Self::Text(_, encoder) => shared_sample(encoder, shared, own, &value),
            Self::Otlp(points) => points.int(&shared.with(own), value),
        }
    }

    pub(super) fn counter(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        match self {
            Self::Text(Format::OpenMetrics, encoder) => with_labels(encoder, labels, |encoder| {
                encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None)
            }),
            // The encoder appends a suffix to the name of a counter, which has it already in this format.
            Self::Text(Format::Text, encoder) => sample(encoder, labels, &value),
            Self::Otlp(points) => points.count(labels, value, None),
        }
    }

    pub(super) fn fractional_counter(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        match self {
            Self::Text(Format::OpenMetrics, encoder) => with_labels(encoder, labels, |encoder| {
                encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None)
            }),
            Self::Text(Format::Text, encoder) => sample(encoder, labels, &value),
            Self::Otlp(points) => points.float(labels, value),
        }
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) -> fmt::Result {
        let encoder = match self {
            Self::Text(_, encoder) => encoder,
            Self::Otlp(points) => return points.histogram(labels, histogram),
        };
        let buckets: Vec<_> = histogram.buckets().collect();
        with_labels(encoder, labels, |encoder| {
            encoder.encode_histogram::<NoLabelSet>(
                histogram.sum(),
                histogram.count(),
                &buckets,
                None,
            )
        })
    }

    /// A counter of events, with the trace of the last one as exemplar where the format has exemplars.
    pub(super) fn event_counter(
        &mut self,
        labels: Labels<'_>,
        value: u64,
        last: Option<&LastEvent>,
    ) -> fmt::Result {
        let encoder = match self {
            Self::Text(Format::OpenMetrics, encoder) => encoder,
            Self::Text(Format::Text, _) => return self.counter(labels, value),
            Self::Otlp(points) => return points.count(labels, value, last),
        };
        let Some(last) = last.filter(|_| value > 0) else {
            return self.counter(labels, value);
        };
        let trace_id = format!("{:032x}", u128::from_be_bytes(last.id.trace_id()));
        let counter = CounterWithExemplar::<[(&str, String); 1]>::default();
        counter.inc_by(value - 1, None, None);
        counter.inc_by(1, Some([("trace_id", trace_id)]), None);
        let labels = SeriesLabels {
            shared: None,
            own: labels,
        };
        counter.encode(encoder.encode_family(&labels)?)
    }
}

fn sample(
    encoder: &mut MetricEncoder<'_>,
    labels: Labels<'_>,
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    with_labels(encoder, labels, |encoder| encoder.encode_gauge(value))
}

fn shared_sample(
    encoder: &mut MetricEncoder<'_>,
    shared: &SharedLabels<'_>,
    own: Labels<'_>,
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    let labels = SeriesLabels {
        shared: Some(shared),
        own,
    };
    encoder.encode_family(&labels)?.encode_gauge(value)
}

/// Without labels, the encoder must not write braces.
fn with_labels(
    encoder: &mut MetricEncoder<'_>,
    own: Labels<'_>,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if own.is_empty() {
        write(encoder)
    } else {
        let labels = SeriesLabels { shared: None, own };
        write(&mut encoder.encode_family(&labels)?)
    }
}
