//! Entries of `Events` that could not be read, and which events they are.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::raw::Object;
use crate::azure::event::EventId;

/// The unreadable entries of one document. A missing event may be one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unreadable {
    /// The number of entries.
    pub entries: usize,
    /// The ids that they have.
    pub(crate) ids: BTreeSet<EventId>,
    /// One has no readable id: it may be any event.
    pub(crate) has_unidentified: bool,
}

impl Unreadable {
    pub(super) fn add(&mut self, entry: &RawValue) {
        self.entries += 1;
        match id(entry) {
            Some(id) => drop(self.ids.insert(id)),
            None => self.has_unidentified = true,
        }
    }
}

/// Its `EventId`, or its `Id`, in any case. A member such as `VmId` has the id of something else.
fn id(entry: &RawValue) -> Option<EventId> {
    let object = Object::read(entry)?;
    let is_id = |name: &str| {
        ["EventId", "Id"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(name))
    };
    let mut ids = object
        .members
        .iter()
        .filter(|(name, _)| is_id(name))
        .filter_map(|(name, value)| {
            let id: String = serde_json::from_str(value.get()).ok()?;
            let is_given = !id.trim().is_empty() && !object.duplicates.contains(name);
            is_given.then(|| EventId::new(&id))
        });
    let first = ids.next()?;
    // With two ids it is not known which of two events it is.
    ids.all(|id| id == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";
    const B: &str = "602D9444-D2CD-49C7-8624-8643E7171297";

    fn unreadable(entries: &str) -> Unreadable {
        let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{entries}]}}"#);
        crate::azure::document::parse(body.as_bytes())
            .unwrap()
            .0
            .unreadable
    }

    #[test]
    fn an_entry_is_the_event_whose_id_it_has() {
        for entry in [
            format!(r#"{{"Id":"{A}"}}"#),
            format!(r#"{{"eventid":"{}"}}"#, A.to_lowercase()),
            format!(r#"{{"EventId":7,"ID":"{A}"}}"#),
            format!(r#"{{"id":"{A}","eventId":"{A}","VmId":"{B}"}}"#),
        ] {
            let unreadable = unreadable(&entry);
            let ids: Vec<_> = unreadable.ids.into_iter().collect();
            assert_eq!(ids, [EventId::new(A)], "{entry}");
            assert!(!unreadable.has_unidentified, "{entry}");
        }
    }

    #[test]
    fn an_entry_without_a_readable_id_is_unidentified() {
        for entry in [
            r#"{"EventId":7}"#,
            "null",
            r#""7B1E04C9-52DA-4F6E-9C38-A40D7E91B265""#,
            r#"{"EventId":" "}"#,
            r#"{"EventId":["7B1E04C9-52DA-4F6E-9C38-A40D7E91B265"]}"#,
            r#"{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventId":"a"}"#,
            r#"{"Id":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","ID":"a"}"#,
            r#"{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265\ud800"}"#,
            r#"{"EventType":"Freeze"}"#,
            r#"{"EventId":7,"VmId":"3F2504E0-4F89-41D3-9A0C-0305E82C3301"}"#,
        ] {
            let unreadable = unreadable(entry);
            assert!(unreadable.has_unidentified, "{entry}");
            assert!(unreadable.ids.is_empty(), "{entry}");
        }
        assert!(!unreadable("").has_unidentified);
    }
}
