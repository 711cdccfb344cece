//! What the outputs count, from zero since the start of the process. Each output changes its own counters, and a scrape
//! reads them where they are: no snapshot is published for them.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::otlp::Signal;
use crate::base::label::label_values;

label_values! {
    /// Why an attempt to export failed: the closed set of values of the label `reason`.
    pub enum ExportFailure {
        /// No connection, or a reset one.
        Connect = "connect",
        /// A success that is not OTLP, such as a web page, or a response that is not gRPC.
        NotOtlp = "not_otlp",
        PartialSuccess = "partial_success",
        /// A redirect, which is not followed.
        Redirect = "redirect",
        /// 400, 422, `INVALID_ARGUMENT`: the receiver refuses the content.
        Rejected = "rejected",
        /// The other statuses from 400 to 499.
        Status4xx = "status_4xx",
        Status5xx = "status_5xx",
        /// 429.
        Throttled = "throttled",
        /// No answer in time.
        Timeout = "timeout",
        /// The TLS handshake failed, or no CA certificates were found.
        Tls = "tls",
        /// 413.
        TooLarge = "too_large",
    }
}

label_values! {
    /// Why a span or log record will never be exported: the closed set of values of the label `reason`.
    pub enum DropReason {
        Rejected = "rejected",
        /// It was the oldest of a full journal.
        SpoolFull = "spool_full",
        /// Alone, it is larger than the collector accepts.
        TooLarge = "too_large",
        /// The file of the journal was lost or damaged before it was sent.
        Unreadable = "unreadable",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportCounts {
    /// Spans, or log records, that a collector accepted.
    pub exported: u64,
    pub failures: BTreeMap<ExportFailure, u64>,
    pub dropped: BTreeMap<DropReason, u64>,
    /// In the journal, and not sent.
    pub spooled: u64,
    /// Whether the receiver took the last request; `None` before the first one.
    pub is_up: Option<bool>,
}

impl Default for ExportCounts {
    fn default() -> Self {
        Self {
            exported: 0,
            failures: ExportFailure::ALL.map(|reason| (reason, 0)).into(),
            dropped: DropReason::ALL.map(|reason| (reason, 0)).into(),
            spooled: 0,
            is_up: None,
        }
    }
}

impl ExportCounts {
    pub(crate) fn drop_records(&mut self, reason: DropReason, records: u64) {
        *self.dropped.entry(reason).or_default() += records;
    }

    pub(crate) fn fail(&mut self, reason: ExportFailure) {
        *self.failures.entry(reason).or_default() += 1;
    }
}

#[derive(Debug, Default)]
pub(crate) struct PushCounts {
    /// Posts to an Alertmanager.
    pub(crate) pushes: u64,
    pub(crate) failures: u64,
    /// Whether each Alertmanager accepted the last request, by its name in the label `receiver`. One that was not asked yet
    /// is absent.
    pub(crate) receivers: BTreeMap<String, bool>,
}

#[derive(Debug, Default)]
pub struct OutputCounters {
    pub(crate) exports: Mutex<BTreeMap<Signal, watch::Sender<ExportCounts>>>,
    pub(crate) pushes: Mutex<PushCounts>,
    pub(crate) textfile_write_failures: AtomicU64,
    pub(crate) dropped_log_lines: Arc<AtomicU64>,
}
