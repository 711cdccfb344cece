//! The file of `--since`: what earlier runs have printed.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use tracing::warn;

use super::{client::file_error, printed::Printed};
use crate::{
    base::{
        file::{self, Filesystem as _, OsFilesystem},
        time::Timestamp,
    },
    program::CommandError,
};

/// Far more than it has.
const MAX_BYTES: u64 = 64 << 10;
/// Appended to its name for the file that shows that it is in use: it is itself replaced by each write.
const LOCK_SUFFIX: &str = ".lock";

#[derive(Debug, Clone)]
pub(super) struct SinceFile {
    /// Absolute, since its directory is synchronised.
    path: PathBuf,
    /// `None` where no file can be created, which the first write says.
    _lock: Option<Arc<File>>,
}

impl SinceFile {
    /// Opens the file and reads what it says; `None` where there is no file yet, or an empty one. One that was not
    /// written by this version, or not to its end, is kept under another name.
    ///
    /// # Errors
    /// When the path cannot be used, or another process uses it.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<Printed>), CommandError> {
        let error = |why: String| file_error("since", path, &why);
        let absolute = std::path::absolute(path).map_err(|cause| error(cause.to_string()))?;
        let directory = absolute.parent().unwrap_or(&absolute);
        if !directory.is_dir() {
            return Err(error("is not in a directory that exists".to_owned()));
        }
        if fs::symlink_metadata(&absolute).is_ok_and(|it| !it.is_file()) {
            return Err(error("is not a regular file".to_owned()));
        }
        let lock = match file::lock(&with_suffix(&absolute, LOCK_SUFFIX)) {
            Ok(lock) => Some(Arc::new(lock)),
            Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => {
                return Err(CommandError::system(
                    &format!("--since: {}", path.display()),
                    &"another watch uses this file: give each its own",
                ));
            }
        };
        let printed = read(&absolute).map_err(error)?;
        let file = Self {
            path: absolute,
            _lock: lock,
        };
        Ok((file, printed))
    }

    /// Blocks.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<()> {
        file::replace(&mut OsFilesystem, &self.path, content)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn read(path: &Path) -> Result<Option<Printed>, String> {
    match OsFilesystem.read(path, MAX_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() != ErrorKind::FileTooLarge => {
            return Err(format!("cannot be read: {error}"));
        }
        // As `mktemp` leaves it.
        Ok(content) if content.is_empty() => return Ok(None),
        Ok(content) => {
            let printed = Printed::from_json(&content);
            if printed.is_some() {
                return Ok(printed);
            }
        }
        Err(_) => {}
    }
    let time = Timestamp::now().as_unix_seconds();
    let kept_as = with_suffix(path, &format!(".unreadable-{time:.0}"));
    fs::rename(path, &kept_as).map_err(|cause| format!("cannot be renamed: {cause}"))?;
    let (path, kept_as) = (path.display(), kept_as.display());
    warn!(%path, %kept_as, "the file of --since is damaged or of another version: beginning anew");
    Ok(None)
}
