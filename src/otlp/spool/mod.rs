//! A bounded queue of unsent batches of one signal, in a directory or in memory.
//!
//! ```text
//! <directory>/00000000000000000042-1794906942-3.json     a batch: sequence, Unix time, number of records
//! <directory>/….json.new                                 being written; removed at the next start after a crash
//! <directory>/….json.unreadable                          set aside: truncated, foreign, or of a newer exporter
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
mod entry;
mod handle;
mod limits;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing::warn;

pub(crate) use entry::BatchId;
pub use handle::SpoolHandle;
pub use limits::SpoolLimits;

pub(crate) use super::batch::Batch;
use super::{batch::Record, resource::Resource, signal::Signal};
use crate::{
    outbound::file::Filesystem,
    snapshot::{DropReason, ExportCounts},
    time::Moment,
};

use self::entry::{Age, Entry};

/// The oldest readable batch, with its id for `Spool::complete`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lease {
    pub(crate) id: BatchId,
    pub(crate) batch: Batch,
}

/// What became of the records of a batch that need not be sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The collector accepted them.
    pub(crate) exported: u64,
    /// The collector rejected them.
    pub(crate) rejected: u64,
    /// The collector found their batch too large.
    pub(crate) too_large: u64,
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
    entries: VecDeque<Entry>,
    /// Leased: the collector may have it by now.
    in_flight: Option<BatchId>,
    next_sequence: u64,
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
            entries: VecDeque::new(),
            in_flight: None,
            next_sequence: 1,
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

    fn limits(&self) -> SpoolLimits {
        self.limits
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
        let encoded = codec::encode(
            resource,
            records,
            usize::try_from(max).unwrap_or(usize::MAX),
        );
        match encoded {
            Ok(Some(content)) => self.append_encoded(content, records.len(), now),
            Ok(None) if records.len() > 1 => {
                let (first, second) = records.split_at(records.len() / 2);
                self.append_records(resource, first, now);
                self.append_records(resource, second, now);
            }
            Ok(None) => {
                let record = self.signal.record();
                warn!(
                    max_bytes = max,
                    "{record} is too large for the spool, dropped"
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

    fn append_encoded(&mut self, content: Vec<u8>, records: usize, now: Moment) {
        self.evict(content.len() as u64, 1);
        let mut entry = Entry {
            id: self.next_id(),
            sequence: self.next_sequence,
            appended_at: limits::unix_seconds(now.wall),
            age: Some(Age::zero(now)),
            records: u32::try_from(records).unwrap_or(u32::MAX),
            bytes: content.len() as u64,
            memory: None,
            deferred_until: None,
            is_reported: false,
        };
        self.next_sequence += 1;
        let stored = self.store(&entry, &content);
        if !self.record_write(stored) {
            entry.memory = Some(content.into());
            self.evict_from_memory(entry.bytes);
        }
        self.counts.spooled += u64::from(entry.records);
        self.entries.push_back(entry);
    }

    /// The oldest readable batch that is not deferred, else the deferred one whose time, at most `due_by`, came first.
    /// It stays in the spool until `Spool::complete`, and is in flight until then or until `Spool::maintain`.
    pub(crate) fn next(&mut self, now: Moment, due_by: Duration) -> Option<Lease> {
        self.expire(now);
        let mut due: Vec<_> = self
            .entries
            .iter()
            .map(|entry| (entry.deferred_until, entry.id))
            .filter(|(until, _)| until.is_none_or(|until| until <= due_by))
            .collect();
        due.sort_by_key(|(until, _)| *until);
        let lease = due.into_iter().find_map(|(_, id)| self.read(id));
        self.in_flight = lease.as_ref().map(|lease| lease.id);
        lease
    }

    /// An unreadable batch is set aside, unless the error may be transient.
    fn read(&mut self, id: BatchId) -> Option<Lease> {
        let index = self.position(id)?;
        let entry = self.entries.get(index)?;
        let name = entry.file_name();
        let read = match (&entry.memory, &self.directory) {
            (Some(content), _) => Ok(content.to_vec()),
            (None, Some(directory)) => {
                let max = self.limits.max_batch_bytes();
                self.files.read(&directory.join(&name), max)
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
                self.report_read_error(index, &error);
                return None;
            }
        };
        warn!(file = name, problem, "spool file is unreadable, set aside");
        self.drop_unreadable(index);
        self.set_aside(&name);
        None
    }

    /// Defers the next attempt to send a batch until this time of the monotonic clock.
    pub(crate) fn defer(&mut self, id: BatchId, until: Duration) {
        let index = self.position(id);
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            entry.deferred_until = Some(until);
        }
    }

    /// Deferred batches are due now, after all others.
    pub(crate) fn end_deferrals(&mut self) {
        for until in self
            .entries
            .iter_mut()
            .filter_map(|entry| entry.deferred_until.as_mut())
        {
            *until = Duration::ZERO;
        }
    }

    /// When the next deferred batch is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let deferred = self.entries.iter().filter_map(|entry| entry.deferred_until);
        deferred.min()
    }

    fn position(&self, id: BatchId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == id)
    }

    /// Removes a batch.
    pub(crate) fn complete(&mut self, id: BatchId, completion: Completion) {
        let Some(index) = self.position(id) else {
            return;
        };
        let counts = &mut self.counts;
        counts.exported += completion.exported;
        counts.drop_records(DropReason::Rejected, completion.rejected);
        counts.drop_records(DropReason::TooLarge, completion.too_large);
        if let Some(entry) = self.entries.remove(index) {
            self.delete(&entry);
        }
    }

    /// Drops batches that are too old, and retries failed writes and removals. No batch is in flight.
    pub(crate) fn maintain(&mut self, now: Moment) {
        self.in_flight = None;
        self.load();
        self.expire(now);
        let Some(directory) = self.directory.clone() else {
            return;
        };
        for name in std::mem::take(&mut self.undeleted) {
            self.remove(&directory, name);
        }
        while let Some(index) = self.entries.iter().position(|entry| entry.memory.is_some()) {
            let Some(mut entry) = self.entries.remove(index) else {
                return;
            };
            let content = entry.memory.take().unwrap_or_default();
            let stored = self.store(&entry, &content);
            let is_stored = self.record_write(stored);
            entry.memory = (!is_stored).then_some(content);
            let sequence = entry.sequence;
            let index = self
                .entries
                .partition_point(|other| other.sequence < sequence);
            self.entries.insert(index, entry);
            if !is_stored {
                return;
            }
        }
    }

    fn next_id(&mut self) -> BatchId {
        self.last_id += 1;
        BatchId(self.last_id)
    }

    /// Leaves the file.
    fn drop_unreadable(&mut self, index: usize) {
        if let Some(entry) = self.entries.remove(index) {
            let reason = DropReason::Unreadable;
            self.counts.drop_records(reason, entry.records.into());
            self.counts.spooled = self.counts.spooled.saturating_sub(entry.records.into());
        }
    }

    /// Logs once for each batch.
    fn report_read_error(&mut self, index: usize, error: &io::Error) {
        let unreported = self
            .entries
            .get_mut(index)
            .filter(|entry| !entry.is_reported);
        if let Some(entry) = unreported {
            entry.is_reported = true;
            let (file, count) = (entry.file_name(), entry.records);
            warn!(file, count, %error, "spool file cannot be read, trying again later");
        }
    }

    fn delete(&mut self, entry: &Entry) {
        self.counts.spooled = self.counts.spooled.saturating_sub(entry.records.into());
        // A batch in memory may be on disk too: its write can fail after the rename.
        if let Some(directory) = self.directory.clone().filter(|_| self.is_loaded) {
            self.remove(&directory, entry.file_name());
        }
    }
}

#[cfg(test)]
mod tests;
