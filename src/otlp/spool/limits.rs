//! What the spool may hold, and what it drops beyond that.

use std::time::Duration;

use tracing::warn;

use super::{Entry, Spool};
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
        for (id, entry) in &mut self.entries {
            entry.expires_at.get_or_insert_with(|| {
                let appended_at = Timestamp::from_unix_nanos(i128::from(*id)).unwrap_or(now.wall);
                let age = now.wall.saturating_since(appended_at);
                let left = limit.saturating_sub(age);
                now.monotonic
                    .saturating_add(left.max(MIN_RESTORED_AGE_LEFT))
            });
        }
        let is_expired = |entry: &Entry| entry.expires_at.is_some_and(|at| at < now.monotonic);
        while self.drop_oldest(is_expired, DropReason::Age) {}
    }

    /// Drops the oldest batches until there is room for a batch with this number of bytes.
    pub(super) fn make_room(&mut self, bytes: u64) {
        let SpoolLimits { bytes: max, .. } = self.limits;
        let max_batches = self.limits.batches.saturating_sub(usize::from(bytes > 0));
        while (self.bytes(|_| true) + bytes > max || self.entries.len() > max_batches)
            && self.drop_oldest(|_| true, DropReason::SpoolFull)
        {}
    }

    /// The same for a batch that is not on disk.
    pub(super) fn make_room_in_memory(&mut self, bytes: u64) {
        let in_memory = |entry: &Entry| entry.memory.is_some();
        while self.bytes(in_memory) + bytes > self.limits.memory_bytes
            && self.drop_oldest(in_memory, DropReason::SpoolFull)
        {}
    }

    fn bytes(&self, is_counted: impl Fn(&Entry) -> bool) -> u64 {
        let entries = self.entries.values().filter(|entry| is_counted(entry));
        entries.map(|entry| entry.bytes).sum()
    }

    /// Drops the oldest of these batches that is not in flight. False if there is none.
    fn drop_oldest(&mut self, is_dropped: impl Fn(&Entry) -> bool, reason: DropReason) -> bool {
        let mut entries = self.entries.iter();
        let oldest = entries.find(|(id, entry)| Some(**id) != self.in_flight && is_dropped(entry));
        let Some((&id, &Entry { records, .. })) = oldest else {
            return false;
        };
        warn!(
            reason = reason.as_str(),
            count = records,
            "unsent {} dropped from the spool",
            self.signal.records()
        );
        self.counts.drop_records(reason, records);
        self.delete(id);
        true
    }
}
