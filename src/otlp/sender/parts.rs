//! A batch that is sent in parts, because the collector found the whole of it too large (413).
//!
//! The parts are not stored: after a crash the whole batch is sent again, with the same ids.

use std::collections::BTreeMap;

use tracing::{info, warn};

use crate::otlp::{
    batch::Batch,
    spool::{BatchId, Completion, Lease},
};

/// The accepted parts of further batches are sent again.
const MAX_INCOMPLETE: usize = 64;

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) id: BatchId,
    /// The records that are not sent.
    unsent: Batch,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Progress {
    /// The number of records of the parts that need not be sent again.
    done: usize,
    /// The numbers of records of the other parts. The last one is the next to be sent.
    sizes: Vec<usize>,
    completion: Completion,
}

/// The progress of batches that were sent in part, without their records.
#[derive(Debug, Default)]
pub(super) struct IncompleteBatches(BTreeMap<BatchId, Progress>);

impl IncompleteBatches {
    /// The parts of a batch that are left, or the whole batch as one part.
    pub(super) fn resume(&mut self, lease: Lease) -> Parts {
        let Lease {
            id,
            batch: mut unsent,
        } = lease;
        let progress = self.0.remove(&id).unwrap_or_else(|| Progress {
            sizes: vec![unsent.records.len()],
            ..Progress::default()
        });
        unsent
            .records
            .drain(..progress.done.min(unsent.records.len()));
        Parts {
            id,
            unsent,
            progress,
        }
    }

    /// Keeps the progress of a batch whose next part failed.
    pub(super) fn suspend(&mut self, parts: Parts) {
        if parts.progress.is_split() {
            self.0.insert(parts.id, parts.progress);
        }
        if self.0.len() > MAX_INCOMPLETE {
            self.0.pop_first();
        }
    }
}

impl Progress {
    fn is_split(&self) -> bool {
        self.done > 0 || self.sizes.len() > 1
    }
}

impl Parts {
    pub(super) fn next(&mut self) -> Option<Batch> {
        let size = *self.progress.sizes.last()?;
        let records = self.unsent.records.iter().take(size);
        Some(Batch {
            resource: self.unsent.resource.clone(),
            records: records.cloned().collect(),
        })
    }

    /// What became of the part that was sent.
    pub(super) fn complete(&mut self, part: Completion) {
        let size = self.progress.sizes.pop().unwrap_or_default();
        self.unsent
            .records
            .drain(..size.min(self.unsent.records.len()));
        self.progress.done += size;
        let completion = &mut self.progress.completion;
        completion.exported += part.exported;
        completion.rejected += part.rejected;
        completion.too_large += part.too_large;
    }

    /// Of all parts.
    pub(super) fn completion(&self) -> Completion {
        self.progress.completion
    }

    /// Halves the next part, which was too large for the collector. A single record is dropped.
    pub(super) fn split(&mut self, record: &str, message: &str) {
        let count = self.progress.sizes.last().copied().unwrap_or_default();
        if count < 2 {
            warn!(
                error = message,
                "{record} is too large for the collector, dropped"
            );
            return self.complete(Completion {
                too_large: count as u64,
                ..Completion::default()
            });
        }
        if !self.progress.is_split() {
            info!(
                count,
                error = message,
                "batch is too large for the collector, sent in parts"
            );
        }
        self.progress.sizes.pop();
        let first = count / 2;
        self.progress.sizes.extend([count - first, first]);
    }
}
