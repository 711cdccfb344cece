//! Restores the state at start, and writes it on a worker thread: a disk that hangs does not stop the loop.

use std::{
    future::{pending, ready},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{
    base::{time::Moment, worker::Worker},
    core::{engine::SavedState, journal::Journal},
    outputs::state::{Directory, Found},
    program::CommandError,
};

/// How long the loop waits for each write before it shows and sends what the state should have: a crash must not lose
/// what was seen.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
const READ_ATTEMPTS: u32 = 5;
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(200);

type RunningWrite = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Writes journal and state, one write at a time.
pub(super) struct StateWriter {
    directory: Arc<Mutex<Directory>>,
    worker: Worker,
    /// Until [`Self::written`] has given its result.
    outstanding: Option<RunningWrite>,
    /// The outstanding write has been waited for in vain.
    is_late: bool,
}

impl StateWriter {
    /// Opens the state directory and reads the state and the journal of an earlier process. `None` where no state is kept.
    /// A journal that begins has the id `new_id`.
    pub(super) async fn open(
        path: Option<PathBuf>,
        boot_id: Option<&str>,
        new_id: Arc<str>,
        now: Moment,
    ) -> Result<(Option<Self>, Option<SavedState>, Journal), CommandError> {
        let Some(path) = path else {
            return Ok((None, None, Journal::new(new_id)));
        };
        let worker =
            Worker::start("disk").map_err(CommandError::thread("writes to --state.directory"))?;
        let mut directory = Directory::open(&path)?;
        let restored = match read_with_retries(|| directory.read(now.wall)).await {
            Found::Nothing => None,
            Found::Unreadable(why) | Found::Unavailable(why) => {
                warn!(path = %path.display(), why, "state file unreadable: starting without it");
                None
            }
            Found::State(saved) => {
                info!(
                    path = %path.display(),
                    events = saved.events.len(),
                    heartbeat = saved.heartbeat_at.rfc3339(),
                    rebooted = saved.is_rebooted(boot_id),
                    "restored state"
                );
                Some(*saved)
            }
        };
        let journal = directory.read_journal(restored.as_ref(), new_id, now.wall);
        let writer = Self {
            directory: Arc::new(Mutex::new(directory)),
            worker,
            outstanding: None,
            is_late: false,
        };
        Ok((Some(writer), restored, journal))
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Begins a write, and waits for it; [`StateWriter::written`] gives its result.
    pub(super) async fn write(&mut self, saved: SavedState, journal: Arc<Journal>) {
        let (worker, directory) = (self.worker.clone(), Arc::clone(&self.directory));
        // Releases the directory before the result is known, so that another exporter can take it then.
        let write = move || {
            let mut directory = directory.lock();
            directory.write(&saved, &journal)
        };
        self.outstanding = Some(Box::pin(async move {
            let written = worker.run(write).await;
            written
                .ok_or("the write ended without a result")?
                .map_err(|error| error.to_string())
        }));
        self.is_late = false;
        self.wait().await;
    }

    /// Waits until the outstanding write is done, for at most half a second and once.
    pub(super) async fn wait(&mut self) {
        if let Some(outstanding) = self.outstanding.as_mut().filter(|_| !self.is_late) {
            match timeout(WRITE_TIMEOUT, outstanding).await {
                Ok(result) => self.outstanding = Some(Box::pin(ready(result))),
                Err(_) => self.is_late = true,
            }
        }
    }

    /// The result of the outstanding write; never ready without one.
    pub(super) async fn written(&mut self) -> Result<(), String> {
        let Some(outstanding) = &mut self.outstanding else {
            return pending().await;
        };
        let result = outstanding.await;
        self.outstanding = None;
        result
    }
}

/// Reads the state file again after an I/O error, which may be temporary.
async fn read_with_retries(mut read: impl FnMut() -> Found) -> Found {
    for _ in 1..READ_ATTEMPTS {
        match read() {
            Found::Unavailable(_) => sleep(READ_RETRY_INTERVAL).await,
            found => return found,
        }
    }
    read()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> Found {
        Found::Unavailable("Input/output error".to_owned())
    }

    #[tokio::test]
    async fn a_temporary_read_error_does_not_lose_the_state() {
        let mut results = vec![Found::Nothing, unavailable(), unavailable()];
        let found = read_with_retries(|| results.pop().unwrap()).await;
        assert!(matches!(found, Found::Nothing), "{found:?}");
        assert!(results.is_empty());
    }

    #[tokio::test]
    async fn a_permanent_read_error_does_not_stop_the_start() {
        let mut attempts = 0;
        let found = read_with_retries(|| {
            attempts += 1;
            unavailable()
        });
        assert!(matches!(found.await, Found::Unavailable(_)));
        assert_eq!(attempts, READ_ATTEMPTS);
    }
}
