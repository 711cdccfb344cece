//! What the exporter sends: each output is started from its own settings, and takes the changes of events where it sends
//! each of them.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::watch;

use super::{state_writer::StateWriter, tasks::Tasks};
use crate::{
    base::{
        file::OsFilesystem,
        time::{Clock, Moment},
        worker::Worker,
    },
    core::snapshot::Snapshot,
    outputs::{
        alertmanager::{AlertPusher, Target},
        otlp::{
            batch,
            sender::{self, Connection, RetryTiming, metrics::MetricSource},
            settings::{ExporterSettings, OtlpSettings},
            signal::Signal,
            spool::{Spool, SpoolHandle, SpoolLimits},
        },
        output_counters::OutputCounters,
        textfile::Textfile,
    },
    program::CommandError,
};

/// The export by OTLP: a spool for each signal that sends every change, and the push of the metrics.
pub(super) struct OtlpOutput {
    settings: OtlpSettings,
    traces: Option<SpoolHandle>,
    logs: Option<SpoolHandle>,
    /// The id of the journal, and the number up to which it was sent.
    sent: (Arc<str>, u64),
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
            Ok(Some(spool))
        };
        let (traces, logs) = (spool(Signal::Traces)?, spool(Signal::Logs)?);
        let counters = &source.outputs;
        for (counts, spool) in [(&counters.spans, &traces), (&counters.log_records, &logs)] {
            if let Some(spool) = spool {
                // Each signal is started once.
                counts.set(spool.counts()).ok();
            }
        }
        if let Some(exporter) = settings.exporter(Signal::Metrics) {
            let (connection, stop) = (connect(exporter, clock)?, tasks.stop.clone());
            counters.metrics.set(connection.counts.clone()).ok();
            let pushing = sender::metrics::run(settings.clone(), connection, source, stop);
            tasks.spawn_output("metric push", pushing)?;
        }
        Ok(Self {
            settings,
            traces,
            logs,
            sent: (Arc::from(""), 0),
        })
    }

    /// Sends the new entries of the journal. Does not wait.
    pub(super) fn send(&mut self, snapshot: &Snapshot, now: Moment) {
        let journal = &snapshot.journal;
        if self.sent.0 != journal.id {
            self.sent = (Arc::clone(&journal.id), journal.first.saturating_sub(1));
        }
        let entries: Vec<_> = journal.after(self.sent.1).cloned().collect();
        self.sent.1 = journal.newest;
        for (signal, batch) in batch::of(&entries, snapshot, &self.settings) {
            let spool = match signal {
                Signal::Traces => self.traces.as_ref(),
                Signal::Logs => self.logs.as_ref(),
                Signal::Metrics => None,
            };
            if let Some(spool) = spool {
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

/// Starts the push of alerts to each Alertmanager.
pub(super) fn push_alerts(
    targets: Vec<Target>,
    snapshots: &watch::Receiver<Arc<Snapshot>>,
    counters: &Arc<OutputCounters>,
    clock: Clock,
    tasks: &mut Tasks,
) -> Result<(), CommandError> {
    for target in targets {
        let worker =
            Worker::start("alertmanager").map_err(CommandError::thread("pushes alerts"))?;
        let pusher = AlertPusher::new(target, worker, clock, Arc::clone(counters))?;
        tasks.spawn_output(
            "alert push",
            pusher.run(snapshots.clone(), tasks.stop.clone()),
        )?;
    }
    Ok(())
}

/// Starts to write the file of `--textfile.path`, if there is one.
///
/// # Errors
/// When the file cannot be written, or the system has no thread left.
pub(super) fn write_textfile(
    path: Option<PathBuf>,
    source: &MetricSource,
    clock: Clock,
    tasks: &mut Tasks,
) -> Result<(), CommandError> {
    if let Some(path) = path {
        let worker = Worker::start("textfile");
        let worker = worker.map_err(CommandError::thread("writes to --textfile.path"))?;
        let counters = Arc::clone(&source.outputs);
        let textfile = Textfile::create(path.clone(), source.options, clock, counters, worker);
        let textfile = textfile.map_err(|cause| {
            CommandError::usage(format!(
                "--textfile.path: {} cannot be written: {cause}; use a file in a directory that this process can write to",
                path.display()
            ))
        })?;
        let writing = textfile.run(source.snapshots.clone(), tasks.stop.clone());
        tasks.spawn_output("textfile", writing)?;
    }
    Ok(())
}
