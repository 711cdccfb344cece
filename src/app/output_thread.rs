//! The thread of the OTLP export and the Alertmanager push, with a limit of its CPU time.
//!
//! hyper skips informational responses (1xx) without a limit, and reqwest offers none. A collector or an Alertmanager
//! that sends them without end keeps its client busy until the timeout of the request. On a thread of its own, this
//! delays no poll and no scrape, and pauses keep the thread from using a whole CPU.

use std::{io, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle, RuntimeMetrics},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Between two checks of an idle thread.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// The same after a pause.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);
/// After an interval in which the thread was busy for more than half of the time. With [`BUSY_INTERVAL`], a thread that
/// is always busy uses a fifth of a CPU, or more if one turn of a task takes longer. Short, since all outputs wait.
const PAUSE: Duration = Duration::from_millis(400);
/// Tasks between two looks at timers and sockets. With tokio's default of 61, a busy connection delays them by seconds.
const EVENT_INTERVAL: u32 = 4;

/// Ends when it is dropped.
#[derive(Debug)]
pub(super) struct OutputThread {
    handle: Handle,
    _stop: DropGuard,
}

impl OutputThread {
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(EVENT_INTERVAL)
            .build()?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        thread::Builder::new()
            .name("outputs".to_owned())
            .spawn(move || {
                let limit = limit_cpu_time(runtime.metrics());
                runtime.block_on(stopped.run_until_cancelled(limit));
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            _stop: stop.drop_guard(),
        })
    }

    /// Runs tasks of this thread.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Pauses the thread while it is busy. Never ready.
#[expect(
    clippy::disallowed_methods,
    reason = "blocks the outputs on purpose, and not the event loop"
)]
async fn limit_cpu_time(metrics: RuntimeMetrics) {
    let mut interval = IDLE_INTERVAL;
    let mut busy_before = metrics.worker_total_busy_duration(0);
    loop {
        sleep(interval).await;
        let busy = metrics.worker_total_busy_duration(0);
        if busy.saturating_sub(busy_before) > interval / 2 {
            thread::sleep(PAUSE);
            // The runtime counts the pause when this task yields.
            busy_before = busy.saturating_add(PAUSE);
            interval = BUSY_INTERVAL;
        } else {
            busy_before = busy;
            interval = IDLE_INTERVAL;
        }
    }
}
