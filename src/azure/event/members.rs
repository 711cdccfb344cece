//! The members of an event: one table of their names and of how each is read, and an event in Azure's JSON.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use super::{Event, EventId, Source};
use crate::base::{text::label_value, time::Timestamp};

pub(crate) struct Member {
    /// The name in a document.
    pub(crate) name: &'static str,
    /// The key of the attribute of spans and log records.
    pub(crate) attribute: &'static str,
    /// `None` if the event has no readable one.
    pub(crate) value: fn(&Event) -> Option<MemberValue<'_>>,
}

/// Serialized as in a document.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum MemberValue<'a> {
    Id(&'a EventId),
    Text(&'a str),
    Names(&'a [Box<str>]),
    #[serde(serialize_with = "serialize_rfc1123")]
    Time(Timestamp),
    Seconds(u64),
}

fn serialize_rfc1123<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.rfc1123())
}

impl Member {
    pub(crate) const ID: Self = Self {
        name: "EventId",
        attribute: "azure.scheduled_event.id",
        value: |event| Some(MemberValue::Id(&event.id)),
    };
    pub(crate) const STATUS: Self = Self {
        name: "EventStatus",
        attribute: "azure.scheduled_event.status",
        value: |event| Some(MemberValue::Text(event.status.as_str())),
    };
    pub(crate) const TYPE: Self = Self {
        name: "EventType",
        attribute: "azure.scheduled_event.type",
        value: |event| Some(MemberValue::Text(event.event_type.as_str())),
    };
    pub(crate) const RESOURCE_TYPE: Self = Self {
        name: "ResourceType",
        attribute: "azure.scheduled_event.resource_type",
        value: |event| event.resource_type.as_deref().map(MemberValue::Text),
    };
    pub(crate) const RESOURCES: Self = Self {
        name: "Resources",
        attribute: "azure.scheduled_event.resources",
        value: |event| event.resources.as_deref().map(MemberValue::Names),
    };
    pub(crate) const NOT_BEFORE: Self = Self {
        name: "NotBefore",
        attribute: "azure.scheduled_event.not_before",
        value: |event| event.not_before.map(MemberValue::Time),
    };
    pub(crate) const DESCRIPTION: Self = Self {
        name: "Description",
        attribute: "azure.scheduled_event.description",
        value: |event| event.description.as_deref().map(MemberValue::Text),
    };
    pub(crate) const SOURCE: Self = Self {
        name: "EventSource",
        attribute: "azure.scheduled_event.source",
        value: |event| {
            let source = event.source.as_ref().map(Source::as_str);
            source.map(MemberValue::Text)
        },
    };
    pub(crate) const DURATION: Self = Self {
        name: "DurationInSeconds",
        attribute: "azure.scheduled_event.duration",
        value: |event| event.duration_seconds.map(MemberValue::Seconds),
    };
    /// In the order of Microsoft's documentation.
    pub(crate) const ALL: [Self; 9] = [
        Self::ID,
        Self::STATUS,
        Self::TYPE,
        Self::RESOURCE_TYPE,
        Self::RESOURCES,
        Self::NOT_BEFORE,
        Self::DESCRIPTION,
        Self::SOURCE,
        Self::DURATION,
    ];

    /// The value of its label, empty if the event has none.
    pub(crate) fn label_value<'a>(&self, event: &'a Event) -> Cow<'a, str> {
        match (self.value)(event) {
            Some(MemberValue::Id(id)) => id.label(),
            Some(MemberValue::Text(text)) => label_value(text),
            _ => Cow::Borrowed(""),
        }
    }
}

/// An event with Azure's names, and its undocumented members verbatim.
#[derive(Debug)]
pub(crate) struct AzureForm<'a>(pub(crate) &'a Event);

impl Serialize for AzureForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_members(self.0, &[], &mut map)?;
        map.end()
    }
}

/// Undocumented members are skipped if their name is in `taken` or that of a documented one, whatever the case: many
/// decoders ignore it.
pub(crate) fn serialize_members<M: SerializeMap>(
    event: &Event,
    taken: &[&str],
    map: &mut M,
) -> Result<(), M::Error> {
    for member in Member::ALL {
        let name = member.name;
        match (member.value)(event) {
            Some(value) => map.serialize_entry(name, &value)?,
            // As Azure writes that there is none.
            None if name == Member::NOT_BEFORE.name => map.serialize_entry(name, "")?,
            None if name == Member::DURATION.name => map.serialize_entry(name, &-1)?,
            None => map.serialize_entry(name, &())?,
        }
    }
    let is_taken = |name: &str| {
        let documented = Member::ALL.iter().map(|member| member.name);
        let mut names = documented.chain(taken.iter().copied());
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
