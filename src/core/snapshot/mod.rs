//! The snapshot: one immutable value with all known data, made by the engine after each change. A scrape, a page or a
//! probe takes it once, so that all values of a response are consistent.

mod counters;
mod histogram;

use std::{collections::BTreeMap, sync::Arc};

pub use counters::{ApprovalResult, RequestCounters};
pub(crate) use counters::{EventCounters, ExemplarCounter, TypeLabel};
pub(crate) use histogram::Histogram;

use crate::{
    azure::{
        Identity, RequestError,
        event::{EventId, EventScope},
    },
    base::{label::label_values, time::Moment},
    core::{
        approval::ApprovalDecision,
        journal::Journal,
        lifecycle::{Phase, PollState, TrackedEvent},
    },
};

#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Pending events and recently ended ones, in the order of the ids.
    pub events: Arc<[Arc<TrackedEvent>]>,
    /// Events of this VM that ended up to two hours ago, without those in `events`: for a receiver that was unreachable.
    pub past: Arc<[Arc<TrackedEvent>]>,
    /// Ended events of this VM that are kept in neither.
    pub dropped_ends: u64,
    pub journal: Arc<Journal>,
    pub poll: PollState,
    pub requests: RequestCounters,
    pub counters: Arc<EventCounters>,
    pub state_write_failures: u64,
    pub approvals: Arc<BTreeMap<EventId, ApprovalDecision>>,
    pub identity: Option<Arc<Identity>>,
    pub identity_error: Option<Arc<RequestError>>,
    /// As Hyper-V told this VM last; `None` if that is not known.
    pub physical_host: Option<Arc<str>>,
    /// The last known value of the tag of `--vm.owner-tag`.
    pub owner: Option<Arc<str>>,
    /// The name of this VM in `Resources`: from `--vm.name`, else from the identity.
    pub vm_name: Option<Arc<str>>,
    /// `--vm.name` may be wrong: events have named other VMs only, and instance metadata do not name this one.
    pub is_vm_name_unmatched: bool,
    pub as_of: Moment,
}

impl Snapshot {
    /// The snapshot before the first poll.
    pub fn empty(vm_name: Option<Arc<str>>, now: Moment) -> Self {
        Self {
            events: Arc::from([]),
            past: Arc::from([]),
            dropped_ends: 0,
            journal: Arc::default(),
            poll: PollState::default(),
            requests: RequestCounters::default(),
            counters: Arc::new(EventCounters::default()),
            state_write_failures: 0,
            approvals: Arc::default(),
            identity: None,
            identity_error: None,
            physical_host: None,
            owner: None,
            vm_name,
            is_vm_name_unmatched: false,
            as_of: now,
        }
    }

    /// The name in instance metadata, where `--vm.name` is another one.
    pub(crate) fn other_vm_name(&self) -> Option<&str> {
        let identity = self.identity.as_deref()?;
        let is_other = identity.contradicts(self.vm_name.as_deref());
        is_other.then_some(&*identity.name)
    }

    /// False until a document was read, also by an earlier process: an empty list says nothing then.
    pub(crate) fn has_document(&self) -> bool {
        self.poll.last_document.is_some()
    }

    /// Whether the events are known: a document was read, and it is not too old.
    pub(crate) fn knows_events(&self, now: Moment) -> bool {
        self.has_document() && !self.poll.is_stale(now)
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.filter(TrackedEvent::is_maintenance_pending)
    }

    pub(crate) fn advisories(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.filter(|tracked| tracked.phase() == Phase::Advisory)
    }

    pub(crate) fn ended(&self) -> impl Iterator<Item = &TrackedEvent> {
        self.filter(|tracked| !tracked.is_pending())
    }

    pub(crate) fn exposed(&self, scope: SeriesScope) -> impl Iterator<Item = &TrackedEvent> {
        self.filter(move |tracked| scope == SeriesScope::All || tracked.scope != EventScope::Other)
    }

    fn filter(
        &self,
        is_included: impl Fn(&TrackedEvent) -> bool,
    ) -> impl Iterator<Item = &TrackedEvent> {
        let events = self.events.iter().map(AsRef::as_ref);
        events.filter(move |tracked| is_included(tracked))
    }
}

label_values! {
    /// `--events.scope`: the events with series of their own, those that name this VM or all.
    pub enum SeriesScope {
        Own = "self",
        All = "all",
    }
}
