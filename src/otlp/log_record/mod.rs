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

use std::fmt::Write as _;

use uuid::{Uuid, uuid};

use self::record::UID;
pub use self::record::{EventName, LogRecord, Severity};
use super::{
    attribute::{Attribute, Value},
    trace::{self, SpanPhase, VmKey},
};
use crate::{
    alertmanager::alert::summary_of,
    event::EventScope,
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
    let (severity, summary) = summary_of(tracked, snapshot, at);
    let mut attributes = trace::attributes(tracked, phase);
    let uid = uid(tracked, vm, name, &distinction(tracked, kind, &attributes));
    attributes.extend(details(kind));
    attributes.push(Attribute {
        key: UID.to_owned(),
        value: Value::Text(uid),
    });
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
        }) => Some(trace::text("rescheduled_from", from.rfc3339())),
        TransitionKind::Interrupted(interruption) => {
            let length = Value::Float(interruption.length.as_secs_f64());
            Some(trace::attribute("interruption", length))
        }
        TransitionKind::StatusChanged(was) => Some(trace::text("previous_status", was.as_str())),
        _ => None,
    }
}

/// Distinguishes the transitions of one kind of an event, the same for a transition that is seen again after a crash.
fn distinction(tracked: &TrackedEvent, kind: &TransitionKind, attributes: &[Attribute]) -> String {
    match kind {
        TransitionKind::Announced
        | TransitionKind::Started
        | TransitionKind::Approved
        | TransitionKind::ApprovedElsewhere => String::new(),
        TransitionKind::Rescheduled(Rescheduling { from, to, .. }) => {
            let known = tracked.reschedulings.iter();
            let times = known.filter(|earlier| earlier.to == *to).count();
            let from = from.map(Timestamp::as_unix_nanos);
            format!("{from:?} {} {times}", to.as_unix_nanos())
        }
        TransitionKind::StatusChanged(was) => {
            format!("{} {}", was.as_str(), tracked.event.status.as_str())
        }
        TransitionKind::Amended { .. } => format!("{attributes:?}"),
        // The previous one: the length of an interruption by a boot grows until its record is on disk.
        TransitionKind::Interrupted(_) => {
            let previous = tracked.interruptions.iter().rev().nth(1);
            format!("{:?}", previous.map(|it| it.until.as_unix_nanos()))
        }
        TransitionKind::Ended(_) | TransitionKind::Returned => tracked.times_ended.to_string(),
    }
}

fn uid(tracked: &TrackedEvent, vm: &VmKey, name: EventName, distinction: &str) -> String {
    let mut text = tracked.event.id.as_str().to_ascii_lowercase();
    let advisory = if tracked.event.is_advisory() {
        "advisory"
    } else {
        ""
    };
    // Writing to a String cannot fail.
    write!(text, "\0{vm}\0{advisory}\0{}\0{distinction}", name.as_str()).ok();
    Uuid::new_v5(&NAMESPACE, text.as_bytes()).to_string()
}

impl LogRecord {
    /// The value of `log.record.uid`.
    pub fn uid(&self) -> &str {
        let uid = self
            .attributes
            .iter()
            .find(|attribute| attribute.key == UID);
        match uid.map(|attribute| &attribute.value) {
            Some(Value::Text(uid)) => uid,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests;
