//! A batch that is sent in parts, because the collector found the whole of it too large (413).
//!
//! The parts are not stored: after a crash the whole batch is sent again, with the same span ids.

use tracing::{info, warn};

use crate::otlp::{
    spool::{BatchId, Completion, Lease},
    trace::Batch,
};

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) id: BatchId,
    /// The last one is the next to be sent.
    unsent: Vec<Batch>,
    is_split: bool,
    pub(super) completion: Completion,
}

impl Parts {
    /// The whole batch as one part.
    pub(super) fn new(lease: Lease) -> Self {
        Self {
            id: lease.id,
            unsent: vec![lease.batch],
            is_split: false,
            completion: Completion::default(),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Batch> {
        self.unsent.pop()
    }

    pub(super) fn push(&mut self, part: Batch) {
        self.unsent.push(part);
    }

    /// Halves a part that was too large. A single span is dropped.
    pub(super) fn split(&mut self, mut part: Batch, message: &str) {
        let spans = part.spans.len();
        if spans < 2 {
            self.completion.too_large += spans as u64;
            warn!(
                error = message,
                "span is too large for the collector, dropped"
            );
            return;
        }
        if !std::mem::replace(&mut self.is_split, true) {
            info!(
                spans,
                error = message,
                "batch is too large for the collector, sent in parts"
            );
        }
        let second = Batch {
            resource: part.resource.clone(),
            spans: part.spans.split_off(spans / 2),
        };
        self.unsent.extend([second, part]);
    }
}
