//! The members of a JSON object. Values stay raw JSON, so that a malformed one affects no other.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// In the order of the document. Of members with one name the last one counts.
pub(super) struct JsonObject<'a> {
    pub(super) members: Vec<(Box<str>, &'a RawValue)>,
    pub(super) duplicates: BTreeSet<Box<str>>,
}

impl<'a> JsonObject<'a> {
    /// `None` for any value that is not an object.
    pub(super) fn read(value: &'a RawValue) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(value.get());
        let mut members = deserializer.deserialize_map(Members).ok()?;
        let mut names = HashSet::with_capacity(members.len());
        let mut duplicates = BTreeSet::new();
        members.reverse();
        members.retain(|(name, _)| {
            let is_last = names.insert(name.clone());
            if !is_last {
                duplicates.insert(name.clone());
            }
            is_last
        });
        members.reverse();
        Some(Self {
            members,
            duplicates,
        })
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let index = self.members.iter().position(|(it, _)| &**it == name)?;
        Some(self.members.remove(index).1)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Box<str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            // A name that is no text, such as one with half a surrogate pair, costs no other member.
            let name = serde_json::from_str(name.get()).unwrap_or_else(|_| name.get().into());
            members.push((name, value));
        }
        Ok(members)
    }
}
