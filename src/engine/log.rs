//! The log entries of the engine, as data; `app::logging` writes the lines.

use std::{sync::Arc, time::Duration};

use crate::{
    document::{Anomaly, AnomalyKind},
    event::{EventScope, Source},
    lifecycle::{Phase, TrackedEvent, Transition},
    snapshot::{Approval, Failure, Identity, SkipReason},
    time::Timestamp,
};

/// One log line.
#[derive(Debug, Clone, PartialEq)]
pub enum LogEntry {
    /// An event changed.
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
        /// The reason and the time of the first failure.
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
    WarmingUp { until: Timestamp },
    /// Instance metadata named this VM.
    Identified {
        identity: Arc<Identity>,
        /// The name in use: `--vm.name`, else that of the identity.
        vm_name: Option<Arc<str>>,
    },
    /// Instance metadata have another name than `--vm.name`.
    NameContradiction {
        identity: Arc<Identity>,
        /// `--vm.name`.
        vm_name: Option<Arc<str>>,
    },
    /// Instance metadata could not be read. Logged once.
    IdentityUnavailable {
        /// The error of the first request.
        error: String,
        /// `--vm.name` is given, so that only labels are missing.
        is_name_configured: bool,
    },
    /// The restored state was written on another VM.
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
    StateWriteFailed { error: String },
    /// A write of the state takes too long.
    StateWriteStalled,
    /// A write of the state succeeded after failures.
    StateWriteRecovered,
}

/// Whether to log a decision about an approval. Skips events of other VMs, approvals and starts (the transition is
/// logged), advisories, and events of the platform while approvals are off.
pub(super) fn should_log(
    before: Option<&Approval>,
    now: &Approval,
    tracked: &TrackedEvent,
) -> bool {
    if tracked.scope == EventScope::Other || tracked.event.is_advisory() {
        return false;
    }
    let label = |approval: &Approval| (approval.decision(), approval.reason());
    match (before, now) {
        (None, Approval::Withheld(SkipReason::Off)) => {
            tracked.event.source == Some(Source::User) && tracked.phase() == Phase::Scheduled
        }
        // The transition logs an approval and a start.
        (
            Some(Approval::Withheld(_)),
            Approval::Withheld(SkipReason::NotScheduled | SkipReason::NotBeforePassed),
        )
        | (Some(_), Approval::Withheld(SkipReason::Off))
        | (_, Approval::Approved { .. } | Approval::ApprovedElsewhere { .. }) => false,
        (Some(before), now) => label(before) != label(now),
        (None, _) => true,
    }
}
