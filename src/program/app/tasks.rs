//! The tasks beside the loop of the exporter, and their end.

use std::{future::Future, io, sync::mpsc, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::program::CommandError;

/// Longer than the exports take at the end, 5 s; timers are late while a peer keeps the thread of the outputs busy.
/// Alerts that are not pushed by then expire in Alertmanager.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);

/// Tasks between two looks at timers and sockets of the outputs. With tokio's default of 61, a busy connection delays them
/// by seconds.
const EVENT_INTERVAL: u32 = 4;

#[derive(Debug)]
pub(super) struct Tasks {
    running: JoinSet<(&'static str, Result<(), String>)>,
    /// Cancelled after that loop has ended.
    pub(super) stop: CancellationToken,
    /// The thread of the tasks that send, if there are any. The guard ends it; it is dropped after them.
    outputs: Option<(Handle, DropGuard)>,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            running: JoinSet::new(),
            stop: CancellationToken::new(),
            outputs: None,
        }
    }

    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.running.spawn(async move { (name, task.await) });
    }

    pub(super) fn spawn_output(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), CommandError> {
        let (outputs, _end) = match &mut self.outputs {
            Some(outputs) => outputs,
            none => none.insert(start_output_thread().map_err(CommandError::thread(
                "sends traces, logs, metrics and alerts",
            ))?),
        };
        let task = async move {
            task.await;
            (name, Ok(()))
        };
        self.running.spawn_on(task, outputs);
        Ok(())
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
    pub(super) async fn unexpected_end(&mut self) -> CommandError {
        match self.running.join_next().await {
            Some(ended) => CommandError::new(describe_end(ended)),
            None => std::future::pending().await,
        }
    }
}

fn describe_end(ended: Result<(&str, Result<(), String>), JoinError>) -> String {
    match ended {
        Ok((name, Ok(()))) => format!("the {name} ended unexpectedly"),
        Ok((name, Err(error))) => format!("the {name} failed: {error}"),
        Err(error) if error.is_panic() => "a task panicked".to_owned(),
        Err(_) => "a task was cancelled".to_owned(),
    }
}

/// Returns the runtime of the thread of the OTLP export and the Alertmanager push, which ends when the guard is dropped.
///
/// hyper skips informational responses (1xx) without a limit, and reqwest offers none. A collector or an Alertmanager
/// that sends them without end keeps its client busy until the timeout of the request. On a thread of its own, this
/// delays no poll and no scrape.
fn start_output_thread() -> io::Result<(Handle, DropGuard)> {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    // Made after the thread: a runtime panics if it is dropped in the task that calls this.
    let (runtime_sender, runtime) = mpsc::channel::<Runtime>();
    let run = move || {
        let Ok(runtime) = runtime.recv() else { return };
        runtime.block_on(stopped.cancelled());
        runtime.shutdown_background();
    };
    thread::Builder::new()
        .name("outputs".to_owned())
        .spawn(run)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .build()?;
    let handle = runtime.handle().clone();
    runtime_sender.send(runtime).ok();
    Ok((handle, stop.drop_guard()))
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
