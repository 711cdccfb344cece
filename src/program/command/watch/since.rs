//! The file of `--since`: what earlier runs have printed.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use super::{
    client::file_error,
    printed::{Printed, VERSION},
};
use crate::{
    base::file::{self, Filesystem as _, OsFilesystem},
    program::CommandError,
};

/// Far more than an exporter has events.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone)]
pub(super) struct SinceFile {
    /// Absolute, since its directory is synchronised.
    path: PathBuf,
}

impl SinceFile {
    /// Opens the file and reads what it says; `None` where there is no file yet, or an empty one.
    ///
    /// # Errors
    /// When the file cannot be read or is none of this command, which leaves it as it is, or when it has no directory.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<Printed>), CommandError> {
        let error = |why: String| file_error("since", path, &why);
        let absolute = std::path::absolute(path).map_err(|cause| error(cause.to_string()))?;
        let directory = absolute.parent().unwrap_or(&absolute);
        if !directory.is_dir() {
            return Err(error("is not in a directory that exists".to_owned()));
        }
        let printed = read(&absolute).map_err(error)?;
        Ok((Self { path: absolute }, printed))
    }

    /// Blocks.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<()> {
        file::replace(&mut OsFilesystem, &self.path, content)
    }
}

fn read(path: &Path) -> Result<Option<Printed>, String> {
    let text = match OsFilesystem.read(path, MAX_BYTES) {
        // As `mktemp` leaves it.
        Ok(text) if text.is_empty() => return Ok(None),
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let printed = serde_json::from_slice(&text).ok();
    let printed = printed.filter(|printed: &Printed| printed.version == VERSION);
    printed.map(Some).ok_or_else(|| {
        "was not written by this version of watch: name another file, or remove it to begin anew"
            .to_owned()
    })
}
