//! What a spool may hold.

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
