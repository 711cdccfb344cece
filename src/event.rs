//! Azure's vocabulary: event ids, types, statuses, sources, and one event of a document.
//!
//! Azure's values are kept verbatim, unknown ones included. Comparisons ignore case, since Microsoft documents no case:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::time::Timestamp;

/// The id of one event, constant from its announcement to its end.
///
/// Ids that differ only in case are equal. An approval must send [`EventId::as_str`], the id as Azure sent it.
#[derive(Debug, Clone)]
pub struct EventId {
    verbatim: Box<str>,
}

impl EventId {
    pub fn new(verbatim: &str) -> Self {
        Self {
            verbatim: verbatim.into(),
        }
    }

    /// As Azure sent it.
    pub fn as_str(&self) -> &str {
        &self.verbatim
    }

    /// The bytes of a GUID; every captured id is one.
    pub(crate) fn as_guid(&self) -> Option<[u8; 16]> {
        let mut digits = self.verbatim.bytes().filter(|byte| *byte != b'-');
        let mut guid = [0_u8; 16];
        for byte in &mut guid {
            let high = char::from(digits.next()?).to_digit(16)?;
            let low = char::from(digits.next()?).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        (digits.next().is_none() && self.verbatim.len() == 36).then_some(guid)
    }

    /// The trace id: the bytes of the GUID, so that an operator can search traces for the id of an alert, and so that all
    /// VMs of an event share one trace. Any other id, and the zero GUID, which W3C Trace Context forbids, is hashed
    /// (128-bit FNV-1a of the lower-case id).
    pub fn trace_id(&self) -> [u8; 16] {
        const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let hash = || {
            self.folded().fold(OFFSET, |hash, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(PRIME)
            })
        };
        self.as_guid()
            .filter(|guid| *guid != [0; 16])
            .unwrap_or_else(|| hash().to_be_bytes())
    }

    fn folded(&self) -> impl Iterator<Item = u8> + '_ {
        self.verbatim.bytes().map(|byte| byte.to_ascii_lowercase())
    }
}

impl PartialEq for EventId {
    fn eq(&self, other: &Self) -> bool {
        self.verbatim.eq_ignore_ascii_case(&other.verbatim)
    }
}

impl Eq for EventId {}

impl PartialOrd for EventId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EventId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.folded().cmp(other.folded())
    }
}

impl Hash for EventId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded().for_each(|byte| state.write_u8(byte));
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verbatim)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
    /// An undocumented value, verbatim.
    Other(Box<str>),
}

impl EventType {
    /// The types that Microsoft documents.
    pub const KNOWN: [Self; 5] = [
        Self::Freeze,
        Self::Reboot,
        Self::Redeploy,
        Self::Preempt,
        Self::Terminate,
    ];

    /// Ignores case.
    pub fn new(name: &str) -> Self {
        let known = Self::KNOWN
            .into_iter()
            .find(|known| known.as_str().eq_ignore_ascii_case(name));
        known.unwrap_or_else(|| Self::Other(name.into()))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Freeze => "Freeze",
            Self::Reboot => "Reboot",
            Self::Redeploy => "Redeploy",
            Self::Preempt => "Preempt",
            Self::Terminate => "Terminate",
            Self::Other(name) => name,
        }
    }
}

/// Severity of an event for a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impact {
    /// Memory and disks are kept.
    Pause,
    /// Memory is lost; the VM boots again.
    Restart,
    /// The VM is stopped or deleted.
    Removal,
    Unknown,
}

/// What events of one type do to each VM that they name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventEffect {
    pub impact: Impact,
    /// A clause for the status page, `approve` and pushed alerts; `alerts/scheduled-events.rules.yml` has the same text.
    pub summary: &'static str,
}

impl EventType {
    pub fn effect(&self) -> EventEffect {
        let (impact, summary) = match self {
            Self::Freeze => (
                Impact::Pause,
                "the VM is paused; memory and disks are kept, connections may break",
            ),
            Self::Reboot => (
                Impact::Restart,
                "the VM restarts; what is in memory is lost",
            ),
            Self::Redeploy => (
                Impact::Restart,
                "the VM moves to another host; memory and temporary disks are lost",
            ),
            Self::Preempt => (
                Impact::Removal,
                "the Spot VM is evicted; memory and temporary disks are lost",
            ),
            Self::Terminate => (Impact::Removal, "the VM is deleted"),
            Self::Other(_) => (Impact::Unknown, "a type that is not known here"),
        };
        EventEffect { impact, summary }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `EventStatus`. An ended event has no status: Azure drops it from the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// It starts at `NotBefore` or after its approval.
    Scheduled,
    Started,
    /// An undocumented value, verbatim.
    Other(Box<str>),
}

impl Status {
    /// Ignores case.
    pub fn new(name: &str) -> Self {
        if name.eq_ignore_ascii_case("Scheduled") {
            Self::Scheduled
        } else if name.eq_ignore_ascii_case("Started") {
            Self::Started
        } else {
            Self::Other(name.into())
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::Started => "Started",
            Self::Other(name) => name,
        }
    }
}

/// `EventSource`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    Platform,
    /// A user or tool with permissions on the VM.
    User,
    /// An undocumented value, verbatim.
    Other(Box<str>),
}

impl Source {
    /// Ignores case.
    pub fn new(name: &str) -> Self {
        if name.eq_ignore_ascii_case("Platform") {
            Self::Platform
        } else if name.eq_ignore_ascii_case("User") {
            Self::User
        } else {
            Self::Other(name.into())
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Platform => "Platform",
            Self::User => "User",
            Self::Other(name) => name,
        }
    }
}

/// Whether `Resources` of an event names this VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventScope {
    Other,
    /// The label value is `self`.
    Own,
    /// This VM's name or the event's resources are unknown.
    Unknown,
}

impl EventScope {
    /// Value of the label `scope`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// Name and JSON text of an undocumented member of an event.
pub type UnknownMember = (Box<str>, Box<str>);

/// One event of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub event_type: EventType,
    pub status: Status,
    /// Absent before api-version 2019-08-01.
    pub source: Option<Source>,
    /// `VirtualMachine` in every captured document.
    pub resource_type: Option<Box<str>>,
    /// `None` if the document does not list them, which differs from an empty list.
    pub resources: Option<Vec<Box<str>>>,
    /// `None` once the event has started.
    pub not_before: Option<Timestamp>,
    /// Announced interruption; `None` if unknown (-1).
    pub duration_seconds: Option<u64>,
    /// Absent before api-version 2019-04-01.
    pub description: Option<Box<str>>,
    pub unknown_members: Vec<UnknownMember>,
}

impl Event {
    pub fn scope(&self, vm_name: Option<&str>) -> EventScope {
        scope_of(self.resources.as_deref(), vm_name)
    }
}

/// Compares `vm_name` with the entries of `resources`: whole names, ignoring case and the prefix that
/// [`resource_name`] removes.
pub fn scope_of(resources: Option<&[Box<str>]>, vm_name: Option<&str>) -> EventScope {
    let (Some(resources), Some(vm_name)) = (resources, vm_name) else {
        return EventScope::Unknown;
    };
    let vm_name = resource_name(vm_name);
    let is_own = |entry: &str| resource_name(entry).eq_ignore_ascii_case(vm_name);
    if resources.iter().any(|entry| is_own(entry)) {
        EventScope::Own
    } else {
        EventScope::Other
    }
}

/// The VM name of an entry of `Resources`. Documents of api-version 2017-03-01 prefix it with an underscore, which no VM
/// name starts with.
pub fn resource_name(entry: &str) -> &str {
    entry.strip_prefix('_').unwrap_or(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_compared_without_case_and_kept_verbatim() {
        let upper = EventId::new("7B1E04C9-52DA-4F6E-9C38-A40D7E91B265");
        let lower = EventId::new("7b1e04c9-52da-4f6e-9c38-a40d7e91b265");
        assert_eq!(upper, lower);
        assert_eq!(upper.cmp(&lower), std::cmp::Ordering::Equal);
        assert_eq!(lower.as_str(), "7b1e04c9-52da-4f6e-9c38-a40d7e91b265");
    }

    #[test]
    fn only_a_guid_is_read_as_one() {
        let guid = EventId::new("602d9444-d2cd-49c7-8624-8643e7171297")
            .as_guid()
            .unwrap();
        assert_eq!(guid[..4], [0x60, 0x2d, 0x94, 0x44]);
        for other in [
            "",
            "602d9444",
            "602d9444-d2cd-49c7-8624-8643e717129",
            "zz2d9444-d2cd-49c7-8624-8643e7171297",
        ] {
            assert_eq!(EventId::new(other).as_guid(), None, "{other}");
        }
        assert_eq!(
            EventId::new("602d9444d2cd49c786248643e71712970000").as_guid(),
            None
        );
    }

    #[test]
    fn the_trace_id_is_the_guid_or_a_stable_hash() {
        let guid = EventId::new("602D9444-d2cd-49c7-8624-8643e7171297");
        assert_eq!(
            u128::from_be_bytes(guid.trace_id()),
            0x602d_9444_d2cd_49c7_8624_8643_e717_1297
        );
        assert_eq!(
            EventId::new("Event-1").trace_id(),
            EventId::new("event-1").trace_id()
        );
        assert_ne!(
            EventId::new("event-1").trace_id(),
            EventId::new("event-2").trace_id()
        );
        assert_ne!(
            EventId::new("00000000-0000-0000-0000-000000000000").trace_id(),
            [0; 16]
        );
    }

    #[test]
    fn names_are_read_in_any_case_and_unknown_ones_are_kept() {
        assert_eq!(EventType::new("FREEZE"), EventType::Freeze);
        assert_eq!(EventType::new("Hibernate").as_str(), "Hibernate");
        assert_eq!(Status::new("started"), Status::Started);
        assert_eq!(Status::new("Paused").as_str(), "Paused");
        assert_eq!(Source::new("user"), Source::User);
        assert_eq!(Source::new("Partner").as_str(), "Partner");
    }

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
