//! Which VMs an event names.

use serde::{Deserialize, Serialize};

use crate::base::label::label_values;

label_values! {
    /// Whether `Resources` of an event names this VM.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    EventScope {
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

/// Compares `vm_name` with the entries of `resources`.
pub(crate) fn scope_of(resources: Option<&[Box<str>]>, vm_name: Option<&str>) -> EventScope {
    let (Some(resources), Some(vm_name)) = (resources, vm_name) else {
        return EventScope::Unknown;
    };
    if resources.iter().any(|entry| is_same_vm(entry, vm_name)) {
        EventScope::Own
    } else {
        EventScope::Other
    }
}

/// Compares whole names, ignoring case and the prefix that [`resource_name`] removes.
pub(crate) fn is_same_vm(one: &str, other: &str) -> bool {
    resource_name(one).eq_ignore_ascii_case(resource_name(other))
}

/// The VM name of an entry of `Resources`. Documents of api-version 2017-03-01 prefix it with an underscore, which no
/// VM name starts with.
pub(crate) fn resource_name(entry: &str) -> &str {
    entry.strip_prefix('_').unwrap_or(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vm_name_is_compared_whole_and_without_case() {
        let scope = |entries: &[&str], own: Option<&str>| {
            let entries: Vec<Box<str>> = entries.iter().map(|entry| (*entry).into()).collect();
            scope_of(Some(&entries), own)
        };
        assert_eq!(scope(&["web_10", "WEB_1"], Some("web_1")), EventScope::Own);
        assert_eq!(scope(&["web_10"], Some("web_1")), EventScope::Other);
        assert_eq!(scope(&["_legacyvm2"], Some("legacyvm2")), EventScope::Own);
        assert_eq!(scope(&["_legacyvm2"], Some("_legacyvm2")), EventScope::Own);
        assert_eq!(scope(&[], Some("web_1")), EventScope::Other);
        assert_eq!(scope(&["web_1"], None), EventScope::Unknown);
        assert_eq!(scope_of(None, Some("web_1")), EventScope::Unknown);
    }
}
