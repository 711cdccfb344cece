//! Entries of `Events` that could not be read, and which events they could be.

use std::collections::{BTreeSet, HashSet};

use serde_json::value::RawValue;

use super::raw::Object;
use crate::azure::event::EventId;

/// The unreadable entries of one document.
///
/// A missing event may be one of them if its id occurs in the text of an entry. An entry without any id may be any
/// event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unreadable {
    /// The number of entries.
    pub entries: usize,
    has_unidentified: bool,
    /// The JSON of all entries in lower case: at most as long as the body.
    text: String,
}

impl Unreadable {
    pub(super) fn add(&mut self, entry: &RawValue) {
        self.entries += 1;
        self.has_unidentified |= !has_id(entry);
        self.text.push_str(&entry.get().to_ascii_lowercase());
        self.text.push('\n');
    }

    /// True if an entry has no readable id: neither an `EventId` that is a string nor a GUID in a member such as `Id`.
    pub(crate) fn has_unidentified(&self) -> bool {
        self.has_unidentified
    }

    /// Those of `ids` that occur in the text of an entry, as whole words and without case.
    pub(crate) fn mentioned<'a>(
        &self,
        ids: impl Iterator<Item = &'a EventId>,
    ) -> BTreeSet<EventId> {
        if self.text.is_empty() {
            return BTreeSet::new();
        }
        let ids: Vec<_> = ids
            .map(|id| (id, id.as_str().to_ascii_lowercase()))
            .collect();
        let wanted: HashSet<_> = ids.iter().flat_map(|(_, id)| words(id)).collect();
        let found: HashSet<_> = words(&self.text)
            .filter(|word| wanted.contains(word))
            .collect();
        let is_mentioned =
            |id: &str| words(id).next().is_some() && words(id).all(|word| found.contains(word));
        ids.iter()
            .filter(|(_, id)| is_mentioned(id))
            .map(|(id, _)| (*id).clone())
            .collect()
    }
}

/// A GUID elsewhere, such as in `Description`, is not the id of the event.
fn has_id(entry: &RawValue) -> bool {
    let has_guid = |text| words(text).any(|word| EventId::new(word).as_guid().is_some());
    let Some(object) = Object::read(entry) else {
        return has_guid(entry.get());
    };
    object.members.iter().any(|(name, value)| {
        let is_text = || serde_json::from_str::<String>(value.get());
        &**name == "EventId" && is_text().is_ok_and(|id| !id.trim().is_empty())
            || is_id_member(name) && has_guid(value.get())
    })
}

/// `EventId` and `Id` in any case. A member such as `VmId` has the id of something else.
fn is_id_member(name: &str) -> bool {
    ["EventId", "Id"]
        .iter()
        .any(|it| it.eq_ignore_ascii_case(name))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'))
        .filter(|word| !word.is_empty())
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

    fn mentioned(entries: &str, ids: &[&str]) -> Vec<String> {
        let ids: Vec<_> = ids.iter().map(|id| EventId::new(id)).collect();
        let unreadable = unreadable(entries);
        let mentioned = unreadable.mentioned(ids.iter());
        mentioned.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_entry_mentions_the_ids_in_its_text() {
        let lower = A.to_lowercase();
        for entry in [
            format!(r#""{A}""#),
            format!(r#"{{"EventId":"{A}","EventId":"{lower}"}}"#),
            format!(r#"{{"EventId":["{lower}"]}}"#),
            format!(r#"{{"Id":"{{{A}}}"}}"#),
            format!(r#"{{"EventId":"{A}\ud800"}}"#),
        ] {
            assert_eq!(mentioned(&entry, &[A, B]), [A], "{entry}");
            assert!(!unreadable(&entry).has_unidentified(), "{entry}");
        }
        assert_eq!(
            mentioned(r#"{"EventId":["job 1/2"]}"#, &["job 1/2", "x"]),
            ["job 1/2"]
        );
        assert_eq!(mentioned(&format!(r#"["{A}0"]"#), &[A, B]), [""; 0]);
    }

    #[test]
    fn an_entry_without_a_readable_id_is_unidentified() {
        for entry in [
            r#"{"EventId":7}"#,
            "null",
            r#""web_0""#,
            r#"{"EventId":" "}"#,
            r#"{"EventType":"Freeze"}"#,
            r#"{"EventId":7,"VmId":"3F2504E0-4F89-41D3-9A0C-0305E82C3301"}"#,
            r#"{"EventId":7,"Description":"activity 3F2504E0-4F89-41D3-9A0C-0305E82C3301"}"#,
        ] {
            assert!(unreadable(entry).has_unidentified(), "{entry}");
            assert_eq!(mentioned(entry, &[A, B]), [""; 0], "{entry}");
        }
        assert!(!unreadable("").has_unidentified());
    }
}
