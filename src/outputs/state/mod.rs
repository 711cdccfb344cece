//! What survives a restart: `state.json` and `journal` in the state directory.
//!
//! Invariants: the state is replaced atomically (write, fsync, rename, fsync of the directory); the journal is written
//! before it; a file that could not be read is never overwritten: the first write renames it; one directory is used by one
//! exporter; only a regular file is read, and no symbolic link is followed, except for the directory itself.
//!
//! All functions block; the caller provides a thread.

#[cfg(test)]
pub(crate) mod fixtures;
pub mod journal_file;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::{
    base::{
        file::{self, Filesystem, OsFilesystem},
        json, system,
        time::Timestamp,
    },
    core::{engine::SavedState, journal::Journal},
};
use journal_file::{FileEnd, JournalContent};

const FILE: &str = "state.json";
const JOURNAL: &str = "journal";
const LOCK: &str = "lock";
/// The largest state file, in bytes: about twice what the tracker keeps at most. That is the largest document of IMDS
/// twice, 16 MiB of texts of missing and ended events, and a kilobyte for each of 11,000 events.
const MAX_BYTES: usize = 64 << 20;
/// The version of the state file that is written and read. Unknown members are ignored, so that a newer release can add
/// some; another version marks an incompatible change.
const VERSION: u32 = 3;

#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    files: Box<dyn Filesystem>,
    /// Released by the system when the process ends. `None` while the disk is full or read-only: the next write
    /// retries.
    lock: Option<File>,
    /// The files in place that the next write must keep, and under which name: `FILE.REASON-UNIX_SECONDS`.
    aside: BTreeMap<&'static str, PathBuf>,
    /// The id of the journal that belongs to the files in place. Another one begins if these are another VM's.
    journal: Option<Arc<str>>,
    /// `None`: the next write replaces the journal.
    journal_end: Option<FileEnd>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is in use by another exporter: give each its own directory, or end the other one", path.display())]
    Locked { path: PathBuf },
    #[error("{} cannot be used: {cause}; make it a directory that this process may write to", path.display())]
    Unusable { path: PathBuf, cause: io::Error },
}

#[derive(Debug)]
pub enum Found {
    Nothing,
    State(Box<SavedState>),
    /// The content is not a valid state; the next write keeps it as `state.json.unreadable-UNIX_SECONDS`.
    Unreadable(String),
    /// The content is unknown after an I/O error, which may be temporary; unless a later read succeeds, the next write
    /// keeps the file as `state.json.unread-UNIX_SECONDS`.
    Unavailable(String),
}

impl Directory {
    /// Creates the directory if necessary and locks it. On a disk that is full or read-only, locking is left to the
    /// first write that succeeds.
    pub fn open(path: &Path) -> Result<Self, Error> {
        use io::ErrorKind::{ReadOnlyFilesystem, StorageFull};
        let lock = match lock(path) {
            Err(Error::Unusable { cause, .. })
                if [StorageFull, ReadOnlyFilesystem].contains(&cause.kind()) =>
            {
                None
            }
            result => Some(result?),
        };
        Ok(Self {
            path: path.to_owned(),
            files: Box::new(OsFilesystem),
            lock,
            aside: BTreeMap::new(),
            journal: None,
            journal_end: None,
        })
    }

    /// Reads the state of an earlier process. The file stays in place.
    pub fn read(&mut self, now: Timestamp) -> Found {
        self.aside.remove(FILE);
        let why = match self.files.read(&self.path.join(FILE), MAX_BYTES as u64) {
            Ok(json) => match SavedState::from_json(&json) {
                Ok(saved) => return Found::State(Box::new(saved)),
                Err(why) => why,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                format!("larger than {MAX_BYTES} bytes")
            }
            Err(error) => {
                self.keep_aside(FILE, "unread", now);
                return Found::Unavailable(error.to_string());
            }
        };
        self.keep_aside(FILE, "unreadable", now);
        Found::Unreadable(why)
    }

    /// Reads the journal that belongs to this state. Without a state it is not known whose a journal is: a new one gets
    /// this id. A file that cannot be used stays in place until the next write.
    pub fn read_journal(
        &mut self,
        saved: Option<&SavedState>,
        new_id: Arc<str>,
        now: Timestamp,
    ) -> Journal {
        self.report_spools();
        let path = self.path.join(JOURNAL);
        let Some(counted) = saved.map(|saved| &saved.journal) else {
            let found = self.files.read(&path, 0).map_err(|error| error.kind());
            if found != Err(io::ErrorKind::NotFound) {
                warn!(path = %path.display(), "journal without its state: entries are not sent");
                self.keep_aside(JOURNAL, "unread", now);
            }
            self.journal = Some(Arc::clone(&new_id));
            return Journal::new(new_id);
        };
        let content = journal_file::read(&mut *self.files, &path, &counted.id);
        let content = content.unwrap_or_else(|why| {
            warn!(path = %path.display(), why, "journal unreadable: entries are not sent");
            self.keep_aside(JOURNAL, "unreadable", now);
            JournalContent::default()
        });
        if !content.entries.is_empty() {
            info!(entries = content.entries.len(), "restored journal");
        }
        self.journal_end = content.end;
        let mut journal = Journal::restore(counted, content.dropped, content.entries);
        journal.bounded = content.bounded;
        self.journal = Some(Arc::clone(&journal.id));
        journal
    }

    fn report_spools(&self) {
        for path in ["spool", "spool-logs"].map(|name| self.path.join(name)) {
            if fs::read_dir(&path).is_ok_and(|mut files| files.next().is_some()) {
                warn!(path = %path.display(), "spool of an earlier version: not sent; remove it");
            }
        }
    }

    fn keep_aside(&mut self, file: &'static str, reason: &str, now: Timestamp) {
        let name = format!("{file}.{reason}-{:.0}", now.as_unix_seconds());
        let name = self.path.join(name);
        self.aside.entry(file).or_insert(name);
    }

    /// Writes the journal, then the state, even if the journal failed. If the directory was removed, it is created and
    /// locked again.
    ///
    /// # Errors
    /// After an error, the old content still exists, under its old or its new name.
    pub fn write(&mut self, saved: &SavedState, journal: &Journal) -> io::Result<()> {
        let known = self.journal.replace(Arc::clone(&journal.id));
        if known.is_some_and(|known| known != journal.id) {
            self.keep_aside(FILE, "foreign", saved.heartbeat_at);
            self.keep_aside(JOURNAL, "foreign", saved.heartbeat_at);
            self.journal_end = None;
        }
        self.ensure_locked()?;
        // The state first: a journal without a state is not used.
        self.set_aside(FILE)?;
        let written = self.set_aside(JOURNAL).and_then(|()| {
            let path = self.path.join(JOURNAL);
            journal_file::write(&mut self.journal_end, &mut *self.files, &path, journal)
        });
        let json = saved.to_json()?;
        file::replace(&mut *self.files, &self.path.join(FILE), &json)?;
        written
    }

    /// A lock in a removed directory does not protect the directory that now has the name.
    fn ensure_locked(&mut self) -> io::Result<()> {
        let path = self.path.join(LOCK);
        let is_locked = self.lock.as_ref();
        if !is_locked.is_some_and(|lock| system::is_named(lock, &path)) {
            self.lock = Some(lock(&self.path).map_err(|error| match error {
                Error::Unusable { cause, .. } => cause,
                locked @ Error::Locked { .. } => io::Error::other(locked),
            })?);
        }
        Ok(())
    }

    fn set_aside(&mut self, file: &str) -> io::Result<()> {
        let Some(name) = self.aside.get(file) else {
            return Ok(());
        };
        match self.files.rename(&self.path.join(file), name) {
            Ok(()) => info!(kept_as = %name.display(), "previous {file} kept"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.aside.remove(file);
        Ok(())
    }
}

impl Drop for Directory {
    /// Windows may keep the lock of a closed file for a while
    /// (<https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-lockfileex#remarks>).
    fn drop(&mut self) {
        self.lock.as_ref().map(File::unlock);
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let unusable = |cause| Error::Unusable {
        path: path.to_owned(),
        cause,
    };
    system::make_private_directory(path).map_err(unusable)?;
    file::lock(&path.join(LOCK)).map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked {
            path: path.to_owned(),
        },
        TryLockError::Error(cause) => unusable(cause),
    })
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize)]
struct StateFile<'a> {
    version: u32,
    #[serde(flatten)]
    state: &'a SavedState,
}

impl SavedState {
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        let file = StateFile {
            version: VERSION,
            state: self,
        };
        let json = json::to_vec_up_to(&file, MAX_BYTES)?;
        json.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }

    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the file is empty".to_owned());
        }
        let invalid = |error: serde_json::Error| error.to_string();
        let Versioned { version } = serde_json::from_slice(text).map_err(invalid)?;
        if version != VERSION {
            let age = if version > VERSION {
                "a newer"
            } else {
                "an older"
            };
            return Err(format!(
                "written by {age} version of this program (version {version}, supported {VERSION})"
            ));
        }
        serde_json::from_slice(text).map_err(invalid)
    }
}
