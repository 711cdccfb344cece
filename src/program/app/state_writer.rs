//! Restores the state at start, and writes it on a worker thread: the loop never waits for the disk here.

use std::{
    future::pending,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::sleep,
};

use super::{Error, logging};
use crate::{
    base::{
        time::{Moment, Timestamp},
        worker::Worker,
    },
    core::engine::SavedState,
    outputs::state::{Directory, Found},
    program::config::StateStorage,
};

const READ_ATTEMPTS: u32 = 5;
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Writes the state file, one write at a time.
#[derive(Debug)]
pub(super) struct StateWriter {
    pub(super) path: PathBuf,
    directory: Arc<Mutex<Directory>>,
    /// The thread of all files in the state directory.
    pub(super) worker: Worker,
    outstanding: Option<oneshot::Receiver<io::Result<()>>>,
    /// Whether a write is outstanding.
    is_writing: watch::Sender<bool>,
    /// The file on disk belongs to another VM: the next write keeps it under another name.
    foreign_since: Option<Timestamp>,
}

impl StateWriter {
    /// Opens the state directory and reads the state of an earlier process. `None` where no state is kept.
    ///
    /// # Errors
    /// When the directory cannot be used, or the system has no thread left.
    pub(super) async fn open(
        state: StateStorage,
        boot_id: Option<&str>,
        now: Moment,
    ) -> Result<(Option<Self>, Option<SavedState>), Error> {
        let path = match state {
            StateStorage::Directory(path) => path,
            StateStorage::InMemory => {
                logging::memory_only();
                return Ok((None, None));
            }
            StateStorage::Disabled => return Ok((None, None)),
        };
        let worker = Worker::start("disk").map_err(Error::thread("writes to --state.directory"))?;
        let mut directory = Directory::open(&path)?;
        let restored = match read_with_retries(|| directory.read(now.wall)).await {
            Found::Nothing => None,
            Found::Unreadable { why } | Found::Unavailable { why } => {
                logging::unreadable_state(&path, &why);
                None
            }
            Found::State(saved) => {
                logging::restored(&path, &saved, saved.is_rebooted(boot_id));
                Some(*saved)
            }
        };
        let writer = Self {
            path,
            directory: Arc::new(Mutex::new(directory)),
            worker,
            outstanding: None,
            is_writing: watch::Sender::new(false),
            foreign_since: None,
        };
        Ok((Some(writer), restored))
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Whether a write is outstanding, from now on.
    pub(super) fn is_writing(&self) -> watch::Receiver<bool> {
        self.is_writing.subscribe()
    }

    /// The next write keeps the present file under another name.
    pub(super) fn discard_foreign(&mut self, now: Timestamp) {
        self.foreign_since = Some(now);
    }

    /// Begins a write; [`StateWriter::written`] gives its result.
    pub(super) fn write(&mut self, saved: SavedState) {
        let directory = Arc::clone(&self.directory);
        let foreign_since = self.foreign_since;
        let (result, outstanding) = oneshot::channel();
        let is_queued = self.worker.submit(move || {
            let mut locked = directory.lock().unwrap_or_else(PoisonError::into_inner);
            let written = write(&mut locked, &saved, foreign_since);
            drop(locked);
            // Releases the directory before the result is sent, so that another exporter can take it then.
            drop(directory);
            result.send(written).ok();
        });
        if is_queued {
            self.foreign_since = None;
        }
        self.outstanding = Some(outstanding);
        self.is_writing.send_replace(true);
    }

    /// The result of the outstanding write; never ready without one.
    pub(super) async fn written(&mut self) -> Result<(), String> {
        let Some(outstanding) = &mut self.outstanding else {
            return pending().await;
        };
        let written = outstanding.await;
        self.outstanding = None;
        self.is_writing.send_replace(false);
        match written {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("the queue of the disk is full".to_owned()),
        }
    }
}

/// Reads the state file again after an I/O error, which may be temporary.
async fn read_with_retries(mut read: impl FnMut() -> Found) -> Found {
    for _ in 1..READ_ATTEMPTS {
        match read() {
            Found::Unavailable { .. } => sleep(READ_RETRY_INTERVAL).await,
            found => return found,
        }
    }
    read()
}

fn write(
    directory: &mut Directory,
    saved: &SavedState,
    foreign_since: Option<Timestamp>,
) -> io::Result<()> {
    if let Some(since) = foreign_since {
        directory.set_foreign_aside(since);
    }
    let was_omitting = directory.omitted_events() > 0;
    let kept_as = directory.write(saved)?;
    let omitted = directory.omitted_events();
    if omitted > 0 && !was_omitting {
        logging::state_too_large(omitted);
    }
    if let Some(kept_as) = kept_as {
        logging::state_set_aside(&kept_as);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> Found {
        Found::Unavailable {
            why: "Input/output error".to_owned(),
        }
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
        assert!(matches!(found.await, Found::Unavailable { .. }));
        assert_eq!(attempts, READ_ATTEMPTS);
    }
}
