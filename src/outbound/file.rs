//! Files that must survive a crash: the file system as a trait, so that tests can fail each step, and atomic replacement.

use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
};

use crate::system;

/// The operations of the state file and the spool. The process may be killed after any of them.
pub trait Filesystem: fmt::Debug + Send {
    /// Creates a directory and its parents.
    fn make_directory(&mut self, directory: &Path) -> io::Result<()>;
    /// Names and sizes of the files in a directory.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<(String, u64)>>;
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;
    /// Writes and syncs a file. A failure may leave a part of it.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Renames a file atomically.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed names in a directory durable.
    fn sync_directory(&mut self, directory: &Path) -> io::Result<()>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct OsFilesystem;

impl Filesystem for OsFilesystem {
    fn make_directory(&mut self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                found.push((name, metadata.len()));
            }
        }
        Ok(found)
    }

    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = fs::File::create(path)?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        system::sync_directory(directory)
    }
}

/// What is appended to the name of a file while it is written.
pub(crate) const DRAFT_SUFFIX: &str = ".new";

/// Replaces a file as a whole: after a crash it has the old content or the new, and once this returns, the new.
pub fn replace(files: &mut dyn Filesystem, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(DRAFT_SUFFIX);
    let draft = Path::new(&draft);
    let written = files
        .write(draft, content)
        .and_then(|()| files.rename(draft, path));
    if let Err(error) = written {
        // On a full disk a part of the file would take space from others. The next replacement overwrites it otherwise.
        files.remove(draft).ok();
        return Err(error);
    }
    match path.parent() {
        Some(directory) => files.sync_directory(directory),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_leaves_the_new_content_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for content in [&b"old and long"[..], b"new"] {
            replace(&mut OsFilesystem, &path, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn failed_replace_keeps_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        replace(&mut OsFilesystem, &path, b"old").unwrap();
        fs::create_dir(folder.path().join("state.json.new")).unwrap();
        replace(&mut OsFilesystem, &path, b"new").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
