//! What is on record about the approval of one event.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{azure::RequestError, base::time::Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStep {
    /// The policy decided that this VM, or the first one in `Resources`, approves the event.
    Intended,
    /// It took that back, before the event started.
    Withdrawn,
    /// The approval was about to be sent. Without a further step the answer is outstanding or was lost.
    Sent,
    Refused(Attempt),
    /// No connection was opened.
    NotSent(Attempt),
    /// The answer was a 5xx or another unexpected status: it may have been accepted.
    Unclear(Attempt),
    /// There was no answer: it may have been accepted.
    Unanswered(Attempt),
    Accepted,
    /// A document shows an approval that this exporter did not send.
    Elsewhere,
    DryRun,
    /// The process that sent it ended without knowing whether it was accepted.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub(super) error: Box<str>,
    pub(super) retry_after: Option<Duration>,
}

impl ApprovalStep {
    pub(crate) fn failed(error: &RequestError) -> Self {
        let attempt = Attempt {
            error: error.message.as_str().into(),
            retry_after: error.retry_after,
        };
        match error {
            _ if error.is_unsent => Self::NotSent(attempt),
            _ if error.is_refusal() => Self::Refused(attempt),
            _ if error.status.is_some() => Self::Unclear(attempt),
            _ => Self::Unanswered(attempt),
        }
    }

    pub(super) fn attempt(&self) -> Option<&Attempt> {
        match self {
            Self::Refused(attempt)
            | Self::NotSent(attempt)
            | Self::Unclear(attempt)
            | Self::Unanswered(attempt) => Some(attempt),
            _ => None,
        }
    }
}

/// The steps in their order, each with its time of the event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalSteps(Vec<(ApprovalStep, Timestamp)>);

impl ApprovalSteps {
    /// Removes what the step replaces, so that the number of steps is bounded by that of attempts.
    pub(crate) fn push(&mut self, step: ApprovalStep, at: Timestamp) {
        match &step {
            ApprovalStep::Intended => self.0.retain(|(known, _)| {
                !matches!(known, ApprovalStep::Intended | ApprovalStep::Withdrawn)
            }),
            ApprovalStep::Refused(_) | ApprovalStep::NotSent(_) => {
                let mut steps = self.0.iter();
                if let Some(sent) = steps.rposition(|(it, _)| *it == ApprovalStep::Sent) {
                    self.0.remove(sent);
                }
            }
            ApprovalStep::Lost => self.0.retain(|(known, _)| *known != ApprovalStep::Lost),
            _ => {}
        }
        self.0.push((step, at));
    }

    /// A document shows that the event was not approved elsewhere.
    pub(crate) fn disprove(&mut self) {
        self.0.retain(|(step, _)| *step != ApprovalStep::Elsewhere);
    }

    fn last(&self, is_one: impl Fn(&ApprovalStep) -> bool) -> Option<&(ApprovalStep, Timestamp)> {
        self.0.iter().rev().find(|(step, _)| is_one(step))
    }

    /// The steps that outputs show, each with the time when it was taken last.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&ApprovalStep, Timestamp)> {
        let is_internal = |step: &_| matches!(step, ApprovalStep::DryRun | ApprovalStep::Lost);
        let is_shown = move |step: &ApprovalStep| step.attempt().is_none() && !is_internal(step);
        let steps = self.0.iter().map(|(step, at)| (step, *at));
        steps.filter(move |(step, at)| is_shown(step) && self.at(step) == Some(*at))
    }

    pub(crate) fn at(&self, step: &ApprovalStep) -> Option<Timestamp> {
        self.last(|it| it == step).map(|(_, at)| *at)
    }

    /// When the approval was decided, unless that was taken back.
    pub(crate) fn intended_at(&self) -> Option<Timestamp> {
        let is_decision = |it: &_| matches!(it, ApprovalStep::Intended | ApprovalStep::Withdrawn);
        let (step, at) = self.last(is_decision)?;
        (*step == ApprovalStep::Intended).then_some(*at)
    }

    /// When the last approval was sent that was not refused.
    pub(crate) fn sent_at(&self) -> Option<Timestamp> {
        self.at(&ApprovalStep::Sent)
    }

    pub(crate) fn approved_at(&self) -> Option<Timestamp> {
        self.at(&ApprovalStep::Accepted)
            .or_else(|| self.at(&ApprovalStep::Elsewhere))
    }

    /// When it failed last, unless IMDS has accepted it since.
    pub(crate) fn failed_at(&self) -> Option<Timestamp> {
        let (step, at) = self.last(|it| it.attempt().is_some() || *it == ApprovalStep::Accepted)?;
        (*step != ApprovalStep::Accepted).then_some(*at)
    }

    pub(crate) fn failures(&self) -> (u32, Option<(&Attempt, Timestamp)>) {
        let attempts = || {
            self.0
                .iter()
                .filter_map(|(it, at)| Some((it.attempt()?, *at)))
        };
        let count = u32::try_from(attempts().count()).unwrap_or(u32::MAX);
        (count, attempts().next_back())
    }

    fn last_attempt(&self) -> Option<&ApprovalStep> {
        let is_attempt = |it: &ApprovalStep| *it == ApprovalStep::Sent || it.attempt().is_some();
        self.last(is_attempt).map(|(step, _)| step)
    }

    pub(super) fn is_answer_outstanding(&self) -> bool {
        self.last_attempt() == Some(&ApprovalStep::Sent)
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.last_attempt(), Some(ApprovalStep::Unanswered(_)))
    }

    pub(crate) fn had_error(&self) -> bool {
        let is_error = |it: &_| matches!(it, ApprovalStep::Refused(_) | ApprovalStep::Unclear(_));
        self.last(is_error).is_some()
    }

    pub(crate) fn is_approved(&self) -> bool {
        self.approved_at().is_some()
    }

    /// Approved, or the approval was sent and its result is not known.
    pub fn may_be_approved(&self) -> bool {
        self.is_approved() || self.sent_at().is_some()
    }

    /// When the last step was taken that brings the event forward.
    pub(crate) fn last_step_at(&self) -> Option<Timestamp> {
        let steps = [self.intended_at(), self.sent_at(), self.approved_at()];
        steps.into_iter().flatten().max()
    }
}
