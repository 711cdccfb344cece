//! What must survive a restart, in one file: `state.json` in the state directory.
//!
//! What it promises: the file is replaced as a whole (write, fsync, rename, fsync of the directory), so that a crash
//! leaves the old one or the new one; a file that cannot be read is kept under another name, and is never fatal; one
//! directory has one exporter. What it must never do: lose what is known in memory because a disk is full.
//!
//! All of it blocks; the caller brings a thread.

mod saved;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::{
    engine::SavedState,
    outbound::file::{self, OsFilesystem},
    system,
    time::Timestamp,
};

const FILE: &str = "state.json";
const LOCK: &str = "lock";

/// A state directory, locked.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Held for as long as this is; the system gives it back when the process ends, however it ends.
    lock: File,
}

/// Why a state directory cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it.
    #[error("{} is in use by another exporter: give each its own directory, or end the other one", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// It cannot be made or written to.
    #[error("{} cannot be used: {cause}; make it a directory that this process may write to", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// What was found in the directory.
#[derive(Debug)]
pub enum Found {
    /// No state: the first run here.
    Nothing,
    /// The state of an earlier process.
    State(Box<SavedState>),
    /// A file that is not one of ours, or not any more.
    Unreadable {
        /// What is wrong with it.
        why: String,
        /// Where it is kept; `None` where it could not be renamed.
        kept_as: Option<PathBuf>,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Unusable { cause, .. } => cause,
            locked @ Error::Locked { .. } => Self::other(locked),
        }
    }
}

/// Reads what an earlier process left in the directory at `path`, which need not be locked.
pub fn read(path: &Path, now: Timestamp) -> Found {
    let read = fs::read(path.join(FILE)).map_err(|error| (error.kind(), error.to_string()));
    let why = match read {
        Err((io::ErrorKind::NotFound, _)) => return Found::Nothing,
        Err((_, why)) => why,
        Ok(text) => match SavedState::from_json(&text) {
            Ok(saved) => return Found::State(Box::new(saved)),
            Err(why) => why,
        },
    };
    let kept_as = set_aside(path, "unreadable", now).ok();
    Found::Unreadable { why, kept_as }
}

fn set_aside(path: &Path, what: &str, now: Timestamp) -> io::Result<PathBuf> {
    let aside = path.join(format!("{FILE}.{what}-{:.0}", now.as_unix_seconds()));
    fs::rename(path.join(FILE), &aside)?;
    Ok(aside)
}

impl Directory {
    /// Makes the directory where it is not there, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let unusable = |cause| Error::Unusable {
            path: path.to_owned(),
            cause,
        };
        fs::create_dir_all(path).map_err(unusable)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                lock,
            }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(cause)) => Err(unusable(cause)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what an earlier process left.
    pub fn read(&self, now: Timestamp) -> Found {
        read(&self.path, now)
    }

    /// Gives the file another name that says what is wrong with it; returns that name.
    ///
    /// # Errors
    /// When there is none, or the directory cannot be written to.
    pub fn set_aside(&self, what: &str, now: Timestamp) -> io::Result<PathBuf> {
        set_aside(&self.path, what, now)
    }

    /// Replaces what is there. Where somebody removed the directory under us, it is made anew and locked: what is known is
    /// worth that.
    ///
    /// # Errors
    /// When the disk is full or read-only, or another process has the directory by now; the old file is still whole then.
    pub fn write(&mut self, saved: &SavedState) -> io::Result<()> {
        let text = saved.to_json()?;
        self.hold()?;
        file::replace(&mut OsFilesystem, &self.path.join(FILE), &text)
    }

    /// A lock in a directory that was removed keeps nobody out of the one that has its name now.
    fn hold(&mut self) -> io::Result<()> {
        if !system::is_named(&self.lock, &self.path.join(LOCK)) {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The system gives the lock back with the file in any case; this only says so.
        let _unlocked = self.lock.unlock().is_ok();
    }
}
