//! Whether the restored state is that of this VM: its disk may be a copy of another VM's.

use std::{collections::BTreeSet, sync::Arc};

use super::lifecycle::SavedState;
use crate::azure::event::EventId;

/// The restored state is trusted until instance metadata disprove it. Then restored events go, and what this process has
/// read itself stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ownership {
    /// From instance metadata or, until they answer, from the restored state.
    pub(super) vm_id: Option<String>,
    restored: Arc<BTreeSet<EventId>>,
    /// Instance metadata have not answered yet: nothing about restored events is sent.
    pub is_doubtful: bool,
}

impl Ownership {
    /// A state that does not say whose it is counts as that of this VM.
    pub(super) fn of_restored(saved: &SavedState) -> Self {
        let vm_id = saved.vm_id.clone().filter(|id| !id.is_empty());
        let events = saved.events.iter();
        Self {
            is_doubtful: vm_id.is_some(),
            vm_id,
            restored: Arc::new(events.map(|event| event.shown.id.clone()).collect()),
        }
    }

    /// Whether the event was restored, also where this process has read it since.
    pub(super) fn is_restored(&self, id: &EventId) -> bool {
        self.restored.contains(id)
    }

    /// Instance metadata have this id, which is empty where it is missing. Returns whether the state is another VM's.
    pub(super) fn identify(&mut self, vm_id: &str) -> bool {
        self.is_doubtful = false;
        if vm_id.is_empty() {
            return false;
        }
        let known = self.vm_id.replace(vm_id.to_owned());
        known.is_some_and(|known| !known.eq_ignore_ascii_case(vm_id))
    }
}
