//! What the identity of this VM decides: whether restored events are its own, and which events name it.

use std::sync::Arc;

use super::{tracked_event::TrackedEvent, tracker::Tracker};
use crate::{
    azure::event::{EventScope, VmNames},
    base::time::Timestamp,
};

impl Tracker {
    /// Whether restored events may be those of another VM.
    pub(crate) fn is_owner_unknown(&self) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| entry.tracked.is_owner_unknown)
    }

    pub(crate) fn confirm_owner(&mut self) {
        for entry in self.entries.values_mut() {
            if entry.tracked.is_owner_unknown {
                entry.tracked_mut().is_owner_unknown = false;
            }
        }
        for event in self.past_mut().filter(|event| event.is_owner_unknown) {
            Arc::make_mut(event).is_owner_unknown = false;
        }
    }

    /// The names of this VM are known now, or have changed. Returns the events whose scope this changes, each with the
    /// scope before.
    pub(crate) fn set_vm_names<'a>(
        &mut self,
        vm: impl Into<VmNames<'a>>,
        now: Timestamp,
    ) -> Vec<(EventScope, Arc<TrackedEvent>)> {
        let vm = vm.into();
        let mut changed = Vec::new();
        for entry in self.entries.values_mut() {
            let was = entry.tracked.scope;
            let scope = entry.tracked.event.scope(vm);
            // The names are those of an earlier document.
            let is_outdated = entry.tracked.missing.resources && scope == EventScope::Other;
            if !is_outdated {
                entry.set_scope(scope, now);
            }
            if entry.tracked.scope != was {
                changed.push((was, Arc::clone(&entry.tracked)));
            }
        }
        changed
    }
}
