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

/// The names of this VM: `--vm.name` and the name in instance metadata. An event that has either is its own. While
/// instance metadata do not name the VM, `--vm.name` can also be the host name of an instance of a scale set.
#[derive(Debug, Clone, Copy, Default)]
pub struct VmNames<'a> {
    vm_name: Option<&'a str>,
    metadata_name: Option<&'a str>,
}

impl<'a> VmNames<'a> {
    pub fn new(vm_name: Option<&'a str>, metadata_name: Option<&'a str>) -> Self {
        Self {
            vm_name,
            metadata_name,
        }
    }

    pub(crate) fn is_unknown(self) -> bool {
        self.vm_name.is_none() && self.metadata_name.is_none()
    }

    pub(crate) fn contain(self, resource: &str) -> bool {
        let mut names = self.vm_name.into_iter().chain(self.metadata_name);
        let host_name = self.vm_name.filter(|_| self.metadata_name.is_none());
        names.any(|name| is_same_vm(resource, name))
            || host_name.is_some_and(|host_name| is_host_of(host_name, resource))
    }
}

/// A name that is certain: no other one is derived from it.
impl<'a> From<Option<&'a str>> for VmNames<'a> {
    fn from(name: Option<&'a str>) -> Self {
        Self::new(None, name)
    }
}

/// Whether an instance of a scale set has this host name, or a fully qualified one: a prefix, which is the name of the
/// scale set, and the number of the instance in base 36 with six digits. Windows allows 15 characters, which cuts the
/// prefix.
///
/// <https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-instance-ids>
fn is_host_of(host_name: &str, resource: &str) -> bool {
    const DIGITS: usize = 6;
    const MAX_WINDOWS: usize = 15;
    let host = host_name.trim().split('.').next().unwrap_or_default();
    let number_at = host.len().saturating_sub(DIGITS);
    let Some((prefix, digits)) = host.split_at_checked(number_at) else {
        return false;
    };
    let Some((scale_set, number)) = resource_name(resource).rsplit_once('_') else {
        return false;
    };
    let parse = |digits: &str, radix| {
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_plain.then(|| u32::from_str_radix(digits, radix).ok())?
    };
    let is_same_number = parse(digits, 36).is_some_and(|it| parse(number, 10) == Some(it));
    let is_cut = host.len() == MAX_WINDOWS && scale_set.len() > prefix.len();
    let name = if is_cut {
        scale_set.get(..prefix.len()).unwrap_or_default()
    } else {
        scale_set
    };
    is_same_number && !prefix.is_empty() && name.eq_ignore_ascii_case(prefix)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_name_of_an_instance_of_a_scale_set_means_its_vm() {
        for (host_name, resource, expected) in [
            (
                "aks-pool-12345678-vmss00000a",
                "aks-pool-12345678-vmss_10",
                true,
            ),
            (
                "AKS-Pool-12345678-VMSS00000A",
                "_aks-pool-12345678-vmss_10",
                true,
            ),
            (
                "aks-pool-12345678-vmss0000ny",
                "aks-pool-12345678-vmss_862",
                true,
            ),
            ("web00000a.corp.example", "web_10", true),
            ("akswinset00000a", "akswinset-large_10", true),
            ("akswinset00000a", "akswinset_10", true),
            ("akswinse00000a", "akswinset_10", false),
            (
                "aks-pool-12345678-vmss00000a",
                "aks-pool-12345678-vmss_11",
                false,
            ),
            ("aks-pool-12345678-vmss00000a", "aks-pool-1-vmss_10", false),
            (
                "aks-pool-12345678-vmss00000a",
                "aks-pool-12345678-vmss_+10",
                false,
            ),
            (
                "aks-pool-12345678-vmss0+000a",
                "aks-pool-12345678-vmss_10",
                false,
            ),
            ("00000a", "_10", false),
            ("a", "a_10", false),
            ("wéb00000a", "wéb_10", true),
            ("é0000a", "x_10", false),
        ] {
            let names = VmNames::new(Some(host_name), None);
            assert_eq!(names.contain(resource), expected, "{host_name} {resource}");
            let with_metadata = VmNames::new(Some(host_name), Some("other"));
            assert!(
                !with_metadata.contain(resource),
                "instance metadata name the VM"
            );
            assert!(!VmNames::from(Some(host_name)).contain(resource));
        }
    }
}
