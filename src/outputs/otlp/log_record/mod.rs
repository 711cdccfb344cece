//! Maps transitions of an event of this VM to log records, one for each. Pure.
//!
//! The attribute `log.record.uid` is a function of event, VM, name and what distinguishes several transitions of the
//! same kind, such as the new `NotBefore`, but not of the time: a record that is made again after a crash has the same
//! one. Only events that name this VM have records, as with spans.

use opentelemetry::{
    Array, KeyValue, Value,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
    trace::TraceFlags,
};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLoggerProvider};
use serde_json::json;
use uuid::Uuid;

use super::{
    attribute::{self, Key},
    resource::SERVICE,
    trace::{self, NAMESPACE, SpanPhase},
};
use crate::{
    azure::event::{self, Member},
    base::time::{Moment, Timestamp},
    core::{
        assessment::judge,
        lifecycle::{Rescheduling, TrackedEvent, Transition, TransitionKind, words_of},
        snapshot::Snapshot,
    },
};

const ADVISORY: &str = "azure.scheduled_event.advisory";

/// The log records of a transition. The snapshot has the name of this VM.
pub fn records(transition: &Transition, vm: &str, snapshot: &Snapshot) -> Vec<SdkLogRecord> {
    let changes = transition.own_changes().into_iter();
    changes
        .map(|(kind, at)| record(&transition.tracked, &kind, at, vm, snapshot))
        .collect()
}

/// An event of OpenTelemetry (<https://opentelemetry.io/docs/specs/semconv/general/events/>): a log record with a name.
fn record(
    tracked: &TrackedEvent,
    kind: &TransitionKind,
    at: Moment,
    vm: &str,
    snapshot: &Snapshot,
) -> SdkLogRecord {
    let event = &tracked.shown;
    let name = match kind {
        TransitionKind::Announced if event.is_advisory() => ADVISORY,
        kind => kind.event_name(),
    };
    let phase = match kind {
        TransitionKind::Announced => SpanPhase::Announced,
        _ => SpanPhase::Whole,
    };
    let judgement = judge(tracked, at);
    let summary = judgement.words(snapshot).summary;
    // The SDK has no other way to make an empty record. The logger exports nothing.
    let logger = SdkLoggerProvider::builder().build().logger(SERVICE);
    let mut record = logger.create_log_record();
    record.set_event_name(name);
    record.set_timestamp(at.wall.into());
    record.set_observed_timestamp(at.wall.into());
    // The highest severity of the alerts that the event has at that time.
    record.set_severity_number(match judgement.severity() {
        Some(event::Severity::Critical) => Severity::Error,
        Some(event::Severity::Warning) => Severity::Warn,
        Some(event::Severity::Info) | None => Severity::Info,
    });
    record.set_body(format!("{}: {summary}", title(name)).into());
    record.set_trace_context(
        trace::trace_id(event),
        trace::span_id(event, vm, phase),
        Some(TraceFlags::SAMPLED),
    );
    record.add_attribute(Key::Uid.as_str(), uid(tracked, vm, name, kind));
    let attributes = attribute::of(tracked, phase == SpanPhase::Announced);
    for KeyValue { key, value, .. } in attributes.into_iter().chain(details(kind)) {
        record.add_attribute(key, any_value(value));
    }
    record
}

fn any_value(value: Value) -> AnyValue {
    match value {
        Value::I64(number) => number.into(),
        Value::F64(number) => number.into(),
        Value::Array(Array::String(texts)) => texts.into_iter().collect(),
        text => text.to_string().into(),
    }
}

/// The beginning of the body, such as `Status changed`.
fn title(event_name: &str) -> String {
    let mut title = words_of(event_name);
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// What the attributes of the event do not say.
fn details(kind: &TransitionKind) -> Option<KeyValue> {
    match kind {
        TransitionKind::Rescheduled(Rescheduling {
            from: Some(from), ..
        }) => Some(Key::RescheduledFrom.with_text(from.rfc3339())),
        TransitionKind::Interrupted(interruption) => {
            Some(Key::Interruption.with_seconds(interruption.length))
        }
        TransitionKind::StatusChanged(was) => Some(Key::PreviousStatus.with_text(was.as_str())),
        _ => None,
    }
}

/// What an amendment changes.
const AMENDED: [Member; 6] = [
    Member::TYPE,
    Member::SOURCE,
    Member::RESOURCE_TYPE,
    Member::DURATION,
    Member::DESCRIPTION,
    Member::RESOURCES,
];

/// Distinguishes the transitions of one kind of an event, the same for a transition that is seen again after a crash.
fn distinction(tracked: &TrackedEvent, kind: &TransitionKind) -> serde_json::Value {
    let event = &tracked.shown;
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
        TransitionKind::Amended { .. } => {
            let values = AMENDED.iter().map(|member| json!((member.value)(event)));
            let values = [json!(change)].into_iter().chain(values);
            values.chain([json!(event.unknown_members)]).collect()
        }
        // The previous one: the length of an interruption by a boot grows until its record is on disk.
        TransitionKind::Interrupted(_) => {
            let previous = tracked.interruptions.iter().rev().nth(1);
            json!(previous.map(|it| nanos(it.until)))
        }
        TransitionKind::Ended(_) | TransitionKind::Returned { .. } => json!(tracked.times_ended),
    }
}

fn uid(tracked: &TrackedEvent, vm: &str, name: &str, kind: &TransitionKind) -> String {
    let parts = json!([
        tracked.shown.id.as_str().to_ascii_lowercase(),
        vm,
        tracked.shown.is_advisory(),
        name,
        distinction(tracked, kind),
    ]);
    Uuid::new_v5(&NAMESPACE, parts.to_string().as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
