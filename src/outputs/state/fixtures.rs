//! A disk in memory, which fails or ends the process at any of its steps.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use super::Directory;
use crate::base::file::Filesystem;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The process ends: what was written stays.
    Kill,
    /// The machine loses power: what was not synced may be zeros.
    PowerLoss,
    /// The step fails, and what it should sync may be zeros.
    Error,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// After this number of steps.
    fault: Option<(usize, Fault)>,
    is_killed: bool,
    /// The error of each change.
    write_error: Option<io::ErrorKind>,
    /// Those that were begun.
    appends: usize,
    replacements: usize,
}

impl Content {
    fn step(&mut self) -> io::Result<()> {
        if let Some((left, fault)) = &mut self.fault {
            if *left > 0 {
                *left -= 1;
            } else {
                self.is_killed = *fault != Fault::Error;
                let is_kill = *fault == Fault::Kill;
                self.fault = None;
                return Err(if is_kill {
                    io::ErrorKind::BrokenPipe.into()
                } else {
                    io::Error::other("Input/output error")
                });
            }
        }
        if self.is_killed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.write_error.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn file(&mut self, path: &Path) -> io::Result<&mut Vec<u8>> {
        let file = self.files.get_mut(path);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Steps: before anything is written, half of it, all of it, and the sync.
    fn extend(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        for part in [half, rest] {
            self.step()?;
            self.file(path)?.extend_from_slice(part);
        }
        let synced = self.step();
        if let Err(error) = &synced
            && error.kind() == io::ErrorKind::Other
        {
            let file = self.file(path)?;
            let start = file.len() - bytes.len();
            file[start..].fill(0);
        }
        synced
    }
}

impl Directory {
    /// A directory whose files, except for its lock, are on this disk.
    pub(crate) fn on(disk: &Disk, path: &Path) -> Self {
        let mut directory = Self::open(path).unwrap();
        directory.files = Box::new(disk.clone());
        directory
    }
}

impl Disk {
    fn lock(&self) -> std::sync::MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    pub(crate) fn fail_after(&self, steps: usize, fault: Fault) {
        self.lock().fault = Some((steps, fault));
    }

    pub(crate) fn fail_writes(&self, error: Option<io::ErrorKind>) {
        self.lock().write_error = error;
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.lock().is_killed
    }

    pub(crate) fn restart(&self) {
        self.lock().is_killed = false;
    }

    /// Ends the faults. False if one was still to come.
    pub(crate) fn repair(&self) -> bool {
        self.lock().fault.take().is_none()
    }

    /// Appends and replacements so far.
    pub(crate) fn writes(&self) -> (usize, usize) {
        let content = self.lock();
        (content.appends, content.replacements)
    }

    pub(crate) fn get(&self, path: &Path) -> Option<Vec<u8>> {
        self.lock().files.get(path).cloned()
    }

    pub(crate) fn put(&self, path: &Path, content: impl Into<Vec<u8>>) {
        self.lock().files.insert(path.to_owned(), content.into());
    }

    pub(crate) fn delete(&self, path: &Path) {
        self.lock().files.remove(path);
    }

    pub(crate) fn clear(&self) {
        self.lock().files.clear();
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let content = self.lock();
        let names = content.files.keys().map(|path| path.file_name().unwrap());
        names
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn all(&self) -> Vec<Vec<u8>> {
        self.lock().files.values().cloned().collect()
    }
}

impl Filesystem for Disk {
    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        let file = self.lock().file(path)?.clone();
        if file.len() as u64 > max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(file)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut disk = self.lock();
        disk.replacements += 1;
        disk.step()?;
        disk.files.insert(path.to_owned(), Vec::new());
        disk.extend(path, content)
    }

    fn append(&mut self, path: &Path, length: u64, lines: &[u8]) -> io::Result<()> {
        let mut disk = self.lock();
        disk.appends += 1;
        if disk.file(path)?.len() as u64 != length {
            return Err(io::ErrorKind::InvalidData.into());
        }
        disk.extend(path, lines)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        let file = disk.file(from)?.clone();
        disk.files.remove(from);
        disk.files.insert(to.to_owned(), file);
        disk.step()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.step()?;
        disk.files.remove(path);
        disk.step()
    }

    fn sync_directory(&mut self, _: &Path) -> io::Result<()> {
        self.lock().step()
    }
}
