//! The serialized form of an event in the state file.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Time;
use crate::{
    event::{Event, EventId, EventScope, EventType, Source, Status},
    lifecycle::{
        End, EventKind, Interruption, MissingMembers, Outcome, PollGap, Rescheduling, TrackedEvent,
    },
};

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "members of the file format")]
pub(super) struct SavedEvent {
    id: String,
    event_type: String,
    alert_type: Option<String>,
    status: String,
    source: Option<String>,
    resource_type: Option<String>,
    resources: Option<Vec<Box<str>>>,
    #[serde(default)]
    more_resources: bool,
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
    #[serde(default)]
    kind_changed: bool,
    /// Type, source, duration, whether it was an advisory.
    #[serde(default)]
    former_kinds: Vec<SavedKind>,
    first_seen_at: Time,
    changed_at: Option<Time>,
    #[serde(default)]
    seen_late: bool,
    #[serde(default)]
    notice_missed: bool,
    last_listed_at: Option<Time>,
    started_at: Option<Time>,
    ended: Option<(Time, SavedOutcome)>,
    left_at: Option<Time>,
    previous_outcome: Option<SavedOutcome>,
    times_ended: u32,
    #[serde(default)]
    times_ended_unstarted: u32,
    #[serde(default)]
    times_changed: u32,
    approval_decided_at: Option<Time>,
    approval_withdrawn_at: Option<Time>,
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
            alert_type: Some(tracked.urgent_type.as_str().to_owned()),
            status: event.status.as_str().to_owned(),
            source: event
                .source
                .as_ref()
                .map(|source| source.as_str().to_owned()),
            resource_type: event.resource_type.as_deref().map(str::to_owned),
            resources: event.resources.clone(),
            more_resources: event.has_more_resources,
            not_before: event.not_before.map(Time),
            duration_seconds: event.duration_seconds,
            description: event.description.as_deref().map(str::to_owned),
            unknown_members: event.unknown_members.clone(),
            scope: tracked.scope.into(),
            missing: (
                tracked.missing.source,
                tracked.missing.resources,
                tracked.missing.not_before,
            ),
            contradictory: tracked.is_contradictory,
            kind_changed: tracked.has_changed_kind,
            former_kinds: tracked.former_kinds.iter().map(saved_kind).collect(),
            changed_at: Some(Time(tracked.changed_at)),
            first_seen_at: Time(tracked.first_seen_at),
            seen_late: tracked.gap != PollGap::Normal,
            notice_missed: tracked.gap == PollGap::Notice,
            last_listed_at: tracked.last_listed_at.map(Time),
            started_at: tracked.started_at.map(Time),
            ended: tracked.end.map(|end| (Time(end.at), end.outcome.into())),
            left_at: tracked.left_at.map(Time),
            previous_outcome: tracked.previous_outcome.map(Into::into),
            times_ended: tracked.times_ended,
            times_ended_unstarted: tracked.times_ended_unstarted,
            times_changed: tracked.times_changed,
            approval_decided_at: tracked.approval_decided_at.map(Time),
            approval_withdrawn_at: tracked.approval_withdrawn_at.map(Time),
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

type SavedKind = (String, Option<String>, Option<u64>, bool);

fn saved_kind(kind: &EventKind) -> SavedKind {
    let source = kind
        .source
        .as_ref()
        .map(|source| source.as_str().to_owned());
    let event_type = kind.event_type.as_str().to_owned();
    (event_type, source, kind.duration_seconds, kind.is_advisory)
}

fn kind((event_type, source, duration_seconds, is_advisory): SavedKind) -> EventKind {
    EventKind {
        event_type: EventType::new(&event_type),
        source: source.as_deref().map(Source::new),
        duration_seconds,
        is_advisory,
    }
}

impl From<SavedEvent> for TrackedEvent {
    fn from(saved: SavedEvent) -> Self {
        let time = |at: Option<Time>| at.map(|at| at.0);
        Self {
            urgent_type: EventType::new(saved.alert_type.as_ref().unwrap_or(&saved.event_type)),
            event: Event {
                id: EventId::new(&saved.id),
                event_type: EventType::new(&saved.event_type),
                status: Status::new(&saved.status),
                source: saved.source.as_deref().map(Source::new),
                resource_type: saved.resource_type.map(Into::into),
                resources: saved.resources,
                has_more_resources: saved.more_resources,
                not_before: time(saved.not_before),
                duration_seconds: saved.duration_seconds,
                description: saved.description.map(Into::into),
                unknown_members: saved.unknown_members,
            },
            scope: saved.scope.into(),
            missing: MissingMembers {
                source: saved.missing.0,
                resources: saved.missing.1,
                not_before: saved.missing.2,
            },
            is_contradictory: saved.contradictory,
            has_changed_kind: saved.kind_changed,
            former_kinds: saved.former_kinds.into_iter().map(kind).collect(),
            changed_at: saved.changed_at.unwrap_or(saved.first_seen_at).0,
            is_owner_unknown: false,
            first_seen_at: saved.first_seen_at.0,
            gap: PollGap::new(saved.seen_late, saved.notice_missed),
            last_listed_at: time(saved.last_listed_at),
            started_at: time(saved.started_at),
            end: saved.ended.map(|(at, outcome)| End {
                at: at.0,
                outcome: outcome.into(),
            }),
            left_at: time(saved.left_at),
            previous_outcome: saved.previous_outcome.map(Into::into),
            times_ended: saved.times_ended,
            times_ended_unstarted: saved.times_ended_unstarted,
            times_changed: saved.times_changed,
            approval_decided_at: time(saved.approval_decided_at),
            approval_withdrawn_at: time(saved.approval_withdrawn_at),
            approval_sent_at: time(saved.approval_sent_at),
            approved_at: time(saved.approved_at),
            approved_elsewhere_at: time(saved.approved_elsewhere_at),
            refused_at: time(saved.refused_at),
            reschedulings: saved.reschedulings.into_iter().map(rescheduling).collect(),
            interruptions: saved.interruptions.into_iter().map(interruption).collect(),
            rebooted: saved.rebooted,
            down_since: time(saved.down_since),
        }
    }
}

fn rescheduling((at, from, to): (Time, Option<Time>, Time)) -> Rescheduling {
    Rescheduling {
        at: at.0,
        from: from.map(|from| from.0),
        to: to.0,
    }
}

fn interruption((until, length): (Time, Duration)) -> Interruption {
    Interruption {
        until: until.0,
        length,
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

impl From<EventScope> for SavedScope {
    fn from(scope: EventScope) -> Self {
        match scope {
            EventScope::Own => Self::Own,
            EventScope::Other => Self::Other,
            EventScope::Unknown => Self::Unknown,
        }
    }
}

impl From<SavedScope> for EventScope {
    fn from(scope: SavedScope) -> Self {
        match scope {
            SavedScope::Own => Self::Own,
            SavedScope::Other => Self::Other,
            SavedScope::Unknown => Self::Unknown,
        }
    }
}
