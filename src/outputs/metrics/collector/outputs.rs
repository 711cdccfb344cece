//! What the outputs count: exports, pushes, approvals and failed writes.

use super::{by_text, type_label};
use crate::{
    core::snapshot::{ExportCounts, OutputCounters},
    outputs::metrics::{
        catalog::{self, Metric},
        family::Family,
    },
};

pub(super) fn families(outputs: &OutputCounters) -> Vec<Family<'_>> {
    let pushes = &outputs.pushes;
    let approvals = outputs.approvals.iter();
    let approvals = approvals.map(|((event_type, result), count)| {
        let result = ("result", result.as_str().into());
        ([type_label(event_type), result], *count)
    });
    let receivers = outputs.receivers.iter();
    let receivers = receivers.map(|(name, is_up)| ([("receiver", name.into())], *is_up));
    let spools = [Some(&outputs.spans), outputs.log_records.as_ref()];
    let spools = spools.into_iter().flatten();
    let write_failures: u64 = spools.map(|counts| counts.write_failures).sum();
    let write_failures = outputs.state_write_failures + write_failures;
    let signals = [
        ("traces", Some(&outputs.spans)),
        ("logs", outputs.log_records.as_ref()),
        ("metrics", outputs.metrics.as_ref()),
    ];
    let signals = signals
        .into_iter()
        .filter_map(|(signal, counts)| Some(([("receiver", signal.into())], counts?.is_up?)));
    let receivers = receivers.chain(signals);
    let mut families = vec![
        Family::single(&catalog::ALERT_PUSH_FAILURES, Some(pushes.failures)),
        Family::single(&catalog::ALERT_PUSHES, Some(pushes.pushes)),
        Family::new(&catalog::APPROVALS, approvals),
        Family::new(&catalog::RECEIVER_UP, receivers),
        Family::single(&catalog::STATE_WRITE_FAILURES, Some(write_failures)),
        Family::single(
            &catalog::TEXTFILE_WRITE_FAILURES,
            Some(outputs.textfile_write_failures),
        ),
    ];
    families.extend(exports(&SPAN_METRICS, &outputs.spans));
    if let Some(counts) = &outputs.log_records {
        families.extend(exports(&LOG_RECORD_METRICS, counts));
    }
    if let Some(counts) = &outputs.metrics {
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
