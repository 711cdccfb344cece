//! A bounded queue of unsent span batches, in a directory or in memory.
//!
//! ```text
//! <directory>/00000000000000000042-1794906942-3.json     a batch: sequence, Unix time, number of spans
//! <directory>/….json.new                                 being written; removed at the next start after a crash
//! <directory>/….json.unreadable                          set aside: truncated, foreign, or of a newer exporter
//! ```
//!
//! Invariants: when `Spool::append` returns, the batch is on disk, or in memory until the disk accepts it; the order is
//! kept; only `Spool::complete` and the limits remove a batch, and each dropped span is counted by its reason. A crash
//! can repeat a batch but not lose one. The content of a batch on disk is not kept in memory.

mod codec;
mod directory;
mod entry;
mod handle;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing::warn;

pub(crate) use entry::BatchId;
pub use handle::SpoolHandle;

use self::entry::Entry;
pub(crate) use super::trace::Batch;
use crate::snapshot::SpanCounts;
use crate::{outbound::file::Filesystem, snapshot::DropReason, time::Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolLimits {
    pub bytes: u64,
    /// Of the batches that are not on disk.
    pub memory_bytes: u64,
    pub batches: usize,
    /// By the wall clock.
    pub age: Duration,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            memory_bytes: 512 << 10,
            batches: 4_096,
            age: Duration::from_hours(7 * 24),
        }
    }
}

/// The oldest readable batch, with its id for `Spool::complete`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lease {
    pub(crate) id: BatchId,
    pub(crate) batch: Batch,
}

/// What became of the spans of a batch that need not be sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The collector accepted them.
    pub(crate) exported: u64,
    /// The collector rejected them.
    pub(crate) rejected: u64,
    /// Each of them alone is too large for the collector.
    pub(crate) too_large: u64,
}

/// All calls do I/O and block.
#[derive(Debug)]
pub struct Spool {
    files: Box<dyn Filesystem>,
    directory: Option<PathBuf>,
    /// Whether the batches of earlier processes are in `entries`.
    is_loaded: bool,
    limits: SpoolLimits,
    entries: VecDeque<Entry>,
    next_sequence: u64,
    last_id: u64,
    /// Files of completed batches that could not be removed.
    undeleted: Vec<String>,
    /// The error of the last write, if it failed.
    write_error: Option<io::ErrorKind>,
    counts: SpanCounts,
}

impl Spool {
    /// Opens the spool in a directory with the batches in it, or in memory. A directory that cannot be used is logged and
    /// tried again with each batch.
    pub fn open(directory: Option<&Path>, files: Box<dyn Filesystem>, limits: SpoolLimits) -> Self {
        let mut spool = Self {
            files,
            directory: directory.map(Path::to_owned),
            is_loaded: false,
            limits,
            entries: VecDeque::new(),
            next_sequence: 1,
            last_id: 0,
            undeleted: Vec::new(),
            write_error: None,
            counts: SpanCounts::default(),
        };
        spool.load();
        spool
    }

    pub(crate) fn counts(&self) -> &SpanCounts {
        &self.counts
    }

    /// Whether unsent spans survive the end of this process.
    pub(crate) fn is_durable(&self) -> bool {
        self.directory.is_some()
    }

    /// When this returns the batch is durable, unless the disk failed.
    pub(crate) fn append(&mut self, batch: &Batch, now: Timestamp) {
        let spans = u32::try_from(batch.spans.len()).unwrap_or(u32::MAX);
        if spans == 0 {
            return;
        }
        self.load();
        self.expire(now);
        let content = match codec::encode(batch) {
            Ok(content) => content,
            Err(error) => {
                warn!(%error, "spans cannot be encoded and are dropped");
                self.counts.drop_spans(DropReason::Unreadable, spans.into());
                return;
            }
        };
        self.evict(content.len() as u64);
        let mut entry = Entry {
            id: self.next_id(),
            sequence: self.next_sequence,
            appended_at: seconds(now),
            spans,
            bytes: content.len() as u64,
            memory: None,
            is_reported: false,
        };
        self.next_sequence += 1;
        let stored = self.store(&entry, &content);
        if !self.record_write(stored) {
            entry.memory = Some(content.into());
            self.evict_from_memory(entry.bytes);
        }
        self.counts.spooled += u64::from(spans);
        self.entries.push_back(entry);
    }

    /// The oldest batch that can be read, or, with `after`, the next one after that batch, and the older ones after the
    /// youngest. It stays in the spool until `Spool::complete`.
    pub(crate) fn next(&mut self, now: Timestamp, after: Option<BatchId>) -> Option<Lease> {
        self.expire(now);
        let position = |entry: &Entry| Some(entry.id) == after;
        let mut index = self
            .entries
            .iter()
            .position(position)
            .map_or(0, |at| at + 1);
        let mut left = self.entries.len();
        while left > 0 {
            left -= 1;
            index %= self.entries.len();
            let entry = self.entries.get(index)?;
            let (id, name) = (entry.id, entry.file_name());
            let read = match (&entry.memory, &self.directory) {
                (Some(content), _) => Ok(content.to_vec()),
                (None, Some(directory)) => self.files.read(&directory.join(&name)),
                (None, None) => Err(io::ErrorKind::NotFound.into()),
            };
            let problem = match read.map(|content| codec::decode(&content)) {
                Ok(Ok(batch)) => return Some(Lease { id, batch }),
                Ok(Err(error)) => error.to_string(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => error.to_string(),
                // The error may be transient.
                Err(error) => {
                    self.report_read_error(index, &error);
                    index += 1;
                    continue;
                }
            };
            warn!(file = name, problem, "spool file is unreadable, set aside");
            self.drop_unreadable(index);
            self.set_aside(&name);
        }
        None
    }

    /// Removes a batch. Dropped spans of a batch that the limits removed meanwhile are not counted twice.
    pub(crate) fn complete(&mut self, id: BatchId, completion: Completion) {
        let Some(index) = self.entries.iter().position(|entry| entry.id == id) else {
            return;
        };
        let Completion {
            rejected,
            too_large,
            ..
        } = completion;
        self.counts.drop_spans(DropReason::Rejected, rejected);
        self.counts.drop_spans(DropReason::TooLarge, too_large);
        if let Some(entry) = self.entries.remove(index) {
            self.delete(&entry);
        }
    }

    /// Drops batches that are too old, and retries failed writes and removals.
    pub(crate) fn maintain(&mut self, now: Timestamp) {
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

    fn expire(&mut self, now: Timestamp) {
        let oldest = seconds(now.before(self.limits.age));
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.appended_at < oldest)
        {
            self.drop_oldest(DropReason::Age);
        }
    }

    fn evict(&mut self, bytes: u64) {
        let mut used: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        while used + bytes > self.limits.bytes || self.entries.len() >= self.limits.batches {
            let Some(entry) = self.entries.front() else {
                return;
            };
            used -= entry.bytes;
            self.drop_oldest(DropReason::SpoolFull);
        }
    }

    fn evict_from_memory(&mut self, bytes: u64) {
        let in_memory = |entry: &&Entry| entry.memory.is_some();
        let mut used: u64 = self
            .entries
            .iter()
            .filter(in_memory)
            .map(|entry| entry.bytes)
            .sum();
        while used + bytes > self.limits.memory_bytes {
            let Some(index) = self.entries.iter().position(|entry| entry.memory.is_some()) else {
                return;
            };
            if let Some(entry) = self.entries.remove(index) {
                used -= entry.bytes;
                self.drop_batch(&entry, DropReason::SpoolFull);
            }
        }
    }

    fn drop_oldest(&mut self, reason: DropReason) {
        if let Some(entry) = self.entries.pop_front() {
            self.drop_batch(&entry, reason);
        }
    }

    fn drop_batch(&mut self, entry: &Entry, reason: DropReason) {
        warn!(
            reason = reason.as_str(),
            spans = entry.spans,
            "unsent spans dropped from the spool"
        );
        self.counts.drop_spans(reason, entry.spans.into());
        self.delete(entry);
    }

    /// Leaves the file.
    fn drop_unreadable(&mut self, index: usize) {
        if let Some(entry) = self.entries.remove(index) {
            let reason = DropReason::Unreadable;
            self.counts.drop_spans(reason, entry.spans.into());
            self.counts.spooled = self.counts.spooled.saturating_sub(entry.spans.into());
        }
    }

    /// Logs once for each batch.
    fn report_read_error(&mut self, index: usize, error: &io::Error) {
        let unreported = self.entries.get_mut(index).filter(|it| !it.is_reported);
        if let Some(entry) = unreported {
            entry.is_reported = true;
            let (file, spans) = (entry.file_name(), entry.spans);
            warn!(file, spans, %error, "spool file cannot be read, trying again later");
        }
    }

    fn delete(&mut self, entry: &Entry) {
        self.counts.spooled = self.counts.spooled.saturating_sub(entry.spans.into());
        // A batch in memory may be on disk too: its write can fail after the rename.
        if let Some(directory) = self.directory.clone().filter(|_| self.is_loaded) {
            self.remove(&directory, entry.file_name());
        }
    }
}

fn seconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_unix_nanos() / 1_000_000_000)
        .unwrap_or_default()
        .max(0)
}

#[cfg(test)]
mod tests;
