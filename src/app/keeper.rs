//! Keeps the state file up to date without ever making the event loop wait for a disk for long.
//!
//! One write is under way at a time, on a thread that ends when it is done. After a change the loop waits for it, so that
//! what a scraper sees has been kept, but not for longer than [`PATIENCE`]: a disk that hangs must not stop polls. For the
//! heartbeat it does not wait.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    task::spawn_blocking,
    time::timeout,
};

use super::{exporter::Legacy, logging};
use crate::{
    config::StateStorage,
    lifecycle::Restored,
    state::{self, Directory, Found, Saved},
    time::{Moment, Timestamp},
};

/// How long a poll waits for the disk.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// How long the end waits for it: what is not written then is never written.
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// From one heartbeat on disk to the next, while an event is pending; from one try to the next, while the disk fails.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Writes the state file.
#[derive(Debug)]
pub(super) struct Keeper {
    store: Arc<Store>,
    under_way: Option<oneshot::Receiver<io::Result<()>>>,
    /// Something changed since the last write began, or that write failed.
    is_stale: bool,
    written_at: Option<Duration>,
    is_failing: bool,
    /// How many writes failed.
    failures: u64,
    /// The file that is there is another VM's, as was seen then: it is kept under another name.
    foreign_since: Option<Timestamp>,
}

/// The directory, which may still have to be opened: a disk that was read-only at the start may not stay so.
#[derive(Debug)]
struct Store {
    path: std::path::PathBuf,
    directory: Mutex<Option<Directory>>,
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
            failures: 0,
            foreign_since: None,
        }
    }

    /// The state directory.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.store.path
    }

    /// How many writes failed so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures
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

    /// Writes what has changed, and waits for it with patience: what `saved` gives is on the disk then, or the disk is slow
    /// or failing. Where nothing has changed it waits for nothing.
    pub(super) async fn keep(
        &mut self,
        is_pending: bool,
        now: Moment,
        saved: impl Fn() -> Saved,
        patience: Duration,
    ) {
        self.take_note();
        if !self.is_stale {
            return self.begin(is_pending, now, &saved);
        }
        let kept = async {
            // The one that is under way may have begun before the change.
            self.finish().await;
            self.begin(is_pending, now, &saved);
            self.finish().await;
        };
        let _goes_on_without_us = timeout(patience, kept).await.is_err();
    }

    /// The heartbeat of a pending event: writes where that is due, and waits for nothing.
    pub(super) fn beat(&mut self, now: Moment, saved: impl Fn() -> Saved) {
        self.take_note();
        self.begin(true, now, &saved);
    }

    /// What became of the write that is under way, where that is known already.
    fn take_note(&mut self) {
        let done = self.under_way.as_mut().map(oneshot::Receiver::try_recv);
        match done {
            Some(Ok(written)) => self.done(&written),
            Some(Err(TryRecvError::Closed)) => self.done(&Err(panicked())),
            Some(Err(TryRecvError::Empty)) | None => {}
        }
    }

    /// Begins a write where one is due and none is under way.
    fn begin(&mut self, is_pending: bool, now: Moment, saved: &impl Fn() -> Saved) {
        let is_old = self
            .written_at
            .is_none_or(|at| now.monotonic.saturating_sub(at) >= HEARTBEAT);
        let is_due = if self.is_failing {
            is_old
        } else {
            self.is_stale || is_pending && is_old
        };
        if self.under_way.is_none() && is_due {
            self.is_stale = false;
            self.written_at = Some(now.monotonic);
            let (store, saved) = (Arc::clone(&self.store), saved());
            let foreign_since = self.foreign_since.take();
            let (tell, told) = oneshot::channel();
            spawn_blocking(move || {
                let written = store.write(&saved, foreign_since);
                // Whoever is told may end, and let another exporter have the directory at once.
                drop(store);
                tell.send(written)
            });
            self.under_way = Some(told);
        }
    }

    /// Waits for the write that is under way.
    async fn finish(&mut self) {
        if let Some(under_way) = &mut self.under_way {
            let written = under_way.await.unwrap_or_else(|_| Err(panicked()));
            self.done(&written);
        }
    }

    fn done(&mut self, written: &io::Result<()>) {
        self.under_way = None;
        match written {
            Ok(()) if self.is_failing => logging::state_kept_again(&self.store.path),
            Err(error) if !self.is_failing => logging::state_not_kept(&self.store.path, error),
            Ok(()) | Err(_) => {}
        }
        self.is_failing = written.is_err();
        self.is_stale |= self.is_failing;
        self.failures += u64::from(self.is_failing);
    }
}

fn panicked() -> io::Error {
    io::Error::other("the thread that wrote it panicked")
}

/// Opens the state directory and takes over what an earlier process left there.
///
/// A disk that is full or read-only now may not stay so: then the exporter goes on in memory with what it can read there,
/// and tries again.
pub(super) fn take_over(
    state: &StateStorage,
    boot_id: Option<&str>,
    now: Moment,
) -> Result<(Option<Keeper>, Option<Legacy>), state::Error> {
    let path = match state {
        StateStorage::Directory(path) => path,
        StateStorage::InMemory => {
            logging::memory_only();
            return Ok((None, None));
        }
        StateStorage::Disabled => return Ok((None, None)),
    };
    let directory = match Directory::open(path) {
        Ok(directory) => Some(directory),
        Err(state::Error::Unusable { cause, .. })
            if matches!(
                cause.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            None
        }
        Err(error) => return Err(error),
    };
    let legacy = match state::read(path, now.wall) {
        Found::Nothing => None,
        Found::Unreadable { why, kept_as } => {
            logging::unreadable_state(path, &why, kept_as.as_deref());
            None
        }
        Found::State(saved) => {
            let rebooted =
                saved.boot_id.is_some() && boot_id.is_some() && saved.boot_id.as_deref() != boot_id;
            logging::restored(path, &saved, rebooted);
            let restored = Restored {
                events: saved.events,
                document_at: saved.document_at,
                heartbeat_at: Some(saved.heartbeat_at),
                rebooted,
            };
            Some(Legacy {
                restored,
                vm_name: saved.vm_name.map(Arc::from),
                vm_id: saved.vm_id,
            })
        }
    };
    Ok((Some(Keeper::new(path.clone(), directory)), legacy))
}

impl Store {
    fn write(&self, saved: &Saved, foreign_since: Option<Timestamp>) -> io::Result<()> {
        let mut directory = self
            .directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if directory.is_none() {
            *directory = Some(Directory::open(&self.path)?);
        }
        let Some(directory) = directory.as_mut() else {
            return Ok(());
        };
        if let Some(since) = foreign_since {
            logging::state_set_aside(&directory.set_aside("foreign", since));
        }
        directory.write(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(vm_name: &str) -> Saved {
        Saved {
            boot_id: None,
            heartbeat_at: Timestamp::UNIX_EPOCH,
            document_at: None,
            vm_name: Some(vm_name.to_owned()),
            vm_id: None,
            events: Vec::new(),
        }
    }

    fn moment(seconds: u64) -> Moment {
        let start = Moment {
            wall: Timestamp::UNIX_EPOCH,
            monotonic: Duration::ZERO,
        };
        start.after(Duration::from_secs(seconds))
    }

    fn on_disk(path: &std::path::Path) -> Option<String> {
        match state::read(path, Timestamp::UNIX_EPOCH) {
            Found::State(saved) => saved.vm_name,
            Found::Nothing | Found::Unreadable { .. } => None,
        }
    }

    #[tokio::test]
    async fn a_change_is_on_the_disk_also_when_a_heartbeat_is_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(folder.path().to_owned(), None);
        keeper.beat(moment(1), || saved("before"));
        keeper.mark();
        keeper
            .keep(true, moment(1), || saved("after"), PATIENCE)
            .await;
        assert_eq!(on_disk(folder.path()).as_deref(), Some("after"));
        keeper
            .keep(true, moment(1), || saved("nothing new"), PATIENCE)
            .await;
        assert_eq!(on_disk(folder.path()).as_deref(), Some("after"));
    }

    #[tokio::test]
    async fn a_disk_that_fails_is_tried_once_a_second_until_it_takes_what_was_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        std::fs::File::create(&path).unwrap();
        let mut keeper = Keeper::new(path.clone(), None);
        for tenth in 0..30 {
            let now = moment(0).after(Duration::from_millis(100 * tenth));
            keeper.keep(true, now, || saved("lost"), PATIENCE).await;
            keeper.mark();
        }
        assert_eq!(keeper.failures(), 3);
        std::fs::remove_file(&path).unwrap();
        keeper
            .keep(false, moment(3), || saved("kept"), PATIENCE)
            .await;
        assert_eq!(on_disk(&path).as_deref(), Some("kept"));
        assert_eq!(keeper.failures(), 3);
    }
}
