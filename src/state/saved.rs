//! The serialized form of the state file. Unknown members are ignored, so that a newer release can add some; a newer
//! `version` marks an incompatible change.

use std::{cmp::Reverse, collections::BTreeSet, io, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    engine::SavedState,
    event::{Event, EventId, EventScope, EventType, Source, Status},
    lifecycle::{End, Interruption, MissingMembers, Outcome, PollGap, Rescheduling, TrackedEvent},
    outbound::json,
    time::Timestamp,
};

/// The version written; older ones are read.
const VERSION: u32 = 1;

impl SavedState {
    /// At most `max` bytes, and the number of events that are left out for that.
    pub fn to_json(&self, max: usize) -> io::Result<(Vec<u8>, usize)> {
        let whole = self.file(|_| true);
        if let Some(json) = json::to_vec_up_to(&whole, max)? {
            return Ok((json, 0));
        }
        let kept = self.most_important(max)?;
        let reduced = self.file(|tracked| kept.contains(&tracked.event.id));
        let json = json::to_vec_up_to(&reduced, max)?;
        let omitted = self.events.len() - reduced.events.len();
        let json = json.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok((json, omitted))
    }

    fn file(&self, is_kept: impl Fn(&TrackedEvent) -> bool) -> StateFile {
        StateFile {
            version: VERSION,
            boot_id: self.boot_id.clone(),
            heartbeat_at: Time(self.heartbeat_at),
            document_at: self.document_at.map(Time),
            document_incarnation: self.document_incarnation,
            warming_up_until: self.warming_up_until.map(Time),
            vm_name: self.vm_name.clone(),
            vm_id: self.vm_id.clone(),
            events: self
                .events
                .iter()
                .map(AsRef::as_ref)
                .filter(|tracked| is_kept(tracked))
                .map(SavedEvent::from)
                .collect(),
        }
    }

    /// The ids of the events that fit into `max` bytes: pending events that name this VM first, ended ones last.
    fn most_important(&self, max: usize) -> io::Result<BTreeSet<&EventId>> {
        let mut left = max.saturating_sub(serde_json::to_vec(&self.file(|_| false))?.len());
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|tracked| {
            let is_other = tracked.scope == EventScope::Other;
            (
                tracked.end.map(|end| Reverse(end.at)),
                is_other,
                tracked.first_seen_at,
            )
        });
        let mut kept = BTreeSet::new();
        for tracked in events {
            let saved = SavedEvent::from(&**tracked);
            let Some(json) = json::to_vec_up_to(&saved, left)? else {
                break;
            };
            // The comma between two events.
            left = left.saturating_sub(json.len() + 1);
            kept.insert(&tracked.event.id);
        }
        Ok(kept)
    }

    /// The error says what is wrong with the text.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the file is empty".to_owned());
        }
        let version = serde_json::from_slice::<Versioned>(text)
            .map_err(|error| error.to_string())?
            .version;
        if version > VERSION {
            return Err(format!(
                "written by a newer version of this program (version {version}, supported {VERSION})"
            ));
        }
        let file: StateFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        Ok(Self {
            boot_id: file.boot_id,
            heartbeat_at: file.heartbeat_at.0,
            document_at: file.document_at.map(|at| at.0),
            document_incarnation: file.document_incarnation,
            warming_up_until: file.warming_up_until.map(|at| at.0),
            vm_name: file.vm_name,
            vm_id: file.vm_id,
            events: file
                .events
                .into_iter()
                .map(|tracked| Arc::new(TrackedEvent::from(tracked)))
                .collect(),
        })
    }
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    version: u32,
    boot_id: Option<String>,
    heartbeat_at: Time,
    document_at: Option<Time>,
    document_incarnation: Option<i64>,
    warming_up_until: Option<Time>,
    #[serde(rename = "own_name")]
    vm_name: Option<String>,
    vm_id: Option<String>,
    events: Vec<SavedEvent>,
}

/// RFC 3339 with full precision.
#[derive(Debug, Clone, Copy)]
struct Time(Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.rfc3339_exact())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let at = Timestamp::parse(&text);
        at.map(Self)
            .ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is not a time")))
    }
}

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "members of the file format")]
struct SavedEvent {
    id: String,
    event_type: String,
    alert_type: Option<String>,
    status: String,
    source: Option<String>,
    resource_type: Option<String>,
    resources: Option<Vec<Box<str>>>,
    not_before: Option<Time>,
    duration_seconds: Option<u64>,
    description: Option<String>,
    unknown_members: Vec<(Box<str>, Box<str>)>,
    scope: SavedScope,
    /// Source, resources, `NotBefore`.
    #[serde(default)]
    missing: (bool, bool, bool),
    #[serde(default)]
    contradictory: bool,
    first_seen_at: Time,
    #[serde(default)]
    seen_late: bool,
    #[serde(default)]
    notice_missed: bool,
    started_at: Option<Time>,
    ended: Option<(Time, SavedOutcome)>,
    times_ended: u32,
    #[serde(default)]
    times_ended_unstarted: u32,
    approval_decided_at: Option<Time>,
    approval_sent_at: Option<Time>,
    approved_at: Option<Time>,
    approved_elsewhere_at: Option<Time>,
    refused_at: Option<Time>,
    reschedulings: Vec<(Time, Option<Time>, Time)>,
    interruptions: Vec<(Time, Duration)>,
    rebooted: bool,
    down_since: Option<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SavedScope {
    #[serde(rename = "self")]
    Own,
    Other,
    Unknown,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SavedOutcome {
    Cancelled,
    Completed,
    Unknown,
}

impl From<&TrackedEvent> for SavedEvent {
    fn from(tracked: &TrackedEvent) -> Self {
        let event = &tracked.event;
        Self {
            id: event.id.as_str().to_owned(),
            event_type: event.event_type.as_str().to_owned(),
            alert_type: Some(tracked.alert_type.as_str().to_owned()),
            status: event.status.as_str().to_owned(),
            source: event
                .source
                .as_ref()
                .map(|source| source.as_str().to_owned()),
            resource_type: event.resource_type.as_deref().map(str::to_owned),
            resources: event.resources.clone(),
            not_before: event.not_before.map(Time),
            duration_seconds: event.duration_seconds,
            description: event.description.as_deref().map(str::to_owned),
            unknown_members: event.unknown_members.clone(),
            scope: match tracked.scope {
                EventScope::Own => SavedScope::Own,
                EventScope::Other => SavedScope::Other,
                EventScope::Unknown => SavedScope::Unknown,
            },
            missing: (
                tracked.missing.source,
                tracked.missing.resources,
                tracked.missing.not_before,
            ),
            contradictory: tracked.is_contradictory,
            first_seen_at: Time(tracked.first_seen_at),
            seen_late: tracked.gap != PollGap::Normal,
            notice_missed: tracked.gap == PollGap::Notice,
            started_at: tracked.started_at.map(Time),
            ended: tracked.end.map(|end| (Time(end.at), end.outcome.into())),
            times_ended: tracked.times_ended,
            times_ended_unstarted: tracked.times_ended_unstarted,
            approval_decided_at: tracked.approval_decided_at.map(Time),
            approval_sent_at: tracked.approval_sent_at.map(Time),
            approved_at: tracked.approved_at.map(Time),
            approved_elsewhere_at: tracked.approved_elsewhere_at.map(Time),
            refused_at: tracked.refused_at.map(Time),
            reschedulings: tracked
                .reschedulings
                .iter()
                .map(|r| (Time(r.at), r.from.map(Time), Time(r.to)))
                .collect(),
            interruptions: tracked
                .interruptions
                .iter()
                .map(|i| (Time(i.until), i.length))
                .collect(),
            rebooted: tracked.rebooted,
            down_since: tracked.down_since.map(Time),
        }
    }
}

impl From<SavedEvent> for TrackedEvent {
    fn from(saved: SavedEvent) -> Self {
        let time = |at: Option<Time>| at.map(|at| at.0);
        Self {
            alert_type: EventType::new(saved.alert_type.as_ref().unwrap_or(&saved.event_type)),
            event: Event {
                id: EventId::new(&saved.id),
                event_type: EventType::new(&saved.event_type),
                status: Status::new(&saved.status),
                source: saved.source.as_deref().map(Source::new),
                resource_type: saved.resource_type.map(Into::into),
                resources: saved.resources,
                not_before: time(saved.not_before),
                duration_seconds: saved.duration_seconds,
                description: saved.description.map(Into::into),
                unknown_members: saved.unknown_members,
            },
            scope: match saved.scope {
                SavedScope::Own => EventScope::Own,
                SavedScope::Other => EventScope::Other,
                SavedScope::Unknown => EventScope::Unknown,
            },
            missing: MissingMembers {
                source: saved.missing.0,
                resources: saved.missing.1,
                not_before: saved.missing.2,
            },
            is_contradictory: saved.contradictory,
            first_seen_at: saved.first_seen_at.0,
            gap: PollGap::new(saved.seen_late, saved.notice_missed),
            started_at: time(saved.started_at),
            end: saved.ended.map(|(at, outcome)| End {
                at: at.0,
                outcome: outcome.into(),
            }),
            times_ended: saved.times_ended,
            times_ended_unstarted: saved.times_ended_unstarted,
            approval_decided_at: time(saved.approval_decided_at),
            approval_sent_at: time(saved.approval_sent_at),
            approved_at: time(saved.approved_at),
            approved_elsewhere_at: time(saved.approved_elsewhere_at),
            refused_at: time(saved.refused_at),
            reschedulings: saved
                .reschedulings
                .into_iter()
                .map(|(at, from, to)| Rescheduling {
                    at: at.0,
                    from: time(from),
                    to: to.0,
                })
                .collect(),
            interruptions: saved
                .interruptions
                .into_iter()
                .map(|(until, length)| Interruption {
                    until: until.0,
                    length,
                })
                .collect(),
            rebooted: saved.rebooted,
            down_since: time(saved.down_since),
        }
    }
}

impl From<Outcome> for SavedOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Completed => Self::Completed,
            Outcome::Unknown => Self::Unknown,
        }
    }
}

impl From<SavedOutcome> for Outcome {
    fn from(outcome: SavedOutcome) -> Self {
        match outcome {
            SavedOutcome::Cancelled => Self::Cancelled,
            SavedOutcome::Completed => Self::Completed,
            SavedOutcome::Unknown => Self::Unknown,
        }
    }
}
