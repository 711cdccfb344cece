//! The inputs and effects of the engine.

use std::{sync::Arc, time::Duration};

use crate::{
    azure::{Identity, RequestError, document::Answer, event::EventId},
    core::{
        approval::ApprovalPolicy,
        journal::{Entry, Journal},
        lifecycle::SavedState,
        snapshot::Snapshot,
    },
};

#[derive(Debug, Default)]
pub struct EngineConfig {
    /// `--vm.name`: takes precedence over the name in instance metadata.
    pub vm_name: Option<Arc<str>>,
    /// `--imds.poll-interval`.
    pub poll_interval: Duration,
    pub approvals: ApprovalPolicy,
    /// The boot id of the running system, where it has one.
    pub boot_id: Option<String>,
    /// Emit [`Effect::Write`].
    pub is_persistent: bool,
    /// A new one, or that of an earlier process.
    pub journal: Journal,
    /// The id of the journal that begins if the restored one is another VM's.
    pub next_journal_id: Arc<str>,
}

/// An external occurrence that the engine processes.
#[derive(Debug)]
pub enum Input {
    /// A request for the scheduled-events document ended.
    Polled {
        result: Result<Answer, RequestError>,
        took: Duration,
        /// By how much the wait before the request was longer than asked for.
        late: Duration,
    },
    /// A request for the instance metadata ended.
    Identified {
        result: Result<Identity, RequestError>,
        took: Duration,
    },
    /// The request of an [`Effect::Approve`] ended.
    ApprovalSent {
        ids: Vec<EventId>,
        result: Result<(), RequestError>,
        took: Duration,
    },
    /// Due as [`Engine::ticks_in`](super::Engine::ticks_in) says.
    Tick,
    /// The write of an [`Effect::Write`] ended.
    StateWritten(Result<(), String>),
    /// More entries of the journal were sent: the state is to say so soon.
    Sent,
    /// The process is about to end: the state is saved and the snapshot published once more.
    Shutdown,
}

/// An action for the caller. The order within one list is part of the contract.
#[derive(Debug)]
pub enum Effect {
    /// The restored state belongs to another VM: keep its files under other names, and let the next poll ask for a whole
    /// document.
    DiscardForeignState,
    /// Write the new entries of the journal, then the state. At most one write is outstanding; [`Input::StateWritten`]
    /// ends it.
    Write {
        journal: Arc<Journal>,
        state: Box<SavedState>,
    },
    /// Show the snapshot to readers, and send what its journal has. Wait until the write before it is on disk, but not for a
    /// late one.
    Publish {
        snapshot: Arc<Snapshot>,
        /// Entries that have fallen off its journal since the last publication.
        dropped: Vec<Arc<Entry>>,
    },
    /// Send the approval of these events. The state before it records the attempt: wait until it is on disk, but not for a
    /// late write. [`Input::ApprovalSent`] ends it.
    Approve(Vec<EventId>),
}
