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
        Temporality,
        data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics},
        reader::MetricReader,
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

/// The SDK takes memory for twice this number of series of a metric from the start, and puts further ones together.
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

/// The number of data points. The instruments have no other kinds.
pub(super) fn points(metrics: &ResourceMetrics) -> u64 {
    let metrics = metrics.scope_metrics().flat_map(ScopeMetrics::metrics);
    let points = metrics.map(|metric| match metric.data() {
        AggregatedMetrics::F64(MetricData::Gauge(gauge)) => gauge.data_points().count(),
        AggregatedMetrics::F64(MetricData::Sum(sum)) => sum.data_points().count(),
        AggregatedMetrics::F64(MetricData::Histogram(it)) => it.data_points().count(),
        _ => 0,
    });
    points.sum::<usize>() as u64
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

/// Room for all series: while those of a push are observed, the SDK still has those of the one before. The least and the
/// greatest value of a histogram are not known.
fn stream(instrument: &Instrument, bounds: &Mutex<Bounds>, max_series: usize) -> Option<Stream> {
    let mut stream = Stream::builder().with_cardinality_limit(2 * max_series);
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use opentelemetry_sdk::metrics::data::{GaugeDataPoint, SumDataPoint};

    use super::*;
    use crate::outputs::metrics::catalog;

    fn family(kind: Kind) -> OwnedFamily {
        let metric = catalog::ALL.iter().find(|it| it.kind == kind);
        OwnedFamily {
            metric: metric.unwrap(),
            numbers: Vec::new(),
            histograms: Vec::new(),
        }
    }

    fn gauge(series: Range<u32>) -> OwnedFamily {
        let point = |number: u32| (vec![KeyValue::new("name", number.to_string())], 1.0);
        OwnedFamily {
            numbers: series.map(point).collect(),
            ..family(Kind::Gauge)
        }
    }

    fn counter(value: f64) -> OwnedFamily {
        OwnedFamily {
            numbers: vec![(Vec::new(), value)],
            ..family(Kind::Counter)
        }
    }

    fn histogram(durations: Range<u64>) -> OwnedFamily {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        durations.for_each(|tenths| histogram.observe(Duration::from_millis(100 * tenths)));
        OwnedFamily {
            histograms: vec![(Vec::new(), histogram)],
            ..family(Kind::Histogram)
        }
    }

    fn resource(name: &'static str) -> Resource {
        Resource::builder_empty().with_service_name(name).build()
    }

    /// What a receiver has of a push.
    #[derive(Debug, Default)]
    struct Pushed {
        gauge: Vec<String>,
        counter: f64,
        buckets: [u64; 3],
        sum: f64,
    }

    fn pushed(meters: &Meters) -> Pushed {
        let mut pushed = Pushed::default();
        let metrics = meters.collect().unwrap();
        let scope = metrics.scope_metrics().next().unwrap();
        for metric in scope.metrics() {
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                    let attributes = gauge.data_points().flat_map(GaugeDataPoint::attributes);
                    pushed.gauge = attributes.map(|it| it.value.to_string()).collect();
                }
                AggregatedMetrics::F64(MetricData::Sum(sum)) => {
                    pushed.counter = sum.data_points().map(SumDataPoint::value).sum();
                }
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    for point in histogram.data_points() {
                        pushed.sum = point.sum();
                        let counts: Vec<_> = point.bucket_counts().collect();
                        pushed.buckets = counts.try_into().unwrap();
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        pushed
    }

    #[test]
    fn all_series_are_pushed_when_they_follow_others() {
        let mut meters = Meters::new(resource("a"), Temporality::Cumulative);
        for (from, to) in [(0, 200), (200, 400), (400, 1_400), (1_400, 2_400), (0, 10)] {
            meters = meters.observe(resource("a"), vec![gauge(from..to)]);
            let mut names = pushed(&meters).gauge;
            names.sort_by_key(|name| name.parse().unwrap_or(0));
            let expected: Vec<_> = (from..to).map(|number| number.to_string()).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn counters_and_histograms_go_on_with_another_resource_and_with_more_series() {
        for temporality in [Temporality::Cumulative, Temporality::Delta] {
            let mut meters = Meters::new(resource("a"), temporality);
            let mut received = Pushed::default();
            for (name, series, total) in [
                ("a", 1, 3),
                ("b", 1, 7),
                ("b", 1_000, 12),
                ("b", 1, 12),
                ("c", 9_000, 15),
            ] {
                let families = vec![gauge(0..series), counter(total as f64), histogram(0..total)];
                meters = meters.observe(resource(name), families);
                let pushed = pushed(&meters);
                let before = match temporality {
                    Temporality::Delta => received,
                    _ => Pushed::default(),
                };
                received = Pushed {
                    gauge: Vec::new(),
                    counter: before.counter + pushed.counter,
                    buckets: [0, 1, 2].map(|index| before.buckets[index] + pushed.buckets[index]),
                    sum: before.sum + pushed.sum,
                };
                let below = |tenths: u64| total.min(tenths);
                let buckets = [below(6), below(11) - below(6), total - below(11)];
                assert_eq!(received.buckets, buckets, "{temporality:?}");
                assert!(
                    (received.counter - total as f64).abs() < 1e-9,
                    "{received:?}"
                );
                let sum = (0..total).sum::<u64>() as f64 / 10.0;
                assert!((received.sum - sum).abs() < 1e-9, "{received:?} {sum}");
            }
        }
    }
}
