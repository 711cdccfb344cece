//! What the identity of this VM changes: whose restored events are, and which events name this VM.

use std::{sync::Arc, time::Duration};

use super::{absence::Hold, entry::TrackerEntry, tracked_event::TrackedEvent, tracker::Tracker};
use crate::event::EventScope;

impl Tracker {
    /// The restored state is that of this VM.
    pub(crate) fn confirm_owner(&mut self) {
        let unknown = |entry: &&mut TrackerEntry| entry.tracked.is_owner_unknown;
        for entry in self.entries.values_mut().filter(unknown) {
            entry.tracked_mut().is_owner_unknown = false;
            let absence = entry.absence.as_mut();
            if let Some(absence) = absence.filter(|absence| absence.hold == Hold::Owner) {
                absence.hold = Hold::Until(Duration::ZERO);
            }
        }
    }

    /// The name of this VM is known now, or has changed. Returns the events that name this VM and did not before.
    pub(crate) fn set_vm_name(&mut self, vm_name: Option<&str>) -> Vec<Arc<TrackedEvent>> {
        let mut own = Vec::new();
        for entry in self.entries.values_mut() {
            let scope = entry.tracked.event.scope(vm_name);
            // The names are those of an earlier document.
            let is_own = scope == EventScope::Own;
            let is_known = !entry.tracked.missing.resources || is_own;
            if is_known && entry.tracked.scope != scope {
                entry.tracked_mut().scope = scope;
                if scope == EventScope::Own {
                    own.push(Arc::clone(&entry.tracked));
                }
            }
        }
        own
    }
}
