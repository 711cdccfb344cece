//! The samples of a snapshot: those of the exporter here, those of events in [`events`].

mod decisions;
mod events;

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    MetricsOptions,
    catalog::{self, Metric},
    family::{self, Backend},
    process,
    sample::Label,
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
            health,
            counters,
            outputs,
            ..
        } = &*self.snapshot;
        let anomalies = counters.anomalies.iter();
        let anomalies = anomalies.map(|(kind, count)| ([("kind", kind.as_str().into())], *count));
        family::numbers(backend, &catalog::ANOMALIES, anomalies)?;
        family::optional_number(backend, &catalog::INCARNATION, health.incarnation)?;
        let ended = counters.ended.iter().map(|((event_type, outcome), ended)| {
            let outcome = ("outcome", outcome.as_str().into());
            ([type_label(event_type), outcome], ended)
        });
        family::event_counters(backend, &catalog::ENDED, ended)?;
        build_info(backend)?;
        let duration = [([], &health.request_duration)];
        family::histograms(backend, &catalog::IMDS_DURATION, duration)?;
        let failures = health.failures();
        let failures = failures.map(|(reason, count)| (reason_label(reason.as_str()), count));
        family::numbers(backend, &catalog::IMDS_FAILURES, failures)?;
        family::number(backend, &catalog::IMDS_REQUESTS, health.requests)?;
        by_type(backend, &catalog::IMPACT, &counters.impact)?;
        let last_success = health.last_success_at().map(Timestamp::as_unix_seconds);
        family::optional_number(backend, &catalog::LAST_SUCCESS, last_success)?;
        family::number(backend, &catalog::LOG_LINES_DROPPED, self.dropped_log_lines)?;
        if let Some(counts) = &outputs.log_records {
            exports(backend, &LOG_RECORD_METRICS, counts)?;
        }
        if let Some(counts) = &outputs.metrics {
            export_failures(backend, &catalog::METRIC_EXPORT_FAILURES, counts)?;
            family::number(backend, &catalog::METRIC_POINTS_EXPORTED, counts.exported)?;
        }
        by_type(backend, &catalog::NOTICE, &counters.notice)?;
        by_type(
            backend,
            &catalog::OBSERVED_INTERRUPTION,
            &counters.interruption,
        )?;
        let observed = counters
            .observed
            .iter()
            .map(|((event_type, scope), observed)| {
                ([type_label(event_type), scope_label(*scope)], observed)
            });
        family::event_counters(backend, &catalog::OBSERVED, observed)?;
        self.pending(backend)?;
        exports(backend, &SPAN_METRICS, &outputs.spans)?;
        self.state_metrics(backend)?;
        family::number(backend, &catalog::UP, health.is_up(self.now))?;
        self.vm_info(backend)?;
        let is_warming_up = health.is_warming_up(self.now);
        family::number(backend, &catalog::WARMING_UP, is_warming_up)
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
        let counts = counts.iter().map(|((event_type, scope), count)| {
            ([type_label(event_type), scope_label(*scope)], *count)
        });
        family::numbers(backend, metric, counts)
    }

    /// Not over OTLP, where the resource has the identity. Receivers make `target_info` of it.
    fn vm_info(&self, backend: &mut Backend<'_>) -> fmt::Result {
        if matches!(backend, Backend::Otlp(_)) {
            return Ok(());
        }
        let (Some(identity), vm_name) = (&self.snapshot.identity, &self.snapshot.vm_name) else {
            return Ok(());
        };
        let labels = [
            ("vm_name", vm_name.as_deref().unwrap_or(&identity.name)),
            ("vm_id", &identity.vm_id),
            ("vm_scale_set", &identity.scale_set),
            ("vm_size", &identity.vm_size),
            ("location", &identity.location),
            ("resource_group", &identity.resource_group),
            ("subscription_id", &identity.subscription_id),
        ]
        .map(|(name, value)| (name, label_value(value)));
        family::numbers(backend, &catalog::VM_INFO, [(labels, true)])
    }

    fn alert_and_approval_counters(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let outputs = &self.snapshot.outputs;
        let pushes = &outputs.pushes;
        family::number(backend, &catalog::ALERT_PUSH_FAILURES, pushes.failures)?;
        family::number(backend, &catalog::ALERT_PUSHES, pushes.pushes)?;
        let approvals = outputs.approvals.iter();
        let approvals = approvals.map(|((event_type, result), count)| {
            let result = ("result", result.as_str().into());
            ([type_label(event_type), result], *count)
        });
        family::numbers(backend, &catalog::APPROVALS, approvals)
    }

    fn state_metrics(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let outputs = &self.snapshot.outputs;
        let spools = [Some(&outputs.spans), outputs.log_records.as_ref()];
        let failures: u64 = spools
            .iter()
            .flatten()
            .map(|counts| counts.write_failures)
            .sum();
        let failures = outputs.state_write_failures + failures;
        family::number(backend, &catalog::STATE_WRITE_FAILURES, failures)
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
    let reasons = counts.dropped.iter();
    let reasons = reasons.map(|(reason, count)| (reason_label(reason.as_str()), *count));
    family::numbers(backend, dropped, reasons)?;
    family::number(backend, exported, counts.exported)?;
    family::number(backend, spooled, counts.spooled as f64)
}

fn export_failures(
    backend: &mut Backend<'_>,
    metric: &Metric,
    counts: &ExportCounts,
) -> fmt::Result {
    let reasons = counts.failures.iter();
    let reasons = reasons.map(|(reason, count)| (reason_label(reason.as_str()), *count));
    family::numbers(backend, metric, reasons)
}

fn by_type(
    backend: &mut Backend<'_>,
    metric: &Metric,
    histograms: &BTreeMap<TypeLabel, Histogram>,
) -> fmt::Result {
    let histograms = histograms.iter();
    let histograms =
        histograms.map(|(event_type, histogram)| ([type_label(event_type)], histogram));
    family::histograms(backend, metric, histograms)
}

fn build_info(backend: &mut Backend<'_>) -> fmt::Result {
    let labels = [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("revision", env!("BUILD_REVISION").into()),
        ("rustc", env!("BUILD_RUSTC").into()),
    ];
    family::numbers(backend, &catalog::BUILD_INFO, [(labels, true)])
}

fn type_label(event_type: &TypeLabel) -> Label<'_> {
    ("event_type", event_type.as_str().into())
}

fn scope_label(scope: EventScope) -> Label<'static> {
    ("scope", scope.as_str().into())
}

fn reason_label(reason: &str) -> [Label<'_>; 1] {
    [("reason", reason.into())]
}
