//! The catalog of all metrics: names, types, labels and help texts.
//!
//! The exposition uses this table. Tests check the README, the dashboards and the rules against it.

use prometheus_client::registry::Unit;

pub use prometheus_client::metrics::MetricType;

#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name as scraped. That of a histogram has no `_bucket`, `_sum` or `_count`.
    pub name: &'static str,
    pub kind: MetricType,
    /// In UCUM (<https://ucum.org>), with annotations for what is counted. Empty for a state, a number that counts
    /// nothing, and 1: receivers of OTLP append `_ratio` to the name of a gauge with the unit `1`.
    pub unit: &'static str,
    /// In the order of the exposition.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Metric {
    /// The name without the suffixes that the text encoder and receivers of OTLP add, and the unit.
    pub fn stem_and_unit(&self) -> (&'static str, Option<&'static Unit>) {
        let base = self.name.strip_suffix("_total").unwrap_or(self.name);
        let units = [("_seconds", &Unit::Seconds), ("_bytes", &Unit::Bytes)];
        units
            .into_iter()
            .find_map(|(suffix, unit)| Some((base.strip_suffix(suffix)?, Some(unit))))
            .unwrap_or((base, None))
    }
}

/// Labels of all series of an event.
macro_rules! event_labels {
    ($($more:literal),*) => { &["event_id", "event_type", "event_source", "scope" $(, $more)*] };
}

macro_rules! catalog {
    ($($constant:ident = $name:literal, $kind:ident, $unit:literal, $labels:expr, $help:literal;)*) => {
        $(
            pub(in crate::outputs) const $constant: Metric =
                Metric { name: $name, kind: MetricType::$kind, unit: $unit, labels: $labels, help: $help };
        )*
        /// All metrics, in the order of their names.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

catalog! {
    EVENT_ALERT = "azure_scheduled_event_alert", Gauge, "", &["event_id", "event_type", "event_source", "alert", "severity", "owner"],
        "1 if an event of this VM has this alert, from its first moment until ten minutes after the end of the event. 0 if the alert no longer applies: the event changed, has started, or has ended, or the VM has another owner.";
    EVENT_DURATION = "azure_scheduled_event_duration_seconds", Gauge, "s", event_labels!(),
        "Announced length of the interruption (DurationInSeconds). 0 with a Freeze means no interruption; absent if unknown to Azure.";
    EVENT_ENDED = "azure_scheduled_event_ended_timestamp_seconds", Gauge, "s", event_labels!("outcome"),
        "Unix time when the event was no longer in the document. The outcome is completed, cancelled or unknown.";
    EVENT_FIRST_SEEN = "azure_scheduled_event_first_seen_timestamp_seconds", Gauge, "s", event_labels!(),
        "Unix time when this exporter first saw the event.";
    EVENT_INFO = "azure_scheduled_event_info", Gauge, "", event_labels!("resource_type", "description"),
        "1 for each pending or recently ended event, with its properties as labels.";
    EVENT_MESSAGE = "azure_scheduled_event_message", Gauge, "", &["event_id", "summary", "description"],
        "Unix time since when these are the words about an event of this VM. At most 1,000 bytes each; times are UTC.";
    EVENT_COUNTDOWN = "azure_scheduled_event_not_before_countdown_seconds", Gauge, "s", event_labels!(),
        "Time until NotBefore at the time of the scrape. Negative if overdue, 0 after the start; absent without a NotBefore and after the end.";
    EVENT_NOT_BEFORE = "azure_scheduled_event_not_before_timestamp_seconds", Gauge, "s", event_labels!(),
        "Unix time before which the event does not start unless it is approved. Absent if Azure never announced one.";
    EVENT_OBSERVED_INTERRUPTION = "azure_scheduled_event_observed_interruption_seconds", Gauge, "s", event_labels!(),
        "Longest interruption of this VM during the event, as measured by this exporter. Absent until measured.";
    EVENT_OPEN = "azure_scheduled_event_open", Gauge, "", &["event_id"],
        "1 if the last document lists the event of this VM, 0 if a document no longer does, or no longer names this VM. Absent if that is not known, as after a failed poll.";
    EVENT_PRIORITY = "azure_scheduled_event_priority", Gauge, "", &["event_id", "event_type", "vm_name", "vm_scale_set", "owner"],
        "Order of the open events of this VM, without advisories, highest first: started ones, those within the hour by severity, the others by time. 0 after the end.";
    EVENT_RESOURCE_INFO = "azure_scheduled_event_resource_info", Gauge, "", &["event_id", "resource"],
        "1 for each VM that an event names. Requires --metrics.resources.";
    EVENT_RESOURCES = "azure_scheduled_event_resources", Gauge, "{vm}", event_labels!(),
        "Number of VMs that the event names.";
    EVENT_STARTED = "azure_scheduled_event_started_timestamp_seconds", Gauge, "s", event_labels!(),
        "Unix time when this exporter first saw the event as started.";
    EVENT_STATUS = "azure_scheduled_event_status", Gauge, "", event_labels!("event_status"),
        "1 for the current status of the event, 0 for the others: Scheduled, Started, Ended.";
    ADVISORIES = "azure_scheduled_events_advisories", Gauge, "{event}", &["event_type", "scope"],
        "Advisories in the last valid document: advice such as a Spot rebalance recommendation, not maintenance. Absent before the first one.";
    ALERT_ENDS_DROPPED = "azure_scheduled_events_alert_ends_dropped_total", Counter, "{event}", &[],
        "Ended events of this VM beyond the 1,000 that are kept. The end of their alerts is not pushed any more.";
    ALERT_PUSH_FAILURES = "azure_scheduled_events_alert_push_failures_total", Counter, "{push}", &[],
        "Failed pushes to an Alertmanager.";
    ALERT_PUSHES = "azure_scheduled_events_alert_pushes_total", Counter, "{push}", &[],
        "Pushes to an Alertmanager, including failed ones.";
    APPROVALS = "azure_scheduled_events_approvals_total", Counter, "{approval}", &["event_type", "result"],
        "Approvals sent by this exporter, by result.";
    ANOMALIES = "azure_scheduled_events_document_anomalies_total", Counter, "{anomaly}", &["kind"],
        "Parts of documents that could not be read or are not as documented. Each is counted once when it appears.";
    INCARNATION = "azure_scheduled_events_document_incarnation", Gauge, "", &[],
        "DocumentIncarnation of the last valid document. Changes with each change of the events and may decrease.";
    ENDED = "azure_scheduled_events_ended_total", Counter, "{event}", &["event_type", "outcome"],
        "Events that ended, by outcome.";
    BUILD_INFO = "azure_scheduled_events_exporter_build_info", Gauge, "", &["version", "revision", "rustc"],
        "1, with the version, revision and compiler of this binary as labels.";
    IMDS_DURATION = "azure_scheduled_events_imds_request_duration_seconds", Histogram, "s", &[],
        "Duration of requests to IMDS.";
    IMDS_FAILURES = "azure_scheduled_events_imds_request_failures_total", Counter, "{request}", &["reason"],
        "Failed requests to IMDS, by reason.";
    IMDS_REQUESTS = "azure_scheduled_events_imds_requests_total", Counter, "{request}", &[],
        "Requests to IMDS, including failed ones.";
    IMPACT = "azure_scheduled_events_impact_seconds", Histogram, "s", &["event_type"],
        "Time from the start to the end of events, as observed by this exporter.";
    LAST_SUCCESS = "azure_scheduled_events_last_success_timestamp_seconds", Gauge, "s", &[],
        "Unix time of the last successful poll, also of one before a restart of the exporter.";
    LOG_LINES_DROPPED = "azure_scheduled_events_log_lines_dropped_total", Counter, "{line}", &[],
        "Log lines that did not reach stderr because its reader is too slow or has stopped.";
    LOG_RECORD_EXPORT_FAILURES = "azure_scheduled_events_log_record_export_failures_total", Counter, "{attempt}", &["reason"],
        "Failed attempts to export log records, by reason. Absent if none are exported.";
    LOG_RECORDS_DROPPED = "azure_scheduled_events_log_records_dropped_total", Counter, "{log_record}", &["reason"],
        "Log records that will never be exported, by reason. Absent if none are exported.";
    LOG_RECORDS_EXPORTED = "azure_scheduled_events_log_records_exported_total", Counter, "{log_record}", &[],
        "Log records accepted by a collector. Absent if none are exported.";
    LOG_RECORDS_SPOOLED = "azure_scheduled_events_log_records_spooled", Gauge, "{log_record}", &[],
        "Log records waiting to be exported. Absent if none are exported.";
    METRIC_EXPORT_FAILURES = "azure_scheduled_events_metric_export_failures_total", Counter, "{attempt}", &["reason"],
        "Failed attempts to export the metrics over OTLP, by reason. Absent if they are not exported.";
    METRIC_POINTS_EXPORTED = "azure_scheduled_events_metric_points_exported_total", Counter, "{data_point}", &[],
        "Data points accepted by a collector. Absent if the metrics are not exported over OTLP.";
    NOTICE = "azure_scheduled_events_notice_seconds", Histogram, "s", &["event_type"],
        "Time from the first observation to the start of events, as observed by this exporter.";
    OBSERVED_INTERRUPTION = "azure_scheduled_events_observed_interruption_seconds", Histogram, "s", &["event_type"],
        "Interruptions of this VM during events, as measured by this exporter.";
    OBSERVED = "azure_scheduled_events_observed_total", Counter, "{event}", &["event_type", "scope"],
        "Events seen for the first time.";
    PENDING = "azure_scheduled_events_pending", Gauge, "{event}", &["event_type", "scope"],
        "Scheduled and started events in the last valid document. Absent before the first one, and after an hour without one.";
    PHYSICAL_HOST_INFO = "azure_scheduled_events_physical_host_info", Gauge, "", &["physical_host"],
        "1, with the name of the physical host of this VM as a label, as Hyper-V tells the VM. Absent if it does not.";
    RECEIVER_UP = "azure_scheduled_events_receiver_up", Gauge, "", &["receiver"],
        "1 if the receiver answered the last request, also to refuse its content, and the empty one at the start. The label is a signal of OTLP (traces, logs, metrics) or the URL of an Alertmanager, with a number where several have the same.";
    SPAN_EXPORT_FAILURES = "azure_scheduled_events_span_export_failures_total", Counter, "{attempt}", &["reason"],
        "Failed attempts to export spans, by reason.";
    SPANS_DROPPED = "azure_scheduled_events_spans_dropped_total", Counter, "{span}", &["reason"],
        "Spans that will never be exported, by reason.";
    SPANS_EXPORTED = "azure_scheduled_events_spans_exported_total", Counter, "{span}", &[],
        "Spans accepted by a collector.";
    SPANS_SPOOLED = "azure_scheduled_events_spans_spooled", Gauge, "{span}", &[],
        "Spans waiting to be exported.";
    STATE_WRITE_FAILURES = "azure_scheduled_events_state_write_failures_total", Counter, "{write}", &[],
        "Failed writes to the state directory.";
    TEXTFILE_WRITE_FAILURES = "azure_scheduled_events_textfile_write_failures_total", Counter, "{write}", &[],
        "Failed writes of the file of --textfile.path.";
    UNANNOUNCED = "azure_scheduled_events_unannounced_interruption_seconds", Histogram, "s", &[],
        "Interruptions of this VM of a second or more while no event of it was pending, as measured by this exporter: each is short by up to one poll interval.";
    UP = "azure_scheduled_events_up", Gauge, "", &[],
        "1 if the last poll of the events succeeded, and the next one is not overdue by more than 30 seconds.";
    VM_INFO = "azure_scheduled_events_vm_info", Gauge, "", &["vm_name", "computer_name", "vm_id", "vm_scale_set", "vm_size", "location", "zone", "resource_group", "subscription_id", "owner"],
        "1, with the identity of this VM as labels; owner only with --vm.owner-tag. Absent until the instance metadata has been read.";
    VM_NAME_MISMATCH = "azure_scheduled_events_vm_name_mismatch", Gauge, "", &[],
        "1 if --vm.name differs from the name in instance metadata: nothing is approved. Absent until they have been read.";
    WARMING_UP = "azure_scheduled_events_warming_up", Gauge, "", &[],
        "1 until five minutes after the first successful poll and after each re-enabling of Scheduled Events: events may not have appeared yet.";
    PROCESS_CPU = "process_cpu_seconds_total", Counter, "s", &[],
        "Total user and system CPU time spent in seconds.";
    PROCESS_MAX_FDS = "process_max_fds", Gauge, "{file_descriptor}", &[],
        "Maximum number of open file descriptors.";
    PROCESS_OPEN_FDS = "process_open_fds", Gauge, "{file_descriptor}", &[],
        "Number of open file descriptors.";
    PROCESS_RESIDENT_MEMORY = "process_resident_memory_bytes", Gauge, "By", &[],
        "Resident memory size in bytes.";
    PROCESS_START_TIME = "process_start_time_seconds", Gauge, "s", &[],
        "Start time of the process since unix epoch in seconds.";
    PROCESS_THREADS = "process_threads", Gauge, "{thread}", &[],
        "Number of OS threads in the process.";
    PROCESS_VIRTUAL_MEMORY = "process_virtual_memory_bytes", Gauge, "By", &[],
        "Virtual memory size in bytes.";
    PROCESS_VIRTUAL_MEMORY_MAX = "process_virtual_memory_max_bytes", Gauge, "By", &[],
        "Maximum amount of virtual memory available in bytes.";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver of OTLP adds the suffixes again (`otlptranslator` of Prometheus).
    #[test]
    fn names_are_sorted_unique_and_carry_type_and_unit() {
        assert!(ALL.is_sorted_by(|a, b| a.name < b.name));
        let mut stems = std::collections::BTreeSet::new();
        for metric in ALL {
            let name = metric.name;
            let is_counter = metric.kind == MetricType::Counter;
            assert_eq!(is_counter, name.ends_with("_total"), "{name}");
            let is_snake = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(is_snake(name), "{name}");
            assert!(metric.labels.iter().all(|it| is_snake(it)), "{name}");
            let (stem, unit) = metric.stem_and_unit();
            assert!(stems.insert(stem), "{stem}");
            let suffix = match metric.unit {
                "s" => Some("seconds"),
                "By" => Some("bytes"),
                other => {
                    let is_annotation = other.starts_with('{') && other.ends_with('}');
                    assert!(other.is_empty() || is_annotation, "{name}");
                    None
                }
            };
            assert_eq!(unit.map(Unit::as_str), suffix, "{name}");
        }
    }

    #[test]
    fn help_is_one_line_without_escapes() {
        for Metric { name, help, .. } in ALL {
            let is_plain = !help.contains(['\n', '\\', '"']);
            assert!(is_plain && help.ends_with('.'), "{name}: {help}");
        }
    }
}
