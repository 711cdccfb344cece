//! A bounded queue of unsent batches of one signal, in a directory or in memory.
//!
//! ```text
//! <directory>/01794906942123456789-3.json     a batch: Unix time in nanoseconds, number of records
//! <directory>/….json.new                      being written; removed at the next start after a crash
//! <directory>/….json.unreadable               set aside: truncated, foreign, or of a newer exporter
//! ```
//!
//! Invariants: when `Spool::append` returns, the batch is on disk, or in memory until the disk accepts it; the order
//! is kept; only `Spool::complete` and the limits remove a batch, and each record is counted once, as exported or by
//! the reason for which it was dropped. A crash can repeat a batch but not lose one. The content of a batch on disk is
//! not kept in memory. A batch that exceeds the limit of one batch is stored in parts; larger files in the directory
//! are not read. The limits do not remove the batch in flight, so the spool can exceed them by one batch.

#[doc(hidden)] // for the fuzz targets
pub mod codec;
mod directory;
mod handle;
mod limits;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing::warn;

pub use handle::SpoolHandle;
pub use limits::SpoolLimits;

pub(crate) use super::batch::Batch;
use super::{batch::Record, resource::Resource, signal::Signal};
use crate::{
    file::Filesystem,
    snapshot::{DropReason, ExportCounts},
    time::Moment,
};

use self::directory::file_name;

/// A batch, with its id for `Spool::complete`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lease {
    pub(crate) id: u64,
    pub(crate) batch: Batch,
}

/// What became of the records of a batch that need not be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The collector accepted them.
    pub(crate) exported: u64,
    /// The collector refused them.
    pub(crate) dropped: u64,
    pub(crate) reason: DropReason,
}

/// What is kept in memory of a batch.
#[derive(Debug)]
struct Entry {
    records: u64,
    bytes: u64,
    /// The encoded batch, while it is not on disk.
    memory: Option<Vec<u8>>,
    /// How often it was postponed.
    postponed: u32,
    /// By the monotonic clock, so that a step of the wall clock does not change it. `None` until the limits look at a
    /// batch of an earlier process.
    expires_at: Option<Duration>,
}

impl Entry {
    fn new(records: u64, bytes: u64) -> Self {
        Self {
            records,
            bytes,
            memory: None,
            postponed: 0,
            expires_at: None,
        }
    }
}

/// All calls do I/O and block.
#[derive(Debug)]
pub struct Spool {
    signal: Signal,
    files: Box<dyn Filesystem>,
    directory: Option<PathBuf>,
    /// Whether the batches of earlier processes are in `entries`.
    is_loaded: bool,
    limits: SpoolLimits,
    /// By their ids: the Unix time in nanoseconds when they were appended, or one more than the id before.
    entries: BTreeMap<u64, Entry>,
    /// Leased: the collector may have it by now.
    in_flight: Option<u64>,
    last_id: u64,
    /// Files of completed batches that could not be removed.
    undeleted: Vec<String>,
    /// The error of the last write, if it failed.
    write_error: Option<io::ErrorKind>,
    counts: ExportCounts,
}

impl Spool {
    /// Opens the spool in a directory with the batches in it, or in memory. A directory that cannot be used is logged
    /// and tried again with each batch.
    pub fn open(
        signal: Signal,
        directory: Option<&Path>,
        files: Box<dyn Filesystem>,
        limits: SpoolLimits,
    ) -> Self {
        let mut spool = Self {
            signal,
            files,
            directory: directory.map(Path::to_owned),
            is_loaded: false,
            limits,
            entries: BTreeMap::new(),
            in_flight: None,
            last_id: 0,
            undeleted: Vec::new(),
            write_error: None,
            counts: ExportCounts::default(),
        };
        spool.load();
        spool
    }

    pub(crate) fn counts(&self) -> &ExportCounts {
        &self.counts
    }

    /// Whether unsent records survive the end of this process.
    pub(crate) fn is_durable(&self) -> bool {
        self.directory.is_some()
    }

    /// When this returns the batch is durable, unless the disk failed.
    pub(crate) fn append(&mut self, batch: &Batch, now: Moment) {
        self.load();
        self.expire(now);
        self.append_records(&batch.resource, &batch.records, now);
    }

    /// Halves a batch that exceeds the limit of one batch. A single record that exceeds it is dropped.
    fn append_records(&mut self, resource: &Resource, records: &[Record], now: Moment) {
        if records.is_empty() {
            return;
        }
        let max = self.limits.max_batch_bytes();
        let max_bytes = usize::try_from(max).unwrap_or(usize::MAX);
        match codec::encode(resource, records, max_bytes) {
            Ok(Some(content)) => self.append_encoded(content, records.len() as u64, now),
            Ok(None) if records.len() > 1 => {
                let (first, second) = records.split_at(records.len() / 2);
                self.append_records(resource, first, now);
                self.append_records(resource, second, now);
            }
            Ok(None) => {
                let names = self.signal.records();
                warn!(
                    max_bytes,
                    "one of the {names} is too large for the spool, dropped"
                );
                self.counts.drop_records(DropReason::TooLarge, 1);
            }
            Err(error) => {
                let names = self.signal.records();
                warn!(%error, "{names} cannot be encoded and are dropped");
                let count = records.len() as u64;
                self.counts.drop_records(DropReason::Unreadable, count);
            }
        }
    }

    fn append_encoded(&mut self, content: Vec<u8>, records: u64, now: Moment) {
        let bytes = content.len() as u64;
        self.make_room(bytes);
        let nanos = u64::try_from(now.wall.as_unix_nanos()).unwrap_or_default();
        let id = nanos.max(self.last_id + 1);
        self.last_id = id;
        let is_stored = self.store(&file_name(id, records), &content);
        if !is_stored {
            self.make_room_in_memory(bytes);
        }
        let entry = Entry {
            memory: (!is_stored).then_some(content),
            expires_at: Some(now.monotonic.saturating_add(self.limits.age)),
            ..Entry::new(records, bytes)
        };
        self.counts.spooled += records;
        self.entries.insert(id, entry);
    }

    /// The oldest readable batch of those that were postponed least. It stays in the spool until `Spool::complete`, and
    /// is in flight until then or until `Spool::maintain`.
    pub(crate) fn next(&mut self, now: Moment) -> Option<Lease> {
        self.expire(now);
        let entries = self.entries.iter();
        let mut ids: Vec<_> = entries.map(|(id, entry)| (entry.postponed, *id)).collect();
        ids.sort_unstable();
        let lease = ids.into_iter().find_map(|(_, id)| self.read(id));
        self.in_flight = lease.as_ref().map(|lease| lease.id);
        lease
    }

    /// An unreadable batch is set aside, unless the error may be transient.
    fn read(&mut self, id: u64) -> Option<Lease> {
        let entry = self.entries.get(&id)?;
        let (file, count) = (file_name(id, entry.records), entry.records);
        let read = match (&entry.memory, &self.directory) {
            (Some(content), _) => Ok(content.clone()),
            (None, Some(directory)) => {
                let max = self.limits.max_batch_bytes();
                self.files.read(&directory.join(&file), max)
            }
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        };
        let problem = match read.map(|content| codec::decode(&content)) {
            Ok(Ok(batch)) => return Some(Lease { id, batch }),
            Ok(Err(error)) => error.to_string(),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge
                ) =>
            {
                error.to_string()
            }
            Err(error) => {
                if entry.postponed == 0 {
                    warn!(file, count, %error, "spool file cannot be read, trying again later");
                }
                self.postpone(id);
                return None;
            }
        };
        warn!(file, problem, "spool file is unreadable, set aside");
        self.entries.remove(&id);
        self.counts.drop_records(DropReason::Unreadable, count);
        self.counts.spooled = self.counts.spooled.saturating_sub(count);
        self.set_aside(&file);
        None
    }

    /// Sends other batches before this one.
    pub(crate) fn postpone(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.postponed = entry.postponed.saturating_add(1);
        }
    }

    /// Removes a batch.
    pub(crate) fn complete(&mut self, id: u64, completion: Completion) {
        if self.entries.contains_key(&id) {
            let Completion {
                exported,
                dropped,
                reason,
            } = completion;
            self.counts.exported += exported;
            self.counts.drop_records(reason, dropped);
            self.delete(id);
        }
    }

    /// Drops batches that are too old, and retries failed writes and removals. No batch is in flight.
    pub(crate) fn maintain(&mut self, now: Moment) {
        self.in_flight = None;
        self.load();
        self.expire(now);
        let Some(directory) = self.usable_directory() else {
            return;
        };
        for name in std::mem::take(&mut self.undeleted) {
            self.remove(&directory, name);
        }
        let mut entries = std::mem::take(&mut self.entries);
        let in_memory = entries.iter_mut().filter(|(_, it)| it.memory.is_some());
        for (id, entry) in in_memory {
            let content = entry.memory.as_deref().unwrap_or_default();
            if !self.store(&file_name(*id, entry.records), content) {
                break;
            }
            entry.memory = None;
        }
        self.entries = entries;
    }

    fn delete(&mut self, id: u64) {
        let Some(Entry { records, .. }) = self.entries.remove(&id) else {
            return;
        };
        self.counts.spooled = self.counts.spooled.saturating_sub(records);
        // A batch in memory may be on disk too: its write can fail after the rename.
        if let Some(directory) = self.usable_directory() {
            self.remove(&directory, file_name(id, records));
        }
    }
}

#[cfg(test)]
mod tests;
