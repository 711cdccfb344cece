//! Approvals: the policy that decides about an event, the progress of its approval, the decision that is shown, and what
//! is on record about it.

mod decision;
mod policy;
mod progress;
mod record;

pub use self::{
    decision::{ApprovalDecision, ApprovalReason, SkipReason},
    policy::{ApprovalPolicy, decide},
    record::ApprovalRecord,
};
pub(crate) use self::{
    policy::{DELAY, REQUEST_TIMEOUT},
    progress::Approvals,
};
