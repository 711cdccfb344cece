//! The JSON structure of a document. Values stay raw JSON, so that a malformed one affects no other.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, value::RawValue};

use super::anomaly::{Anomalies, AnomalyKind};
use crate::{event::Event, text};

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
    pub(super) events: &'a RawValue,
    pub(super) duplicates: Vec<Box<str>>,
}

pub(super) fn root(text: &str) -> Result<Root<'_>, ParseError> {
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| ParseError::Json(error.to_string()))?;
    let shape = |why: &str| ParseError::Shape(format!("{why}; it begins {}", excerpt(value.get())));
    let members = members(value).ok_or_else(|| shape("it is not an object"))?;
    let duplicates = duplicates(&members);
    let mut incarnation = None;
    let mut events = None;
    for (name, value) in members {
        match &*name {
            "DocumentIncarnation" => incarnation = Some(value),
            "Events" if events.is_some() => {
                return Err(shape("it has two members called Events"));
            }
            "Events" => events = Some(value),
            _ => {}
        }
    }
    let events = events.ok_or_else(|| shape("it has no Events"))?;
    if !events.get().starts_with('[') {
        return Err(shape("its Events is not an array"));
    }
    Ok(Root {
        incarnation,
        events,
        duplicates,
    })
}

/// The names of members that occur more than once.
fn duplicates(members: &[(Box<str>, &RawValue)]) -> Vec<Box<str>> {
    let mut seen = HashSet::with_capacity(members.len());
    let mut duplicates: Vec<_> = members
        .iter()
        .filter(|(name, _)| !seen.insert(name))
        .map(|(name, _)| name.clone())
        .collect();
    duplicates.sort();
    duplicates.dedup();
    duplicates
}

/// Records members that occur twice, and removes those that decoders may take for a documented one. Returns why the
/// entry contradicts itself.
pub(super) fn remove_ambiguous(
    entry: &RawValue,
    members: &mut Vec<(Box<str>, &RawValue)>,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let shown = excerpt(entry.get());
    let duplicates = duplicates(members);
    for name in &duplicates {
        let detail = format!(
            "{} occurs twice in an entry of Events: {shown}",
            excerpt(name)
        );
        anomalies.add(AnomalyKind::DuplicateMember, detail);
    }
    let variants = remove_case_variants(members);
    for (name, _) in &variants {
        let name = excerpt(name);
        let detail = format!("{name} has a documented name in another case: {shown}");
        anomalies.add(AnomalyKind::UnknownMember, detail);
    }
    let differing = variants.iter().find(|(_, differs)| *differs);
    let twice = duplicates.first().map(|name| (name, "occurs twice"));
    let other = differing.map(|(name, _)| (name, "contradicts the same name in another case"));
    let (name, why) = twice.or(other)?;
    Some(format!("its {} {why}", excerpt(name)))
}

/// Removes the members whose names differ from a documented one only in case: many decoders take one for the other.
/// Returns the first of them for each documented name, and whether one has another value than the documented member.
fn remove_case_variants(members: &mut Vec<(Box<str>, &RawValue)>) -> Vec<(Box<str>, bool)> {
    let variants = Event::MEMBERS.iter().filter_map(|documented| {
        let member = members.iter().rfind(|(name, _)| &**name == *documented);
        let value = member.map_or("null", |(_, value)| value.get());
        let is_variant = |name: &str| name != *documented && text::is_same_member(name, documented);
        let removed: Vec<_> = members
            .extract_if(.., |(name, _)| is_variant(name))
            .collect();
        let differs = removed.iter().any(|(_, other)| other.get() != value);
        let (name, _) = removed.into_iter().next()?;
        Some((name, differs))
    });
    variants.collect()
}

/// Whether an object inside `value` has a member twice. `parsed` is the same value, in which the last one counts.
pub(super) fn has_nested_duplicates(value: &RawValue, parsed: &Value) -> bool {
    count_members(parsed) < count_colons(value.get())
}

fn count_members(value: &Value) -> usize {
    match value {
        Value::Object(members) => {
            members.len() + members.values().map(count_members).sum::<usize>()
        }
        Value::Array(entries) => entries.iter().map(count_members).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The colons outside strings: one for each member.
fn count_colons(json: &str) -> usize {
    let (mut is_string, mut is_escaped) = (false, false);
    let colons = json.bytes().filter(|byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'"' if !was_escaped => is_string = !is_string,
            b'\\' => is_escaped = !was_escaped,
            _ => {}
        }
        *byte == b':' && !is_string
    });
    colons.count()
}

/// The members of an object in order; `None` for any other value.
pub(super) fn members(value: &RawValue) -> Option<Vec<(Box<str>, &RawValue)>> {
    let mut deserializer = serde_json::Deserializer::from_str(value.get());
    deserializer.deserialize_map(Members).ok()
}

/// Calls `f` with each entry of the array `events`, without collecting them.
pub(super) fn for_each_event<'a>(
    events: &'a RawValue,
    f: impl FnMut(&'a RawValue),
) -> Result<(), ParseError> {
    let mut deserializer = serde_json::Deserializer::from_str(events.get());
    Entries(f)
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
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            // A name that is no text, such as one with half a surrogate pair, costs no other member.
            let name = serde_json::from_str(name.get()).unwrap_or_else(|_| name.get().into());
            members.push((name, value));
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

/// The beginning of untrusted text for the description of an anomaly, safe for a log line.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    text::excerpt(text, MAX_CHARS)
}
