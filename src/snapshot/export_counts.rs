//! The counters of exported spans or log records: all but the number of those that wait only grow.

use std::collections::BTreeMap;

/// Why an attempt to export failed: the closed set of values of the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExportFailure {
    /// No connection, or a reset one.
    Connect,
    /// The collector accepted only a part of the batch.
    PartialSuccess,
    /// A status that is not retried, such as 400.
    Rejected,
    /// 401, 403, 404, 407, 408.
    Status4xx,
    Status5xx,
    /// 429.
    Throttled,
    /// No answer in time.
    Timeout,
    /// The TLS handshake failed, or no CA certificates were found.
    Tls,
    /// 413.
    TooLarge,
}

impl ExportFailure {
    /// In the order of the labels.
    pub(crate) const ALL: [Self; 9] = [
        Self::Connect,
        Self::PartialSuccess,
        Self::Rejected,
        Self::Status4xx,
        Self::Status5xx,
        Self::Throttled,
        Self::Timeout,
        Self::Tls,
        Self::TooLarge,
    ];

    /// The value of the label `reason`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::PartialSuccess => "partial_success",
            Self::Rejected => "rejected",
            Self::Status4xx => "status_4xx",
            Self::Status5xx => "status_5xx",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::TooLarge => "too_large",
        }
    }
}

/// Why a span or log record will never be exported: the closed set of values of the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// It exceeded the maximum age.
    Age,
    /// The collector rejected it.
    Rejected,
    /// It was the oldest of a full spool.
    SpoolFull,
    /// Alone, it is larger than the spool, or the collector, accepts.
    TooLarge,
    /// Its spool file could not be read, or it could not be encoded for it.
    Unreadable,
}

impl DropReason {
    /// In the order of the labels.
    pub(crate) const ALL: [Self; 5] = [
        Self::Age,
        Self::Rejected,
        Self::SpoolFull,
        Self::TooLarge,
        Self::Unreadable,
    ];

    /// The value of the label `reason`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Rejected => "rejected",
            Self::SpoolFull => "spool_full",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Of one signal, since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportCounts {
    /// Spans, or log records, that a collector accepted.
    pub exported: u64,
    /// Failed export attempts.
    pub failures: BTreeMap<ExportFailure, u64>,
    /// Those that will never be exported.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Those in the spool.
    pub spooled: u64,
    /// Failed writes to the directory of the spool.
    pub write_failures: u64,
}

impl Default for ExportCounts {
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

impl ExportCounts {
    pub(crate) fn drop_records(&mut self, reason: DropReason, records: u64) {
        *self.dropped.entry(reason).or_default() += records;
    }

    pub(crate) fn fail(&mut self, reason: ExportFailure) {
        *self.failures.entry(reason).or_default() += 1;
    }
}
