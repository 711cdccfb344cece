//! The JSON structure of a document. Values stay raw JSON, so that a malformed one affects no other.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::base::text;

/// Why a body is not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// For example a captive portal's page or a truncated body.
    #[error("not JSON: {0}")]
    Json(String),
    /// For example an error object, `{}`, `null` or `"Events": null`.
    #[error("JSON, but not a scheduled-events document: {0}")]
    Shape(String),
}

/// The members of a document.
pub(super) struct Root<'a> {
    pub(super) incarnation: Option<&'a RawValue>,
    pub(super) events: Vec<&'a RawValue>,
    pub(super) duplicates: BTreeSet<Box<str>>,
}

pub(super) fn root(text: &str) -> Result<Root<'_>, ParseError> {
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| ParseError::Json(error.to_string()))?;
    let shape = |why: &str| ParseError::Shape(format!("{why}; it begins {}", excerpt(value.get())));
    let mut root = Object::read(value).ok_or_else(|| shape("it is not an object"))?;
    if let Some((name, _)) = root.members.iter().find(|(name, _)| is_misspelt(name)) {
        return Err(shape(&format!("it has a member called {}", excerpt(name))));
    }
    if root.duplicates.contains("Events") {
        return Err(shape("it has two members called Events"));
    }
    let events = root
        .take("Events")
        .ok_or_else(|| shape("it has no Events"))?;
    let events =
        serde_json::from_str(events.get()).map_err(|_| shape("its Events is not an array"))?;
    Ok(Root {
        incarnation: root.take("DocumentIncarnation"),
        events,
        duplicates: root.duplicates,
    })
}

/// Whether the name of a root member differs from a documented one only in case, or in characters that are neither
/// letters nor digits. Nobody knows which of the two has the events.
fn is_misspelt(name: &str) -> bool {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let mut documented = ["Events", "DocumentIncarnation"].into_iter();
    documented.any(|it| it != name && it.eq_ignore_ascii_case(&letters))
}

/// The members of a JSON object in order. Of members with one name the last one counts.
pub(super) struct Object<'a> {
    pub(super) members: Vec<(Box<str>, &'a RawValue)>,
    /// The names that occur more than once.
    pub(super) duplicates: BTreeSet<Box<str>>,
}

impl<'a> Object<'a> {
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

/// The beginning of untrusted text for the description of an anomaly, safe for a log line.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    text::excerpt(text, MAX_CHARS)
}
