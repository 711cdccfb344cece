//! The form of the wire: which members stand where, each left as raw JSON so that one that is odd harms no other.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::ParseError;
use super::event::excerpt;

/// The two members of a document.
pub(super) struct Root<'a> {
    pub(super) incarnation: Option<&'a RawValue>,
    pub(super) events: &'a RawValue,
}

/// Finds the members of a document.
pub(super) fn root(text: &str) -> Result<Root<'_>, ParseError> {
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| ParseError::Json(error.to_string()))?;
    let shape =
        |why: String| ParseError::Shape(format!("{why}; it begins {}", excerpt(value.get())));
    let members = members(value).ok_or_else(|| shape("it is no object".to_owned()))?;
    let mut incarnation = None;
    let mut events = None;
    for (name, value) in members {
        match &*name {
            "DocumentIncarnation" => incarnation = Some(value),
            "Events" if events.is_some() => {
                return Err(shape("it has two members called Events".to_owned()));
            }
            "Events" => events = Some(value),
            _ => {}
        }
    }
    let events = events.ok_or_else(|| shape("it has no Events".to_owned()))?;
    if !events.get().starts_with('[') {
        return Err(shape("its Events is no array".to_owned()));
    }
    Ok(Root {
        incarnation,
        events,
    })
}

/// The members of an object in their order, or `None` where it is none.
pub(super) fn members(value: &RawValue) -> Option<Vec<(Box<str>, &RawValue)>> {
    let mut deserializer = serde_json::Deserializer::from_str(value.get());
    deserializer.deserialize_map(Members).ok()
}

/// Hands over the entries of an array one by one, so that a long one is never held twice.
pub(super) fn each_event<'a>(
    events: &'a RawValue,
    take: impl FnMut(&'a RawValue),
) -> Result<(), ParseError> {
    let mut deserializer = serde_json::Deserializer::from_str(events.get());
    Entries(take)
        .deserialize(&mut deserializer)
        .map_err(|error| ParseError::Shape(error.to_string()))
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Box<str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

struct Entries<F>(F);

impl<'de, F: FnMut(&'de RawValue)> DeserializeSeed<'de> for Entries<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Entries<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element()? {
            (self.0)(entry);
        }
        Ok(())
    }
}
