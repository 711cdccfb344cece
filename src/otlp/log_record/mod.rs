//! Maps transitions of an event of this VM to log records, one for each. Pure.
//!
//! A record is sent at once, unlike most spans, which are sent at their end. It has the trace id of the event and the
//! id of a span: a record of the announcement that of the span `announced`, any other that of the whole event.
//!
//! The attribute `log.record.uid` is a function of event, VM, name and what distinguishes several transitions of the
//! same kind, such as the new `NotBefore`, but not of the time: a record that is made again after a crash has the same
//! one. Only events that name this VM have records, as with spans; where that becomes known late, `backfill` returns
//! the records of the past.

mod record;

use uuid::{Uuid, uuid};

pub use self::record::{EventName, LogRecord, Severity};
use super::{
    attribute::{Attribute, Key, Value},
    trace::{self, SpanPhase, VmKey},
};
use crate::{
    assessment,
    event::{Event, EventScope, Source},
    lifecycle::{Rescheduling, TrackedEvent, Transition, TransitionKind},
    snapshot::Snapshot,
    time::Timestamp,
};

/// Of the ids of log records; it must never change.
const NAMESPACE: Uuid = uuid!("6c6f8d34-6a0f-4a53-8a7f-0c1b5f2e9d47");

/// The log records of a transition. The snapshot has the name of this VM.
pub(crate) fn records(transition: &Transition, vm: &VmKey, snapshot: &Snapshot) -> Vec<LogRecord> {
    let tracked = transition.tracked.as_ref();
    match &transition.kind {
        TransitionKind::Amended { was_scope } if tracked.has_left_vm(*was_scope) => {
            vec![record(
                tracked,
                &transition.kind,
                transition.at,
                vm,
                snapshot,
            )]
        }
        _ if tracked.scope != EventScope::Own => Vec::new(),
        TransitionKind::Amended { was_scope } if *was_scope != EventScope::Own => {
            backfill(tracked, vm, snapshot)
        }
        kind => vec![record(tracked, kind, transition.at, vm, snapshot)],
    }
}

/// The records of the announcement, start and end so far, for an event that was found to name this VM after it was
/// first seen.
pub(crate) fn backfill(tracked: &TrackedEvent, vm: &VmKey, snapshot: &Snapshot) -> Vec<LogRecord> {
    if tracked.scope != EventScope::Own {
        return Vec::new();
    }
    let past = [
        Some((TransitionKind::Announced, tracked.first_seen_at)),
        tracked.started_at.map(|at| (TransitionKind::Started, at)),
        tracked
            .end
            .map(|end| (TransitionKind::Ended(end.outcome), end.at)),
    ];
    let known = past.into_iter().flatten();
    known
        .map(|(kind, at)| record(tracked, &kind, at, vm, snapshot))
        .collect()
}

fn record(
    tracked: &TrackedEvent,
    kind: &TransitionKind,
    at: Timestamp,
    vm: &VmKey,
    snapshot: &Snapshot,
) -> LogRecord {
    let event = &tracked.event;
    let name = name(tracked, kind);
    let phase = match kind {
        TransitionKind::Announced => SpanPhase::Announced,
        _ => SpanPhase::Whole,
    };
    let severity = assessment::severity(tracked, at);
    let summary = assessment::message(tracked, snapshot, at).summary;
    let mut attributes = trace::attributes(tracked, phase);
    let uid = uid(tracked, vm, name, kind);
    attributes.extend(details(kind));
    attributes.push(Attribute::text(Key::Uid, uid));
    LogRecord {
        name,
        at,
        severity: match severity {
            Some("critical") => Severity::Error,
            Some("warning") => Severity::Warn,
            _ => Severity::Info,
        },
        body: format!("{}: {summary}", name.title()),
        trace_id: event.id.trace_id(),
        span_id: trace::span_id(event, vm, phase),
        attributes,
    }
}

fn name(tracked: &TrackedEvent, kind: &TransitionKind) -> EventName {
    match kind {
        TransitionKind::Announced if tracked.event.is_advisory() => EventName::Advisory,
        TransitionKind::Announced => EventName::Announced,
        TransitionKind::Started => EventName::Started,
        TransitionKind::Rescheduled(_) => EventName::Rescheduled,
        TransitionKind::StatusChanged(_) => EventName::StatusChanged,
        TransitionKind::Amended { .. } => EventName::Amended,
        TransitionKind::Approved => EventName::Approved,
        TransitionKind::ApprovedElsewhere => EventName::ApprovedElsewhere,
        TransitionKind::Interrupted(_) => EventName::Interrupted,
        TransitionKind::Ended(_) => EventName::Ended,
        TransitionKind::Returned => EventName::Returned,
    }
}

/// What the attributes of the event do not say.
fn details(kind: &TransitionKind) -> Option<Attribute> {
    match kind {
        TransitionKind::Rescheduled(Rescheduling {
            from: Some(from), ..
        }) => Some(Attribute::text(Key::RescheduledFrom, from.rfc3339())),
        TransitionKind::Interrupted(interruption) => {
            Some(trace::seconds(Key::Interruption, interruption.length))
        }
        TransitionKind::StatusChanged(was) => {
            Some(Attribute::text(Key::PreviousStatus, was.as_str()))
        }
        _ => None,
    }
}

/// Distinguishes the transitions of one kind of an event, the same for a transition that is seen again after a crash.
fn distinction(tracked: &TrackedEvent, kind: &TransitionKind) -> Vec<Option<String>> {
    let nanos = |at: Timestamp| at.as_unix_nanos().to_string();
    let change = Some(tracked.times_changed.to_string());
    match kind {
        TransitionKind::Announced
        | TransitionKind::Started
        | TransitionKind::Approved
        | TransitionKind::ApprovedElsewhere => Vec::new(),
        TransitionKind::Rescheduled(Rescheduling { from, to, .. }) => {
            vec![change, from.map(nanos), Some(nanos(*to))]
        }
        TransitionKind::StatusChanged(was) => {
            let statuses = [was, &tracked.event.status].map(|it| Some(it.as_str().to_owned()));
            [change].into_iter().chain(statuses).collect()
        }
        TransitionKind::Amended { .. } => {
            let values = amendable(&tracked.event);
            [change].into_iter().chain(values).collect()
        }
        // The previous one: the length of an interruption by a boot grows until its record is on disk.
        TransitionKind::Interrupted(_) => {
            let previous = tracked.interruptions.iter().rev().nth(1);
            vec![previous.map(|it| nanos(it.until))]
        }
        TransitionKind::Ended(_) | TransitionKind::Returned => {
            vec![Some(tracked.times_ended.to_string())]
        }
    }
}

/// The values that an amendment changes.
fn amendable(event: &Event) -> Vec<Option<String>> {
    let text = |value: Option<&str>| value.map(str::to_owned);
    let resources = event.resources.as_deref();
    let mut values = vec![
        text(Some(event.event_type.as_str())),
        text(event.source.as_ref().map(Source::as_str)),
        text(event.resource_type.as_deref()),
        event.duration_seconds.map(|seconds| seconds.to_string()),
        text(event.description.as_deref()),
        resources.map(|names| names.len().to_string()),
    ];
    let names = resources.unwrap_or_default().iter();
    values.extend(names.map(|name| text(Some(name))));
    let unknown = event.unknown_members.iter();
    values.extend(unknown.flat_map(|(name, value)| [text(Some(name)), text(Some(value))]));
    values
}

/// Hashes the parts as netstrings, `3:abc,`, and `-` for one that is absent, so that different parts never have the
/// same text.
fn uid(tracked: &TrackedEvent, vm: &VmKey, name: EventName, kind: &TransitionKind) -> String {
    let kind_of_event = if tracked.event.is_advisory() {
        "advisory"
    } else {
        "maintenance"
    };
    let parts = [
        tracked.event.id.as_str().to_ascii_lowercase(),
        vm.to_string(),
        kind_of_event.to_owned(),
        name.as_str().to_owned(),
    ];
    let parts = parts
        .into_iter()
        .map(Some)
        .chain(distinction(tracked, kind));
    let text: String = parts
        .map(|part| part.map_or("-".to_owned(), |part| format!("{}:{part},", part.len())))
        .collect();
    Uuid::new_v5(&NAMESPACE, text.as_bytes()).to_string()
}

impl LogRecord {
    /// The value of `log.record.uid`.
    pub fn uid(&self) -> &str {
        let uid = self
            .attributes
            .iter()
            .find(|attribute| attribute.key == Key::Uid.as_str());
        match uid.map(|attribute| &attribute.value) {
            Some(Value::Text(uid)) => uid,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests;
