//! Spans that wait for their collector: bounded, in order, on disk where there is one.
//!
//! ```text
//! <directory>/00000000000000000042-1794906942-3.json     a batch: sequence, Unix time, number of spans
//! <directory>/….json.new                                 being written; what a crash leaves of it is removed
//! <directory>/….json.unreadable                          set aside: torn, foreign, or of a newer exporter
//! ```
//!
//! Promised: what [`Spool::append`] has taken is on disk when it returns (write, fsync, rename, fsync of the directory),
//! or, where the disk refuses it, in memory until the disk takes it; the order stays; only [`Spool::done`] and the bounds
//! remove a batch, and each span that is given up is counted by its reason. A crash can repeat a batch, never lose one.
//! Never: the content of the spool in memory. What is kept there of a batch on disk are five numbers.

mod codec;
mod disk;
mod entry;
mod files;
mod handle;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing::warn;

pub use files::{Disk, Files};
pub use handle::SpoolHandle;

use self::entry::Entry;
use super::Counts;
pub use super::trace::Batch;
use crate::{snapshot::DropReason, time::Timestamp};

/// How much is kept for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Of all batches.
    pub bytes: u64,
    /// Of the batches that are not on disk.
    pub memory_bytes: u64,
    /// Batches.
    pub batches: usize,
    /// Since it was appended, by the wall clock.
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

/// The oldest batch, lent to the sender.
#[derive(Debug, Clone, PartialEq)]
pub struct Lent {
    /// Says to [`Spool::done`] which one it is.
    pub ticket: Ticket,
    /// What to send.
    pub batch: Batch,
}

/// Names a batch while this process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

/// The spool itself. Its calls do I/O and block.
#[derive(Debug)]
pub struct Spool {
    files: Box<dyn Files>,
    directory: Option<PathBuf>,
    /// Whether what earlier processes left in the directory is in `entries`.
    is_listed: bool,
    limits: SpoolLimits,
    entries: VecDeque<Entry>,
    next_sequence: u64,
    next_ticket: u64,
    /// Files of batches that are done and could not be removed.
    leftovers: Vec<String>,
    /// What the disk said last, while it refuses.
    trouble: Option<io::ErrorKind>,
    counts: Counts,
}

impl Spool {
    /// Opens the spool in a directory, with all that is in it; without one it is in memory. A directory that cannot be
    /// used is reported and tried again with every batch.
    pub fn open(directory: Option<&Path>, files: Box<dyn Files>, limits: SpoolLimits) -> Self {
        let mut spool = Self {
            files,
            directory: directory.map(Path::to_owned),
            is_listed: false,
            limits,
            entries: VecDeque::new(),
            next_sequence: 1,
            next_ticket: 0,
            leftovers: Vec::new(),
            trouble: None,
            counts: Counts::default(),
        };
        spool.take_over();
        spool
    }

    /// What became of the spans so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether there is a directory, so that what waits survives the end of this process.
    pub fn is_durable(&self) -> bool {
        self.directory.is_some()
    }

    /// Takes a batch in. When this returns, a crash can no longer lose it, unless the disk refuses it.
    pub fn append(&mut self, batch: &Batch, now: Timestamp) {
        let spans = u32::try_from(batch.spans.len()).unwrap_or(u32::MAX);
        if spans == 0 {
            return;
        }
        self.take_over();
        self.expire(now);
        let content = match codec::write(batch) {
            Ok(content) => content,
            Err(error) => {
                warn!(%error, "spans cannot be written down and are lost");
                self.counts.drop_spans(DropReason::Unreadable, spans.into());
                return;
            }
        };
        self.make_room(content.len() as u64);
        let mut entry = Entry {
            ticket: self.ticket(),
            sequence: self.next_sequence,
            at: seconds(now),
            spans,
            bytes: content.len() as u64,
            memory: None,
            is_reported: false,
        };
        self.next_sequence += 1;
        let stored = self.store(&entry, &content);
        if !self.note(stored) {
            entry.memory = Some(content.into());
            self.make_room_in_memory(entry.bytes);
        }
        self.counts.spooled += u64::from(spans);
        self.entries.push_back(entry);
    }

    /// The oldest batch that can be read. It stays until it is [`done`](Spool::done).
    pub fn next(&mut self, now: Timestamp) -> Option<Lent> {
        self.expire(now);
        let mut place = 0;
        loop {
            let entry = self.entries.get(place)?;
            let (ticket, name) = (entry.ticket, entry.name());
            let read = match (&entry.memory, &self.directory) {
                (Some(content), _) => Ok(content.to_vec()),
                (None, Some(directory)) => self.files.read(&directory.join(&name)),
                (None, None) => Err(io::ErrorKind::NotFound.into()),
            };
            let problem = match read.map(|content| codec::read(&content)) {
                Ok(Ok(batch)) => return Some(Lent { ticket, batch }),
                Ok(Err(unreadable)) => unreadable.to_string(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => error.to_string(),
                // The disk may say something else the next time.
                Err(error) => {
                    self.report_unread(place, &error);
                    place += 1;
                    continue;
                }
            };
            warn!(
                file = name,
                problem, "spans in the spool cannot be read: set aside"
            );
            self.forget(place, DropReason::Unreadable);
            self.set_aside(&name);
        }
    }

    /// The batch is off our hands: it goes.
    pub fn done(&mut self, ticket: Ticket) {
        self.refused(ticket, 0);
    }

    /// The batch is off our hands, and the collector refused so many of its spans for good. What was dropped while it
    /// was under way has been counted already.
    pub fn refused(&mut self, ticket: Ticket, spans: u64) {
        let Some(place) = self.entries.iter().position(|entry| entry.ticket == ticket) else {
            return;
        };
        self.counts.drop_spans(DropReason::Rejected, spans);
        if let Some(entry) = self.entries.remove(place) {
            self.discard(&entry);
        }
    }

    /// Drops what is too old, and gives the disk what it refused before.
    pub fn maintain(&mut self, now: Timestamp) {
        self.take_over();
        self.expire(now);
        let Some(directory) = self.directory.clone() else {
            return;
        };
        for name in std::mem::take(&mut self.leftovers) {
            self.remove(&directory, name);
        }
        while let Some(place) = self.entries.iter().position(|entry| entry.memory.is_some()) {
            let Some(mut entry) = self.entries.remove(place) else {
                return;
            };
            let content = entry.memory.take().unwrap_or_default();
            let stored = self.store(&entry, &content);
            let is_stored = self.note(stored);
            entry.memory = (!is_stored).then_some(content);
            let sequence = entry.sequence;
            let place = self
                .entries
                .partition_point(|other| other.sequence < sequence);
            self.entries.insert(place, entry);
            if !is_stored {
                return;
            }
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    fn expire(&mut self, now: Timestamp) {
        let oldest = seconds(now.before(self.limits.age));
        while self.entries.front().is_some_and(|entry| entry.at < oldest) {
            self.drop_oldest(DropReason::Age);
        }
    }

    fn make_room(&mut self, bytes: u64) {
        let mut used: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        while used + bytes > self.limits.bytes || self.entries.len() >= self.limits.batches {
            let Some(entry) = self.entries.front() else {
                return;
            };
            used -= entry.bytes;
            self.drop_oldest(DropReason::SpoolFull);
        }
    }

    fn make_room_in_memory(&mut self, bytes: u64) {
        let in_memory = |entry: &&Entry| entry.memory.is_some();
        let mut used: u64 = self
            .entries
            .iter()
            .filter(in_memory)
            .map(|entry| entry.bytes)
            .sum();
        while used + bytes > self.limits.memory_bytes {
            let Some(place) = self.entries.iter().position(|entry| entry.memory.is_some()) else {
                return;
            };
            if let Some(entry) = self.entries.remove(place) {
                used -= entry.bytes;
                self.give_up(&entry, DropReason::SpoolFull);
            }
        }
    }

    fn drop_oldest(&mut self, reason: DropReason) {
        if let Some(entry) = self.entries.pop_front() {
            self.give_up(&entry, reason);
        }
    }

    fn give_up(&mut self, entry: &Entry, reason: DropReason) {
        warn!(
            reason = reason.as_str(),
            spans = entry.spans,
            "spans were not sent in time and are dropped from the spool"
        );
        self.counts.drop_spans(reason, entry.spans.into());
        self.discard(entry);
    }

    /// Off the list, but not off the disk.
    fn forget(&mut self, place: usize, reason: DropReason) {
        if let Some(entry) = self.entries.remove(place) {
            self.counts.drop_spans(reason, entry.spans.into());
            self.counts.spooled = self.counts.spooled.saturating_sub(entry.spans.into());
        }
    }

    /// Once for each batch.
    fn report_unread(&mut self, place: usize, error: &io::Error) {
        let unreported = self.entries.get_mut(place).filter(|it| !it.is_reported);
        if let Some(entry) = unreported {
            entry.is_reported = true;
            let (file, spans) = (entry.name(), entry.spans);
            warn!(file, spans, %error, "spans in the spool cannot be read for now: they wait");
        }
    }

    fn discard(&mut self, entry: &Entry) {
        self.counts.spooled = self.counts.spooled.saturating_sub(entry.spans.into());
        // Also one that is in memory: the disk may have it without having said so.
        if let Some(directory) = self.directory.clone().filter(|_| self.is_listed) {
            self.remove(&directory, entry.name());
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
