//! Which VMs an event names.

use serde::{Deserialize, Serialize};

use crate::base::label::label_values;

label_values! {
    /// Whether `Resources` of an event names this VM.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum EventScope {
        Other = "other",
        #[serde(rename = "self")]
        Own = "self",
        /// This VM's name or the event's resources are unknown.
        Unknown = "unknown",
    }
}

impl EventScope {
    /// The scope of an event after a new version of it: only a readable list of names without this VM shows that an
    /// event of this VM is not its own any more.
    pub(crate) fn revised(self, new: Self) -> Self {
        if self == Self::Own && new == Self::Unknown {
            Self::Own
        } else {
            new
        }
    }
}

/// The names of this VM: `--vm.name` and the name in instance metadata. An event that has either is its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct VmNames<'a>([Option<&'a str>; 2]);

impl<'a> VmNames<'a> {
    pub fn new(vm_name: Option<&'a str>, metadata_name: Option<&'a str>) -> Self {
        Self([vm_name, metadata_name])
    }

    pub(crate) fn is_unknown(self) -> bool {
        self.0 == [None, None]
    }

    pub(crate) fn contain(self, resource: &str) -> bool {
        let mut names = self.0.into_iter().flatten();
        names.any(|name| is_same_vm(resource, name))
    }
}

impl<'a> From<Option<&'a str>> for VmNames<'a> {
    fn from(vm_name: Option<&'a str>) -> Self {
        Self::new(vm_name, None)
    }
}

/// Compares whole names, ignoring case and what [`resource_name`] removes.
pub(crate) fn is_same_vm(one: &str, other: &str) -> bool {
    resource_name(one).eq_ignore_ascii_case(resource_name(other))
}

/// The VM name of an entry of `Resources`, without white space at its ends. Documents of api-version 2017-03-01 prefix
/// it with an underscore, which no VM name starts with.
pub(crate) fn resource_name(entry: &str) -> &str {
    let entry = entry.trim();
    entry.strip_prefix('_').unwrap_or(entry)
}
