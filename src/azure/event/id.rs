//! Event ids and the trace ids derived from them.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::text::visible;

/// The id of one event, constant from its announcement to its end.
///
/// Ids that differ only in case are equal. An approval must send [`EventId::as_str`], the id as Azure sent it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EventId(Box<str>);

impl EventId {
    pub fn new(verbatim: &str) -> Self {
        Self(verbatim.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For people and labels: characters that are invisible are escaped, so that two ids never look the same.
    pub(crate) fn label(&self) -> Cow<'_, str> {
        let is_plain = |c: char| c != '\\' && visible(c) == c;
        if self.0.chars().all(is_plain) {
            return Cow::Borrowed(&self.0);
        }
        let shown = |c: char| match c {
            c if is_plain(c) => c.to_string(),
            c => c.escape_unicode().to_string(),
        };
        Cow::Owned(self.0.chars().map(shown).collect())
    }

    /// The bytes of a GUID; every captured id is one.
    pub(crate) fn as_guid(&self) -> Option<[u8; 16]> {
        let guid = Uuid::try_parse(&self.0).ok()?;
        // Other forms, such as that without hyphens, have other lengths.
        (self.0.len() == 36).then(|| guid.into_bytes())
    }

    /// The trace id: the bytes of the GUID, so that an operator can search traces for the id of an alert, and so that
    /// all VMs of an event share one trace. Any other id, and the zero GUID, which W3C Trace Context forbids, is hashed
    /// in lower case (UUID version 5).
    pub(crate) fn trace_id(&self) -> [u8; 16] {
        let hash = || Uuid::new_v5(&Uuid::NAMESPACE_OID, self.0.to_ascii_lowercase().as_bytes());
        let guid = self.as_guid().filter(|guid| *guid != [0; 16]);
        guid.unwrap_or_else(|| hash().into_bytes())
    }

    fn folded(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.bytes().map(|byte| byte.to_ascii_lowercase())
    }
}

impl PartialEq for EventId {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
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
        f.write_str(&self.0)
    }
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
    fn ids_that_differ_in_an_invisible_character_have_different_labels() {
        let ids = [
            "a",
            "a\u{200b}",
            "a\u{200c}",
            "a\n",
            "a\t",
            "a ",
            r"a\u{200b}",
        ];
        let labels: std::collections::BTreeSet<_> = ids
            .iter()
            .map(|id| EventId::new(id).label().into_owned())
            .collect();
        assert_eq!(labels.len(), ids.len(), "{labels:?}");
        assert!(labels.contains(r"a\u{200b}"), "{labels:?}");
    }

    #[test]
    fn only_a_guid_is_parsed_as_a_guid() {
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
}
