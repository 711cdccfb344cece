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

use serde_json::json;
use uuid::Uuid;

pub use self::record::{EventName, LogRecord, Severity};
use super::{
    attribute::{Attribute, Key, Value},
    trace::{self, NAMESPACE, SpanPhase, VmKey},
};
use crate::{
    assessment,
    event::{EventScope, Source},
    lifecycle::{Rescheduling, TrackedEvent, Transition, TransitionKind},
    snapshot::Snapshot,
    time::Timestamp,
};

/// The log records of a transition. The snapshot has the name of this VM.
pub(crate) fn records(transition: &Transition, vm: &VmKey, snapshot: &Snapshot) -> Vec<LogRecord> {
    let tracked = transition.tracked.as_ref();
    match &transition.kind {
        TransitionKind::Amended { was_scope } if tracked.has_left_vm(*was_scope) => {
            let kind = &transition.kind;
            vec![record(tracked, kind, transition.at, vm, snapshot)]
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
fn distinction(tracked: &TrackedEvent, kind: &TransitionKind) -> serde_json::Value {
    let event = &tracked.event;
    let nanos = |at: Timestamp| at.as_unix_nanos().to_string();
    let change = tracked.times_changed;
    match kind {
        TransitionKind::Announced
        | TransitionKind::Started
        | TransitionKind::Approved
        | TransitionKind::ApprovedElsewhere => json!(null),
        TransitionKind::Rescheduled(Rescheduling { from, to, .. }) => {
            json!([change, from.map(nanos), nanos(*to)])
        }
        TransitionKind::StatusChanged(was) => {
            json!([change, was.as_str(), event.status.as_str()])
        }
        // The values that an amendment changes.
        TransitionKind::Amended { .. } => json!([
            change,
            event.event_type.as_str(),
            event.source.as_ref().map(Source::as_str),
            event.resource_type,
            event.duration_seconds,
            event.description,
            event.resources,
            event.unknown_members,
        ]),
        // The previous one: the length of an interruption by a boot grows until its record is on disk.
        TransitionKind::Interrupted(_) => {
            let previous = tracked.interruptions.iter().rev().nth(1);
            json!(previous.map(|it| nanos(it.until)))
        }
        TransitionKind::Ended(_) | TransitionKind::Returned => json!(tracked.times_ended),
    }
}

fn uid(tracked: &TrackedEvent, vm: &VmKey, name: EventName, kind: &TransitionKind) -> String {
    let parts = json!([
        tracked.event.id.as_str().to_ascii_lowercase(),
        vm.to_string(),
        tracked.event.is_advisory(),
        name.as_str(),
        distinction(tracked, kind),
    ]);
    Uuid::new_v5(&NAMESPACE, parts.to_string().as_bytes()).to_string()
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
