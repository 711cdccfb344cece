//! A bounded queue of unsent batches of one signal, in a directory or in memory.
//!
//! ```text
//! <directory>/01794906942123456789-3.otlp     a request: Unix time in nanoseconds, number of records
//! <directory>/….otlp.new                      being written; removed at the next start after a crash
//! <directory>/….otlp.unreadable               set aside: truncated or foreign
//! ```
//!
//! Invariants: when `Spool::append` returns, the batch is on disk, or in memory until the disk accepts it; only
//! `Spool::complete` and the limits remove a batch, and each record is counted once, as exported or by the reason for
//! which it was dropped. A crash can repeat a batch but not lose one. The limits do not remove the batch in flight, so
//! the spool can exceed them by one batch.

mod directory;
mod handle;
mod limits;

use std::{
    collections::BTreeMap,
    io::{
        self,
        ErrorKind::{FileTooLarge, InvalidData, NotFound, UnexpectedEof},
    },
    path::{Path, PathBuf},
};

use bytes::Bytes;
use tokio::sync::watch;
use tracing::warn;

pub use handle::SpoolHandle;
pub use limits::SpoolLimits;

use super::{
    batch::Batch,
    request::{self, EncodedBatch},
    signal::Signal,
};
use crate::{
    base::{file::Filesystem, time::Moment},
    outputs::output_counters::{DropReason, ExportCounts},
};

use self::directory::file_name;

/// What is kept in memory of a batch.
#[derive(Debug)]
struct SpoolEntry {
    records: u64,
    bytes: u64,
    /// The encoded batch, while it is not on disk.
    memory: Option<Bytes>,
    /// How often it was postponed.
    postponed: u32,
}

impl SpoolEntry {
    fn new(records: u64, bytes: u64) -> Self {
        Self {
            records,
            bytes,
            memory: None,
            postponed: 0,
        }
    }
}

/// All calls do I/O and block.
#[derive(Debug)]
pub struct Spool {
    signal: Signal,
    files: Box<dyn Filesystem>,
    directory: Option<PathBuf>,
    /// The batches of earlier processes are known.
    is_loaded: bool,
    limits: SpoolLimits,
    /// By their ids: the Unix time in nanoseconds when they were appended, or one more than the id before.
    entries: BTreeMap<u64, SpoolEntry>,
    /// Leased: the collector may have it by now.
    in_flight: Option<u64>,
    last_id: u64,
    /// Files of completed batches that could not be removed.
    undeleted: Vec<String>,
    /// The error of the last write, if it failed.
    write_error: Option<io::ErrorKind>,
    counts: watch::Sender<ExportCounts>,
}

impl Spool {
    /// Opens the spool in a directory with the batches in it, or in memory. A directory that cannot be used is logged
    /// and tried again with each batch and every half a minute.
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
            counts: watch::Sender::new(ExportCounts::default()),
        };
        spool.load();
        spool
    }

    /// When this returns the batch is durable, unless the disk failed. Halves a batch that exceeds the limit of one
    /// batch; a single record that exceeds it is dropped.
    pub(crate) fn append(&mut self, mut batch: Batch, now: Moment) {
        let count = batch.records.len();
        let max_bytes = self.limits.max_batch_bytes();
        match request::encode(&batch, self.signal) {
            Ok(content) if content.len() as u64 <= max_bytes => {
                self.append_encoded(content, count as u64, now);
            }
            _ if count > 1 => {
                let second = Batch {
                    records: batch.records.split_off(count / 2),
                    resource: batch.resource.clone(),
                };
                self.append(batch, now);
                self.append(second, now);
            }
            result => {
                let names = self.signal.records();
                warn!(
                    max_bytes,
                    error = result.err().map(|error| error.to_string()),
                    "one of the {names} is too large for the spool, dropped"
                );
                self.count(|counts| counts.drop_records(DropReason::TooLarge, 1));
            }
        }
    }

    fn append_encoded(&mut self, content: Bytes, records: u64, now: Moment) {
        let bytes = content.len() as u64;
        let is_loaded = self.load();
        self.make_room(bytes);
        let nanos = u64::try_from(now.wall.as_unix_nanos()).unwrap_or_default();
        let id = nanos.max(self.last_id + 1);
        self.last_id = id;
        let is_stored = is_loaded && self.store(&file_name(id, records), &content);
        if !is_stored {
            self.make_room_in_memory(bytes);
        }
        let entry = SpoolEntry {
            memory: (!is_stored).then_some(content),
            ..SpoolEntry::new(records, bytes)
        };
        self.entries.insert(id, entry);
        self.count(|counts| counts.spooled += records);
    }

    fn count(&self, count: impl FnOnce(&mut ExportCounts)) {
        self.counts.send_modify(count);
    }

    /// The oldest readable batch of those that were postponed least. It stays in the spool until `Spool::complete`, and
    /// is in flight until then or until `Spool::maintain`.
    pub(crate) fn next(&mut self) -> Option<(u64, EncodedBatch)> {
        let entries = self.entries.iter();
        let mut ids: Vec<_> = entries.map(|(id, entry)| (entry.postponed, *id)).collect();
        ids.sort_unstable();
        let lease = ids.into_iter().find_map(|(_, id)| self.read(id));
        self.in_flight = lease.as_ref().map(|(id, _)| *id);
        lease
    }

    /// An unreadable batch is set aside, unless the error may be transient.
    fn read(&mut self, id: u64) -> Option<(u64, EncodedBatch)> {
        let entry = self.entries.get(&id)?;
        let (file, count) = (file_name(id, entry.records), entry.records);
        let read = match (&entry.memory, &self.directory) {
            (Some(content), _) => Ok(content.clone()),
            (None, Some(directory)) => {
                let max = self.limits.max_batch_bytes();
                let read = self.files.read(&directory.join(&file), max);
                read.map(Bytes::from)
            }
            (None, None) => Err(NotFound.into()),
        };
        let batch = read.and_then(|content| {
            let batch = EncodedBatch::decode(self.signal, content)?;
            let is_complete = batch.count() == count;
            is_complete.then_some(batch).ok_or_else(|| {
                io::Error::new(InvalidData, "another number of records than the name says")
            })
        });
        let error = match batch {
            Ok(batch) => return Some((id, batch)),
            Err(error) => error,
        };
        // The kinds of errors of decoding, and of files that are missing or too large.
        if !matches!(
            error.kind(),
            InvalidData | UnexpectedEof | NotFound | FileTooLarge
        ) {
            if entry.postponed == 0 {
                warn!(file, count, %error, "spool file cannot be read, trying again later");
            }
            self.postpone(id);
            return None;
        }
        warn!(file, %error, "spool file is unreadable, set aside");
        self.entries.remove(&id);
        self.set_aside(&file);
        self.count(|counts| {
            counts.drop_records(DropReason::Unreadable, count);
            counts.spooled = counts.spooled.saturating_sub(count);
        });
        None
    }

    /// Sends other batches before this one.
    pub(crate) fn postpone(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.postponed = entry.postponed.saturating_add(1);
        }
    }

    /// Removes a batch that need not be sent again, of which the collector refused some records.
    pub(crate) fn complete(&mut self, id: u64, refused: u64, reason: DropReason) {
        self.delete(id, |counts, records| {
            counts.exported += records.saturating_sub(refused);
            counts.drop_records(reason, refused);
        });
    }

    /// Retries failed writes and removals. No batch is in flight.
    pub(crate) fn maintain(&mut self) {
        self.in_flight = None;
        for name in std::mem::take(&mut self.undeleted) {
            self.remove(name);
        }
        if !self.load() {
            return;
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

    /// Removes a batch, and counts its records.
    fn delete(&mut self, id: u64, count: impl FnOnce(&mut ExportCounts, u64)) {
        let Some(SpoolEntry { records, .. }) = self.entries.remove(&id) else {
            return;
        };
        // A batch in memory may be on disk too: its write can fail after the rename.
        self.remove(file_name(id, records));
        self.count(|counts| {
            counts.spooled = counts.spooled.saturating_sub(records);
            count(counts, records);
        });
    }
}

#[cfg(test)]
mod tests;
