//! The snapshot: one immutable value with all that is known, made by the engine after each change. A scrape, a page or a
//! probe takes it once, so that two numbers of one response are never from two instants.

mod approval;
mod counters;
mod health;
mod histogram;
mod outputs;
mod span_counts;

use std::{collections::BTreeMap, sync::Arc};

pub use approval::{Approval, ApprovalReason, SkipReason};
pub use counters::{EventCounters, ExemplarCounter, TypeLabel};
pub use health::{Failure, FailureReason, Health, RequestError};
pub use histogram::Histogram;
pub use outputs::{ApprovalResult, DropReason, ExportFailure, OutputCounters, PushCounts};
pub use span_counts::SpanCounts;

use crate::{
    event::{EventId, EventScope},
    lifecycle::TrackedEvent,
    time::Moment,
};

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Every event that is pending or lingers, in the order of the ids.
    pub events: Arc<[Arc<TrackedEvent>]>,
    /// Whether any document was ever read, by this process or the one whose state it took over: without one, "nothing
    /// is pending" is not known.
    pub has_document: bool,
    /// How polling goes.
    pub health: Health,
    /// What was counted.
    pub counters: Arc<EventCounters>,
    /// What was sent to others.
    pub outputs: Arc<OutputCounters>,
    /// What this exporter does about each pending event: approve it or not, and why.
    pub approvals: Arc<BTreeMap<EventId, Approval>>,
    /// Who this VM is, once that is known.
    pub identity: Option<Arc<Identity>>,
    /// The name by which `Resources` calls this VM: given, or from the identity.
    pub vm_name: Option<Arc<str>>,
    /// When this picture was made.
    pub as_of: Moment,
}

/// Who this VM is, as instance metadata say (`/metadata/instance/compute`). Missing values are empty, as they are there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// `name`: the entry of `Resources` that means this VM.
    pub name: String,
    /// `vmId`.
    pub vm_id: String,
    /// `vmScaleSetName`.
    pub scale_set: String,
    /// `vmSize`.
    pub vm_size: String,
    /// `location`.
    pub location: String,
    /// `zone`.
    pub zone: String,
    /// `subscriptionId`.
    pub subscription_id: String,
    /// `resourceGroupName`.
    pub resource_group: String,
    /// `resourceId`.
    pub resource_id: String,
    /// `osProfile.computerName`.
    pub computer_name: String,
}

impl Snapshot {
    /// A picture of nothing: before the first poll.
    pub fn empty(vm_name: Option<Arc<str>>, now: Moment) -> Self {
        Self {
            events: Arc::from([]),
            has_document: false,
            health: Health::default(),
            counters: Arc::new(EventCounters::default()),
            outputs: Arc::default(),
            approvals: Arc::default(),
            identity: None,
            vm_name,
            as_of: now,
        }
    }

    /// The events that are not over.
    pub fn pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.events
            .iter()
            .map(AsRef::as_ref)
            .filter(|tracked| tracked.is_pending())
    }

    /// The events that are over and still shown.
    pub fn ended(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.events
            .iter()
            .map(AsRef::as_ref)
            .filter(|tracked| !tracked.is_pending())
    }

    /// The events whose series are exposed: all, or those that name this VM or may do so.
    pub fn exposed(&self, scope: SeriesScope) -> impl Iterator<Item = &TrackedEvent> {
        let events = self.events.iter().map(AsRef::as_ref);
        events
            .filter(move |tracked| scope == SeriesScope::All || tracked.scope != EventScope::Other)
    }
}

/// For which events there are series of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesScope {
    /// Those that name this VM, and those of which that is not known.
    Own,
    /// Every event that was seen.
    All,
}
