//! One member at a time: each is read in every form that was documented or seen, and where it cannot be, it is left out
//! and reported.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Anomalies, AnomalyKind, raw};
use crate::{
    event::{Event, EventId, EventType, Source, Status, UnknownMember},
    text,
    time::Timestamp,
};

/// A GUID has 36 characters; an id that is longer than this is none.
const MAX_ID: usize = 256;
/// Members that we do not know are kept up to these bounds.
const MAX_UNKNOWN_MEMBERS: usize = 16;
const MAX_UNKNOWN_MEMBER: usize = 1_024;
/// What stands for a type or a status that cannot be read.
pub(super) const UNREADABLE: &str = "Unknown";

/// `DocumentIncarnation`: a number, also one in quotes as the samples of 2017 have it.
pub(super) fn incarnation(value: Option<&RawValue>, anomalies: &mut Anomalies) -> Option<i64> {
    let read = value.and_then(integer);
    if read.is_none() {
        let stands = value.map_or_else(
            || "is missing".to_owned(),
            |value| format!("is {}", excerpt(value.get())),
        );
        anomalies.add(
            AnomalyKind::Incarnation,
            format!("DocumentIncarnation {stands}"),
        );
    }
    read
}

/// One entry of `Events`, or why it cannot be told which event it is.
pub(super) fn event(entry: &RawValue, anomalies: &mut Anomalies) -> Result<Event, String> {
    let members = raw::members(entry).ok_or_else(|| {
        format!(
            "an entry of Events cannot be read as an object: {}",
            excerpt(entry.get())
        )
    })?;
    let (id, mut members): (Vec<_>, Vec<_>) = members
        .into_iter()
        .partition(|(name, _)| &**name == "EventId");
    let id = match id.as_slice() {
        [(_, value)] => string(value).filter(|id| !id.trim().is_empty() && id.len() <= MAX_ID),
        _ => None,
    };
    let id = id.ok_or_else(|| {
        format!(
            "an event without a readable EventId: {}",
            excerpt(entry.get())
        )
    })?;
    let mut reader = Reader {
        id: &id,
        members: &mut members,
        anomalies,
    };
    let event = Event {
        id: EventId::new(&id),
        event_type: EventType::new(&reader.required(AnomalyKind::EventType, "EventType")),
        status: Status::new(&reader.required(AnomalyKind::EventStatus, "EventStatus")),
        source: reader
            .text(AnomalyKind::EventSource, "EventSource")
            .map(|word| Source::new(&word)),
        resource_type: reader
            .text(AnomalyKind::ResourceType, "ResourceType")
            .map(|word| word.as_ref().into()),
        resources: reader.resources(),
        not_before: reader.not_before(),
        duration_seconds: reader.duration(),
        description: reader
            .text(AnomalyKind::Description, "Description")
            .map(|word| word.as_ref().into()),
        unknown_members: reader.rest(),
    };
    Ok(event)
}

/// Takes the members of one event out, one after the other.
struct Reader<'r, 'a> {
    id: &'r str,
    members: &'r mut Vec<(Box<str>, &'a RawValue)>,
    anomalies: &'r mut Anomalies,
}

impl<'a> Reader<'_, 'a> {
    /// The value of a member that is there and not null; the last one where it stands twice.
    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let mut found = None;
        self.members.retain(|(member, value)| {
            let wanted = &**member == name;
            if wanted {
                found = Some(*value);
            }
            !wanted
        });
        found.filter(|value| value.get() != "null")
    }

    fn odd(&mut self, kind: AnomalyKind, name: &str, value: &RawValue) {
        self.anomalies.add(
            kind,
            format!(
                "{name} of event {} is {}",
                excerpt(self.id),
                excerpt(value.get())
            ),
        );
    }

    fn text(&mut self, kind: AnomalyKind, name: &str) -> Option<Cow<'a, str>> {
        let value = self.take(name)?;
        let text = string(value);
        if text.is_none() {
            self.odd(kind, name, value);
        }
        text.filter(|text| !text.is_empty())
    }

    fn required(&mut self, kind: AnomalyKind, name: &str) -> Cow<'a, str> {
        match self.take(name) {
            Some(value) => match string(value).filter(|text| !text.trim().is_empty()) {
                Some(text) => return text,
                None => self.odd(kind, name, value),
            },
            None => self.anomalies.add(
                kind,
                format!("{name} of event {} is missing", excerpt(self.id)),
            ),
        }
        Cow::Borrowed(UNREADABLE)
    }

    /// The names; a single string is read as one name, since whom an event hits must not be lost.
    fn resources(&mut self) -> Option<Vec<Box<str>>> {
        let Some(value) = self.take("Resources") else {
            self.anomalies.add(
                AnomalyKind::Resources,
                format!("Resources of event {} is missing", excerpt(self.id)),
            );
            return None;
        };
        if let Ok(entries) = Vec::<&RawValue>::deserialize(value) {
            if entries.iter().any(|entry| string(entry).is_none()) {
                self.odd(AnomalyKind::Resources, "Resources", value);
            }
            // What is no string stays as its JSON text: dropped, it would make the event look smaller than it is.
            return Some(
                entries
                    .iter()
                    .map(|entry| string(entry).unwrap_or(Cow::Borrowed(entry.get())).into())
                    .collect(),
            );
        }
        self.odd(AnomalyKind::Resources, "Resources", value);
        string(value).map(|name| vec![name.into()])
    }

    fn not_before(&mut self) -> Option<Timestamp> {
        let value = self.take("NotBefore")?;
        let text = string(value);
        if text.as_deref().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        // Year one and the epoch are what an unset time looks like in other people's languages.
        let at = text
            .as_deref()
            .and_then(Timestamp::parse)
            .filter(|at| *at > Timestamp::UNIX_EPOCH);
        if at.is_none() {
            self.odd(AnomalyKind::NotBefore, "NotBefore", value);
        }
        at
    }

    /// -1 is Azure's "unknown"; another negative number is odd, and as unknown.
    fn duration(&mut self) -> Option<u64> {
        let value = self.take("DurationInSeconds")?;
        let seconds = integer(value);
        if seconds.is_none_or(|seconds| seconds < -1) {
            self.odd(AnomalyKind::Duration, "DurationInSeconds", value);
        }
        u64::try_from(seconds?).ok()
    }

    fn rest(&mut self) -> Vec<UnknownMember> {
        let fits = |(name, value): &(Box<str>, &RawValue)| {
            name.len() + value.get().len() <= MAX_UNKNOWN_MEMBER
        };
        let all = self.members.len();
        let kept: Vec<UnknownMember> = self
            .members
            .drain(..)
            .filter(fits)
            .take(MAX_UNKNOWN_MEMBERS)
            .map(|(name, value)| (name, value.get().into()))
            .collect();
        if kept.len() < all {
            let detail = format!(
                "event {} has members that are too many or too long to keep",
                excerpt(self.id)
            );
            self.anomalies.add(AnomalyKind::UnknownMember, detail);
        }
        kept
    }
}

fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    match serde_json::from_str::<&str>(value.get()) {
        Ok(borrowed) => Some(Cow::Borrowed(borrowed)),
        Err(_) => serde_json::from_str::<String>(value.get())
            .ok()
            .map(Cow::Owned),
    }
}

/// A whole number, also as a float (`9.0`) or in quotes (`"9"`).
fn integer(value: &RawValue) -> Option<i64> {
    let text = string(value).unwrap_or(Cow::Borrowed(value.get()));
    let text = text.trim();
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    match text.split_once('.') {
        Some((whole, fraction))
            if !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0') =>
        {
            whole.parse().ok()
        }
        Some(_) => None,
        None => text.parse().ok(),
    }
}

/// The beginning of something foreign, fit for a log line.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    text::excerpt(text, LONGEST)
}
