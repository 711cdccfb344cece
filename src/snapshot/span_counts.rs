//! The counters of spans: all but the number of waiting spans only grow.

use std::collections::BTreeMap;

use super::{DropReason, ExportFailure};

/// Since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanCounts {
    /// Spans that a collector accepted.
    pub exported: u64,
    /// Failed export attempts.
    pub failures: BTreeMap<ExportFailure, u64>,
    /// Spans that will never be exported.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Spans in the spool.
    pub spooled: u64,
    /// Failed writes to the directory of the spool.
    pub write_failures: u64,
}

impl Default for SpanCounts {
    fn default() -> Self {
        Self {
            exported: 0,
            failures: ExportFailure::ALL.map(|reason| (reason, 0)).into(),
            dropped: DropReason::ALL.map(|reason| (reason, 0)).into(),
            spooled: 0,
            write_failures: 0,
        }
    }
}

impl SpanCounts {
    pub(crate) fn drop_spans(&mut self, reason: DropReason, spans: u64) {
        *self.dropped.entry(reason).or_default() += spans;
    }

    pub(crate) fn fail(&mut self, reason: ExportFailure) {
        *self.failures.entry(reason).or_default() += 1;
    }
}
