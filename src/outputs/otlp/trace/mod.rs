//! Maps transitions of an event of this VM to spans. Pure.
//!
//! The trace id is the event's GUID, so all VMs that the event names write to one trace, each with a root span of its
//! own.
//!
//! ```text
//! scheduled_event <EventType>   |first seen ------------------------- ended|   sent at the end
//!   scheduled_event announced   |                                              sent immediately
//!   scheduled_event notice      |first seen ------ started|                    sent at the start
//!   scheduled_event impact                        |started ---------- ended|   sent at the end
//! ```
//!
//! A span that is made again, after a crash or for an event that returned, has the same id. An advisory has only
//! `announced` and the root; their ids differ from those of maintenance with the same event id.

use std::time::Duration;

use opentelemetry::{
    KeyValue,
    trace::{
        Event as SpanEvent, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
    },
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use uuid::{Uuid, uuid};

use super::{
    attribute::{self, Key},
    resource::scope,
};
use crate::{
    azure::event::{Event, EventScope, Member},
    base::{label::label_values, text::sanitize, time::Timestamp},
    core::{
        approval::ApprovalStep,
        lifecycle::{TrackedEvent, Transition, TransitionKind},
    },
};

/// The namespace of span ids and of ids of log records; it must never change.
pub(super) const NAMESPACE: Uuid = uuid!("6c6f8d34-6a0f-4a53-8a7f-0c1b5f2e9d47");
const PREFIX: &str = "scheduled_event";
/// Jaeger 2 warns of a span that ends at its start: "negative duration".
const MIN_LENGTH: Duration = Duration::from_nanos(1);

/// Distinguishes the VMs of one event in span ids: the VM's name, which is known wherever an event names this VM.
pub fn vm_key(vm_name: Option<&str>) -> String {
    vm_name.unwrap_or("unknown").to_ascii_lowercase()
}

label_values! {
    /// The part of an event that a span covers. The strings are hashed into span ids and must never change.
    pub(super) enum SpanPhase {
        Whole = "event",
        Announced = "announced",
        Notice = "notice",
        Impact = "impact",
    }
}

/// The spans that a transition completes. If the event returned and ended again, they have a later end.
pub fn spans(transition: &Transition, vm: &str) -> Vec<SpanData> {
    let tracked = transition.tracked.as_ref();
    let since = tracked.first_seen_at;
    let has_left = transition.was_scope() == EventScope::Own && tracked.scope != EventScope::Own;
    let changes = transition.own_changes().into_iter();
    let changes = changes.map(|(kind, at)| (kind, tracked.time(at)));
    let spans = changes.flat_map(|(kind, at)| match kind {
        // Has no length and is sent immediately. It may be the only span of a Spot eviction.
        TransitionKind::Announced => vec![span(tracked, vm, SpanPhase::Announced, since, at)],
        TransitionKind::Started => vec![span(tracked, vm, SpanPhase::Notice, since, at)],
        TransitionKind::Ended(_) => completed(tracked, vm, at),
        _ if has_left => completed(tracked, vm, at),
        _ => Vec::new(),
    });
    spans.collect()
}

/// The spans that end when the event does, or when it no longer names this VM. The notice of an event that has started
/// was sent at its start.
fn completed(tracked: &TrackedEvent, vm: &str, at: Timestamp) -> Vec<SpanData> {
    let first_seen_at = tracked.first_seen_at;
    let phase = match tracked.started_at {
        Some(started_at) if started_at < at => Some((SpanPhase::Impact, started_at)),
        None if tracked.shown.is_advisory() => None,
        _ => Some((SpanPhase::Notice, first_seen_at)),
    };
    phase
        .into_iter()
        .chain([(SpanPhase::Whole, first_seen_at)])
        .map(|(phase, since)| span(tracked, vm, phase, since, at))
        .collect()
}

fn span(
    tracked: &TrackedEvent,
    vm: &str,
    phase: SpanPhase,
    start: Timestamp,
    end: Timestamp,
) -> SpanData {
    let event = &tracked.shown;
    let name = match phase {
        SpanPhase::Whole => format!("{PREFIX} {}", sanitize(event.event_type.as_str())),
        part => format!("{PREFIX} {}", part.as_str()),
    };
    // The clock may have been set back.
    let end = end.max(start.after(MIN_LENGTH));
    let span_context = SpanContext::new(
        trace_id(event),
        span_id(event, vm, phase),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let mut span_events = SpanEvents::default();
    span_events.events = events(tracked, phase);
    SpanData {
        span_context,
        parent_span_id: match phase {
            SpanPhase::Whole => SpanId::INVALID,
            _ => span_id(event, vm, SpanPhase::Whole),
        },
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: start.into(),
        end_time: end.into(),
        attributes: attribute::of(tracked, phase == SpanPhase::Announced),
        dropped_attributes_count: 0,
        events: span_events,
        links: SpanLinks::default(),
        status: status(tracked, phase),
        instrumentation_scope: scope(),
    }
}

/// Identifies the event; the same on each VM.
pub(super) fn trace_id(event: &Event) -> TraceId {
    TraceId::from_bytes(event.id.trace_id())
}

/// The first half of a UUID of version 5 of event, VM and phase. The version makes it different from zero, which is no
/// valid span id (W3C Trace Context).
pub(super) fn span_id(event: &Event, vm: &str, phase: SpanPhase) -> SpanId {
    let id = event.id.as_str().to_ascii_lowercase();
    let advisory = if event.is_advisory() { "advisory " } else { "" };
    let phase = format!("{advisory}{}", phase.as_str());
    let name = [id.as_bytes(), vm.as_bytes(), phase.as_bytes()].join(&0);
    let (first, _) = Uuid::new_v5(&NAMESPACE, &name).as_u64_pair();
    SpanId::from_bytes(first.to_be_bytes())
}

/// Maintenance is not an error; an approval that failed is.
fn status(tracked: &TrackedEvent, phase: SpanPhase) -> Status {
    let is_reported = matches!(phase, SpanPhase::Whole | SpanPhase::Notice);
    match tracked.approval.failed_at().filter(|_| is_reported) {
        Some(at) => Status::error(format!(
            "the metadata service did not take the approval, last at {}",
            at.rfc3339()
        )),
        None => Status::Unset,
    }
}

/// In the order of time. The notice has the events that moved the start, the impact has the interruptions, the root has
/// all.
fn events(tracked: &TrackedEvent, phase: SpanPhase) -> Vec<SpanEvent> {
    let mut all = Vec::new();
    if matches!(phase, SpanPhase::Whole | SpanPhase::Notice) {
        all.extend(tracked.reschedulings.iter().map(|rescheduling| {
            let from = rescheduling
                .from
                .map(|from| Key::RescheduledFrom.with_text(from.rfc3339()));
            let to = KeyValue::new(Member::NOT_BEFORE.attribute, rescheduling.to.rfc3339());
            let attributes = from.into_iter().chain([to]);
            event("rescheduled", rescheduling.at, attributes)
        }));
        all.extend(tracked.approval.shown().filter_map(|(step, at)| {
            let name = match step {
                ApprovalStep::Intended => "approval_decided",
                ApprovalStep::Withdrawn => "approval_withdrawn",
                ApprovalStep::Sent => "approval_sent",
                ApprovalStep::Accepted => "approved",
                ApprovalStep::Elsewhere => "approved_elsewhere",
                _ => return None,
            };
            Some(event(name, at, []))
        }));
    }
    if matches!(phase, SpanPhase::Whole | SpanPhase::Impact) {
        all.extend(tracked.interruptions.iter().map(|interruption| {
            let observed = Key::ObservedInterruption.with_seconds(interruption.length);
            event("interrupted", interruption.until, [observed])
        }));
    }
    all.sort_by_key(|event| event.timestamp);
    all
}

fn event(
    name: &'static str,
    at: Timestamp,
    attributes: impl IntoIterator<Item = KeyValue>,
) -> SpanEvent {
    SpanEvent::new(name, at.into(), attributes.into_iter().collect(), 0)
}

#[cfg(test)]
mod tests;
