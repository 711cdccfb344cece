//! Parses one entry of `Events`. Each member is accepted in every documented or observed form; an unreadable one is
//! left out and recorded as an anomaly.

use std::collections::HashSet;

use serde_json::{Value, value::RawValue};

use super::{
    anomaly::{Anomalies, AnomalyKind},
    excerpt,
    json_object::JsonObject,
};
use crate::{
    azure::event::{
        Event, EventId, EventType, Member, Source, Status, UNREADABLE, UnknownMember, resource_name,
    },
    base::{text::cut, time::Timestamp},
};

/// Bytes; a GUID has 36.
const MAX_ID: usize = 256;
/// Bytes of a type, a status, a source or a name. Azure's longest name is that of a scale set with 64 characters and a
/// number
/// (<https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules#microsoftcompute>).
const MAX_NAME: usize = 256;
/// Bytes; the longest description in Microsoft's documentation has 85.
const MAX_DESCRIPTION: usize = 4_096;
/// Undocumented members are kept up to these bounds.
const MAX_UNKNOWN_MEMBERS: usize = 16;
const MAX_UNKNOWN_MEMBER: usize = 1_024;
/// Azure has at most 1,000 VMs in a scale set and 200 in an availability set. More names of one event are dropped.
const MAX_RESOURCES: usize = 10_000;
/// Words for the end of an event, for which IMDS has no status: "No `Completed` or similar status is ever provided"
/// (<https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-properties>). Azure Resource Graph
/// has `Completed` and `Canceled`; `Ended` is a label value of this exporter.
const NEVER_A_STATUS: [&str; 3] = ["Completed", "Canceled", "Ended"];

/// `DocumentIncarnation`: a number, quoted in the samples of 2017.
pub(super) fn incarnation(value: Option<&RawValue>, anomalies: &mut Anomalies) -> Option<i64> {
    let incarnation = value.and_then(integer);
    if incarnation.is_none() {
        let shown = value.map(|value| format!("is {}", excerpt(value.get())));
        let problem = shown.as_deref().unwrap_or("is missing");
        let detail = format!("DocumentIncarnation {problem}");
        anomalies.add(AnomalyKind::Incarnation, detail);
    }
    incarnation
}

/// Reads one entry of `Events`. With the event comes the reason why it must not be approved, if there is one. The error
/// says why the event cannot be identified.
pub(super) fn read(
    entry: &RawValue,
    anomalies: &mut Anomalies,
) -> Result<(Event, Option<String>), String> {
    let shown = excerpt(entry.get());
    let mut object = JsonObject::read(entry)
        .ok_or_else(|| format!("an entry of Events cannot be read as an object: {shown}"))?;
    let untrusted = remove_ambiguous(&mut object, &shown, anomalies);
    let id = object.take("EventId").and_then(string);
    let is_id = |id: &String| !id.trim().is_empty() && id.len() <= MAX_ID;
    let id = id
        .filter(|id| is_id(id) && !object.duplicates.contains("EventId"))
        .ok_or_else(|| format!("an event without a readable EventId: {shown}"))?;
    let mut reader = EventReader {
        id: &id,
        object: &mut object,
        untrusted,
        anomalies,
    };
    let event_type = reader.text(AnomalyKind::EventType, "EventType", true);
    let status = reader.status();
    let source = reader.text(AnomalyKind::EventSource, "EventSource", false);
    let resource_type = reader.text(AnomalyKind::ResourceType, "ResourceType", false);
    let is_given = |text: &String| !text.is_empty();
    let (resources, has_more_resources) = reader.resources();
    let not_before = reader.not_before();
    let (duration_seconds, is_duration_unknown) = reader.duration();
    let event = Event {
        id: EventId::new(&id),
        event_type: EventType::new(event_type.as_deref().unwrap_or(UNREADABLE)),
        status,
        source: source.filter(is_given).map(|source| Source::new(&source)),
        resource_type: resource_type.filter(is_given).map(Into::into),
        resources,
        has_more_resources,
        not_before,
        duration_seconds,
        is_duration_unknown,
        description: reader
            .text(AnomalyKind::Description, "Description", false)
            .map(Into::into),
        unknown_members: reader.unknown_members(),
    };
    Ok((event, reader.untrusted))
}

/// Records members that occur twice, and removes those whose names differ from a documented one only in case: many
/// decoders take one for the other. Returns why the entry cannot be trusted.
fn remove_ambiguous(
    object: &mut JsonObject<'_>,
    shown: &str,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let mut ambiguity = None;
    for name in object.duplicates.iter().map(|name| excerpt(name)) {
        let detail = format!("{name} occurs twice in an entry of Events: {shown}");
        anomalies.add(AnomalyKind::DuplicateMember, detail);
        ambiguity.get_or_insert_with(|| format!("its {name} occurs twice"));
    }
    let is_variant = |name: &str| {
        let mut documented = Member::ALL.iter().map(|member| member.name);
        documented.any(|documented| documented != name && documented.eq_ignore_ascii_case(name))
    };
    let variants = object.members.extract_if(.., |(name, _)| is_variant(name));
    for name in variants.map(|(name, _)| excerpt(&name)) {
        let detail = format!("{name} has a documented name in another case: {shown}");
        anomalies.add(AnomalyKind::UnknownMember, detail);
        ambiguity.get_or_insert_with(|| format!("its {name} is a documented name in another case"));
    }
    ambiguity
}

struct EventReader<'r, 'a> {
    id: &'r str,
    object: &'r mut JsonObject<'a>,
    untrusted: Option<String>,
    anomalies: &'r mut Anomalies,
}

impl<'a> EventReader<'_, 'a> {
    /// The value of a member unless it is null.
    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let value = self.object.take(name);
        value.filter(|value| value.get() != "null")
    }

    fn report(&mut self, kind: AnomalyKind, name: &str, problem: &str) {
        let id = excerpt(self.id);
        self.anomalies
            .add(kind, format!("{name} of event {id} {problem}"));
    }

    fn report_value(&mut self, kind: AnomalyKind, name: &str, value: &RawValue) {
        self.report(kind, name, &format!("is {}", excerpt(value.get())));
    }

    fn text(&mut self, kind: AnomalyKind, name: &str, is_required: bool) -> Option<String> {
        let Some(value) = self.take(name) else {
            if is_required {
                self.report(kind, name, "is missing");
            }
            return None;
        };
        let is_given = |text: &String| !is_required || !text.trim().is_empty();
        let Some(text) = string(value).filter(is_given) else {
            self.report_value(kind, name, value);
            return None;
        };
        let max = match kind {
            AnomalyKind::Description => MAX_DESCRIPTION,
            _ => MAX_NAME,
        };
        if text.len() > max {
            let length = text.len();
            self.report(kind, name, &format!("has {length} bytes, {max} are kept"));
        }
        Some(cut(text, max))
    }

    fn status(&mut self) -> Status {
        let status = self.text(AnomalyKind::EventStatus, "EventStatus", true);
        let status = status.as_deref().unwrap_or(UNREADABLE);
        let mut never = NEVER_A_STATUS.iter();
        if !never.any(|never| status.eq_ignore_ascii_case(never)) {
            return Status::new(status);
        }
        let problem = format!("is {status}, although the event is listed");
        self.report(AnomalyKind::EventStatus, "EventStatus", &problem);
        Status::new(UNREADABLE)
    }

    /// The readable names, and whether there are more VMs than they name. A single string is accepted as one name, so
    /// that the affected VM is not lost.
    fn resources(&mut self) -> (Option<Vec<Box<str>>>, bool) {
        let (kind, member) = (AnomalyKind::Resources, "Resources");
        let Some(value) = self.take(member) else {
            self.report(kind, member, "is missing");
            return (None, false);
        };
        let is_name = |name: &String| !name.trim().is_empty();
        let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else {
            self.reject_resources(value);
            let name = string(value).filter(is_name);
            return (name.map(|name| vec![cut(name, MAX_NAME).into()]), false);
        };
        // Not collected: there may be millions.
        let names = || entries.iter().filter_map(|it| string(it).filter(is_name));
        let readable = names().count();
        if readable < entries.len() || names().any(|name| name.len() > MAX_NAME) {
            self.reject_resources(value);
        }
        if readable > MAX_RESOURCES {
            let problem = format!("has {readable} names, {MAX_RESOURCES} are kept");
            self.report(kind, member, &problem);
        }
        let has_more = readable.min(MAX_RESOURCES) < entries.len();
        let kept = names().take(MAX_RESOURCES);
        let mut kept: Vec<Box<str>> = kept.map(|name| cut(name, MAX_NAME).into()).collect();
        // One VM in two spellings is one VM.
        let mut known = HashSet::new();
        kept.retain(|name| known.insert(resource_name(name).to_ascii_lowercase()));
        // A list without any readable name says no more than a missing one.
        let is_known = !kept.is_empty() || entries.is_empty();
        (is_known.then_some(kept), is_known && has_more)
    }

    fn reject_resources(&mut self, value: &RawValue) {
        self.report_value(AnomalyKind::Resources, "Resources", value);
        self.untrusted = Some("its Resources is no list of names".to_owned());
    }

    fn not_before(&mut self) -> Option<Timestamp> {
        let value = self.take("NotBefore")?;
        let text = string(value);
        if text.as_deref().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        // Year 1 and the Unix epoch are the zero values of time types in other languages.
        let is_given = |at: &Timestamp| *at > Timestamp::UNIX_EPOCH;
        let at = text.and_then(|text| Timestamp::parse(&text).filter(is_given));
        if at.is_none() {
            self.report_value(AnomalyKind::NotBefore, "NotBefore", value);
        }
        at
    }

    /// The duration, and whether it is -1, Azure's "unknown"; any other negative number is an anomaly.
    fn duration(&mut self) -> (Option<u64>, bool) {
        let Some(value) = self.take("DurationInSeconds") else {
            return (None, false);
        };
        let seconds = integer(value);
        if seconds.is_none_or(|seconds| seconds < -1) {
            self.report_value(AnomalyKind::Duration, "DurationInSeconds", value);
        }
        let known = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        (known, seconds == Some(-1))
    }

    /// Without values that common decoders refuse, because they are passed on verbatim. `serde_json` refuses what they
    /// refuse: numbers that do not fit a 64-bit float (Go), half surrogate pairs, and a nesting of 128 (jq 1.6: 256,
    /// Go: 10,000).
    fn unknown_members(&mut self) -> Vec<UnknownMember> {
        let all = self.object.members.len();
        let members = self.object.members.drain(..);
        let kept: Vec<UnknownMember> = members
            .filter(|(name, value)| name.len() + value.get().len() <= MAX_UNKNOWN_MEMBER)
            .filter(|(_, value)| serde_json::from_str::<Value>(value.get()).is_ok())
            .take(MAX_UNKNOWN_MEMBERS)
            .map(|(name, value)| (name, value.get().into()))
            .collect();
        if kept.len() < all {
            let detail = format!(
                "event {} has members that are too many, too long or too unusual to keep",
                excerpt(self.id)
            );
            self.anomalies.add(AnomalyKind::UnknownMember, detail);
        }
        kept
    }
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A whole number, also written as a float (`9.0`) or quoted (`"9"`).
fn integer(value: &RawValue) -> Option<i64> {
    let text = string(value).unwrap_or_else(|| value.get().to_owned());
    let text = text.trim();
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    // `trim_end_matches` leaves the point of `9.0`, but also that of `9.`, which is no number.
    let whole = text.trim_end_matches('0').strip_suffix('.');
    let whole = whole.filter(|_| !text.ends_with('.')).unwrap_or(text);
    whole.parse().ok()
}
