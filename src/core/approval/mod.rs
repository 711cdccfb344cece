//! Approvals: the policy that decides about an event, what is on record about it, and the decision that is shown.

mod policy;
mod steps;

pub(crate) use self::policy::{DELAY, REQUEST_TIMEOUT};
pub use self::{
    policy::{ApprovalPolicy, verdict},
    steps::{ApprovalStep, ApprovalSteps},
};
use crate::base::{label::label_values, time::Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
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
        error: Box<str>,
        /// An attempt had no answer, or a 5xx.
        may_be_accepted: bool,
        retry_at: Timestamp,
    },
    Withheld(SkipReason),
}

label_values! {
    pub enum ApprovalReason {
        UserEvent = "user_event", "a user requested it (--approve.user-events)";
        GroupEvent = "group_event", "a user requested it (--approve.user-events, --approve.for=group)";
        ShortFreeze = "short_freeze", "it is a short freeze (--approve.freeze-below)";
    }
}

label_values! {
    pub enum SkipReason {
        Off = "off", "Approvals are off. The event starts at NotBefore, or earlier if someone approves it";
        OffAndDue = "off", "Approvals are off. The event has no NotBefore and may start at any moment";
        Contradictory = "contradictory", "the documents contradict each other about it";
        Ended = "ended", "it has ended";
        Advisory = "advisory", "Advisory: nothing to approve";
        NotScheduled = "not_scheduled", "it has started, or is not Scheduled";
        IdentityUnknown = "identity_unknown", "the name of this VM is not known for certain";
        NameContradiction = "name_contradiction", "--vm.name differs from the name in instance metadata";
        ResourcesUnknown = "resources_unknown", "its resources are missing";
        OtherVm = "other_vm", "it does not name this VM";
        Deletion = "deletion", "an event that ends the VM is never approved";
        TypeUnknown = "type_unknown", "its type is unknown";
        SourceMissing = "source_unknown", "its source was not given";
        SourceUnknown = "source_unknown", "its source is unknown";
        DurationUnknown = "duration_unknown", "its duration is unknown";
        NotAskedFor = "not_asked_for", "no --approve flag covers it";
        NotBeforeUnknown = "not_before_unknown", "its NotBefore is missing";
        NotBeforePassed = "not_before_passed", "NotBefore has passed: it may start without an approval";
        GaveUp = "gave_up", "it was refused, or had no answer, too often";
        ResultUnknown = "result_unknown", "an earlier process sent the approval and ended before the answer";
    }
}

impl ApprovalDecision {
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
                reason.words()
            ),
            Self::Due(reason) => format!("This VM approves it now: {}", reason.words()),
            Self::Sent { reason, .. } => format!(
                "This VM has sent the approval, and the answer is outstanding: {}",
                reason.words()
            ),
            Self::Waiting { reason, leader, .. } => format!(
                "{leader} is its first resource and approves it; this VM does if it is still Scheduled at the given time: {}",
                reason.words()
            ),
            Self::DryRun { reason, .. } => {
                format!("Dry run: this VM would have approved it: {}", reason.words())
            }
            Self::Approved { .. } => {
                "Approved by this VM: it does not wait for NotBefore".to_owned()
            }
            Self::ApprovedElsewhere { .. } => {
                "Approved by another VM, a user or a policy, not by this exporter: it does not wait for NotBefore"
                    .to_owned()
            }
            Self::Failed {
                attempts,
                error,
                may_be_accepted,
                ..
            } => {
                let result = if *may_be_accepted {
                    "May have been approved"
                } else {
                    "Not approved"
                };
                let plural = if *attempts == 1 { "" } else { "s" };
                format!("{result} ({attempts} attempt{plural}), and is sent again: {error}")
            }
            Self::Withheld(
                why @ (SkipReason::Advisory | SkipReason::Off | SkipReason::OffAndDue),
            ) => why.words().to_owned(),
            Self::Withheld(why) => format!("Not approved by this VM: {}", why.words()),
        }
    }
}
