//! The tasks beside the event loop, and their end.

use std::{
    future::Future,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::{Error, output_thread};
use crate::{
    base::{file::OsFilesystem, time::Clock, worker::Worker},
    core::snapshot::{ExportCounts, PushCounts, ReceiverStates, Snapshot},
    outputs::{
        alertmanager::AlertPusher,
        otlp::{
            sender::{self, Connection, RetryTiming, metrics::MetricSource},
            settings::ExporterSettings,
            signal::Signal,
            spool::{Spool, SpoolHandle, SpoolLimits},
        },
    },
    program::config::Config,
};

/// Longer than the exports take at the end, 5 s; timers are late while a peer keeps the thread of the outputs busy.
/// Alerts that are not pushed by then expire in Alertmanager.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);

/// The tasks that run until the end of the process.
#[derive(Debug)]
pub(super) struct Tasks {
    running: JoinSet<(&'static str, Result<(), String>)>,
    /// Cancelled after the event loop has ended.
    pub(super) stop: CancellationToken,
    /// Whether each receiver accepted the last request.
    pub(super) receivers: watch::Sender<ReceiverStates>,
    clock: Clock,
    /// Runs the tasks that send.
    outputs: Handle,
    /// Ends their thread; dropped after them.
    _outputs_end: Option<DropGuard>,
}

/// The spool of one signal of OpenTelemetry, and the counters of its export.
#[derive(Debug)]
pub(super) struct ExportQueue {
    pub(super) spool: SpoolHandle,
    pub(super) counts: watch::Receiver<ExportCounts>,
}

impl Tasks {
    /// With a thread for the tasks that send, where there are any.
    pub(super) fn new(config: &Config, clock: Clock) -> Result<Self, Error> {
        let mut otlp = config.otlp.iter();
        let is_exporting = otlp.any(|settings| !settings.exporters.is_empty());
        let (outputs, end) = if is_exporting || !config.alertmanagers.is_empty() {
            let (outputs, end) = output_thread::start()
                .map_err(Error::thread("sends traces, logs, metrics and alerts"))?;
            (outputs, Some(end))
        } else {
            (Handle::current(), None)
        };
        Ok(Self {
            running: JoinSet::new(),
            stop: CancellationToken::new(),
            receivers: watch::Sender::default(),
            clock,
            outputs,
            _outputs_end: end,
        })
    }

    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.running.spawn(async move { (name, task.await) });
    }

    fn spawn_output(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = async move {
            task.await;
            (name, Ok(()))
        };
        self.running.spawn_on(task, &self.outputs);
    }

    /// Opens a spool and starts its export, if the signal is exported. It is in memory without a state directory.
    pub(super) fn export(
        &mut self,
        signal: Signal,
        config: &Config,
        state_directory: Option<&Path>,
        worker: Option<&Worker>,
    ) -> Result<Option<ExportQueue>, Error> {
        let settings = config.otlp.as_ref();
        let Some(exporter) = settings.and_then(|settings| settings.exporter(signal)) else {
            return Ok(None);
        };
        let directory = state_directory
            .zip(signal.spool_directory())
            .map(|(state, spool)| state.join(spool));
        let limits = SpoolLimits::default();
        let spool = Spool::open(signal, directory.as_deref(), Box::new(OsFilesystem), limits);
        let spool = SpoolHandle::new(spool, worker.cloned());
        let connection = self.connect(exporter)?;
        let sending = sender::run(connection, spool.clone(), self.stop.clone());
        self.spawn_output("OTLP sender", sending);
        let counts = spool.counts();
        Ok(Some(ExportQueue { spool, counts }))
    }

    /// Starts the push of the metrics, if they are exported. Returns a receiver of its counters.
    pub(super) fn push_metrics(
        &mut self,
        config: &Config,
        snapshots: &watch::Receiver<Arc<Snapshot>>,
        dropped_log_lines: &Arc<AtomicU64>,
    ) -> Result<watch::Receiver<ExportCounts>, Error> {
        let (counts, mut counted) = watch::channel(ExportCounts::default());
        let settings = config.otlp.as_ref();
        let exporter = settings.and_then(|settings| settings.exporter(Signal::Metrics));
        if let Some((settings, exporter)) = settings.zip(exporter) {
            // The engine shows the counters of an enabled export from zero.
            counted.mark_changed();
            let source = MetricSource {
                snapshots: snapshots.clone(),
                options: config.web.exposed,
                dropped_log_lines: Arc::clone(dropped_log_lines),
            };
            let connection = self.connect(exporter)?;
            let (settings, stop) = (settings.clone(), self.stop.clone());
            let pushing = sender::metrics::run(settings, connection, source, counts, stop);
            self.spawn_output("metric push", pushing);
        }
        Ok(counted)
    }

    /// Starts the push of alerts to each Alertmanager. Returns a receiver of the counters.
    pub(super) fn push_alerts(
        &mut self,
        config: &Config,
        snapshots: &watch::Receiver<Arc<Snapshot>>,
    ) -> Result<watch::Receiver<PushCounts>, Error> {
        let (counts, counted) = watch::channel(PushCounts::default());
        for target in &config.alertmanagers {
            let worker = Worker::start("alertmanager").map_err(Error::thread("pushes alerts"))?;
            let pusher = AlertPusher::new(
                target.clone(),
                worker,
                self.clock,
                counts.clone(),
                &self.receivers,
            )?;
            let pushing = pusher.run(snapshots.clone(), self.stop.clone());
            self.spawn_output("alert push", pushing);
        }
        Ok(counted)
    }

    /// The connection to the collector of one signal.
    fn connect(&self, settings: &ExporterSettings) -> Result<Connection, Error> {
        let connection = Connection::new(settings, self.clock, RetryTiming::default());
        connection.map_err(Error::thread("resolves the names of collectors"))
    }

    /// Stops the tasks and waits for their end, up to [`SHUTDOWN_TIMEOUT`].
    pub(super) async fn finish(mut self) {
        self.stop.cancel();
        let finished = async { while self.running.join_next().await.is_some() {} };
        if timeout(SHUTDOWN_TIMEOUT, finished).await.is_err() {
            warn!(
                "a collector or an Alertmanager keeps its connection busy: ending without the last requests"
            );
        }
    }

    /// The reason why a required task ended; never ready while all of them run.
    pub(super) async fn unexpected_end(&mut self) -> Error {
        match self.running.join_next().await {
            Some(ended) => Error::Task(describe_end(ended)),
            None => std::future::pending().await,
        }
    }
}

pub(super) fn describe_end(ended: Result<(&str, Result<(), String>), JoinError>) -> String {
    match ended {
        Ok((name, Ok(()))) => format!("the {name} ended unexpectedly"),
        Ok((name, Err(error))) => format!("the {name} failed: {error}"),
        Err(error) if error.is_panic() => "a task panicked".to_owned(),
        Err(_) => "a task was cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_task_is_described() {
        assert_eq!(
            describe_end(Ok(("HTTP server", Ok(())))),
            "the HTTP server ended unexpectedly"
        );
        let failed = Ok(("HTTP server", Err("too many open files".to_owned())));
        assert_eq!(
            describe_end(failed),
            "the HTTP server failed: too many open files"
        );
        let panicked = tokio::spawn(async { panic!("bug") }).await;
        assert_eq!(describe_end(panicked), "a task panicked");
    }
}
