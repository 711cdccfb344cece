//! Azure's vocabulary: event ids, types, statuses, sources, and one event of a document.
//!
//! Azure's values are kept verbatim, unknown ones included. Comparisons ignore case, since Microsoft documents no case:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>.

/// An enumeration of Azure's values, and any other one verbatim. In the state file it is Azure's text.
macro_rules! azure_values {
    ($(#[$meta:meta])* $set:ident { $($(#[$doc:meta])* $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $set {
            $($(#[$doc])* $value,)*
            #[serde(untagged)]
            Other(Box<str>),
        }

        impl $set {
            /// Ignores case.
            pub(crate) fn new(name: &str) -> Self {
                [$(Self::$value),*]
                    .into_iter()
                    .find(|known| known.as_str().eq_ignore_ascii_case(name))
                    .unwrap_or_else(|| Self::Other(name.into()))
            }

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$value => stringify!($value),)*
                    Self::Other(name) => name,
                }
            }
        }
    };
}

mod event_type;
mod id;
mod members;
mod scope;

/// Placeholder for an unreadable type or status.
pub(crate) const UNREADABLE: &str = "Unknown";

pub(crate) use self::event_type::{Impact, Severity};
pub(crate) use self::members::{AzureForm, Member, MemberValue, serialize_members};
pub(crate) use self::scope::{is_same_vm, resource_name};
pub use self::{
    event_type::EventType,
    id::EventId,
    scope::{EventScope, VmNames},
};
use serde::{Deserialize, Serialize};

use crate::base::{text::json_length, time::Timestamp};

azure_values! {
    /// `EventStatus`. An ended event has no status: Azure drops it from the document.
    Status {
        /// It starts at `NotBefore` or after its approval.
        Scheduled,
        Started,
        /// Advice that never starts. Azure sends it with a Spot rebalance recommendation.
        Advisory,
    }
}

azure_values! {
    Source {
        Platform,
        /// A user or tool with permissions on the VM.
        User,
    }
}

impl Source {
    /// How a missing source is shown.
    pub(crate) const NOT_GIVEN: &str = "not given, treated as Platform";
}

/// Name and JSON text of an undocumented member of an event.
pub(crate) type UnknownMember = (Box<str>, Box<str>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub id: EventId,
    pub event_type: EventType,
    pub status: Status,
    /// Absent before api-version 2019-08-01.
    pub source: Option<Source>,
    /// `VirtualMachine` in every captured document.
    pub resource_type: Option<Box<str>>,
    /// `None` if the document has no readable name of them, which differs from an empty list.
    pub resources: Option<Vec<Box<str>>>,
    /// The list has more entries: unreadable ones, or too many.
    #[serde(default)]
    pub has_more_resources: bool,
    /// `None` once the event has started.
    pub not_before: Option<Timestamp>,
    pub duration_seconds: Option<u64>,
    /// Azure says that it is unknown: -1.
    #[serde(default)]
    pub is_duration_unknown: bool,
    /// Absent before api-version 2019-04-01; empty in captured Preempt and user events.
    pub description: Option<Box<str>>,
    #[serde(default)]
    pub unknown_members: Vec<UnknownMember>,
}

/// What determines the alerts of an event, and can differ between two versions of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventKind {
    pub event_type: EventType,
    pub source: Option<Source>,
    pub duration_seconds: Option<u64>,
    #[serde(default)]
    pub is_advisory: bool,
}

impl Event {
    /// This version of the event, with the last readable value of each member that it lacks.
    pub(crate) fn with_missing_members_of(&self, was: &Self) -> Self {
        let mut event = self.clone();
        event.id = was.id.clone();
        if self.event_type.as_str() == UNREADABLE {
            event.event_type = was.event_type.clone();
        }
        if self.status.as_str() == UNREADABLE {
            event.status = was.status.clone();
        }
        event.source = event.source.or_else(|| was.source.clone());
        event.resource_type = event.resource_type.or_else(|| was.resource_type.clone());
        if self.resources.is_none() {
            event.resources.clone_from(&was.resources);
            event.has_more_resources = was.has_more_resources;
        }
        event.not_before = self.not_before.or(was.not_before);
        if self.duration_seconds.is_none() && !self.is_duration_unknown {
            event.duration_seconds = was.duration_seconds;
            event.is_duration_unknown = was.is_duration_unknown;
        }
        if self.description_text().is_none() && was.description.is_some() {
            event.description.clone_from(&was.description);
        }
        event
    }

    pub(crate) fn kind(&self) -> EventKind {
        EventKind {
            event_type: self.event_type.clone(),
            source: self.source.clone(),
            duration_seconds: self.duration_seconds,
            is_advisory: self.is_advisory(),
        }
    }

    /// Advice, not maintenance: nothing starts, and there is nothing to approve. Its `NotBefore`, if any, is no
    /// deadline.
    pub(crate) fn is_advisory(&self) -> bool {
        self.status == Status::Advisory || self.event_type.spec().impact == Impact::None
    }

    /// An advisory of a type of maintenance. No page of Microsoft describes one.
    pub(crate) fn is_other_advisory(&self) -> bool {
        self.is_advisory() && self.event_type.spec().impact != Impact::None
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.not_before.filter(|_| !self.is_advisory())
    }

    pub(crate) fn source_text(&self) -> Option<&str> {
        Some(self.source.as_ref()?.as_str()).filter(|text| !text.is_empty())
    }

    /// Whether Azure expects no interruption: `DurationInSeconds` is 0. Other types than Freeze stop the VM whatever
    /// their duration is.
    pub(crate) fn is_without_interruption(&self) -> bool {
        self.event_type == EventType::Freeze && self.duration_seconds == Some(0)
    }

    pub(crate) fn impact(&self) -> Impact {
        if self.is_advisory() {
            Impact::None
        } else {
            self.event_type.spec().impact
        }
    }

    pub(crate) fn starts_early_if_approved(&self) -> bool {
        !self.is_advisory() && self.event_type.spec().starts_early_if_approved
    }

    pub(crate) fn meaning(&self) -> &'static str {
        if self.is_other_advisory() {
            "this is advice, no maintenance is scheduled"
        } else if self.is_without_interruption() {
            "host maintenance; no interruption of the VM is expected"
        } else {
            self.event_type.spec().meaning
        }
    }

    pub fn scope<'a>(&self, vm: impl Into<VmNames<'a>>) -> EventScope {
        let vm = vm.into();
        match &self.resources {
            Some(resources) if resources.iter().any(|entry| vm.contain(entry)) => EventScope::Own,
            Some(_) if !vm.is_unknown() && !self.has_more_resources => EventScope::Other,
            _ => EventScope::Unknown,
        }
    }

    /// About the length of its texts in JSON, which is at least that in memory.
    pub(crate) fn text_bytes(&self) -> usize {
        /// Bytes of a pointer with its length, and of the allocator.
        const OVERHEAD: usize = 32;
        /// Bytes of the id, type, status, source and type of resources.
        const SHORT_TEXTS: usize = 512;
        let members = self.unknown_members.iter();
        let members = members.flat_map(|(name, value)| [name, value]);
        let texts = self.resources.iter().flatten().chain(members);
        let lengths = texts.chain(&self.description).map(|it| json_length(it));
        SHORT_TEXTS + lengths.map(|length| length + OVERHEAD).sum::<usize>()
    }

    pub(crate) fn description_text(&self) -> Option<&str> {
        self.description.as_deref().filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_unknown_ones_are_kept() {
        assert_eq!(EventType::new("FREEZE"), EventType::Freeze);
        assert_eq!(EventType::new("Hibernate").as_str(), "Hibernate");
        assert_eq!(Status::new("started"), Status::Started);
        assert_eq!(Status::new("ADVISORY"), Status::Advisory);
        assert_eq!(Status::new("Paused").as_str(), "Paused");
        assert_eq!(Source::new("user"), Source::User);
        assert_eq!(Source::new("Partner").as_str(), "Partner");
    }

    fn event(event_type: &str, status: &str, resources: Option<&[&str]>) -> Event {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        Event {
            id: EventId::new("a"),
            event_type: EventType::new(event_type),
            status: Status::new(status),
            source: None,
            resource_type: None,
            resources: resources.map(names),
            has_more_resources: false,
            not_before: None,
            duration_seconds: None,
            is_duration_unknown: false,
            description: None,
            unknown_members: Vec::new(),
        }
    }

    #[test]
    fn an_event_is_advisory_by_its_status_or_its_type() {
        for (event_type, status, expected) in [
            ("Preempt", "ADVISORY", true),
            ("spotRebalanceRecommendation", "Scheduled", true),
            ("Preempt", "Scheduled", false),
            ("Hibernate", "Paused", false),
        ] {
            let event = event(event_type, status, None);
            assert_eq!(event.is_advisory(), expected, "{event_type} {status}");
        }
    }

    #[test]
    fn the_vm_name_is_compared_whole_and_without_case() {
        for (names, own, expected) in [
            (
                Some(&["web_10", "WEB_1"][..]),
                Some("web_1"),
                EventScope::Own,
            ),
            (Some(&["web_10"]), Some("web_1"), EventScope::Other),
            (Some(&["_legacyvm2"]), Some("legacyvm2"), EventScope::Own),
            (Some(&["_legacyvm2"]), Some("_legacyvm2"), EventScope::Own),
            (Some(&["web_1 \n"]), Some("\tWEB_1"), EventScope::Own),
            (Some(&[]), Some("web_1"), EventScope::Other),
            (Some(&["web_1"]), None, EventScope::Unknown),
            (None, Some("web_1"), EventScope::Unknown),
        ] {
            let event = event("Freeze", "Scheduled", names);
            assert_eq!(event.scope(own), expected, "{names:?} {own:?}");
        }
    }
}
