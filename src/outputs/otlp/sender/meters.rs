//! The metrics as meters of OpenTelemetry's SDK, which keeps what a temporality needs.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Histogram as HistogramMeter, Meter, MeterProvider as _},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{
        Aggregation, Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream,
        Temporality, data::ResourceMetrics, reader::MetricReader,
    },
};

use crate::{
    core::snapshot::Histogram,
    outputs::{
        metrics::{
            catalog::{Kind, Metric},
            family::{Family, Label, SampleValue},
        },
        otlp::resource::scope,
    },
};

/// Attributes and value of each sample, by the name of the metric.
type Samples = HashMap<&'static str, Vec<(Vec<KeyValue>, f64)>>;

/// Those of histograms, by the name of the instrument.
type Bounds = HashMap<&'static str, Vec<f64>>;

/// The SDK takes memory for this number of series of a metric from the start, and puts further ones together.
const MIN_SERIES: usize = 256;

#[derive(Debug)]
pub(super) struct Meters {
    reader: Reader,
    /// The reader has no other reference to it.
    _provider: SdkMeterProvider,
    meter: Meter,
    pub(super) resource: Resource,
    temporality: Temporality,
    max_series: usize,
    samples: Arc<Mutex<Samples>>,
    instruments: HashSet<&'static str>,
    histograms: HashMap<&'static str, HistogramMeter<f64>>,
    bounds: Arc<Mutex<Bounds>>,
    /// What was recorded of each histogram, by metric and labels.
    recorded: HashMap<String, Histogram>,
}

impl Meters {
    pub(super) fn new(resource: Resource, temporality: Temporality) -> Self {
        Self::with(resource, temporality, MIN_SERIES)
    }

    fn with(resource: Resource, temporality: Temporality, max_series: usize) -> Self {
        let manual = ManualReader::builder().with_temporality(temporality);
        let reader = Reader(Arc::new(manual.build()));
        let bounds = Arc::<Mutex<Bounds>>::default();
        let known = Arc::clone(&bounds);
        let provider = SdkMeterProvider::builder()
            .with_resource(resource.clone())
            .with_reader(reader.clone())
            .with_view(move |instrument: &Instrument| stream(instrument, &known, max_series))
            .build();
        Self {
            meter: provider.meter_with_scope(scope()),
            reader,
            _provider: provider,
            resource,
            temporality,
            max_series,
            samples: Arc::default(),
            instruments: HashSet::new(),
            histograms: HashMap::new(),
            bounds,
            recorded: HashMap::new(),
        }
    }

    /// The same meters for another resource, or more series of a metric. Deltas go on after the last push.
    fn replaced(self, resource: Resource, max_series: usize, metrics: &[&'static Metric]) -> Self {
        let mut meters = Self::with(resource, self.temporality, max_series);
        if self.temporality != Temporality::Cumulative {
            meters.samples = self.samples;
            meters.recorded = self.recorded;
            for metric in metrics {
                meters.register(metric);
            }
            meters.reader.collect(&mut ResourceMetrics::default()).ok();
        }
        meters
    }

    /// Takes over the samples of families. A number that none of them has is not reported any more.
    pub(super) fn observe(mut self, resource: Resource, families: Vec<OwnedFamily>) -> Self {
        let most = families.iter().map(|family| family.numbers.len());
        let most = most.max().unwrap_or(0).next_power_of_two();
        if self.resource != resource || most > self.max_series {
            let max_series = most.max(self.max_series);
            let metrics: Vec<_> = families.iter().map(|family| family.metric).collect();
            self = self.replaced(resource, max_series, &metrics);
        }
        for family in &families {
            self.register(family.metric);
            for (attributes, histogram) in &family.histograms {
                self.record(family.metric, attributes, histogram);
            }
        }
        let numbers = families.into_iter();
        let numbers = numbers.map(|family| (family.metric.name, family.numbers));
        *lock(&self.samples) = numbers.collect();
        self
    }

    pub(super) fn collect(&self) -> Result<ResourceMetrics, String> {
        let mut metrics = ResourceMetrics::default();
        let collected = self.reader.collect(&mut metrics);
        collected
            .map(|()| metrics)
            .map_err(|error| error.to_string())
    }

    fn register(&mut self, metric: &'static Metric) {
        if metric.kind == Kind::Histogram || !self.instruments.insert(metric.name) {
            return;
        }
        let samples = Arc::clone(&self.samples);
        let observe = move |instrument: &dyn AsyncInstrument<f64>| {
            for (attributes, value) in lock(&samples).get(metric.name).into_iter().flatten() {
                instrument.observe(*value, attributes);
            }
        };
        let (name, _) = metric.stem_and_unit();
        // A meter goes on without the handle of the instrument.
        if metric.kind == Kind::Counter {
            let counter = self.meter.f64_observable_counter(name);
            let counter = counter.with_description(metric.help).with_unit(metric.unit);
            counter.with_callback(observe).build();
        } else {
            let gauge = self.meter.f64_observable_gauge(name);
            let gauge = gauge.with_description(metric.help).with_unit(metric.unit);
            gauge.with_callback(observe).build();
        }
    }

    /// The SDK has no histogram that can be observed as a whole.
    fn record(&mut self, metric: &'static Metric, attributes: &[KeyValue], now: &Histogram) {
        let meter = self.histograms.entry(metric.name).or_insert_with(|| {
            let (name, _) = metric.stem_and_unit();
            let bounds = now.buckets().map(|(bound, _)| bound);
            let bounds = bounds.filter(|bound| bound.is_finite()).collect();
            lock(&self.bounds).insert(name, bounds);
            let meter = self.meter.f64_histogram(name).with_unit(metric.unit);
            meter.with_description(metric.help).build()
        });
        let key = format!("{}{attributes:?}", metric.name);
        let before = self.recorded.insert(key, now.clone());
        for value in now.values_since(before.as_ref()) {
            meter.record(value, attributes);
        }
    }
}

/// A family that outlives its snapshot.
#[derive(Debug)]
pub(super) struct OwnedFamily {
    metric: &'static Metric,
    numbers: Vec<(Vec<KeyValue>, f64)>,
    histograms: Vec<(Vec<KeyValue>, Histogram)>,
}

impl OwnedFamily {
    /// The number of data points.
    pub(super) fn points(&self) -> u64 {
        (self.numbers.len() + self.histograms.len()) as u64
    }
}

impl From<&Family<'_>> for OwnedFamily {
    fn from(family: &Family<'_>) -> Self {
        let mut owned = Self {
            metric: family.metric,
            numbers: Vec::new(),
            histograms: Vec::new(),
        };
        for (labels, value) in &family.samples {
            let attribute = |(key, value): &Label<'_>| KeyValue::new(*key, value.to_string());
            let attributes = labels.iter().map(attribute).collect();
            match value {
                SampleValue::Int(value) => owned.numbers.push((attributes, *value as f64)),
                SampleValue::Float(value) => owned.numbers.push((attributes, *value)),
                SampleValue::Events(it) => owned.numbers.push((attributes, it.count as f64)),
                SampleValue::Histogram(it) => owned.histograms.push((attributes, (*it).clone())),
            }
        }
        owned
    }
}

/// Room for all series. The least and the greatest value of a histogram are not known.
fn stream(instrument: &Instrument, bounds: &Mutex<Bounds>, max_series: usize) -> Option<Stream> {
    let mut stream = Stream::builder().with_cardinality_limit(max_series);
    if let Some(boundaries) = lock(bounds).get(instrument.name()) {
        stream = stream.with_aggregation(Aggregation::ExplicitBucketHistogram {
            boundaries: boundaries.clone(),
            record_min_max: false,
        });
    }
    stream.build().ok()
}

/// The SDK keeps the reader that it is given.
#[derive(Debug, Clone)]
struct Reader(Arc<ManualReader>);

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
