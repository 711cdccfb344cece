//! Serialises an event with Azure's member names, in the order of Microsoft's documentation. Unknown members are copied
//! verbatim.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use crate::{
    azure::event::{Event, Source},
    base::{text::escape_json, time::Timestamp},
};

/// Indented, with a line break at the end, and escaped for a terminal.
pub(crate) fn to_text<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(escape_json(json))
}

#[derive(Debug)]
pub(crate) struct AzureForm<'a>(pub(crate) &'a Event);

impl Serialize for AzureForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        members(self.0, &[], &mut map)?;
        map.end()
    }
}

/// Writes the members of an event. Undocumented members are skipped if their name is in `taken` or that of a documented
/// one, whatever the case: many decoders ignore it.
pub(crate) fn members<M: SerializeMap>(
    event: &Event,
    taken: &[&str],
    map: &mut M,
) -> Result<(), M::Error> {
    map.serialize_entry("EventId", event.id.as_str())?;
    map.serialize_entry("EventStatus", event.status.as_str())?;
    map.serialize_entry("EventType", event.event_type.as_str())?;
    map.serialize_entry("ResourceType", &event.resource_type)?;
    map.serialize_entry("Resources", &event.resources)?;
    let not_before = event.not_before.map(Timestamp::rfc1123).unwrap_or_default();
    map.serialize_entry("NotBefore", &not_before)?;
    map.serialize_entry("Description", &event.description)?;
    map.serialize_entry("EventSource", &event.source.as_ref().map(Source::as_str))?;
    let duration = event.duration_seconds.map_or(-1, u64::cast_signed);
    map.serialize_entry("DurationInSeconds", &duration)?;
    let is_taken = |name: &str| {
        let mut names = Event::MEMBERS.iter().chain(taken);
        names.any(|taken| name.eq_ignore_ascii_case(taken))
    };
    for (name, value) in &event.unknown_members {
        if !is_taken(name)
            && let Ok(value) = serde_json::from_str::<&RawValue>(value)
        {
            map.serialize_entry(&**name, value)?;
        }
    }
    Ok(())
}
