//! Whether this exporter approves an event, as every reader is told: the decision and its reason, as data.

use crate::time::Timestamp;

/// What this exporter does about one event, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// It is approved with the next request.
    Due(ApprovalReason),
    /// Another VM is to approve it; this one does where it is still scheduled then.
    Waiting {
        /// Why it may be approved.
        reason: ApprovalReason,
        /// Who is first in `Resources`.
        leader: Box<str>,
        /// When this VM approves.
        until: Timestamp,
    },
    /// It would have been approved, but for the dry run.
    DryRun {
        /// Why it may be approved.
        reason: ApprovalReason,
        /// When it would have been.
        at: Timestamp,
    },
    /// This exporter approved it.
    Approved {
        /// When.
        at: Timestamp,
    },
    /// IMDS did not take the approval; it is sent again.
    Failed {
        /// Why it may be approved.
        reason: ApprovalReason,
        /// How often it was sent.
        attempts: u32,
        /// What was wrong the last time.
        error: Box<str>,
        /// When it is sent again, at the earliest.
        retry_at: Timestamp,
    },
    /// It is not approved.
    Withheld(SkipReason),
}

/// Which flag allows an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalReason {
    /// `--approve.user-events`: somebody with rights on the VM ordered it.
    UserEvent,
    /// `--approve.freeze-below`: a freeze that is announced to be short.
    ShortFreeze,
}

/// Why an event is not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// No flag allows any approval.
    Off,
    /// It is over.
    Ended,
    /// It has started, or its status is a word that we do not know.
    NotScheduled,
    /// This VM does not know its own name for certain.
    IdentityUnknown,
    /// It does not say which VMs it names.
    ResourcesUnknown,
    /// It names other VMs only.
    OtherVm,
    /// The VM would be deleted or evicted before its time.
    Deletion,
    /// A type of event that we do not know.
    TypeUnknown,
    /// It does not say who wants it, or with a word that we do not know.
    SourceUnknown,
    /// A freeze that does not say how long it lasts.
    DurationUnknown,
    /// No flag allows to approve this kind of event.
    NotAskedFor,
    /// It does not say when it starts.
    NotBeforeUnknown,
    /// It may start without an approval by now.
    NotBeforePassed,
    /// IMDS refused the approval too often.
    GaveUp,
    /// An earlier process sent the approval and ended before the answer: it is not sent twice.
    ResultUnknown,
}

impl ApprovalReason {
    /// In words that go on with "approved because".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::UserEvent => "somebody with rights on the VM ordered it (--approve.user-events)",
            Self::ShortFreeze => "it is a short freeze (--approve.freeze-below)",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::UserEvent => "user_event",
            Self::ShortFreeze => "short_freeze",
        }
    }
}

impl SkipReason {
    /// A word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Ended => "ended",
            Self::NotScheduled => "not_scheduled",
            Self::IdentityUnknown => "identity_unknown",
            Self::ResourcesUnknown => "resources_unknown",
            Self::OtherVm => "other_vm",
            Self::Deletion => "deletion",
            Self::TypeUnknown => "type_unknown",
            Self::SourceUnknown => "source_unknown",
            Self::DurationUnknown => "duration_unknown",
            Self::NotAskedFor => "not_asked_for",
            Self::NotBeforeUnknown => "not_before_unknown",
            Self::NotBeforePassed => "not_before_passed",
            Self::GaveUp => "gave_up",
            Self::ResultUnknown => "result_unknown",
        }
    }

    /// In words that go on with "not approved because".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Off => {
                "approvals are off: it waits for NotBefore or for somebody else's approval"
            }
            Self::Ended => "it is over",
            Self::NotScheduled => "it is no longer only scheduled",
            Self::IdentityUnknown => "this VM's own name is not known for certain",
            Self::ResourcesUnknown => "it does not say which VMs it names",
            Self::OtherVm => "it does not name this VM",
            Self::Deletion => "the VM would go away before its time, which is never approved",
            Self::TypeUnknown => "its type is unknown",
            Self::SourceUnknown => "it is unknown who wants it",
            Self::DurationUnknown => "it is unknown how long the freeze lasts",
            Self::NotAskedFor => "no --approve flag covers it",
            Self::NotBeforeUnknown => "it does not say when it starts",
            Self::NotBeforePassed => "NotBefore has passed: it may start without an approval",
            Self::GaveUp => "the metadata service refused it too often",
            Self::ResultUnknown => {
                "an earlier process sent the approval and ended before the answer"
            }
        }
    }
}

impl Approval {
    /// The decision as one word for programs.
    pub fn decision(&self) -> &'static str {
        match self {
            Self::Due(_) => "due",
            Self::Waiting { .. } => "waiting",
            Self::DryRun { .. } => "dry_run",
            Self::Approved { .. } => "approved",
            Self::Failed { .. } => "failed",
            Self::Withheld(_) => "withheld",
        }
    }

    /// The reason as one word for programs.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Approved { .. } => None,
            Self::Due(reason)
            | Self::Waiting { reason, .. }
            | Self::DryRun { reason, .. }
            | Self::Failed { reason, .. } => Some(reason.as_str()),
            Self::Withheld(why) => Some(why.as_str()),
        }
    }

    /// When it was approved, would have been, or will be.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Waiting { until: at, .. }
            | Self::DryRun { at, .. }
            | Self::Approved { at }
            | Self::Failed { retry_at: at, .. } => Some(*at),
            Self::Due(_) | Self::Withheld(_) => None,
        }
    }

    /// One sentence for people; times are said beside it.
    pub fn in_words(&self) -> String {
        match self {
            Self::Due(reason) => format!("This VM approves it now: {}", reason.in_words()),
            Self::Waiting { reason, leader, .. } => format!(
                "{leader} is the first that it names and approves it; this VM does at the time given where it is still \
                 scheduled then: {}",
                reason.in_words()
            ),
            Self::DryRun { reason, .. } => format!(
                "Dry run: this VM would have approved it: {}",
                reason.in_words()
            ),
            Self::Approved { .. } => {
                "Approved by this VM: it may start before NotBefore".to_owned()
            }
            Self::Failed {
                attempts, error, ..
            } => format!(
                "The approval failed ({attempts} {}) and is sent again: {error}",
                if *attempts == 1 { "time" } else { "times" }
            ),
            Self::Withheld(why) => format!("Not approved by this VM: {}", why.in_words()),
        }
    }
}
