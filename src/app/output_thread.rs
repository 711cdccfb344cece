//! The thread of the OTLP export and the Alertmanager push, with a limit of its CPU time.
//!
//! hyper skips informational responses (1xx) without a limit, and reqwest offers none. A collector or an Alertmanager
//! that sends them without end keeps its client busy until the timeout of the request. On a thread of its own, this
//! delays no poll and no scrape, and pauses keep the thread from using a whole CPU.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Runtime, RuntimeMetrics},
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
/// At shutdown, for the tasks of a busy thread.
const BUSY_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends when it is dropped.
#[derive(Debug)]
pub(super) struct OutputThread {
    handle: Handle,
    /// It was busy in the last interval.
    is_busy: Arc<AtomicBool>,
    _stop: DropGuard,
}

impl OutputThread {
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy_flag = Arc::clone(&is_busy);
        // Made after the thread: a runtime panics if it is dropped in the task that calls this.
        let (runtime_sender, runtime) = mpsc::channel::<Runtime>();
        thread::Builder::new()
            .name("outputs".to_owned())
            .spawn(move || {
                let Ok(runtime) = runtime.recv() else { return };
                let limit = limit_cpu_time(runtime.metrics(), &busy_flag);
                runtime.block_on(stopped.run_until_cancelled(limit));
                runtime.shutdown_background();
            })?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(EVENT_INTERVAL)
            .build()?;
        let handle = runtime.handle().clone();
        // The thread waits for it.
        runtime_sender.send(runtime).ok();
        Ok(Self {
            handle,
            is_busy,
            _stop: stop.drop_guard(),
        })
    }

    /// Runs tasks of this thread.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ready when the thread has been busy for [`BUSY_SHUTDOWN_TIMEOUT`]. One turn of a task can take longer than that,
    /// and no timer of the thread expires during a turn.
    pub(super) async fn busy(&self) {
        loop {
            let turn = self.handle.spawn(async {});
            sleep(BUSY_SHUTDOWN_TIMEOUT).await;
            if !turn.is_finished() || self.is_busy.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Pauses the thread while it is busy. Never ready.
#[expect(
    clippy::disallowed_methods,
    reason = "blocks the outputs on purpose, and not the event loop"
)]
async fn limit_cpu_time(metrics: RuntimeMetrics, is_busy: &AtomicBool) {
    let mut interval = IDLE_INTERVAL;
    let mut busy_before = metrics.worker_total_busy_duration(0);
    loop {
        sleep(interval).await;
        let busy = metrics.worker_total_busy_duration(0);
        let exceeds = busy.saturating_sub(busy_before) > interval / 2;
        is_busy.store(exceeds, Ordering::Relaxed);
        if exceeds {
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
