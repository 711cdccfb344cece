//! The samples of a snapshot: those of the exporter here, those of events in [`events`].

mod events;

use std::{collections::BTreeMap, fmt, sync::Arc};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{
    MetricsOptions,
    catalog::{self, Metric},
    family::{self, Labels},
    process,
};
use crate::{
    event::{EventScope, EventType},
    lifecycle::TrackedEvent,
    snapshot::{ExportCounts, Histogram, Snapshot, TypeLabel},
    text::label_value,
    time::{Moment, Timestamp},
};

#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) options: MetricsOptions,
    pub(super) dropped_log_lines: u64,
    pub(super) now: Moment,
}

impl Collector for Scrape {
    /// In the order of the catalog.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        events::encode(&self.snapshot, self.options, self.now, &mut encoder)?;
        self.advisories(&mut encoder)?;
        self.alert_and_approval_counters(&mut encoder)?;
        self.exporter(&mut encoder)?;
        if self.options.process {
            process::encode(&mut encoder)
        } else {
            Ok(())
        }
    }
}

impl Scrape {
    fn exporter(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot {
            health, counters, ..
        } = &*self.snapshot;
        let mut anomalies = family::begin(encoder, &catalog::ANOMALIES)?;
        for (kind, count) in &counters.anomalies {
            anomalies.counter(&[("kind", kind.as_str())], *count)?;
        }
        if let Some(incarnation) = health.incarnation {
            family::begin(encoder, &catalog::INCARNATION)?.int_gauge(&[], incarnation)?;
        }
        let mut ended = family::begin(encoder, &catalog::ENDED)?;
        for ((event_type, outcome), counter) in &counters.ended {
            let labels = [
                ("event_type", event_type.as_str()),
                ("outcome", outcome.as_str()),
            ];
            ended.event_counter(&labels, counter.count, counter.last.as_ref())?;
        }
        build_info(encoder)?;
        family::begin(encoder, &catalog::IMDS_DURATION)?
            .histogram(&[], &health.request_duration)?;
        let mut failures = family::begin(encoder, &catalog::IMDS_FAILURES)?;
        for (reason, count) in health.failures() {
            failures.counter(&[("reason", reason.as_str())], count)?;
        }
        family::counter(encoder, &catalog::IMDS_REQUESTS, health.requests)?;
        by_type(encoder, &catalog::IMPACT, &counters.impact)?;
        let last_success = health.last_success_at().map(Timestamp::as_unix_seconds);
        family::optional_gauge(encoder, &catalog::LAST_SUCCESS, last_success)?;
        family::counter(encoder, &catalog::LOG_LINES_DROPPED, self.dropped_log_lines)?;
        if let Some(counts) = &self.snapshot.outputs.log_records {
            exports(encoder, &LOG_RECORD_METRICS, counts)?;
        }
        by_type(encoder, &catalog::NOTICE, &counters.notice)?;
        by_type(
            encoder,
            &catalog::OBSERVED_INTERRUPTION,
            &counters.interruption,
        )?;
        let mut observed = family::begin(encoder, &catalog::OBSERVED)?;
        for ((event_type, scope), counter) in &counters.observed {
            let labels = [
                ("event_type", event_type.as_str()),
                ("scope", scope.as_str()),
            ];
            observed.event_counter(&labels, counter.count, counter.last.as_ref())?;
        }
        self.pending(encoder)?;
        exports(encoder, &SPAN_METRICS, &self.snapshot.outputs.spans)?;
        self.state_metrics(encoder)?;
        family::begin(encoder, &catalog::UP)?.int_gauge(&[], health.is_up().into())?;
        self.vm_info(encoder)?;
        let is_warming_up = health.warm_up.is_active(self.now);
        family::begin(encoder, &catalog::WARMING_UP)?.int_gauge(&[], is_warming_up.into())
    }

    fn advisories(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let known = [EventType::SpotRebalanceRecommendation];
        let advisories = self.snapshot.advisories();
        self.by_type_and_scope(encoder, &catalog::ADVISORIES, &known, advisories)
    }

    fn pending(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let pending = self.snapshot.pending();
        self.by_type_and_scope(encoder, &catalog::PENDING, &EventType::KNOWN, pending)
    }

    /// The number of events, from zero for the known types. Absent before the first document, and while the last one is
    /// too old: a zero would state that there is no event.
    fn by_type_and_scope<'a>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: &Metric,
        known: &[EventType],
        events: impl Iterator<Item = &'a TrackedEvent>,
    ) -> fmt::Result {
        if !self.snapshot.knows_events(self.now) {
            return Ok(());
        }
        // An entry that could not be read may be an event of any type: then no zero is known.
        let is_complete = self.snapshot.health.unreadable_entries == 0;
        let known = if is_complete { known } else { &[] };
        let known = known.iter().cloned().map(TypeLabel::from);
        let zeros = known.flat_map(|label| {
            [EventScope::Own, EventScope::Other].map(|scope| ((label.clone(), scope), 0_i64))
        });
        let mut counts: BTreeMap<_, _> = zeros.collect();
        for tracked in events {
            *counts
                .entry((
                    TypeLabel::from(tracked.event.event_type.clone()),
                    tracked.scope,
                ))
                .or_default() += 1;
        }
        let mut family = family::begin(encoder, metric)?;
        counts.iter().try_for_each(|((event_type, scope), count)| {
            family.int_gauge(
                &[
                    ("event_type", event_type.as_str()),
                    ("scope", scope.as_str()),
                ],
                *count,
            )
        })
    }

    fn vm_info(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (Some(identity), vm_name) = (&self.snapshot.identity, &self.snapshot.vm_name) else {
            return Ok(());
        };
        let values = [
            ("vm_name", vm_name.as_deref().unwrap_or(&identity.name)),
            ("vm_id", &identity.vm_id),
            ("vm_scale_set", &identity.scale_set),
            ("vm_size", &identity.vm_size),
            ("location", &identity.location),
        ]
        .map(|(name, value)| (name, label_value(value)));
        let labels = values.each_ref().map(|(name, value)| (*name, &**value));
        family::begin(encoder, &catalog::VM_INFO)?.int_gauge(&labels, 1)
    }

    fn alert_and_approval_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let outputs = &self.snapshot.outputs;
        family::counter(
            encoder,
            &catalog::ALERT_PUSH_FAILURES,
            outputs.pushes.failures,
        )?;
        family::counter(encoder, &catalog::ALERT_PUSHES, outputs.pushes.pushes)?;
        let mut approvals = family::begin(encoder, &catalog::APPROVALS)?;
        outputs
            .approvals
            .iter()
            .try_for_each(|((event_type, result), count)| {
                approvals.counter(
                    &[
                        ("event_type", event_type.as_str()),
                        ("result", result.as_str()),
                    ],
                    *count,
                )
            })
    }

    fn state_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let outputs = &self.snapshot.outputs;
        let spools = [Some(&outputs.spans), outputs.log_records.as_ref()];
        let failures: u64 = spools
            .iter()
            .flatten()
            .map(|counts| counts.write_failures)
            .sum();
        family::counter(
            encoder,
            &catalog::STATE_WRITE_FAILURES,
            outputs.state_write_failures + failures,
        )
    }
}

/// Failures, dropped, exported and waiting records of one signal.
type ExportMetrics = [&'static Metric; 4];

const LOG_RECORD_METRICS: ExportMetrics = [
    &catalog::LOG_RECORD_EXPORT_FAILURES,
    &catalog::LOG_RECORDS_DROPPED,
    &catalog::LOG_RECORDS_EXPORTED,
    &catalog::LOG_RECORDS_SPOOLED,
];
const SPAN_METRICS: ExportMetrics = [
    &catalog::SPAN_EXPORT_FAILURES,
    &catalog::SPANS_DROPPED,
    &catalog::SPANS_EXPORTED,
    &catalog::SPANS_SPOOLED,
];

fn exports(
    encoder: &mut DescriptorEncoder<'_>,
    [failures, dropped, exported, spooled]: &ExportMetrics,
    counts: &ExportCounts,
) -> fmt::Result {
    let mut failures = family::begin(encoder, failures)?;
    for (reason, count) in &counts.failures {
        failures.counter(&[("reason", reason.as_str())], *count)?;
    }
    let mut dropped = family::begin(encoder, dropped)?;
    for (reason, count) in &counts.dropped {
        dropped.counter(&[("reason", reason.as_str())], *count)?;
    }
    family::counter(encoder, exported, counts.exported)?;
    family::optional_gauge(encoder, spooled, Some(counts.spooled as f64))
}

fn by_type(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    histograms: &BTreeMap<TypeLabel, Histogram>,
) -> fmt::Result {
    if histograms.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, metric)?;
    histograms.iter().try_for_each(|(event_type, histogram)| {
        family.histogram(&[("event_type", event_type.as_str())], histogram)
    })
}

fn build_info(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let labels: Labels<'_> = &[
        ("version", env!("CARGO_PKG_VERSION")),
        ("revision", env!("BUILD_REVISION")),
        ("rustc", env!("BUILD_RUSTC")),
    ];
    family::begin(encoder, &catalog::BUILD_INFO)?.int_gauge(labels, 1)
}
