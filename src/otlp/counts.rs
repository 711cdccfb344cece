//! What became of the spans, as numbers that only grow, but for those that wait.

use std::collections::BTreeMap;

use crate::snapshot::{DropReason, ExportFailure, OutputCounters};

/// Since this process began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Spans that a collector took.
    pub exported: u64,
    /// Attempts that failed.
    pub failures: BTreeMap<ExportFailure, u64>,
    /// Spans that are lost.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Spans that wait.
    pub spooled: u64,
    /// Writes to the spool's directory that failed.
    pub write_failures: u64,
}

impl Default for Counts {
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

impl Counts {
    /// Shows these numbers. The failed writes are left to the caller, who knows of others too.
    pub fn show_in(&self, outputs: &mut OutputCounters) {
        outputs.spans_exported = self.exported;
        outputs.span_export_failures.clone_from(&self.failures);
        outputs.spans_dropped.clone_from(&self.dropped);
        outputs.spans_spooled = self.spooled;
    }

    pub(super) fn drop_spans(&mut self, reason: DropReason, spans: u64) {
        *self.dropped.entry(reason).or_default() += spans;
    }

    pub(super) fn fail(&mut self, reason: ExportFailure) {
        *self.failures.entry(reason).or_default() += 1;
    }
}
