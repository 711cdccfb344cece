//! The metrics as meters of OpenTelemetry's SDK, which keeps what a temporality needs.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Meter, MeterProvider as _},
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    metrics::{
        Aggregation, Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream,
        Temporality,
        data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics},
        reader::MetricReader,
    },
};
use parking_lot::Mutex;

use crate::{
    core::snapshot::Histogram,
    outputs::{
        metrics::{
            Family, Label, SampleValue,
            catalog::{Metric, MetricType},
        },
        otlp::resource::scope,
    },
};

/// Attributes and value of each series of a gauge, by the name of the metric.
type Gauges = HashMap<&'static str, Vec<(Vec<KeyValue>, f64)>>;

/// The bounds of histograms, by the name of the instrument.
type Bounds = HashMap<&'static str, Vec<f64>>;

/// A series: the name of the metric, and the attributes.
type Series = (&'static str, Vec<KeyValue>);

/// Series of a metric about events. The SDK takes memory for all of them with the first one, and puts further ones
/// together.
const MAX_EVENT_SERIES: usize = 10_000;
/// Series of any other metric.
const MAX_SERIES: usize = 256;

#[derive(Debug)]
pub(super) struct Meters {
    reader: Reader,
    /// The reader has no other reference to it.
    _provider: SdkMeterProvider,
    meter: Meter,
    resource: Resource,
    temporality: Temporality,
    gauges: Arc<Mutex<Gauges>>,
    bounds: Arc<Mutex<Bounds>>,
    /// What was added to the counters, also under an earlier resource.
    added: HashMap<Series, f64>,
    /// What was recorded in the histograms, likewise.
    recorded: HashMap<Series, Histogram>,
}

impl Meters {
    pub(super) fn new(resource: Resource, temporality: Temporality) -> Self {
        let manual = ManualReader::builder().with_temporality(temporality);
        let reader = Reader(Arc::new(manual.build()));
        let bounds = Arc::<Mutex<Bounds>>::default();
        let known = Arc::clone(&bounds);
        let provider = SdkMeterProvider::builder()
            .with_resource(resource.clone())
            .with_reader(reader.clone())
            .with_view(move |instrument: &Instrument| stream(instrument, &known))
            .build();
        Self {
            meter: provider.meter_with_scope(scope()),
            reader,
            _provider: provider,
            resource,
            temporality,
            gauges: Arc::default(),
            bounds,
            added: HashMap::new(),
            recorded: HashMap::new(),
        }
    }

    /// The series of another resource are others, whose counters and histograms start with what is new since the last
    /// push.
    pub(super) fn set_resource(&mut self, resource: &Resource) {
        if self.resource != *resource {
            *self = Self {
                added: mem::take(&mut self.added),
                recorded: mem::take(&mut self.recorded),
                ..Self::new(resource.clone(), self.temporality)
            };
        }
    }

    /// Takes over the samples of a family. A series of a gauge that it does not have is not reported any more.
    pub(super) fn observe(&mut self, family: &Family<'_>) {
        let metric = family.metric;
        let mut gauge = Vec::new();
        for (labels, value) in &family.samples {
            let attribute = |(key, value): &Label<'_>| KeyValue::new(*key, value.to_string());
            let attributes: Vec<_> = labels.iter().map(attribute).collect();
            let number = match value {
                SampleValue::Int(value) => *value as f64,
                SampleValue::Float(value) => *value,
                SampleValue::Events(counter) => counter.count as f64,
                SampleValue::Histogram(histogram) => {
                    self.record(metric, &attributes, histogram);
                    continue;
                }
            };
            if metric.kind == MetricType::Counter {
                self.add(metric, &attributes, number);
            } else {
                gauge.push((attributes, number));
            }
        }
        if metric.kind == MetricType::Gauge {
            self.set(metric, gauge);
        }
    }

    pub(super) fn collect(&self) -> Result<ResourceMetrics, OTelSdkError> {
        let mut metrics = ResourceMetrics::default();
        self.reader.collect(&mut metrics)?;
        Ok(metrics)
    }

    fn set(&self, metric: &'static Metric, series: Vec<(Vec<KeyValue>, f64)>) {
        let mut known = self.gauges.lock();
        if series.is_empty() && !known.contains_key(metric.name) {
            return;
        }
        if known.insert(metric.name, series).is_none() {
            let gauges = Arc::clone(&self.gauges);
            let observe = move |instrument: &dyn AsyncInstrument<f64>| {
                for (attributes, value) in gauges.lock().get(metric.name).into_iter().flatten() {
                    instrument.observe(*value, attributes);
                }
            };
            let gauge = self.meter.f64_observable_gauge(metric.stem_and_unit().0);
            let gauge = gauge.with_description(metric.help).with_unit(metric.unit);
            // The meter goes on without the handle of the instrument.
            gauge.with_callback(observe).build();
        }
    }

    fn add(&mut self, metric: &'static Metric, attributes: &[KeyValue], now: f64) {
        // The meter has each instrument once.
        let counter = self.meter.f64_counter(metric.stem_and_unit().0);
        let counter = counter.with_description(metric.help).with_unit(metric.unit);
        let series = (metric.name, attributes.to_owned());
        let before = self.added.insert(series, now).unwrap_or(0.0);
        counter.build().add(now - before, attributes);
    }

    /// The SDK has no histogram that can be observed as a whole.
    fn record(&mut self, metric: &'static Metric, attributes: &[KeyValue], now: &Histogram) {
        let (name, _) = metric.stem_and_unit();
        let bounds = now.buckets().map(|(bound, _)| bound);
        let bounds = bounds.filter(|bound| bound.is_finite()).collect();
        self.bounds.lock().insert(name, bounds);
        let histogram = self.meter.f64_histogram(name).with_unit(metric.unit);
        let histogram = histogram.with_description(metric.help).build();
        let series = (metric.name, attributes.to_owned());
        let before = self.recorded.insert(series, now.clone());
        for value in now.values_since(before.as_ref()) {
            histogram.record(value, attributes);
        }
    }
}

/// The number of data points. The instruments have no other kinds.
pub(super) fn points(metrics: &ResourceMetrics) -> usize {
    let metrics = metrics.scope_metrics().flat_map(ScopeMetrics::metrics);
    let points = metrics.map(|metric| match metric.data() {
        AggregatedMetrics::F64(MetricData::Gauge(gauge)) => gauge.data_points().count(),
        AggregatedMetrics::F64(MetricData::Sum(sum)) => sum.data_points().count(),
        AggregatedMetrics::F64(MetricData::Histogram(it)) => it.data_points().count(),
        _ => 0,
    });
    points.sum()
}

/// The SDK still has the series of the last push while those of the next one are observed. The least and the greatest
/// value of a histogram are not known.
fn stream(instrument: &Instrument, bounds: &Mutex<Bounds>) -> Option<Stream> {
    let is_about_events = instrument.name().starts_with("azure_scheduled_event_");
    let limit = if is_about_events {
        2 * MAX_EVENT_SERIES
    } else {
        MAX_SERIES
    };
    let mut stream = Stream::builder().with_cardinality_limit(limit);
    if let Some(boundaries) = bounds.lock().get(instrument.name()) {
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

#[cfg(test)]
mod tests {
    use std::{ops::Range, time::SystemTime};

    use opentelemetry_sdk::metrics::data::{GaugeDataPoint, SumDataPoint};

    use super::*;
    use crate::outputs::metrics::catalog;

    fn gauge(series: Range<u32>) -> Family<'static> {
        let sample = |number: u32| ([number.to_string().into()], true);
        Family::new(&catalog::EVENT_OPEN, series.map(sample))
    }

    fn histogram(tenths: Range<u64>) -> Histogram {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        tenths.for_each(|tenths| histogram.observe(Duration::from_millis(100 * tenths)));
        histogram
    }

    fn resource(name: &'static str) -> Resource {
        Resource::builder_empty().with_service_name(name).build()
    }

    /// What a receiver has of a push.
    #[derive(Debug)]
    struct Pushed {
        gauge: Vec<u32>,
        counter: f64,
        buckets: [u64; 3],
        sum: f64,
        started_at: SystemTime,
    }

    fn pushed(meters: &Meters) -> Pushed {
        let mut pushed = Pushed {
            gauge: Vec::new(),
            counter: 0.0,
            buckets: [0; 3],
            sum: 0.0,
            started_at: SystemTime::UNIX_EPOCH,
        };
        let metrics = meters.collect().unwrap();
        for metric in metrics.scope_metrics().flat_map(ScopeMetrics::metrics) {
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                    let attributes = gauge.data_points().flat_map(GaugeDataPoint::attributes);
                    let numbers = attributes.filter_map(|it| it.value.as_str().parse().ok());
                    pushed.gauge = numbers.collect();
                    pushed.gauge.sort_unstable();
                }
                AggregatedMetrics::F64(MetricData::Sum(sum)) => {
                    pushed.counter = sum.data_points().map(SumDataPoint::value).sum();
                    pushed.started_at = sum.start_time();
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
        for series in [0..200, 200..400, 0..10_000, 10_000..20_000, 0..10, 0..0] {
            meters.observe(&gauge(series.clone()));
            assert_eq!(pushed(&meters).gauge, series.collect::<Vec<_>>());
        }
    }

    /// Values and time of start belong together: a push never has again what was pushed under another resource.
    #[test]
    fn counters_and_histograms_of_another_resource_start_with_what_is_new() {
        for temporality in [Temporality::Cumulative, Temporality::Delta] {
            let mut meters = Meters::new(resource("a"), temporality);
            let (mut last, mut started) = (0, None);
            for (name, series, since, total) in [
                ("a", 1, 0, 3),
                ("a", 9_000, 0, 3),
                ("a", 1, 0, 5),
                ("b", 1, 5, 12),
                ("b", 9_000, 5, 12),
                ("c", 1, 12, 15),
            ] {
                meters.set_resource(&resource(name));
                meters.observe(&gauge(0..series));
                meters.observe(&Family::single(&catalog::ALERT_PUSHES, Some(total)));
                let durations = histogram(0..total);
                meters.observe(&Family::new(&catalog::IMDS_DURATION, [([], &durations)]));
                let pushed = pushed(&meters);
                let is_delta = temporality == Temporality::Delta;
                let new = if is_delta { last..total } else { since..total };
                let expected = histogram(new.clone());
                let counts: Vec<_> = expected.buckets().map(|(_, count)| count).collect();
                assert_eq!(pushed.buckets, *counts, "{temporality:?} {name} {total}");
                assert!((pushed.counter - (new.end - new.start) as f64).abs() < 1e-9);
                assert!((pushed.sum - expected.sum).abs() < 1e-9, "{pushed:?}");
                let is_same_start =
                    started.replace((name, pushed.started_at)) == Some((name, pushed.started_at));
                assert_eq!(is_same_start, !is_delta && since < last, "{name} {total}");
                last = total;
            }
        }
    }
}
