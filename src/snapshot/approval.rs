//! The decision of this exporter about the approval of an event, and its reason.

use crate::time::Timestamp;

/// The decision about one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// It is approved once a load balancer had the time to drain this VM.
    Draining {
        reason: ApprovalReason,
        until: Timestamp,
    },
    /// The next request approves it.
    Due(ApprovalReason),
    /// The request that approves it has been sent; the answer is outstanding.
    Sent {
        reason: ApprovalReason,
        at: Timestamp,
    },
    /// Another VM approves it; this one does if it is still Scheduled later.
    Waiting {
        reason: ApprovalReason,
        /// The first VM in `Resources`.
        leader: Box<str>,
        until: Timestamp,
    },
    /// A dry run would have approved it.
    DryRun {
        reason: ApprovalReason,
        at: Timestamp,
    },
    /// IMDS accepted the approval of this exporter.
    Approved {
        at: Timestamp,
    },
    /// The document shows that it was approved, but not by this exporter.
    ApprovedElsewhere {
        at: Timestamp,
    },
    /// IMDS refused the approval, or did not answer; it is sent again.
    Failed {
        reason: ApprovalReason,
        attempts: u32,
        /// The error of the last attempt.
        error: Box<str>,
        /// The earliest time of the next attempt.
        retry_at: Timestamp,
    },
    Withheld(SkipReason),
}

/// The flag that allows an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalReason {
    /// `--approve.user-events`: a user requested the event.
    UserEvent,
    /// `--approve.for=group`: a user requested the event for other VMs.
    GroupEvent,
    /// `--approve.freeze-below`: a short freeze.
    ShortFreeze,
}

/// Why an event is not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// No flag allows any approval.
    Off,
    /// Documents contradict themselves or each other about the event.
    Contradictory,
    Ended,
    /// An advisory has nothing to approve.
    Advisory,
    /// It has started, or its status is unknown.
    NotScheduled,
    /// The name of this VM is not known for certain.
    IdentityUnknown,
    /// `--vm.name` is another name than that in instance metadata.
    NameContradiction,
    /// `Resources` is missing.
    ResourcesUnknown,
    OtherVm,
    /// A Preempt or Terminate is never approved.
    Deletion,
    TypeUnknown,
    /// `EventSource` is missing.
    SourceMissing,
    /// `EventSource` has an unknown value.
    SourceUnknown,
    /// A Freeze without `DurationInSeconds`.
    DurationUnknown,
    /// No flag covers this event.
    NotAskedFor,
    /// `NotBefore` is missing.
    NotBeforeUnknown,
    /// It may start without an approval.
    NotBeforePassed,
    /// IMDS refused the approval too often.
    GaveUp,
    /// An earlier process sent the approval and ended before the answer: it is not sent twice.
    ResultUnknown,
}

impl ApprovalReason {
    fn description(self) -> &'static str {
        match self {
            Self::UserEvent => "a user requested it (--approve.user-events)",
            Self::GroupEvent => "a user requested it (--approve.user-events, --approve.for=group)",
            Self::ShortFreeze => "it is a short freeze (--approve.freeze-below)",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::UserEvent => "user_event",
            Self::GroupEvent => "group_event",
            Self::ShortFreeze => "short_freeze",
        }
    }
}

impl SkipReason {
    /// The value of `reason` in the JSON and the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Contradictory => "contradictory",
            Self::Ended => "ended",
            Self::Advisory => "advisory",
            Self::NotScheduled => "not_scheduled",
            Self::IdentityUnknown => "identity_unknown",
            Self::NameContradiction => "name_contradiction",
            Self::ResourcesUnknown => "resources_unknown",
            Self::OtherVm => "other_vm",
            Self::Deletion => "deletion",
            Self::TypeUnknown => "type_unknown",
            Self::SourceMissing | Self::SourceUnknown => "source_unknown",
            Self::DurationUnknown => "duration_unknown",
            Self::NotAskedFor => "not_asked_for",
            Self::NotBeforeUnknown => "not_before_unknown",
            Self::NotBeforePassed => "not_before_passed",
            Self::GaveUp => "gave_up",
            Self::ResultUnknown => "result_unknown",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Off => "approvals are off: it waits for NotBefore or for another approval",
            Self::Contradictory => "the documents contradict each other about it",
            Self::Ended => "it has ended",
            Self::Advisory => "advisory: nothing to approve",
            Self::NotScheduled => "it has started, or is not Scheduled",
            Self::IdentityUnknown => "the name of this VM is not known for certain",
            Self::NameContradiction => "--vm.name differs from the name in instance metadata",
            Self::ResourcesUnknown => "its resources are missing",
            Self::OtherVm => "it does not name this VM",
            Self::Deletion => "an event that ends the VM is never approved",
            Self::TypeUnknown => "its type is unknown",
            Self::SourceMissing => "its source was not given",
            Self::SourceUnknown => "its source is unknown",
            Self::DurationUnknown => "its duration is unknown",
            Self::NotAskedFor => "no --approve flag covers it",
            Self::NotBeforeUnknown => "its NotBefore is missing",
            Self::NotBeforePassed => "NotBefore has passed: it may start without an approval",
            Self::GaveUp => "the metadata service refused it too often",
            Self::ResultUnknown => {
                "an earlier process sent the approval and ended before the answer"
            }
        }
    }
}

impl Approval {
    /// The value of `decision` in the JSON and the log.
    pub(crate) fn decision(&self) -> &'static str {
        match self {
            Self::Draining { .. } => "draining",
            Self::Due(_) => "due",
            Self::Sent { .. } => "sent",
            Self::Waiting { .. } => "waiting",
            Self::DryRun { .. } => "dry_run",
            Self::Approved { .. } => "approved",
            Self::ApprovedElsewhere { .. } => "approved_elsewhere",
            Self::Failed { .. } => "failed",
            Self::Withheld(_) => "withheld",
        }
    }

    /// The value of `reason` in the JSON and the log.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Approved { .. } | Self::ApprovedElsewhere { .. } => None,
            Self::Due(reason)
            | Self::Draining { reason, .. }
            | Self::Sent { reason, .. }
            | Self::Waiting { reason, .. }
            | Self::DryRun { reason, .. }
            | Self::Failed { reason, .. } => Some(reason.as_str()),
            Self::Withheld(why) => Some(why.as_str()),
        }
    }

    /// When it was approved, would have been, or will be; of [`Self::Sent`], when the request was sent.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Draining { until: at, .. }
            | Self::Sent { at, .. }
            | Self::Waiting { until: at, .. }
            | Self::DryRun { at, .. }
            | Self::Approved { at }
            | Self::ApprovedElsewhere { at }
            | Self::Failed { retry_at: at, .. } => Some(*at),
            Self::Due(_) | Self::Withheld(_) => None,
        }
    }

    /// One sentence, without the times.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Draining { reason, .. } => format!(
                "This VM is drained first (--approve.drain) and approves it at the given time: {}",
                reason.description()
            ),
            Self::Due(reason) => format!("This VM approves it now: {}", reason.description()),
            Self::Sent { reason, .. } => format!(
                "This VM has sent the approval, and the answer is outstanding: {}",
                reason.description()
            ),
            Self::Waiting { reason, leader, .. } => format!(
                "{leader} is its first resource and approves it; this VM does if it is still Scheduled at the given time: {}",
                reason.description()
            ),
            Self::DryRun { reason, .. } => format!(
                "Dry run: this VM would have approved it: {}",
                reason.description()
            ),
            Self::Approved { .. } => {
                "Approved by this VM: it does not wait for NotBefore".to_owned()
            }
            Self::ApprovedElsewhere { .. } => {
                "Approved by another VM, a user or a policy, not by this exporter: it does not wait for NotBefore"
                    .to_owned()
            }
            Self::Failed {
                attempts, error, ..
            } => format!(
                "The approval failed ({attempts} {}) and is retried: {error}",
                if *attempts == 1 { "time" } else { "times" }
            ),
            Self::Withheld(SkipReason::Advisory) => "Advisory: nothing to approve".to_owned(),
            Self::Withheld(why) => format!("Not approved by this VM: {}", why.description()),
        }
    }
}
