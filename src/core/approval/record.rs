//! What is known about the approval of one event.

use serde::{Deserialize, Serialize};

use crate::base::time::Timestamp;

/// The steps of the approval of one event. The names in the state file are those of the members of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalRecord {
    /// When the approval policy decided that this VM, or the first one in `Resources`, approves the event.
    #[serde(rename = "approval_decided_at")]
    pub decided_at: Option<Timestamp>,
    /// When it took that back, before the event started.
    #[serde(rename = "approval_withdrawn_at")]
    pub withdrawn_at: Option<Timestamp>,
    /// When the last approval was about to be sent. Removed when IMDS refuses it. Without `accepted_at`, the answer is
    /// outstanding or was lost: the approval may have been accepted.
    #[serde(rename = "approval_sent_at")]
    pub sent_at: Option<Timestamp>,
    /// When IMDS accepted the approval of this exporter.
    #[serde(rename = "approved_at")]
    pub accepted_at: Option<Timestamp>,
    /// When a document showed an approval that this exporter did not send, until a document disproves it.
    #[serde(rename = "approved_elsewhere_at")]
    pub elsewhere_at: Option<Timestamp>,
    /// When an approval last failed, by a refusal or without an answer, until IMDS accepts one.
    #[serde(rename = "approval_failed_at")]
    pub failed_at: Option<Timestamp>,
    /// A document that was read after the approval still had the event as Scheduled: the approval may have had no
    /// effect.
    #[serde(rename = "is_scheduled_after_approval")]
    pub is_scheduled_since: bool,
}

impl ApprovalRecord {
    /// By this exporter or elsewhere.
    pub(crate) fn is_approved(&self) -> bool {
        self.approved_at().is_some()
    }

    pub(crate) fn approved_at(&self) -> Option<Timestamp> {
        self.accepted_at.or(self.elsewhere_at)
    }

    /// Approved, or the approval was sent and its result is not known.
    pub(crate) fn may_be_approved(&self) -> bool {
        self.is_approved() || self.sent_at.is_some()
    }

    /// When the approval was decided, unless that was taken back.
    pub(crate) fn decision_at(&self) -> Option<Timestamp> {
        self.decided_at.filter(|_| self.withdrawn_at.is_none())
    }

    /// When the last step was taken that brings the event forward.
    pub(crate) fn last_step_at(&self) -> Option<Timestamp> {
        let steps = [
            self.decision_at(),
            self.sent_at,
            self.accepted_at,
            self.elsewhere_at,
        ];
        steps.into_iter().flatten().max()
    }

    /// The policy decided that the event is to be approved, or took that back, which stays on record for the trace.
    pub(crate) fn intend(&mut self, is_intended: bool, at: Timestamp) {
        if is_intended {
            self.decided_at = Some(at);
        }
        self.withdrawn_at = (!is_intended).then_some(at);
    }

    /// IMDS accepted it.
    pub(crate) fn accept(&mut self, at: Timestamp) {
        self.accepted_at = Some(at);
        self.failed_at = None;
    }

    /// It failed. `may_be_accepted`: this attempt or an earlier one had no answer.
    pub(crate) fn fail(&mut self, may_be_accepted: bool, at: Timestamp) {
        self.sent_at = self.sent_at.filter(|_| may_be_accepted);
        self.failed_at = Some(at);
    }

    /// A document has the event as Scheduled, and one that starts later if `is_later`: it was not approved elsewhere.
    pub(crate) fn see_scheduled(&mut self, is_later: bool) {
        self.elsewhere_at = self.elsewhere_at.filter(|_| !is_later);
        self.is_scheduled_since = self.is_approved();
    }
}
