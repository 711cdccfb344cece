//! What the spool may hold, and what it drops beyond that.

use std::time::Duration;

use tracing::warn;

use super::{
    Spool,
    entry::{Age, Entry},
};
use crate::{
    snapshot::DropReason,
    time::{Moment, Timestamp},
};

/// A batch of an earlier process is kept for at least this long, however old it is: its age is known by the wall clock
/// alone, which may have been set forward.
const MIN_RESTORED_AGE_LEFT: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolLimits {
    pub bytes: u64,
    /// Of the batches that are not on disk, and of one batch.
    pub memory_bytes: u64,
    pub batches: usize,
    /// By the monotonic clock, which stops while the VM is off. For the time before the start of this process the wall
    /// clock is used.
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

impl SpoolLimits {
    pub(super) fn max_batch_bytes(&self) -> u64 {
        self.memory_bytes.min(self.bytes)
    }
}

impl Spool {
    pub(super) fn expire(&mut self, now: Moment) {
        let limit = self.limits.age;
        let max = limit.saturating_sub(MIN_RESTORED_AGE_LEFT);
        for entry in &mut self.entries {
            let restored = || Age::of_restored(entry.appended_at, max, now);
            entry.age.get_or_insert_with(restored);
        }
        let is_expired = |entry: &Entry| entry.age.is_some_and(|age| age.at(now) > limit);
        while self.drop_oldest(is_expired, DropReason::Age).is_some() {}
    }

    /// Makes room for `batches` batches with `bytes` bytes.
    pub(super) fn evict(&mut self, bytes: u64, batches: usize) {
        let mut used: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        while used + bytes > self.limits.bytes || self.entries.len() + batches > self.limits.batches
        {
            let Some(evicted) = self.drop_oldest(|_| true, DropReason::SpoolFull) else {
                return;
            };
            used -= evicted;
        }
    }

    pub(super) fn evict_from_memory(&mut self, bytes: u64) {
        let in_memory = |entry: &Entry| entry.memory.is_some();
        let mut used: u64 = self
            .entries
            .iter()
            .filter(|entry| in_memory(entry))
            .map(|entry| entry.bytes)
            .sum();
        while used + bytes > self.limits.memory_bytes {
            let Some(evicted) = self.drop_oldest(in_memory, DropReason::SpoolFull) else {
                return;
            };
            used -= evicted;
        }
    }

    /// Drops the oldest of these batches that is not in flight, and returns its size.
    fn drop_oldest(
        &mut self,
        is_dropped: impl Fn(&Entry) -> bool,
        reason: DropReason,
    ) -> Option<u64> {
        let in_flight = self.in_flight;
        let index = self
            .entries
            .iter()
            .position(|entry| Some(entry.id) != in_flight && is_dropped(entry))?;
        let entry = self.entries.remove(index)?;
        warn!(
            reason = reason.as_str(),
            count = entry.records,
            "unsent {} dropped from the spool",
            self.signal.records()
        );
        self.counts.drop_records(reason, entry.records.into());
        self.delete(&entry);
        Some(entry.bytes)
    }
}

pub(super) fn unix_seconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_unix_nanos() / 1_000_000_000)
        .unwrap_or_default()
        .max(0)
}
