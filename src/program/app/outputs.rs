//! What the exporter sends: each output is started from its own settings, takes the changes of events where it sends
//! each of them, and returns its counters.

use std::{future::pending, path::PathBuf, sync::Arc};

use tokio::sync::watch;

use super::{Error, state_writer::StateWriter, tasks::Tasks};
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
        tokio::select! {
            biased;
            input = otlp_counts(&mut self.otlp) => input,
            counts = changed(&mut self.push_counts) => Input::PushCounts(counts),
            states = changed(&mut self.receiver_states) => Input::ReceiverStates(states),
            count = changed(&mut self.textfile_failures) => Input::TextfileFailures(count),
        }
    }
}

async fn otlp_counts(otlp: &mut Option<OtlpOutput>) -> Input {
    match otlp {
        Some(otlp) => otlp.next_counts().await,
        None => pending().await,
    }
}

/// The export by OTLP: a spool for each signal that sends every change, and the push of the metrics.
pub(super) struct OtlpOutput {
    settings: OtlpSettings,
    spools: Vec<SignalSpool>,
    metric_counts: Option<watch::Receiver<ExportCounts>>,
}

struct SignalSpool {
    signal: Signal,
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
    ) -> Result<Self, Error> {
        let mut spools = Vec::new();
        for signal in [Signal::Traces, Signal::Logs] {
            if let Some(exporter) = settings.exporter(signal) {
                let directory = state
                    .zip(signal.spool_directory())
                    .map(|(state, spool)| state.path.join(spool));
                let (files, limits) = (Box::new(OsFilesystem), SpoolLimits::default());
                let spool = Spool::open(signal, directory.as_deref(), files, limits);
                let spool = SpoolHandle::new(spool, state.map(|state| state.worker.clone()));
                let sending =
                    sender::run(connect(exporter, clock)?, spool.clone(), tasks.stop.clone());
                tasks.spawn_output("OTLP sender", sending)?;
                let counts = spool.counts();
                spools.push(SignalSpool {
                    signal,
                    spool,
                    counts,
                });
            }
        }
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
            spools,
            metric_counts,
        })
    }

    fn send(&self, changes: &Changes, now: Moment) {
        for (signal, batch) in batch::of(changes, &self.settings) {
            if let Some(queue) = self.spools.iter().find(|queue| queue.signal == signal) {
                queue.spool.append(batch, now);
            }
        }
    }

    async fn next_counts(&mut self) -> Input {
        let (mut spans, mut log_records) = (None, None);
        for queue in &mut self.spools {
            match queue.signal {
                Signal::Traces => spans = Some(&mut queue.counts),
                Signal::Logs => log_records = Some(&mut queue.counts),
                Signal::Metrics => {}
            }
        }
        tokio::select! {
            biased;
            counts = if_any(spans) => Input::SpanCounts(counts),
            counts = if_any(log_records) => Input::LogRecordCounts(counts),
            counts = if_any(self.metric_counts.as_mut()) => Input::MetricCounts(counts),
        }
    }
}

/// The connection to the collector of one signal.
fn connect(settings: &ExporterSettings, clock: Clock) -> Result<Connection, Error> {
    Connection::new(settings, clock, RetryTiming::default())
        .map_err(Error::thread("resolves the names of collectors"))
}

/// Starts the push of alerts to each Alertmanager. Returns a receiver of the counters.
pub(super) fn push_alerts(
    targets: Vec<Target>,
    snapshots: &watch::Receiver<Arc<Snapshot>>,
    clock: Clock,
    tasks: &mut Tasks,
) -> Result<watch::Receiver<PushCounts>, Error> {
    let (counts, counted) = watch::channel(PushCounts::default());
    for target in targets {
        let worker = Worker::start("alertmanager").map_err(Error::thread("pushes alerts"))?;
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
) -> Result<watch::Receiver<u64>, Error> {
    let (failures, counted) = watch::channel(0);
    if let Some(path) = path {
        let worker = Worker::start("textfile");
        let worker = worker.map_err(Error::thread("writes to --textfile.path"))?;
        let dropped = Arc::clone(&source.dropped_log_lines);
        let textfile = Textfile::create(path.clone(), source.options, clock, dropped, worker);
        let textfile = textfile.map_err(|cause| Error::Textfile { path, cause })?;
        let writing = textfile.run(source.snapshots.clone(), failures, tasks.stop.clone());
        tasks.spawn_output("textfile", writing)?;
    }
    Ok(counted)
}

async fn if_any(counts: Option<&mut watch::Receiver<ExportCounts>>) -> ExportCounts {
    match counts {
        Some(counts) => changed(counts).await,
        None => pending().await,
    }
}

/// The next value; never ready without a sender.
async fn changed<T: Clone>(values: &mut watch::Receiver<T>) -> T {
    if values.changed().await.is_ok() {
        return values.borrow_and_update().clone();
    }
    pending().await
}
