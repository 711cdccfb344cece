//! What the outputs count: exports, pushes, approvals and failed writes.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{by_text, type_label};
use crate::{
    core::snapshot::Snapshot,
    outputs::{
        metrics::{Family, catalog},
        otlp::Signal,
        output_counters::{ExportCounts, OutputCounters},
    },
};

pub(super) fn families<'a>(snapshot: &'a Snapshot, outputs: &OutputCounters) -> Vec<Family<'a>> {
    let count = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed));
    let exports = outputs.exports();
    let mut exports: BTreeMap<_, _> = exports
        .iter()
        .map(|(signal, counts)| (*signal, counts.borrow().clone()))
        .collect();
    let pushes = outputs.pushes();
    let approvals = snapshot.counters.approvals.iter();
    let approvals = approvals.map(|((event_type, result), count)| {
        let result = ("result", result.as_str().into());
        ([type_label(event_type), result], *count)
    });
    let receivers = pushes.receivers.iter();
    let receivers = receivers.map(|(name, is_up)| (name.clone().into(), *is_up));
    let signals = exports.iter();
    let signals =
        signals.filter_map(|(signal, counts)| Some((signal.name().into(), counts.is_up?)));
    let receivers = receivers.chain(signals);
    let receivers = receivers.map(|(name, is_up)| ([("receiver", name)], is_up));
    let write_failures = snapshot.state_write_failures;
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
    // Zeros while no spans are exported.
    exports.entry(Signal::Traces).or_default();
    families.extend(exports.iter().flat_map(|(signal, it)| export(*signal, it)));
    families
}

fn export<'a>(signal: Signal, counts: &ExportCounts) -> Vec<Family<'a>> {
    let (failed, exported, of_journal) = match signal {
        Signal::Traces => (
            &catalog::SPAN_EXPORT_FAILURES,
            &catalog::SPANS_EXPORTED,
            Some((&catalog::SPANS_DROPPED, &catalog::SPANS_SPOOLED)),
        ),
        Signal::Logs => (
            &catalog::LOG_RECORD_EXPORT_FAILURES,
            &catalog::LOG_RECORDS_EXPORTED,
            Some((&catalog::LOG_RECORDS_DROPPED, &catalog::LOG_RECORDS_SPOOLED)),
        ),
        Signal::Metrics => (
            &catalog::METRIC_EXPORT_FAILURES,
            &catalog::METRIC_POINTS_EXPORTED,
            None,
        ),
    };
    let failures = counts.failures.iter();
    let failures = failures.map(|(reason, count)| (reason.as_str(), *count));
    let mut families = vec![
        by_text(failed, "reason", failures),
        Family::single(exported, Some(counts.exported)),
    ];
    if let Some((dropped, spooled)) = of_journal {
        let reasons = counts.dropped.iter();
        let reasons = reasons.map(|(reason, count)| (reason.as_str(), *count));
        families.push(by_text(dropped, "reason", reasons));
        families.push(Family::single(spooled, Some(counts.spooled as f64)));
    }
    families
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::sync::watch;

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
            .exports()
            .insert(Signal::Logs, watch::Sender::new(counts));
        assert!(has("alert_pushes_total 1") && has("log_records_exported_total 3"));
        assert!(has(r#"receiver_up{receiver="http://alertmanager:9093"} 1"#));
        assert!(has(r#"receiver_up{receiver="logs"} 0"#));
    }
}
