//! What was sent to others, and what became of it.

use std::collections::BTreeMap;

use super::TypeLabel;
use crate::event::EventType;

/// Why an attempt to export spans failed: the closed set of values of the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExportFailure {
    /// No connection, or one that was reset.
    Connect,
    /// The collector took some of the spans only.
    PartialSuccess,
    /// Any other status that is no success, such as 400.
    Rejected,
    /// 502, 503, 504.
    Status5xx,
    /// 429.
    Throttled,
    /// No answer in time.
    Timeout,
    /// The TLS handshake failed, or there are no certificates to check it with.
    Tls,
}

impl ExportFailure {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 7] = [
        Self::Connect,
        Self::PartialSuccess,
        Self::Rejected,
        Self::Status5xx,
        Self::Throttled,
        Self::Timeout,
        Self::Tls,
    ];

    /// The value of the label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::PartialSuccess => "partial_success",
            Self::Rejected => "rejected",
            Self::Status5xx => "status_5xx",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
        }
    }
}

/// Why a span will never be exported: the closed set of values of the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// It waited for longer than spans are kept.
    Age,
    /// The collector refused it for good.
    Rejected,
    /// The spool was full, and it was the oldest.
    SpoolFull,
    /// It could not be read back from the spool.
    Unreadable,
}

impl DropReason {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 4] = [Self::Age, Self::Rejected, Self::SpoolFull, Self::Unreadable];

    /// The value of the label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Rejected => "rejected",
            Self::SpoolFull => "spool_full",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What came of an approval: the closed set of values of the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalResult {
    /// IMDS took it.
    Approved,
    /// It would have been sent.
    DryRun,
    /// IMDS did not take it.
    Failed,
}

impl ApprovalResult {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Approved, Self::DryRun, Self::Failed];

    /// The value of the label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::DryRun => "dry_run",
            Self::Failed => "failed",
        }
    }
}

/// What the Alertmanager pushers did since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Posts to an Alertmanager.
    pub pushes: u64,
    /// Those of them that failed.
    pub failures: u64,
}

/// Counts of everything that leaves this process, from zero, also where a feature is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputCounters {
    /// Posts to an Alertmanager.
    pub alert_pushes: u64,
    /// Those that failed.
    pub alert_push_failures: u64,
    /// Approvals, by what came of them.
    pub approvals: BTreeMap<(TypeLabel, ApprovalResult), u64>,
    /// Spans that a collector took.
    pub spans_exported: u64,
    /// Attempts that failed.
    pub span_export_failures: BTreeMap<ExportFailure, u64>,
    /// Spans that are lost.
    pub spans_dropped: BTreeMap<DropReason, u64>,
    /// Spans that wait.
    pub spans_spooled: u64,
    /// Writes to the state directory that failed.
    pub state_write_failures: u64,
}

impl Default for OutputCounters {
    fn default() -> Self {
        let approvable =
            [EventType::Freeze, EventType::Reboot, EventType::Redeploy].map(TypeLabel::from);
        let approvals = approvable
            .iter()
            .flat_map(|label| ApprovalResult::ALL.map(|result| ((label.clone(), result), 0)));
        Self {
            alert_pushes: 0,
            alert_push_failures: 0,
            approvals: approvals.collect(),
            spans_exported: 0,
            span_export_failures: ExportFailure::ALL.map(|reason| (reason, 0)).into(),
            spans_dropped: DropReason::ALL.map(|reason| (reason, 0)).into(),
            spans_spooled: 0,
            state_write_failures: 0,
        }
    }
}
