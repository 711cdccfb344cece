//! The identity of this VM, as instance metadata give it.

use super::event::is_same_vm;

/// The identity of this VM, from `/metadata/instance/compute`. A missing value is an empty string, as it is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// `name`: this VM in `Resources`.
    pub name: String,
    pub vm_id: String,
    pub scale_set: String,
    pub vm_size: String,
    pub location: String,
    pub zone: String,
    pub subscription_id: String,
    pub resource_group: String,
    pub resource_id: String,
    /// `osProfile.computerName`.
    pub computer_name: String,
    /// A member that this kind of VM has is missing.
    pub is_partial: bool,
}

impl Identity {
    /// The values of a later answer. Where it is partial, the present values of the same VM fill the gaps.
    pub(crate) fn updated(&self, mut later: Self) -> Self {
        let is_same_vm = later.vm_id.is_empty() || later.vm_id.eq_ignore_ascii_case(&self.vm_id);
        if !later.is_partial || !is_same_vm {
            return later;
        }
        let known = self.clone();
        for (value, known) in [
            (&mut later.vm_id, known.vm_id),
            (&mut later.scale_set, known.scale_set),
            (&mut later.vm_size, known.vm_size),
            (&mut later.location, known.location),
            (&mut later.zone, known.zone),
            (&mut later.subscription_id, known.subscription_id),
            (&mut later.resource_group, known.resource_group),
            (&mut later.resource_id, known.resource_id),
            (&mut later.computer_name, known.computer_name),
        ] {
            if value.is_empty() {
                *value = known;
            }
        }
        later
    }

    /// The name of the host, where it is another one than that of the VM, as in scale sets.
    pub(crate) fn host(&self) -> Option<&str> {
        let host = self.computer_name.as_str();
        (!host.is_empty() && !host.eq_ignore_ascii_case(&self.name)).then_some(host)
    }

    /// Whether `--vm.name` is another name than that in instance metadata.
    pub(crate) fn contradicts(&self, vm_name: Option<&str>) -> bool {
        vm_name.is_some_and(|vm_name| !is_same_vm(vm_name, &self.name))
    }
}
