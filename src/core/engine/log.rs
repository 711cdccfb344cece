//! The log entries of the engine, as data; `app::logging` writes the lines.

use std::{sync::Arc, time::Duration};

use crate::{
    azure::{
        Identity, RequestError,
        document::{Anomaly, AnomalyKind},
    },
    base::time::Timestamp,
    core::{
        approval::ApprovalDecision,
        lifecycle::{TrackedEvent, Transition},
        snapshot::PollFailure,
    },
};

#[derive(Debug, Clone, PartialEq)]
pub enum LogEntry {
    Transition(Transition),
    /// A document has an anomaly that the last one did not have.
    Anomaly(Anomaly),
    /// More anomalies of a kind than are described individually.
    MoreAnomalies {
        kind: AnomalyKind,
        /// How many more than in the last document.
        count: u64,
    },
    /// The first failed poll, or the first with another reason or HTTP status.
    PollingFailed {
        failure: PollFailure,
        /// The events that stay pending meanwhile.
        pending: usize,
    },
    /// The first successful poll, or the first after failures.
    PollingRecovered {
        /// The time from the first failure; `None` for the first poll of the process.
        failed_for: Option<Duration>,
        incarnation: Option<i64>,
        pending: usize,
    },
    /// Scheduled Events was enabled: events may take until then to appear.
    WarmingUp {
        until: Timestamp,
    },
    Identified {
        identity: Arc<Identity>,
        /// The name in use: `--vm.name`, else that of the identity.
        vm_name: Option<Arc<str>>,
    },
    /// Instance metadata have another name than `--vm.name`.
    NameContradiction {
        identity: Arc<Identity>,
        vm_name: Option<Arc<str>>,
    },
    /// Instance metadata could not be read: the first failure, or the first with another reason or HTTP status.
    IdentityUnavailable {
        error: Arc<RequestError>,
        /// Only labels are missing.
        is_name_known: bool,
    },
    ForeignState {
        /// The id of this VM.
        vm_id: String,
    },
    /// A decision about the approval of an event, when it changes.
    Approval {
        approval: ApprovalDecision,
        tracked: Arc<TrackedEvent>,
    },
    /// The first write of the state that failed.
    StateWriteFailed {
        error: String,
    },
    StateWriteStalled,
    StateWriteRecovered,
}
