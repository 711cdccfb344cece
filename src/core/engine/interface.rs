//! The inputs and effects of the engine.

use std::{sync::Arc, time::Duration};

use crate::{
    azure::{Identity, RequestError, document::Answer, event::EventId},
    core::{
        approval::ApprovalPolicy,
        lifecycle::{SavedState, TrackedEvent, Transition},
        pause::ProcessDelay,
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
    /// Emit [`Effect::SaveState`].
    pub is_persistent: bool,
}

/// An external occurrence that the engine processes.
#[derive(Debug)]
pub enum Input {
    /// A request for the scheduled-events document ended.
    Polled {
        result: Result<Answer, RequestError>,
        took: Duration,
    },
    /// A request for the instance metadata ended.
    Identified {
        result: Result<Identity, RequestError>,
        took: Duration,
    },
    /// The request of an [`Effect::Approve`] ended.
    ApprovalSent {
        id: EventId,
        result: Result<(), RequestError>,
        took: Duration,
    },
    /// The process was kept from running, as measured before the next tick or poll.
    Delayed(ProcessDelay),
    /// A tick of the heartbeat, due every [`pause::PERIOD`](crate::core::pause::PERIOD) while
    /// [`Engine::looks_for_pauses`](super::Engine::looks_for_pauses).
    Tick,
    /// The write of an [`Effect::SaveState`] ended.
    StateWritten(Result<(), String>),
    /// The process is about to end: the state is saved and the snapshot published once more.
    Shutdown,
}

/// An action for the caller. The order within one list is part of the contract.
#[derive(Debug)]
pub enum Effect {
    /// The restored state belongs to another VM: keep its file under another name, and let the next poll ask for a
    /// whole document.
    DiscardForeignState,
    /// Append what is sent of each change, such as spans and log records, to the spools.
    Emit(Changes),
    /// Replace the state file. At most one is outstanding; [`Input::StateWritten`] ends it.
    SaveState(Box<SavedState>),
    Publish(Arc<Snapshot>),
    /// Send the approval of an event. The state before it records the attempt: wait until it is on disk, but not for a
    /// late write. [`Input::ApprovalSent`] ends it.
    Approve(EventId),
}

/// The changes of events since the last effects, for the outputs that send each of them.
#[derive(Debug)]
pub struct Changes {
    /// Events that were found late to name this VM: nothing was emitted of their past.
    pub newly_own: Vec<Arc<TrackedEvent>>,
    pub transitions: Vec<Transition>,
    /// What is known after them.
    pub snapshot: Arc<Snapshot>,
}
