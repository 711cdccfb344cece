//! Keeps the state file up to date without ever making the event loop wait for a disk for long.
//!
//! One write is under way at a time, on a thread that ends when it is done. The loop waits for it, so that what a scraper
//! sees has been kept, but not for longer than [`PATIENCE`]: a disk that hangs must not stop polls.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use super::{exporter::Legacy, report};
use crate::{
    config::State,
    lifecycle::Restored,
    state::{self, Directory, Found, Saved},
    time::{Moment, Timestamp},
};

/// How long a poll waits for the disk.
const PATIENCE: Duration = Duration::from_millis(500);
/// From one heartbeat on disk to the next, while an event is pending.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Writes the state file.
#[derive(Debug)]
pub(super) struct Keeper {
    store: Arc<Store>,
    under_way: Option<JoinHandle<io::Result<()>>>,
    /// Something changed since the last write began, or that write failed.
    is_stale: bool,
    written_at: Option<Duration>,
    is_failing: bool,
    /// The file that is there is another VM's, as was seen then: it is kept under another name.
    foreign_since: Option<Timestamp>,
}

/// The directory, which may still have to be opened: a disk that was read-only at the start may not stay so.
#[derive(Debug)]
struct Store {
    path: std::path::PathBuf,
    directory: Mutex<Option<Directory>>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing was to be written, or it is still under way.
    Nothing,
    /// It is on the disk.
    Written,
    /// It is not.
    Failed,
}

impl Keeper {
    pub(super) fn new(path: std::path::PathBuf, directory: Option<Directory>) -> Self {
        Self {
            store: Arc::new(Store {
                path,
                directory: Mutex::new(directory),
            }),
            under_way: None,
            is_stale: true,
            written_at: None,
            is_failing: false,
            foreign_since: None,
        }
    }

    /// The state directory.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.store.path
    }

    /// Something changed.
    pub(super) fn mark(&mut self) {
        self.is_stale = true;
    }

    /// What was taken over is another VM's.
    pub(super) fn mark_foreign(&mut self, now: Timestamp) {
        self.foreign_since = Some(now);
        self.is_stale = true;
    }

    /// Begins a write where one is due and none is under way.
    pub(super) fn begin(&mut self, is_pending: bool, now: Moment, saved: impl FnOnce() -> Saved) {
        let beat_due = self
            .written_at
            .is_none_or(|at| now.monotonic.saturating_sub(at) >= HEARTBEAT)
            && is_pending;
        if self.under_way.is_none() && (self.is_stale || beat_due) {
            self.is_stale = false;
            self.written_at = Some(now.monotonic);
            let (store, saved) = (Arc::clone(&self.store), saved());
            let foreign_since = self.foreign_since.take();
            self.under_way = Some(spawn_blocking(move || store.write(&saved, foreign_since)));
        }
    }

    /// Waits for the write that is under way, with patience.
    pub(super) async fn finish(&mut self) -> Kept {
        let Some(under_way) = &mut self.under_way else {
            return Kept::Nothing;
        };
        let Ok(done) = timeout(PATIENCE, under_way).await else {
            return Kept::Nothing;
        };
        self.under_way = None;
        let written = done.unwrap_or_else(|error| Err(io::Error::other(error)));
        match &written {
            Ok(()) if self.is_failing => report::state_kept_again(&self.store.path),
            Err(error) if !self.is_failing => report::state_not_kept(&self.store.path, error),
            Ok(()) | Err(_) => {}
        }
        self.is_failing = written.is_err();
        self.is_stale |= self.is_failing;
        if self.is_failing {
            Kept::Failed
        } else {
            Kept::Written
        }
    }
}

/// Opens the state directory and takes over what an earlier process left there.
///
/// A disk that is full or read-only now may not stay so: then the exporter begins in memory and tries again.
pub(super) fn take_over(
    state: &State,
    boot_id: Option<&str>,
    now: Moment,
) -> Result<(Option<Keeper>, Option<Legacy>), state::Error> {
    let path = match state {
        State::Directory(path) => path,
        State::Memory => {
            report::memory_only();
            return Ok((None, None));
        }
        State::Forgotten => return Ok((None, None)),
    };
    let directory = match Directory::open(path) {
        Ok(directory) => directory,
        Err(state::Error::Unusable { cause, .. })
            if matches!(
                cause.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            return Ok((Some(Keeper::new(path.clone(), None)), None));
        }
        Err(error) => return Err(error),
    };
    let legacy = match directory.read(now.wall) {
        Found::Nothing => None,
        Found::Unreadable { why, kept_as } => {
            report::unreadable_state(path, &why, kept_as.as_deref());
            None
        }
        Found::State(saved) => {
            let rebooted =
                saved.boot_id.is_some() && boot_id.is_some() && saved.boot_id.as_deref() != boot_id;
            report::restored(path, &saved, rebooted);
            let restored = Restored {
                lives: saved.lives,
                document_at: saved.document_at,
                heartbeat_at: Some(saved.heartbeat_at),
                rebooted,
            };
            Some(Legacy {
                restored,
                own_name: saved.own_name.map(Arc::from),
                vm_id: saved.vm_id,
            })
        }
    };
    Ok((Some(Keeper::new(path.clone(), Some(directory))), legacy))
}

impl Store {
    fn write(&self, saved: &Saved, foreign_since: Option<Timestamp>) -> io::Result<()> {
        let mut directory = self
            .directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if directory.is_none() {
            *directory = Some(Directory::open(&self.path).map_err(|error| match error {
                state::Error::Unusable { cause, .. } => cause,
                locked @ state::Error::Locked { .. } => io::Error::other(locked),
            })?);
        }
        let Some(directory) = directory.as_ref() else {
            return Ok(());
        };
        if let Some(since) = foreign_since {
            report::state_set_aside(&directory.set_aside("foreign", since));
        }
        directory.write(saved)
    }
}
