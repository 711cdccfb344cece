//! The samples of a snapshot: those of the exporter here, those of events in [`events`].

mod decisions;
mod events;

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    MetricsOptions,
    catalog::{self, Labels, Metric},
    family::{self, Backend},
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

impl Scrape {
    /// In the order of the catalog.
    pub(super) fn write(&self, backend: &mut Backend<'_>) -> fmt::Result {
        events::encode(&self.snapshot, self.options, self.now, backend)?;
        self.advisories(backend)?;
        self.alert_and_approval_counters(backend)?;
        self.exporter(backend)?;
        if self.options.process {
            process::encode(backend)
        } else {
            Ok(())
        }
    }

    fn exporter(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let Snapshot {
            health, counters, ..
        } = &*self.snapshot;
        let mut anomalies = family::begin(backend, &catalog::ANOMALIES)?;
        for (kind, count) in &counters.anomalies {
            anomalies.counter(&[("kind", kind.as_str())], *count)?;
        }
        if let Some(incarnation) = health.incarnation {
            family::begin(backend, &catalog::INCARNATION)?.int_gauge(&[], incarnation)?;
        }
        let mut ended = family::begin(backend, &catalog::ENDED)?;
        for ((event_type, outcome), counter) in &counters.ended {
            let labels = [
                ("event_type", event_type.as_str()),
                ("outcome", outcome.as_str()),
            ];
            ended.event_counter(&labels, counter.count, counter.last.as_ref())?;
        }
        build_info(backend)?;
        family::begin(backend, &catalog::IMDS_DURATION)?
            .histogram(&[], &health.request_duration)?;
        let mut failures = family::begin(backend, &catalog::IMDS_FAILURES)?;
        for (reason, count) in health.failures() {
            failures.counter(&[("reason", reason.as_str())], count)?;
        }
        family::counter(backend, &catalog::IMDS_REQUESTS, health.requests)?;
        by_type(backend, &catalog::IMPACT, &counters.impact)?;
        let last_success = health.last_success_at().map(Timestamp::as_unix_seconds);
        family::optional_gauge(backend, &catalog::LAST_SUCCESS, last_success)?;
        family::counter(backend, &catalog::LOG_LINES_DROPPED, self.dropped_log_lines)?;
        if let Some(counts) = &self.snapshot.outputs.log_records {
            exports(backend, &LOG_RECORD_METRICS, counts)?;
        }
        if let Some(counts) = &self.snapshot.outputs.metrics {
            export_failures(backend, &catalog::METRIC_EXPORT_FAILURES, counts)?;
            family::counter(backend, &catalog::METRIC_POINTS_EXPORTED, counts.exported)?;
        }
        by_type(backend, &catalog::NOTICE, &counters.notice)?;
        by_type(
            backend,
            &catalog::OBSERVED_INTERRUPTION,
            &counters.interruption,
        )?;
        let mut observed = family::begin(backend, &catalog::OBSERVED)?;
        for ((event_type, scope), counter) in &counters.observed {
            let labels = [
                ("event_type", event_type.as_str()),
                ("scope", scope.as_str()),
            ];
            observed.event_counter(&labels, counter.count, counter.last.as_ref())?;
        }
        self.pending(backend)?;
        exports(backend, &SPAN_METRICS, &self.snapshot.outputs.spans)?;
        self.state_metrics(backend)?;
        let is_up = health.is_up(self.now);
        family::begin(backend, &catalog::UP)?.int_gauge(&[], is_up.into())?;
        self.vm_info(backend)?;
        let is_warming_up = health.warm_up.is_active(self.now);
        family::begin(backend, &catalog::WARMING_UP)?.int_gauge(&[], is_warming_up.into())
    }

    fn advisories(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let known = [EventType::SpotRebalanceRecommendation];
        let advisories = self.snapshot.advisories();
        self.by_type_and_scope(backend, &catalog::ADVISORIES, &known, advisories)
    }

    fn pending(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let pending = self.snapshot.pending();
        self.by_type_and_scope(backend, &catalog::PENDING, &EventType::KNOWN, pending)
    }

    /// The number of events, from zero for the known types. Absent before the first document, and while the last one is
    /// too old: a zero would state that there is no event.
    fn by_type_and_scope<'a>(
        &self,
        backend: &mut Backend<'_>,
        metric: &Metric,
        known: &[EventType],
        events: impl Iterator<Item = &'a TrackedEvent>,
    ) -> fmt::Result {
        if !self.snapshot.knows_events(self.now) {
            return Ok(());
        }
        // An entry that could not be read may be an event of any type, and while the name of this VM is unknown, each
        // event may be its own: then no zero is known.
        let is_complete = self.snapshot.health.unreadable_entries == 0;
        let has_name = self.snapshot.vm_name.is_some();
        let known = if is_complete && has_name { known } else { &[] };
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
        let mut family = family::begin(backend, metric)?;
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

    /// Not over OTLP, where the resource has the identity. Receivers make `target_info` of it.
    fn vm_info(&self, backend: &mut Backend<'_>) -> fmt::Result {
        if matches!(backend, Backend::Otlp(_)) {
            return Ok(());
        }
        let (Some(identity), vm_name) = (&self.snapshot.identity, &self.snapshot.vm_name) else {
            return Ok(());
        };
        let values = [
            ("vm_name", vm_name.as_deref().unwrap_or(&identity.name)),
            ("vm_id", &identity.vm_id),
            ("vm_scale_set", &identity.scale_set),
            ("vm_size", &identity.vm_size),
            ("location", &identity.location),
            ("resource_group", &identity.resource_group),
            ("subscription_id", &identity.subscription_id),
        ]
        .map(|(name, value)| (name, label_value(value)));
        let labels = values.each_ref().map(|(name, value)| (*name, &**value));
        family::begin(backend, &catalog::VM_INFO)?.int_gauge(&labels, 1)
    }

    fn alert_and_approval_counters(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let outputs = &self.snapshot.outputs;
        family::counter(
            backend,
            &catalog::ALERT_PUSH_FAILURES,
            outputs.pushes.failures,
        )?;
        family::counter(backend, &catalog::ALERT_PUSHES, outputs.pushes.pushes)?;
        let mut approvals = family::begin(backend, &catalog::APPROVALS)?;
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

    fn state_metrics(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let outputs = &self.snapshot.outputs;
        let spools = [Some(&outputs.spans), outputs.log_records.as_ref()];
        let failures: u64 = spools
            .iter()
            .flatten()
            .map(|counts| counts.write_failures)
            .sum();
        family::counter(
            backend,
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
    backend: &mut Backend<'_>,
    [failures, dropped, exported, spooled]: &ExportMetrics,
    counts: &ExportCounts,
) -> fmt::Result {
    export_failures(backend, failures, counts)?;
    let mut dropped = family::begin(backend, dropped)?;
    for (reason, count) in &counts.dropped {
        dropped.counter(&[("reason", reason.as_str())], *count)?;
    }
    family::counter(backend, exported, counts.exported)?;
    family::optional_gauge(backend, spooled, Some(counts.spooled as f64))
}

fn export_failures(
    backend: &mut Backend<'_>,
    metric: &Metric,
    counts: &ExportCounts,
) -> fmt::Result {
    let mut failures = family::begin(backend, metric)?;
    counts
        .failures
        .iter()
        .try_for_each(|(reason, count)| failures.counter(&[("reason", reason.as_str())], *count))
}

fn by_type(
    backend: &mut Backend<'_>,
    metric: &Metric,
    histograms: &BTreeMap<TypeLabel, Histogram>,
) -> fmt::Result {
    if histograms.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(backend, metric)?;
    histograms.iter().try_for_each(|(event_type, histogram)| {
        family.histogram(&[("event_type", event_type.as_str())], histogram)
    })
}

fn build_info(backend: &mut Backend<'_>) -> fmt::Result {
    let labels: Labels<'_> = &[
        ("version", env!("CARGO_PKG_VERSION")),
        ("revision", env!("BUILD_REVISION")),
        ("rustc", env!("BUILD_RUSTC")),
    ];
    family::begin(backend, &catalog::BUILD_INFO)?.int_gauge(labels, 1)
}
