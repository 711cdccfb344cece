//! Writes metrics of the catalog to one of two back ends: text, or data points of OTLP. The metadata is written once,
//! before the first sample.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::exemplar::CounterWithExemplar,
};

use super::{
    catalog::{Kind, Metric},
    exposition::Format,
    points::Points,
    sample::{Label, Number},
};
use crate::snapshot::{ExemplarCounter, Histogram};

/// Where the metrics are written to.
pub(super) enum Backend<'a> {
    Text(Format, DescriptorEncoder<'a>),
    Otlp(&'a mut Points),
}

enum Family<'a> {
    Text(Format, Kind, MetricEncoder<'a>),
    Otlp(&'a mut Points),
}

/// A gauge or a counter; nothing without samples.
pub(super) fn numbers<'a, L: AsRef<[Label<'a>]>, V: Into<Number>>(
    backend: &mut Backend<'_>,
    metric: &Metric,
    samples: impl IntoIterator<Item = (L, V)>,
) -> fmt::Result {
    write(backend, metric, samples, |family, labels, value| {
        family.number(labels, value.into())
    })
}

/// A gauge or a counter without labels.
pub(super) fn number(
    backend: &mut Backend<'_>,
    metric: &Metric,
    value: impl Into<Number>,
) -> fmt::Result {
    optional_number(backend, metric, Some(value))
}

/// Nothing if the value is unknown.
pub(super) fn optional_number(
    backend: &mut Backend<'_>,
    metric: &Metric,
    value: Option<impl Into<Number>>,
) -> fmt::Result {
    let no_labels: [Label<'_>; 0] = [];
    numbers(backend, metric, value.map(|value| (no_labels, value)))
}

/// A counter of events, with the trace of the last one as exemplar where the format has exemplars.
pub(super) fn event_counters<'a, 'c, L: AsRef<[Label<'a>]>>(
    backend: &mut Backend<'_>,
    metric: &Metric,
    samples: impl IntoIterator<Item = (L, &'c ExemplarCounter)>,
) -> fmt::Result {
    write(backend, metric, samples, |family, labels, counter| {
        family.event_counter(labels, counter)
    })
}

pub(super) fn histograms<'a, 'h, L: AsRef<[Label<'a>]>>(
    backend: &mut Backend<'_>,
    metric: &Metric,
    samples: impl IntoIterator<Item = (L, &'h Histogram)>,
) -> fmt::Result {
    write(backend, metric, samples, |family, labels, histogram| {
        family.histogram(labels, histogram)
    })
}

fn write<'a, L: AsRef<[Label<'a>]>, V>(
    backend: &mut Backend<'_>,
    metric: &Metric,
    samples: impl IntoIterator<Item = (L, V)>,
    one: impl Fn(&mut Family<'_>, &[Label<'a>], V) -> fmt::Result,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut family = Family::begin(backend, metric)?;
    samples.try_for_each(|(labels, value)| one(&mut family, labels.as_ref(), value))
}

impl<'a> Family<'a> {
    /// Writes the metadata.
    fn begin(backend: &'a mut Backend<'_>, metric: &Metric) -> Result<Self, fmt::Error> {
        Ok(match backend {
            Backend::Text(format, encoder) => {
                let (name, unit) = match format {
                    Format::OpenMetrics => metric.stem_and_unit(),
                    Format::Text => (metric.name, None),
                };
                let kind = metric.kind.metric_type();
                let encoder = encoder.encode_descriptor(name, metric.help, unit, kind)?;
                Self::Text(*format, metric.kind, encoder)
            }
            Backend::Otlp(points) => {
                points.begin(metric);
                Self::Otlp(points)
            }
        })
    }

    fn number(&mut self, labels: &[Label<'_>], value: Number) -> fmt::Result {
        match self {
            Self::Text(Format::OpenMetrics, Kind::Counter, encoder) => {
                with_labels(encoder, labels, |encoder| {
                    encoder.encode_counter::<NoLabelSet, Number, f64>(&value, None)
                })
            }
            // The encoder appends a suffix to the name of a counter, which has it already in text 0.0.4.
            Self::Text(_, _, encoder) => {
                with_labels(encoder, labels, |encoder| encoder.encode_gauge(&value))
            }
            Self::Otlp(points) => points.number(labels, value, None),
        }
    }

    fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) -> fmt::Result {
        let encoder = match self {
            Self::Text(_, _, encoder) => encoder,
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

    fn event_counter(&mut self, labels: &[Label<'_>], counter: &ExemplarCounter) -> fmt::Result {
        let value = counter.count;
        match (self, &counter.last) {
            (Self::Otlp(points), last) => points.number(labels, value.into(), last.as_ref()),
            (Self::Text(Format::OpenMetrics, _, encoder), Some(last)) if value > 0 => {
                let trace_id = format!("{:032x}", u128::from_be_bytes(last.id.trace_id()));
                let counter = CounterWithExemplar::<[(&str, String); 1]>::default();
                counter.inc_by(value - 1, None, None);
                counter.inc_by(1, Some([("trace_id", trace_id)]), None);
                counter.encode(encoder.encode_family(&labels)?)
            }
            (family, _) => family.number(labels, value.into()),
        }
    }
}

/// Without labels, the encoder must not write braces.
fn with_labels(
    encoder: &mut MetricEncoder<'_>,
    labels: &[Label<'_>],
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() {
        write(encoder)
    } else {
        write(&mut encoder.encode_family(&labels)?)
    }
}
