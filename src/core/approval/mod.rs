//! Approvals: the policy that decides about an event, what is on record about it, and the decision that is shown.

mod decision;
mod policy;
mod steps;

pub(crate) use self::policy::{DELAY, REQUEST_TIMEOUT};
pub use self::{
    decision::{ApprovalDecision, ApprovalReason, SkipReason},
    policy::{ApprovalPolicy, verdict},
    steps::{ApprovalStep, ApprovalSteps},
};
