//! Metrics of one [`Snapshot`], as OpenMetrics 1.0, as Prometheus text 0.0.4, and for the meters of OpenTelemetry.
//!
//! No state is kept between scrapes, so no stale series can remain. Unknown values are absent. Label values are
//! escaped by the encoder of `prometheus-client`.

pub mod catalog;
mod collector;
pub mod exposition;

use std::{borrow::Cow, fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, prometheus_text, text},
    metrics::exemplar::CounterWithExemplar,
    registry::Registry,
};
use tokio::sync::watch;

pub use self::collector::Scrape;
use self::{
    catalog::{Metric, MetricType},
    exposition::Format,
};
use crate::{
    base::time::Clock,
    core::snapshot::{ExemplarCounter, Histogram, SeriesScope, Snapshot},
    outputs::output_counters::OutputCounters,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Events with their own series.
    pub scope: SeriesScope,
    /// One series for each VM that an event names.
    pub resources: bool,
    /// What describes the process: `process_*` and the build. Off where the text must be reproducible, and where another
    /// exporter has its own `process_*`.
    pub process: bool,
}

/// What is exposed, and as of when.
#[derive(Debug, Clone)]
pub struct MetricSource {
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    pub options: MetricsOptions,
    pub outputs: Arc<OutputCounters>,
    pub clock: Clock,
}

impl MetricSource {
    pub(super) fn scrape(&self, snapshot: &Arc<Snapshot>) -> Scrape {
        Scrape {
            snapshot: Arc::clone(snapshot),
            options: self.options,
            outputs: Arc::clone(&self.outputs),
            now: self.clock.now(),
        }
    }
}

impl Scrape {
    /// # Errors
    /// None in practice: writing into a string does not fail.
    pub fn text(self, format: Format) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut body = String::with_capacity(16 * 1024);
        match format {
            Format::OpenMetrics => text::encode(&mut body, &registry)?,
            Format::Text => prometheus_text::encode(&mut body, &registry)?,
        }
        Ok(body)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut |family| family.encode_text(&mut encoder))
    }
}

/// A name of the catalog, and the value.
pub(super) type Label<'a> = (&'static str, Cow<'a, str>);

#[derive(Debug, Clone, Copy)]
pub(super) enum SampleValue<'a> {
    /// Not negative in a counter.
    Int(i64),
    Float(f64),
    /// The trace of the last event is the exemplar. Text 0.0.4 has none.
    Events(&'a ExemplarCounter),
    Histogram(&'a Histogram),
}

/// A metric of the catalog with its samples, for both back ends. It is not written without samples.
#[derive(Debug)]
pub(super) struct Family<'a> {
    pub(super) metric: &'static Metric,
    pub(super) samples: Vec<(Vec<Label<'a>>, SampleValue<'a>)>,
}

impl<'a> Family<'a> {
    /// With the values of the labels in the order of the catalog. Only `owner`, the last one, may be missing.
    pub(super) fn new<L: IntoIterator<Item = Cow<'a, str>>, V: Into<SampleValue<'a>>>(
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> Self {
        let samples = samples.into_iter().map(|(values, value)| {
            let labels: Vec<_> = metric.labels.iter().copied().zip(values).collect();
            let missing = metric.labels.get(labels.len()..).unwrap_or_default();
            debug_assert!(
                [[].as_slice(), &["owner"]].contains(&missing),
                "{missing:?}"
            );
            (labels, value.into())
        });
        Self {
            metric,
            samples: samples.collect(),
        }
    }

    /// Without labels; without a sample if the value is unknown.
    pub(super) fn single(
        metric: &'static Metric,
        value: Option<impl Into<SampleValue<'a>>>,
    ) -> Self {
        Self::new(metric, value.map(|value| ([], value)))
    }

    fn encode_text(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.samples.is_empty() {
            return Ok(());
        }
        let (name, unit) = self.metric.stem_and_unit();
        let Metric { help, kind, .. } = *self.metric;
        let mut encoder = encoder.encode_descriptor(name, help, unit, kind)?;
        let is_counter = kind == MetricType::Counter;
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
            let trace_id = format!("{:032x}", u128::from_be_bytes(last.trace_id()));
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
            let (sum, count) = (histogram.sum, histogram.count());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

impl From<bool> for SampleValue<'_> {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<&u64> for SampleValue<'_> {
    fn from(value: &u64) -> Self {
        (*value).into()
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
