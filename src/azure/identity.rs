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
}

impl Identity {
    /// Whether `--vm.name` is another name than that in instance metadata.
    pub(crate) fn contradicts(&self, vm_name: Option<&str>) -> bool {
        vm_name.is_some_and(|vm_name| !is_same_vm(vm_name, &self.name))
    }
}
