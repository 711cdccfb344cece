//! What a spool may hold, and what it drops beyond that.

use tracing::warn;

use super::{Spool, SpoolEntry};
use crate::outputs::output_counters::DropReason;

/// What the spool may hold; it drops the oldest batches beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolLimits {
    pub bytes: u64,
    /// The most bytes of the batches that are not on disk together, and of one batch.
    pub memory_bytes: u64,
    pub batches: usize,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            memory_bytes: 512 << 10,
            batches: 4_096,
        }
    }
}

impl SpoolLimits {
    pub(super) fn max_batch_bytes(&self) -> u64 {
        self.memory_bytes.min(self.bytes)
    }
}

impl Spool {
    /// Drops the oldest batches until there is room for a batch with this number of bytes.
    pub(super) fn make_room(&mut self, bytes: u64) {
        let SpoolLimits { bytes: max, .. } = self.limits;
        let max_batches = self.limits.batches.saturating_sub(usize::from(bytes > 0));
        while (self.bytes(|_| true) + bytes > max || self.entries.len() > max_batches)
            && self.drop_oldest(|_| true)
        {}
    }

    /// Makes room for a batch that is not on disk.
    pub(super) fn make_room_in_memory(&mut self, bytes: u64) {
        let in_memory = |entry: &SpoolEntry| entry.memory.is_some();
        while self.bytes(in_memory) + bytes > self.limits.memory_bytes
            && self.drop_oldest(in_memory)
        {}
    }

    fn bytes(&self, is_counted: impl Fn(&SpoolEntry) -> bool) -> u64 {
        let entries = self.entries.values().filter(|entry| is_counted(entry));
        entries.map(|entry| entry.bytes).sum()
    }

    /// Drops the oldest of these batches that is not in flight. False if there is none.
    fn drop_oldest(&mut self, is_dropped: impl Fn(&SpoolEntry) -> bool) -> bool {
        let mut entries = self.entries.iter();
        let oldest = entries.find(|(id, entry)| Some(**id) != self.in_flight && is_dropped(entry));
        let Some((&id, &SpoolEntry { records, .. })) = oldest else {
            return false;
        };
        warn!(
            reason = DropReason::SpoolFull.as_str(),
            count = records,
            "unsent {} dropped from the spool",
            self.signal.records()
        );
        self.delete(id, |counts, records| {
            counts.drop_records(DropReason::SpoolFull, records);
        });
        true
    }
}
