//! What the exporter sends: each output is started from its own settings, takes the changes of events where it sends
//! each of them, and returns its counters.

use std::{future::pending, path::PathBuf, sync::Arc};

use tokio::sync::watch;

use super::{state_writer::StateWriter, tasks::Tasks};
use crate::{
    base::{
        file::OsFilesystem,
        time::{Clock, Moment},
        worker::Worker,
    },
    core::{
        engine::{Changes, Input},
        snapshot::{ExportCounts, PushCounts, ReceiverStates, Snapshot},
    },
    outputs::{
        alertmanager::{AlertPusher, Target},
        otlp::{
            batch,
            sender::{self, Connection, RetryTiming, metrics::MetricSource},
            settings::{ExporterSettings, OtlpSettings},
            signal::Signal,
            spool::{Spool, SpoolHandle, SpoolLimits},
        },
        textfile::Textfile,
    },
    program::CommandError,
};

pub(super) struct Outputs {
    pub(super) otlp: Option<OtlpOutput>,
    pub(super) push_counts: watch::Receiver<PushCounts>,
    pub(super) receiver_states: watch::Receiver<ReceiverStates>,
    pub(super) textfile_failures: watch::Receiver<u64>,
}

impl Outputs {
    /// Sends the changes of events. Does not wait.
    pub(super) fn send(&self, changes: &Changes, now: Moment) {
        if let Some(otlp) = &self.otlp {
            otlp.send(changes, now);
        }
    }

    /// Waits until counters change.
    pub(super) async fn next_counts(&mut self) -> Input {
        let (spans, log_records, metrics) = match &mut self.otlp {
            Some(otlp) => (
                otlp.traces.as_mut().map(|it| &mut it.counts),
                otlp.logs.as_mut().map(|it| &mut it.counts),
                otlp.metric_counts.as_mut(),
            ),
            None => (None, None, None),
        };
        tokio::select! {
            biased;
            counts = changed(spans) => Input::SpanCounts(counts),
            counts = changed(log_records) => Input::LogRecordCounts(counts),
            counts = changed(metrics) => Input::MetricCounts(counts),
            counts = changed(Some(&mut self.push_counts)) => Input::PushCounts(counts),
            states = changed(Some(&mut self.receiver_states)) => Input::ReceiverStates(states),
            count = changed(Some(&mut self.textfile_failures)) => Input::TextfileFailures(count),
        }
    }
}

/// The export by OTLP: a spool for each signal that sends every change, and the push of the metrics.
pub(super) struct OtlpOutput {
    settings: OtlpSettings,
    traces: Option<SignalSpool>,
    logs: Option<SignalSpool>,
    metric_counts: Option<watch::Receiver<ExportCounts>>,
}

struct SignalSpool {
    spool: SpoolHandle,
    counts: watch::Receiver<ExportCounts>,
}

impl OtlpOutput {
    /// The spools are in memory without a state directory.
    pub(super) fn start(
        settings: OtlpSettings,
        state: Option<&StateWriter>,
        source: MetricSource,
        clock: Clock,
        tasks: &mut Tasks,
    ) -> Result<Self, CommandError> {
        let mut spool = |signal: Signal| -> Result<_, CommandError> {
            let Some(exporter) = settings.exporter(signal) else {
                return Ok(None);
            };
            let directory = state
                .zip(signal.spool_directory())
                .map(|(state, spool)| state.path.join(spool));
            let (files, limits) = (Box::new(OsFilesystem), SpoolLimits::default());
            let spool = Spool::open(signal, directory.as_deref(), files, limits);
            let spool = SpoolHandle::new(spool, state.map(|state| state.worker.clone()));
            let sending = sender::run(connect(exporter, clock)?, spool.clone(), tasks.stop.clone());
            tasks.spawn_output("OTLP sender", sending)?;
            let counts = spool.counts();
            Ok(Some(SignalSpool { spool, counts }))
        };
        let (traces, logs) = (spool(Signal::Traces)?, spool(Signal::Logs)?);
        let mut metric_counts = None;
        if let Some(exporter) = settings.exporter(Signal::Metrics) {
            let (counts, mut counted) = watch::channel(ExportCounts::default());
            // The engine shows the counters of an enabled export from zero.
            counted.mark_changed();
            let (connection, stop) = (connect(exporter, clock)?, tasks.stop.clone());
            let pushing = sender::metrics::run(settings.clone(), connection, source, counts, stop);
            tasks.spawn_output("metric push", pushing)?;
            metric_counts = Some(counted);
        }
        Ok(Self {
            settings,
            traces,
            logs,
            metric_counts,
        })
    }

    fn send(&self, changes: &Changes, now: Moment) {
        for (signal, batch) in batch::of(changes, &self.settings) {
            let spool = match signal {
                Signal::Traces => self.traces.as_ref(),
                Signal::Logs => self.logs.as_ref(),
                Signal::Metrics => None,
            };
            if let Some(SignalSpool { spool, .. }) = spool {
                spool.append(batch, now);
            }
        }
    }
}

/// The connection to the collector of one signal.
fn connect(settings: &ExporterSettings, clock: Clock) -> Result<Connection, CommandError> {
    Connection::new(settings, clock, RetryTiming::default())
        .map_err(CommandError::thread("resolves the names of collectors"))
}

/// Starts the push of alerts to each Alertmanager. Returns a receiver of the counters.
pub(super) fn push_alerts(
    targets: Vec<Target>,
    snapshots: &watch::Receiver<Arc<Snapshot>>,
    clock: Clock,
    tasks: &mut Tasks,
) -> Result<watch::Receiver<PushCounts>, CommandError> {
    let (counts, counted) = watch::channel(PushCounts::default());
    for target in targets {
        let worker =
            Worker::start("alertmanager").map_err(CommandError::thread("pushes alerts"))?;
        let pusher = AlertPusher::new(target, worker, clock, counts.clone(), &tasks.receivers)?;
        tasks.spawn_output(
            "alert push",
            pusher.run(snapshots.clone(), tasks.stop.clone()),
        )?;
    }
    Ok(counted)
}

/// Starts to write the file of `--textfile.path`, if there is one. Returns a receiver of its failures.
///
/// # Errors
/// When the file cannot be written, or the system has no thread left.
pub(super) fn write_textfile(
    path: Option<PathBuf>,
    source: &MetricSource,
    clock: Clock,
    tasks: &mut Tasks,
) -> Result<watch::Receiver<u64>, CommandError> {
    let (failures, counted) = watch::channel(0);
    if let Some(path) = path {
        let worker = Worker::start("textfile");
        let worker = worker.map_err(CommandError::thread("writes to --textfile.path"))?;
        let dropped = Arc::clone(&source.dropped_log_lines);
        let textfile = Textfile::create(path.clone(), source.options, clock, dropped, worker);
        let textfile = textfile.map_err(|cause| {
            CommandError::usage(format!(
                "--textfile.path: {} cannot be written: {cause}; use a file in a directory that this process can write to",
                path.display()
            ))
        })?;
        let writing = textfile.run(source.snapshots.clone(), failures, tasks.stop.clone());
        tasks.spawn_output("textfile", writing)?;
    }
    Ok(counted)
}

/// The next value; never ready without a receiver or a sender.
async fn changed<T: Clone>(values: Option<&mut watch::Receiver<T>>) -> T {
    if let Some(values) = values
        && values.changed().await.is_ok()
    {
        return values.borrow_and_update().clone();
    }
    pending().await
}
