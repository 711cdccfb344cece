//! The tasks beside the event loop, and their end.

use std::{
    future::Future,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Error, alert_pushers::AlertPushers, output_thread::OutputThread};
use crate::{
    config::Config,
    otlp::{
        sender::{self, Connection, RetryTiming, metrics::MetricSource},
        settings::ExporterSettings,
        signal::Signal,
        spool::SpoolHandle,
    },
    snapshot::{ExportCounts, Snapshot},
    time::Clock,
};

/// Longer than the limits of the tasks, whose timers are late while a peer keeps the thread of the outputs busy.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);

/// The tasks that run until the end of the process.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: JoinSet<(&'static str, Result<(), String>)>,
    /// Cancelled after the event loop has ended.
    pub(super) stop: CancellationToken,
    /// Dropped after the tasks that run on it.
    outputs: Option<OutputThread>,
}

/// The connection to the collector of one signal.
fn connect(settings: &ExporterSettings, clock: Clock) -> Result<Connection, Error> {
    let connection = Connection::new(settings, clock, RetryTiming::default());
    connection.map_err(Error::thread("resolves the names of collectors"))
}

impl Tasks {
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.spawn_on(&Handle::current(), name, task);
    }

    pub(super) fn spawn_on(
        &mut self,
        runtime: &Handle,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let task = async move { (name, task.await) };
        self.running.spawn_on(task, runtime);
    }

    /// Starts the export of a spool.
    pub(super) fn send(
        &mut self,
        settings: &ExporterSettings,
        clock: Clock,
        spool: &SpoolHandle,
        outputs: &Handle,
    ) -> Result<(), Error> {
        let connection = connect(settings, clock)?;
        let sending = sender::run(connection, spool.clone(), self.stop.clone());
        self.spawn_on(outputs, "OTLP sender", async {
            sending.await;
            Ok(())
        });
        Ok(())
    }

    /// Starts the push of the metrics, where they are exported. Returns a receiver of its counters.
    pub(super) fn push_metrics(
        &mut self,
        config: &Config,
        clock: Clock,
        snapshots: &watch::Receiver<Arc<Snapshot>>,
        dropped_log_lines: &Arc<AtomicU64>,
        outputs: &Handle,
    ) -> Result<watch::Receiver<ExportCounts>, Error> {
        let counts = watch::Sender::new(ExportCounts::default());
        let mut counted = counts.subscribe();
        let settings = config.otlp.as_ref();
        let exporter = settings.and_then(|settings| settings.exporter(Signal::Metrics));
        if let Some((settings, exporter)) = settings.zip(exporter) {
            // From zero.
            counted.mark_changed();
            let source = MetricSource {
                snapshots: snapshots.clone(),
                options: config.web.exposed,
                dropped_log_lines: Arc::clone(dropped_log_lines),
            };
            let connection = connect(exporter, clock)?;
            let (settings, stop) = (settings.clone(), self.stop.clone());
            let pushing = sender::metrics::run(settings, connection, source, counts, stop);
            self.spawn_on(outputs, "metric push", async {
                pushing.await;
                Ok(())
            });
        }
        Ok(counted)
    }

    /// Starts the runtime of the tasks that send, where there are any.
    pub(super) fn start_outputs(&mut self, config: &Config) -> Result<Handle, Error> {
        let mut settings = config.otlp.iter();
        let is_exporting = settings.any(|settings| !settings.exporters.is_empty());
        if !is_exporting && config.alertmanagers.is_empty() {
            return Ok(Handle::current());
        }
        let outputs = OutputThread::start()
            .map_err(Error::thread("sends traces, logs, metrics and alerts"))?;
        Ok(self.outputs.insert(outputs).handle().clone())
    }

    /// Stops the tasks and waits for their end, up to [`SHUTDOWN_TIMEOUT`].
    pub(super) async fn finish(mut self, pushers: AlertPushers) {
        self.stop.cancel();
        let finished = async {
            pushers.finish().await;
            while self.running.join_next().await.is_some() {}
        };
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
        let mut tasks = Tasks::default();
        tasks.spawn("OTLP sender", async { panic!("bug") });
        assert_eq!(tasks.unexpected_end().await.to_string(), "a task panicked");
    }
}
