//! The thread of the OTLP export and the Alertmanager push.
//!
//! hyper skips informational responses (1xx) without a limit, and reqwest offers none. A collector or an Alertmanager
//! that sends them without end keeps its client busy until the timeout of the request. On a thread of its own, this
//! delays no poll and no scrape.

use std::{io, sync::mpsc, thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Tasks between two looks at timers and sockets. With tokio's default of 61, a busy connection delays them by seconds.
const EVENT_INTERVAL: u32 = 4;

/// Returns the runtime of the thread, which ends when the guard is dropped.
///
/// # Errors
/// When the system has no thread left.
pub(super) fn start() -> io::Result<(Handle, DropGuard)> {
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
    // The thread waits for it.
    runtime_sender.send(runtime).ok();
    Ok((handle, stop.drop_guard()))
}
