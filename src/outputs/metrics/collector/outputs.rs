//! What the outputs count: exports, pushes, approvals and failed writes.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::{by_text, type_label};
use crate::{
    core::snapshot::Snapshot,
    outputs::{
        metrics::{
            Family,
            catalog::{self, Metric},
        },
        output_counters::{ExportCounts, OutputCounters},
    },
};

pub(super) fn families<'a>(snapshot: &'a Snapshot, outputs: &OutputCounters) -> Vec<Family<'a>> {
    let count = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed));
    let [spans, log_records, metrics] =
        [&outputs.spans, &outputs.log_records, &outputs.metrics].map(|it| it.get());
    let spans = spans.map_or_else(ExportCounts::default, |it| it.borrow().clone());
    let log_records = log_records.map(watch::Sender::borrow);
    let metrics = metrics.map(watch::Sender::borrow);
    let (log_records, metrics) = (log_records.as_deref(), metrics.as_deref());
    let pushes = outputs.pushes();
    let approvals = snapshot.counters.approvals.iter();
    let approvals = approvals.map(|((event_type, result), count)| {
        let result = ("result", result.as_str().into());
        ([type_label(event_type), result], *count)
    });
    let receivers = pushes.receivers.iter();
    let receivers = receivers.map(|(name, is_up)| ([("receiver", name.clone().into())], *is_up));
    let write_failures = snapshot.state_write_failures;
    let signals = [
        ("traces", Some(&spans)),
        ("logs", log_records),
        ("metrics", metrics),
    ];
    let signals = signals
        .into_iter()
        .filter_map(|(signal, counts)| Some(([("receiver", signal.into())], counts?.is_up?)));
    let receivers = receivers.chain(signals);
    let mut families = vec![
        Family::single(&catalog::ALERT_PUSH_FAILURES, Some(pushes.failures)),
        Family::single(&catalog::ALERT_PUSHES, Some(pushes.pushes)),
        Family::new(&catalog::APPROVALS, approvals),
        Family::single(
            &catalog::LOG_LINES_DROPPED,
            count(&outputs.dropped_log_lines),
        ),
        Family::new(&catalog::RECEIVER_UP, receivers),
        Family::single(&catalog::STATE_WRITE_FAILURES, Some(write_failures)),
        Family::single(
            &catalog::TEXTFILE_WRITE_FAILURES,
            count(&outputs.textfile_write_failures),
        ),
    ];
    families.extend(exports(&SPAN_METRICS, &spans));
    if let Some(counts) = log_records {
        families.extend(exports(&LOG_RECORD_METRICS, counts));
    }
    if let Some(counts) = metrics {
        let exported = Some(counts.exported);
        families.push(failures(&catalog::METRIC_EXPORT_FAILURES, counts));
        families.push(Family::single(&catalog::METRIC_POINTS_EXPORTED, exported));
    }
    families
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
    [failed, dropped, exported, spooled]: &ExportMetrics,
    counts: &ExportCounts,
) -> [Family<'static>; 4] {
    let reasons = counts.dropped.iter();
    let reasons = reasons.map(|(reason, count)| (reason.as_str(), *count));
    [
        failures(failed, counts),
        by_text(dropped, "reason", reasons),
        Family::single(exported, Some(counts.exported)),
        Family::single(spooled, Some(counts.spooled as f64)),
    ]
}

fn failures(metric: &'static Metric, counts: &ExportCounts) -> Family<'static> {
    let reasons = counts.failures.iter();
    let reasons = reasons.map(|(reason, count)| (reason.as_str(), *count));
    by_text(metric, "reason", reasons)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        base::time::{Moment, Timestamp},
        core::snapshot::SeriesScope,
        outputs::metrics::{MetricsOptions, exposition::Format, render},
    };

    #[test]
    fn what_an_output_counts_is_shown_without_a_new_snapshot() {
        let now = Moment::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        let snapshot = Arc::new(Snapshot::empty(None, now));
        let counters = Arc::new(OutputCounters::default());
        let options = MetricsOptions {
            scope: SeriesScope::Own,
            resources: false,
            process: false,
        };
        let scrape = || render(&snapshot, Format::Text, options, &counters, now).unwrap();
        let has = |sample: &str| {
            let sample = format!("\nazure_scheduled_events_{sample}\n");
            scrape().contains(&sample)
        };
        assert!(has("alert_pushes_total 0") && has("spans_exported_total 0"));
        assert!(has("textfile_write_failures_total 0"));
        assert!(!scrape().contains("events_log_records_"));

        let receiver = "http://alertmanager:9093".to_owned();
        counters.pushes().pushes += 1;
        counters.pushes().receivers.insert(receiver, true);
        let counts = ExportCounts {
            exported: 3,
            is_up: Some(false),
            ..ExportCounts::default()
        };
        counters
            .log_records
            .get_or_init(|| watch::Sender::new(counts));
        assert!(has("alert_pushes_total 1") && has("log_records_exported_total 3"));
        assert!(has(r#"receiver_up{receiver="http://alertmanager:9093"} 1"#));
        assert!(has(r#"receiver_up{receiver="logs"} 0"#));
    }
}
