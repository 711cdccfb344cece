//! The few things that the spool does with files, so that a test can stop it before each of them.

use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
};

/// Operations on a directory of small files. Each of them may be the last one of this process.
pub trait Files: fmt::Debug + Send {
    /// Makes a directory and those above it.
    fn make_directory(&mut self, directory: &Path) -> io::Result<()>;
    /// Names and sizes of the files in a directory.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<(String, u64)>>;
    /// The content of a file.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;
    /// Writes a file, and returns when the disk has it. A failure may leave a part of it.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Gives a file another name, in one step that is done or not done.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Returns when the disk has the names of a directory.
    fn sync_directory(&mut self, directory: &Path) -> io::Result<()>;
}

/// The system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
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
        // Windows has no such call: NTFS keeps its names in a journal.
        if cfg!(windows) {
            return Ok(());
        }
        fs::File::open(directory)?.sync_all()
    }
}
