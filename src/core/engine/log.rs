//! The log entries of the engine, as data; `app::logging` writes the lines.

use std::{sync::Arc, time::Duration};

use crate::{
    azure::{
        Identity, RequestError,
        document::{Anomaly, AnomalyKind},
        event::{EventScope, Source},
    },
    base::time::Timestamp,
    core::{
        approval::ApprovalPolicy,
        lifecycle::{Phase, TrackedEvent, Transition},
        snapshot::{Approval, Failure},
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
        failure: Failure,
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
        approval: Approval,
        tracked: Arc<TrackedEvent>,
    },
    /// The first write of the state that failed.
    StateWriteFailed {
        error: String,
    },
    StateWriteStalled,
    StateWriteRecovered,
}

/// Whether to log a decision about an approval. Left out is what a transition logs: an approval, and a start. So are
/// decisions not to approve an advisory, an event of other VMs that the policy never approves and, while approvals are
/// off, an event that no user requested; but not one that takes back a decision to approve.
pub(super) fn should_log(
    before: Option<&Approval>,
    now: &Approval,
    tracked: &TrackedEvent,
    policy: &ApprovalPolicy,
) -> bool {
    let label = |approval: &Approval| (approval.decision(), approval.reason());
    if before.map(label) == Some(label(now)) {
        return false;
    }
    match now {
        Approval::Approved { .. } | Approval::ApprovedElsewhere { .. } => false,
        Approval::Withheld(_) => {
            let is_taken_back =
                before.is_some_and(|before| !matches!(before, Approval::Withheld(_)));
            let is_user_event = tracked.event.source == Some(Source::User);
            let is_of_interest = match tracked.scope {
                EventScope::Other => policy.for_group && is_user_event,
                EventScope::Own | EventScope::Unknown => policy.is_on() || is_user_event,
            };
            is_taken_back || (is_of_interest && tracked.phase() == Phase::Scheduled)
        }
        _ => true,
    }
}
