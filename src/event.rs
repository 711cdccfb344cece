//! The words of Azure Scheduled Events: ids, types, statuses, sources, and one event as a document shows it.
//!
//! What Azure writes is kept verbatim, also where we do not know the word; comparing is without case, since no document
//! of Microsoft's promises a case. The vocabulary is Microsoft's:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::time::Timestamp;

/// The id of one event, the same from its announcement to its end.
///
/// Two ids are equal when they differ in case only; [`EventId::as_str`] gives back the bytes that Azure sent, as an
/// approval must.
#[derive(Debug, Clone)]
pub struct EventId {
    verbatim: Box<str>,
}

impl EventId {
    /// Wraps an id as Azure wrote it.
    pub fn new(verbatim: &str) -> Self {
        Self {
            verbatim: verbatim.into(),
        }
    }

    /// As Azure wrote it, byte for byte.
    pub fn as_str(&self) -> &str {
        &self.verbatim
    }

    /// The 16 bytes of the id where it is a GUID, which it is in every captured document.
    pub fn as_guid(&self) -> Option<[u8; 16]> {
        let mut digits = self.verbatim.bytes().filter(|byte| *byte != b'-');
        let mut guid = [0_u8; 16];
        for byte in &mut guid {
            let high = char::from(digits.next()?).to_digit(16)?;
            let low = char::from(digits.next()?).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        (digits.next().is_none() && self.verbatim.len() == 36).then_some(guid)
    }

    /// The 16 bytes of the id of its trace: those of the GUID, so that an id that somebody was paged with can be pasted
    /// into a search for traces, and so that every VM of a group writes into one trace. Another id is hashed (FNV-1a,
    /// 128 bits, of the lower-case id), and so is the GUID of zeros, which is no valid trace id (W3C Trace Context).
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

/// What will happen to the VM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// A pause of some seconds; memory is kept.
    Freeze,
    /// A restart; what is only in memory is lost.
    Reboot,
    /// A move to another host; memory and ephemeral disks are lost.
    Redeploy,
    /// A Spot VM is evicted.
    Preempt,
    /// A scale set instance is deleted.
    Terminate,
    /// A word that we do not know, verbatim.
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

    /// Reads Azure's word, in any case.
    pub fn new(word: &str) -> Self {
        let known = Self::KNOWN
            .into_iter()
            .find(|known| known.as_str().eq_ignore_ascii_case(word));
        known.unwrap_or_else(|| Self::Other(word.into()))
    }

    /// Azure's word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Freeze => "Freeze",
            Self::Reboot => "Reboot",
            Self::Redeploy => "Redeploy",
            Self::Preempt => "Preempt",
            Self::Terminate => "Terminate",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far the event is, in Azure's words. There is no word for its end: an event that is over vanishes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// Announced; it will not start before `NotBefore` unless it is approved.
    Scheduled,
    /// Going on.
    Started,
    /// A word that we do not know, verbatim.
    Other(Box<str>),
}

impl Status {
    /// Reads Azure's word, in any case.
    pub fn new(word: &str) -> Self {
        if word.eq_ignore_ascii_case("Scheduled") {
            Self::Scheduled
        } else if word.eq_ignore_ascii_case("Started") {
            Self::Started
        } else {
            Self::Other(word.into())
        }
    }

    /// Azure's word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::Started => "Started",
            Self::Other(word) => word,
        }
    }
}

/// Who wants the event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Azure.
    Platform,
    /// Somebody with rights on the VM.
    User,
    /// A word that we do not know, verbatim.
    Other(Box<str>),
}

impl Source {
    /// Reads Azure's word, in any case.
    pub fn new(word: &str) -> Self {
        if word.eq_ignore_ascii_case("Platform") {
            Self::Platform
        } else if word.eq_ignore_ascii_case("User") {
            Self::User
        } else {
            Self::Other(word.into())
        }
    }

    /// Azure's word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Platform => "Platform",
            Self::User => "User",
            Self::Other(word) => word,
        }
    }
}

/// Whether an event names this VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventScope {
    /// It names others only.
    Other,
    /// It names this VM. On the wire: `self`.
    Own,
    /// Not known: our own name is not known yet, or the event does not say whom it names.
    Unknown,
}

impl EventScope {
    /// The value of the label `scope`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// A member of an event that we do not know: its name and its value as JSON text.
pub type UnknownMember = (Box<str>, Box<str>);

/// One event as a document shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// What will happen.
    pub event_type: EventType,
    /// How far it is.
    pub status: Status,
    /// Who wants it; absent below api-version 2019-08-01.
    pub source: Option<Source>,
    /// `VirtualMachine` in every captured document.
    pub resource_type: Option<Box<str>>,
    /// The VMs that it names; `None` where the document does not say, which is not the same as naming none.
    pub resources: Option<Vec<Box<str>>>,
    /// It will not start before; blank once it has started.
    pub not_before: Option<Timestamp>,
    /// Announced length of the interruption in seconds; `None` when unknown (-1); 0 is a real value.
    pub duration_seconds: Option<u64>,
    /// Free text; absent below api-version 2019-04-01.
    pub description: Option<Box<str>>,
    /// Members that Microsoft has not documented, verbatim.
    pub unknown_members: Vec<UnknownMember>,
}

impl Event {
    /// Whether this event names the VM called `own_name`.
    pub fn scope(&self, vm_name: Option<&str>) -> EventScope {
        scope_of(self.resources.as_deref(), vm_name)
    }
}

/// Whether `resources` has an entry for the VM called `own_name`: the whole name, without case.
///
/// Documents of api-version 2017-03-01 put an underscore before the names of VMs; no VM's own name can start with
/// one, so it never tells two VMs apart. An own name that was copied from such a document may have it too.
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

/// The name that an entry of `Resources` stands for, as people know it.
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
    fn only_a_guid_is_a_guid() {
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
    fn a_guid_is_its_own_trace_id_and_anything_else_gets_a_stable_one() {
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
    fn words_are_read_in_any_case_and_unknown_ones_stay() {
        assert_eq!(EventType::new("FREEZE"), EventType::Freeze);
        assert_eq!(EventType::new("Hibernate").as_str(), "Hibernate");
        assert_eq!(Status::new("started"), Status::Started);
        assert_eq!(Status::new("Paused").as_str(), "Paused");
        assert_eq!(Source::new("user"), Source::User);
        assert_eq!(Source::new("Partner").as_str(), "Partner");
    }

    #[test]
    fn own_name_is_compared_whole_and_without_case() {
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
