//! Every metric once: its name exactly as it is on the wire, its type, its unit, its labels and its help.
//!
//! The exposition is made from this table, and the README, the dashboards and the rules are checked against it.

use prometheus_client::{metrics::MetricType, registry::Unit};

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its full name, as scraped (for a histogram without `_bucket`, `_sum` and `_count`).
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// One sentence or two.
    pub help: &'static str,
}

/// The types that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Kind {
    pub(super) fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

impl Metric {
    /// The name without what the encoder adds for type and unit, and the unit.
    pub(super) fn stem_and_unit(&self) -> (&'static str, Option<&'static Unit>) {
        let base = self.name.strip_suffix("_total").unwrap_or(self.name);
        let units = [("_seconds", &Unit::Seconds), ("_bytes", &Unit::Bytes)];
        units
            .into_iter()
            .find_map(|(suffix, unit)| Some((base.strip_suffix(suffix)?, Some(unit))))
            .unwrap_or((base, None))
    }
}

/// Labels of every series of one event.
macro_rules! event_labels {
    ($($more:literal),*) => { &["event_id", "event_type", "event_source", "scope" $(, $more)*] };
}

macro_rules! catalog {
    ($($constant:ident = $name:literal, $kind:ident, $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric { name: $name, kind: Kind::$kind, labels: $labels, help: $help };
        )*
        /// All of them, in the order of their names.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

catalog! {
    EVENT_DURATION = "azure_scheduled_event_duration_seconds", Gauge, event_labels!(),
        "Announced length of the interruption (DurationInSeconds). 0 is no interruption; absent when Azure does not know it.";
    EVENT_ENDED = "azure_scheduled_event_ended_timestamp_seconds", Gauge, event_labels!("outcome"),
        "When the event was found to be gone, as Unix time, and what became of it: completed, cancelled or unknown.";
    EVENT_FIRST_SEEN = "azure_scheduled_event_first_seen_timestamp_seconds", Gauge, event_labels!(),
        "When this exporter saw the event first, as Unix time.";
    EVENT_INFO = "azure_scheduled_event_info", Gauge, event_labels!("resource_type", "description"),
        "1 for each event that is pending or ended lately, with what Azure says about it.";
    EVENT_COUNTDOWN = "azure_scheduled_event_not_before_countdown_seconds", Gauge, event_labels!(),
        "Time until NotBefore, computed at the scrape. Negative when overdue, 0 once started; absent without a NotBefore and after the end.";
    EVENT_NOT_BEFORE = "azure_scheduled_event_not_before_timestamp_seconds", Gauge, event_labels!(),
        "The event will not start before this Unix time unless it is approved. Absent where Azure never gave one.";
    EVENT_OBSERVED_INTERRUPTION = "azure_scheduled_event_observed_interruption_seconds", Gauge, event_labels!(),
        "How long this VM stood still under the event, at the longest, as measured by this exporter. Absent until measured.";
    EVENT_RESOURCE_INFO = "azure_scheduled_event_resource_info", Gauge, &["event_id", "resource"],
        "1 for each VM that an event names. Only with --metrics.resources.";
    EVENT_RESOURCES = "azure_scheduled_event_resources", Gauge, event_labels!(),
        "Number of VMs that the event names.";
    EVENT_STARTED = "azure_scheduled_event_started_timestamp_seconds", Gauge, event_labels!(),
        "When this exporter saw the event as started first, as Unix time.";
    EVENT_STATUS = "azure_scheduled_event_status", Gauge, event_labels!("event_status"),
        "1 for the status that the event has, 0 for the others: Scheduled, Started, Ended.";
    ALERT_PUSH_FAILURES = "azure_scheduled_events_alert_push_failures_total", Counter, &[],
        "Pushes to an Alertmanager that failed.";
    ALERT_PUSHES = "azure_scheduled_events_alert_pushes_total", Counter, &[],
        "Pushes to an Alertmanager, failed ones included.";
    APPROVALS = "azure_scheduled_events_approvals_total", Counter, &["event_type", "result"],
        "Approvals by this exporter, and what came of them.";
    ANOMALIES = "azure_scheduled_events_document_anomalies_total", Counter, &["kind"],
        "Parts of documents that could not be read or are not as documented; each is counted when it appears.";
    INCARNATION = "azure_scheduled_events_document_incarnation", Gauge, &[],
        "DocumentIncarnation of the last good document. Changes with each change of the events, and may go back.";
    ENDED = "azure_scheduled_events_ended_total", Counter, &["event_type", "outcome"],
        "Events that ended, by what became of them.";
    BUILD_INFO = "azure_scheduled_events_exporter_build_info", Gauge, &["version", "revision", "rustc"],
        "1, with what this binary was built from.";
    IMDS_DURATION = "azure_scheduled_events_imds_request_duration_seconds", Histogram, &[],
        "How long requests to IMDS took.";
    IMDS_FAILURES = "azure_scheduled_events_imds_request_failures_total", Counter, &["reason"],
        "Requests to IMDS that failed, by reason.";
    IMDS_REQUESTS = "azure_scheduled_events_imds_requests_total", Counter, &[],
        "Requests to IMDS, failed ones included.";
    IMPACT = "azure_scheduled_events_impact_seconds", Histogram, &["event_type"],
        "Time from start to end of events, as seen here.";
    LAST_SUCCESS = "azure_scheduled_events_last_success_timestamp_seconds", Gauge, &[],
        "Unix time of the last successful poll.";
    LOG_LINES_DROPPED = "azure_scheduled_events_log_lines_dropped_total", Counter, &[],
        "Log lines that did not reach stderr because its reader is too slow or has stopped.";
    NOTICE = "azure_scheduled_events_notice_seconds", Histogram, &["event_type"],
        "Time from first sight to start of events, as seen here.";
    OBSERVED_INTERRUPTION = "azure_scheduled_events_observed_interruption_seconds", Histogram, &["event_type"],
        "Times in which this VM stood still under an event, as measured by this exporter.";
    OBSERVED = "azure_scheduled_events_observed_total", Counter, &["event_type", "scope"],
        "Events that were seen for the first time.";
    PENDING = "azure_scheduled_events_pending", Gauge, &["event_type", "scope"],
        "Events in the last good document: scheduled or started. Absent until there was one.";
    SPAN_EXPORT_FAILURES = "azure_scheduled_events_span_export_failures_total", Counter, &["reason"],
        "Attempts to export spans that failed, by reason.";
    SPANS_DROPPED = "azure_scheduled_events_spans_dropped_total", Counter, &["reason"],
        "Spans that will never be exported, by reason.";
    SPANS_EXPORTED = "azure_scheduled_events_spans_exported_total", Counter, &[],
        "Spans that a collector accepted.";
    SPANS_SPOOLED = "azure_scheduled_events_spans_spooled", Gauge, &[],
        "Spans that wait to be exported.";
    STATE_WRITE_FAILURES = "azure_scheduled_events_state_write_failures_total", Counter, &[],
        "Writes to the state directory that failed.";
    UP = "azure_scheduled_events_up", Gauge, &[],
        "1 if the last poll of the events succeeded.";
    VM_INFO = "azure_scheduled_events_vm_info", Gauge, &["vm_name", "vm_id", "vm_scale_set", "vm_size", "location"],
        "1, with who this VM is. Absent until instance metadata have said so.";
    PROCESS_CPU = "process_cpu_seconds_total", Counter, &[],
        "Total user and system CPU time spent in seconds.";
    PROCESS_MAX_FDS = "process_max_fds", Gauge, &[],
        "Maximum number of open file descriptors.";
    PROCESS_OPEN_FDS = "process_open_fds", Gauge, &[],
        "Number of open file descriptors.";
    PROCESS_RESIDENT_MEMORY = "process_resident_memory_bytes", Gauge, &[],
        "Resident memory size in bytes.";
    PROCESS_START_TIME = "process_start_time_seconds", Gauge, &[],
        "Start time of the process since unix epoch in seconds.";
    PROCESS_THREADS = "process_threads", Gauge, &[],
        "Number of OS threads in the process.";
    PROCESS_VIRTUAL_MEMORY = "process_virtual_memory_bytes", Gauge, &[],
        "Virtual memory size in bytes.";
    PROCESS_VIRTUAL_MEMORY_MAX = "process_virtual_memory_max_bytes", Gauge, &[],
        "Maximum amount of virtual memory available in bytes.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_unique_and_carry_type_and_unit() {
        assert!(
            ALL.is_sorted_by(|a, b| a.name < b.name),
            "in the order of their names"
        );
        for metric in ALL {
            assert_eq!(
                metric.kind == Kind::Counter,
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
            let snake = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(metric.name.chars().all(snake), "{}", metric.name);
            assert!(
                metric.labels.iter().all(|label| label.chars().all(snake)),
                "{}",
                metric.name
            );
        }
    }

    #[test]
    fn help_is_one_plain_line_that_ends_like_a_sentence() {
        for metric in ALL {
            let plain = !metric.help.contains(['\n', '\\', '"']);
            assert!(
                plain && metric.help.ends_with('.'),
                "{}: {}",
                metric.name,
                metric.help
            );
        }
    }
}
