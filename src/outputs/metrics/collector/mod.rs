//! The samples of a snapshot, those of each event in [`events`], and what the outputs count.

mod events;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics_process::collector::collect;

use super::{
    Family, MetricsOptions, SampleValue,
    catalog::{self, Metric},
};
use crate::{
    azure::event::{EventScope, EventType},
    base::{
        text::label_value,
        time::{Moment, Timestamp},
    },
    core::{
        lifecycle::TrackedEvent,
        snapshot::{Snapshot, TypeLabel},
    },
    outputs::{
        otlp::Signal,
        output_counters::{ExportCounts, OutputCounters},
    },
};

pub(super) type Write<'w> = dyn FnMut(Family<'_>) -> fmt::Result + 'w;

#[derive(Debug)]
pub struct Scrape {
    pub snapshot: Arc<Snapshot>,
    pub options: MetricsOptions,
    pub outputs: Arc<OutputCounters>,
    pub now: Moment,
}

impl Scrape {
    /// In the order of the catalog. There may be thousands of events: their families are written one by one.
    pub(in crate::outputs) fn write(&self, write: &mut Write<'_>) -> fmt::Result {
        events::write(&self.snapshot, self.options, self.now, write)?;
        let mut families: Vec<_> = self.polling().into_iter().chain(self.events()).collect();
        families.extend(self.outputs());
        if self.options.process {
            families.extend(process());
        }
        families.sort_unstable_by_key(|family| family.metric.name);
        families.into_iter().try_for_each(write)
    }

    fn polling(&self) -> [Family<'_>; 10] {
        let (poll, requests) = (&self.snapshot.poll, &self.snapshot.requests);
        let incarnation = poll.incarnation().map(SampleValue::Int);
        let last_success = poll.last_success_at().map(Timestamp::as_unix_seconds);
        let is_mismatch = self.snapshot.identity.as_ref();
        let is_mismatch = is_mismatch.map(|_| self.snapshot.other_vm_name().is_some());
        let is_warming_up = poll.is_warming_up(self.now);
        let host = self.snapshot.physical_host.as_deref();
        let host = host.map(|host| ([label_value(host)], true));
        [
            Family::single(&catalog::INCARNATION, incarnation),
            Family::single(&catalog::IMDS_DURATION, Some(&requests.duration)),
            keyed(&catalog::IMDS_FAILURES, &requests.failures, |it| {
                [it.as_str()]
            }),
            Family::single(&catalog::IMDS_REQUESTS, Some(requests.requests)),
            Family::single(&catalog::LAST_SUCCESS, last_success),
            Family::new(&catalog::PHYSICAL_HOST_INFO, host),
            Family::single(&catalog::UP, Some(poll.is_up(self.now))),
            self.vm_info(),
            Family::single(&catalog::VM_NAME_MISMATCH, is_mismatch),
            Family::single(&catalog::WARMING_UP, Some(is_warming_up)),
        ]
    }

    fn events(&self) -> [Family<'_>; 9] {
        let counters = &self.snapshot.counters;
        let (advisories, pending) = (self.snapshot.advisories(), self.snapshot.pending());
        [
            self.by_type_and_scope(&catalog::ADVISORIES, &EventType::ADVISORIES, advisories),
            keyed(&catalog::ANOMALIES, &counters.anomalies, |it| [it.as_str()]),
            keyed(&catalog::ENDED, &counters.ended, |(it, outcome)| {
                [it.as_str(), outcome.as_str()]
            }),
            keyed(&catalog::IMPACT, &counters.impact, |it| [it.as_str()]),
            keyed(&catalog::NOTICE, &counters.notice, |it| [it.as_str()]),
            keyed(
                &catalog::OBSERVED_INTERRUPTION,
                &counters.interruption,
                |it| [it.as_str()],
            ),
            keyed(&catalog::OBSERVED, &counters.observed, |(it, scope)| {
                [it.as_str(), scope.as_str()]
            }),
            self.by_type_and_scope(&catalog::PENDING, &EventType::KNOWN, pending),
            Family::single(&catalog::UNANNOUNCED, Some(&counters.unannounced)),
        ]
    }

    fn outputs(&self) -> Vec<Family<'_>> {
        let (snapshot, outputs) = (&self.snapshot, &self.outputs);
        let count = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed));
        let exports = outputs.exports.lock();
        let mut exports: BTreeMap<_, _> = exports
            .iter()
            .map(|(signal, counts)| (*signal, counts.borrow().clone()))
            .collect();
        let pushes = outputs.pushes.lock();
        let receivers = pushes.receivers.iter();
        let receivers = receivers.map(|(name, is_up)| ([name.clone().into()], *is_up));
        let signals = exports.iter();
        let signals =
            signals.filter_map(|(it, counts)| Some(([it.as_str().into()], counts.is_up?)));
        let receivers = receivers.chain(signals);
        let write_failures = snapshot.state_write_failures;
        let textfile_failures = count(&outputs.textfile_write_failures);
        let log_lines = count(&outputs.dropped_log_lines);
        let mut families = vec![
            Family::single(&catalog::ALERT_ENDS_DROPPED, Some(snapshot.dropped_ends)),
            Family::single(&catalog::ALERT_PUSH_FAILURES, Some(pushes.failures)),
            Family::single(&catalog::ALERT_PUSHES, Some(pushes.pushes)),
            keyed(
                &catalog::APPROVALS,
                &snapshot.counters.approvals,
                |(it, result)| [it.as_str(), result.as_str()],
            ),
            Family::single(&catalog::LOG_LINES_DROPPED, log_lines),
            Family::new(&catalog::RECEIVER_UP, receivers),
            Family::single(&catalog::STATE_WRITE_FAILURES, Some(write_failures)),
            Family::single(&catalog::TEXTFILE_WRITE_FAILURES, textfile_failures),
        ];
        // Zeros while no spans are exported.
        exports.entry(Signal::Traces).or_default();
        families.extend(exports.iter().flat_map(|(signal, it)| export(*signal, it)));
        families
    }

    /// The number of events, from zero for the known types. Absent before the first document, and while the last one is
    /// too old: a zero would state that there is no event.
    fn by_type_and_scope<'a>(
        &self,
        metric: &'static Metric,
        known: &[EventType],
        events: impl Iterator<Item = &'a TrackedEvent>,
    ) -> Family<'static> {
        if !self.snapshot.knows_events(self.now) {
            return Family::single(metric, None::<u64>);
        }
        // An entry that could not be read may be an event of any type, and while the name of this VM is unknown, each
        // event may be its own: then no zero is known.
        let is_complete = self.snapshot.poll.unreadable_entries == 0;
        let has_name = self.snapshot.vm_name.is_some();
        let known = if is_complete && has_name { known } else { &[] };
        let known = known.iter().map(TypeLabel::from);
        let zeros = known.flat_map(|label| {
            [EventScope::Own, EventScope::Other].map(|scope| ((label.clone(), scope), 0_u64))
        });
        let mut counts: BTreeMap<_, _> = zeros.collect();
        for tracked in events {
            let event_type = TypeLabel::from(&tracked.shown.event_type);
            *counts.entry((event_type, tracked.scope)).or_default() += 1;
        }
        let counts = counts.into_iter().map(|((event_type, scope), count)| {
            let event_type = event_type.as_str().to_owned();
            ([event_type.into(), scope.as_str().into()], count)
        });
        Family::new(metric, counts)
    }

    fn vm_info(&self) -> Family<'_> {
        let vm_name = self.snapshot.vm_name.as_deref();
        let info = self.snapshot.identity.as_ref().map(|identity| {
            let values = [
                vm_name.unwrap_or(&identity.name),
                &*identity.computer_name,
                &identity.vm_id,
                &identity.scale_set,
                &identity.vm_size,
                &identity.location,
                &identity.zone,
                &identity.resource_group,
                &identity.subscription_id,
            ];
            let owner = self.snapshot.owner.as_deref();
            (values.into_iter().chain(owner).map(label_value), true)
        });
        Family::new(&catalog::VM_INFO, info)
    }
}

/// A sample for each key, which has the values of the labels.
fn keyed<'a, 'm, const N: usize, K, V>(
    metric: &'static Metric,
    samples: &'m BTreeMap<K, V>,
    labels: impl Fn(&'m K) -> [&'a str; N],
) -> Family<'a>
where
    &'m V: Into<SampleValue<'a>>,
{
    let samples = samples.iter();
    let samples = samples.map(|(key, value)| (labels(key).map(Cow::from), value));
    Family::new(metric, samples)
}

fn process<'a>() -> impl Iterator<Item = Family<'a>> {
    let version = env!("CARGO_PKG_VERSION");
    let values = [version, env!("BUILD_REVISION"), env!("BUILD_RUSTC")];
    let build = Family::new(&catalog::BUILD_INFO, [(values.map(Cow::from), true)]);
    let process = collect();
    let cpu = Family::single(&catalog::PROCESS_CPU, process.cpu_seconds_total);
    let gauges = [
        (&catalog::PROCESS_MAX_FDS, process.max_fds),
        (&catalog::PROCESS_OPEN_FDS, process.open_fds),
        (
            &catalog::PROCESS_RESIDENT_MEMORY,
            process.resident_memory_bytes,
        ),
        (&catalog::PROCESS_START_TIME, process.start_time_seconds),
        (&catalog::PROCESS_THREADS, process.threads),
        (
            &catalog::PROCESS_VIRTUAL_MEMORY,
            process.virtual_memory_bytes,
        ),
        (
            &catalog::PROCESS_VIRTUAL_MEMORY_MAX,
            process.virtual_memory_max_bytes,
        ),
    ];
    let gauges = gauges.map(|(metric, value)| Family::single(metric, value.map(|it| it as f64)));
    [build, cpu].into_iter().chain(gauges)
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
    let mut families = vec![
        keyed(failed, &counts.failures, |it| [it.as_str()]),
        Family::single(exported, Some(counts.exported)),
    ];
    if let Some((dropped, spooled)) = of_journal {
        families.push(keyed(dropped, &counts.dropped, |it| [it.as_str()]));
        families.push(Family::single(spooled, Some(counts.spooled as f64)));
    }
    families
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::{core::snapshot::SeriesScope, outputs::metrics::exposition::Format};

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
        let scrape = || {
            Scrape {
                snapshot: Arc::clone(&snapshot),
                options,
                outputs: Arc::clone(&counters),
                now,
            }
            .text(Format::Text)
            .unwrap()
        };
        let has = |sample: &str| {
            let sample = format!("\nazure_scheduled_events_{sample}\n");
            scrape().contains(&sample)
        };
        assert!(has("alert_pushes_total 0") && has("spans_exported_total 0"));
        assert!(has("textfile_write_failures_total 0"));
        assert!(!scrape().contains("events_log_records_"));

        let receiver = "http://alertmanager:9093".to_owned();
        counters.pushes.lock().pushes += 1;
        counters.pushes.lock().receivers.insert(receiver, true);
        let counts = ExportCounts {
            exported: 3,
            is_up: Some(false),
            ..ExportCounts::default()
        };
        counters
            .exports
            .lock()
            .insert(Signal::Logs, watch::Sender::new(counts));
        assert!(has("alert_pushes_total 1") && has("log_records_exported_total 3"));
        assert!(has(r#"receiver_up{receiver="http://alertmanager:9093"} 1"#));
        assert!(has(r#"receiver_up{receiver="logs"} 0"#));
    }
}
