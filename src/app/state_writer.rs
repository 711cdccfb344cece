//! Restores the state at start, and writes it on the worker thread: the event loop never waits for the disk here.

use std::{
    future::pending,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

use super::logging;
use crate::{
    config::StateStorage,
    engine::SavedState,
    state::{self, Directory, Found},
    time::{Moment, Timestamp},
    worker::Worker,
};

/// Writes the state file, one write at a time.
#[derive(Debug)]
pub(super) struct StateWriter {
    store: Arc<Store>,
    worker: Worker,
    outstanding: Option<oneshot::Receiver<io::Result<()>>>,
    /// The file on disk belongs to another VM: the next write keeps it under another name.
    foreign_since: Option<Timestamp>,
}

#[derive(Debug)]
struct Store {
    path: PathBuf,
    /// `None` until the directory could be opened: a disk that was read-only at start may be writable later.
    directory: Mutex<Option<Directory>>,
}

impl StateWriter {
    /// Opens the state directory and reads what an earlier process left there. `None` where no state is kept.
    ///
    /// # Errors
    /// When the directory cannot be used, unless its disk is full or read-only: then the exporter runs in memory and
    /// retries.
    pub(super) fn open(
        state: &StateStorage,
        worker: Option<&Worker>,
        boot_id: Option<&str>,
        now: Moment,
    ) -> Result<(Option<Self>, Option<SavedState>), state::Error> {
        let (StateStorage::Directory(path), Some(worker)) = (state, worker) else {
            if matches!(state, StateStorage::InMemory) {
                logging::memory_only();
            }
            return Ok((None, None));
        };
        let directory = match Directory::open(path) {
            Ok(directory) => Some(directory),
            Err(state::Error::Unusable { cause, .. }) if is_temporary(&cause) => None,
            Err(error) => return Err(error),
        };
        let restored = match state::read(path, now.wall) {
            Found::Nothing => None,
            Found::Unreadable { why, kept_as } => {
                logging::unreadable_state(path, &why, kept_as.as_deref());
                None
            }
            Found::State(saved) => {
                logging::restored(path, &saved, saved.is_rebooted(boot_id));
                Some(*saved)
            }
        };
        let writer = Self {
            store: Arc::new(Store {
                path: path.clone(),
                directory: Mutex::new(directory),
            }),
            worker: worker.clone(),
            outstanding: None,
            foreign_since: None,
        };
        Ok((Some(writer), restored))
    }

    pub(super) fn path(&self) -> &Path {
        &self.store.path
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }

    /// The next write keeps the file that is there under another name.
    pub(super) fn discard_foreign(&mut self, now: Timestamp) {
        self.foreign_since = Some(now);
    }

    /// Begins a write; [`StateWriter::written`] gives its result.
    pub(super) fn write(&mut self, saved: SavedState) {
        let store = Arc::clone(&self.store);
        let foreign_since = self.foreign_since.take();
        let (result, outstanding) = oneshot::channel();
        self.worker.submit(move || {
            let written = store.write(&saved, foreign_since);
            // The lock of the directory is free for another exporter before the result is known.
            drop(store);
            result.send(written).ok();
        });
        self.outstanding = Some(outstanding);
    }

    /// The result of the outstanding write; never ready without one.
    pub(super) async fn written(&mut self) -> Result<(), String> {
        let Some(outstanding) = &mut self.outstanding else {
            return pending().await;
        };
        let written = outstanding.await;
        self.outstanding = None;
        match written {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("the queue of the disk is full".to_owned()),
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem
    )
}

impl Store {
    fn write(&self, saved: &SavedState, foreign_since: Option<Timestamp>) -> io::Result<()> {
        let mut directory = self
            .directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let directory = match &mut *directory {
            Some(directory) => directory,
            closed @ None => closed.insert(Directory::open(&self.path)?),
        };
        if let Some(since) = foreign_since {
            logging::foreign_state_kept(&directory.set_aside("foreign", since));
        }
        directory.write(saved)
    }
}
