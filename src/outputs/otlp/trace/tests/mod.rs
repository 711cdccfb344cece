mod ids;
mod scope;

use std::{collections::HashSet, sync::Arc, time::SystemTime};

use opentelemetry::{Array, StringValue, Value};

use super::*;
use crate::{
    azure::{
        FailureReason, RequestError,
        event::{EventId, EventScope, EventType, Source, Status as EventStatus},
    },
    base::time::Moment,
    outputs::otlp::fixtures::{
        ID, OWN, document, event, get, interruption, moment, moved, of_another_vm, tracker,
        transitions_of, vm,
    },
};

/// The spans of a sequence of documents, each with the second when it is observed.
fn spans_of(documents: &[(i64, Vec<Event>)]) -> Vec<SpanData> {
    let transitions = transitions_of(documents);
    let transitions = transitions.iter();
    transitions
        .flat_map(|transition| spans(transition, &vm()))
        .collect()
}

/// The spans of an event that is found to name this VM.
fn backfill(tracked: &TrackedEvent, vm: &str, at: Moment) -> Vec<SpanData> {
    let kind = TransitionKind::Amended {
        was_scope: EventScope::Unknown,
    };
    let tracked = Arc::new(tracked.clone());
    spans(&Transition { at, kind, tracked }, vm)
}

fn trace(span: &SpanData) -> TraceId {
    span.span_context.trace_id()
}

fn id(span: &SpanData) -> SpanId {
    span.span_context.span_id()
}

fn texts(texts: &[&str]) -> Value {
    let texts = texts
        .iter()
        .map(|text| StringValue::from((*text).to_owned()));
    Value::Array(Array::String(texts.collect()))
}

#[test]
fn invisible_characters_of_attributes_are_made_visible() {
    let mut hostile = event(EventStatus::Scheduled);
    hostile.event_type = EventType::Other("Fre\u{202e}eze".into());
    hostile.description = Some("a\nb\u{200b}c\u{7}".into());
    hostile.resources = Some(vec![OWN.into(), "web\u{2066}1".into()]);
    hostile.source = Some(Source::Other("Plat\tform".into()));
    let spans = spans_of(&[(0, vec![hostile]), (1, vec![])]);
    assert!(
        spans
            .iter()
            .any(|span| span.name == "scheduled_event Fre\u{fffd}eze")
    );
    for value in ["Fre\u{fffd}eze", "a b\u{fffd}c\u{fffd}", "Plat form"] {
        let value = Value::from(value.to_owned());
        assert!(
            spans[0]
                .attributes
                .iter()
                .any(|attribute| attribute.value == value),
            "{value:?}"
        );
    }
    let names = texts(&[OWN, "web\u{fffd}1"]);
    assert!(
        spans[0]
            .attributes
            .iter()
            .any(|attribute| attribute.value == names)
    );
}

/// Times in seconds, to the millisecond.
fn summary(spans: &[SpanData]) -> Vec<(&str, f64, f64)> {
    let seconds = |at: SystemTime| {
        let elapsed = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        (elapsed.as_secs_f64() * 1e3).round() / 1e3
    };
    let times = spans
        .iter()
        .map(|span| (seconds(span.start_time), seconds(span.end_time)));
    let names = spans.iter().map(|span| &*span.name);
    names
        .zip(times)
        .map(|(name, (start, end))| (name, start, end))
        .collect()
}

#[test]
fn each_of_the_four_spans_is_made_when_its_end_is_known() {
    let all = spans_of(&[
        (1_000, vec![event(EventStatus::Scheduled)]),
        (1_900, vec![event(EventStatus::Started)]),
        (1_960, vec![]),
    ]);
    assert_eq!(
        summary(&all),
        [
            ("scheduled_event announced", 1_000.0, 1_000.0),
            ("scheduled_event notice", 1_000.0, 1_900.0),
            ("scheduled_event impact", 1_900.0, 1_960.0),
            ("scheduled_event Reboot", 1_000.0, 1_960.0),
        ]
    );
    let root = all.last().unwrap();
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    assert!(all[..3].iter().all(|span| span.parent_span_id == id(root)));
    assert!(
        all.iter()
            .all(|span| trace(span) == TraceId::from_bytes(EventId::new(ID).trace_id()))
    );
    assert!(all.iter().all(|span| span.status == Status::Unset));
    let name = "azure-scheduled-events-exporter";
    assert_eq!(root.instrumentation_scope.name(), name);
    let ids: HashSet<_> = all.iter().map(id).collect();
    assert_eq!(ids.len(), 4);
}

#[test]
fn notice_of_an_event_that_never_starts_lasts_until_its_end() {
    let all = spans_of(&[
        (1_000, vec![event(EventStatus::Scheduled)]),
        (1_010, vec![]),
    ]);
    assert_eq!(
        summary(&all),
        [
            ("scheduled_event announced", 1_000.0, 1_000.0),
            ("scheduled_event notice", 1_000.0, 1_010.0),
            ("scheduled_event Reboot", 1_000.0, 1_010.0),
        ]
    );
    assert_eq!(
        get(&all[2].attributes, "outcome"),
        Some(&Value::from("cancelled".to_owned()))
    );
}

#[test]
fn advisory_that_becomes_maintenance_has_spans_of_its_own_in_the_same_trace() {
    let all = spans_of(&[
        (1_000, vec![event(EventStatus::Advisory)]),
        (1_100, vec![event(EventStatus::Scheduled)]),
        (1_200, vec![event(EventStatus::Started)]),
        (1_300, vec![]),
    ]);
    assert_eq!(
        summary(&all),
        [
            ("scheduled_event announced", 1_000.0, 1_000.0),
            ("scheduled_event Reboot", 1_000.0, 1_100.0),
            ("scheduled_event announced", 1_100.0, 1_100.0),
            ("scheduled_event notice", 1_100.0, 1_200.0),
            ("scheduled_event impact", 1_200.0, 1_300.0),
            ("scheduled_event Reboot", 1_100.0, 1_300.0),
        ]
    );
    assert_eq!(all[0].parent_span_id, id(&all[1]));
    assert_eq!(all[2].parent_span_id, id(&all[5]));
    assert_eq!(
        get(&all[1].attributes, "status"),
        Some(&Value::from("Advisory".to_owned()))
    );
    let ids: HashSet<_> = all.iter().map(id).collect();
    assert_eq!(ids.len(), all.len());
    let traces: HashSet<_> = all.iter().map(trace).collect();
    assert_eq!(traces.len(), 1);
}

#[test]
fn only_known_attributes_are_present() {
    let all = spans_of(&[
        (1_000, vec![event(EventStatus::Scheduled)]),
        (1_100, vec![]),
    ]);
    let text = |text: &str| Value::from(text.to_owned());
    for (name, value) in [
        ("id", text(ID)),
        ("type", text("Reboot")),
        ("status", text("Scheduled")),
        ("source", text("Platform")),
        ("resource_type", text("VirtualMachine")),
        ("resources", texts(&[OWN, "web_1"])),
        ("not_before", text("1970-01-01T00:33:20Z")),
        ("duration", Value::I64(9)),
        (
            "description",
            text("Host server is undergoing maintenance."),
        ),
    ] {
        assert_eq!(get(&all[0].attributes, name), Some(&value), "{name}");
    }
    assert_eq!(get(&all[0].attributes, "outcome"), None);
    assert_eq!(get(&all[2].attributes, "observed_interruption"), None);
    let bare = Event {
        source: None,
        resource_type: None,
        not_before: None,
        duration_seconds: None,
        description: None,
        ..event(EventStatus::Scheduled)
    };
    let names: Vec<_> = spans_of(&[(1_000, vec![bare])])[0]
        .attributes
        .iter()
        .map(|attribute| attribute.key.to_string())
        .collect();
    let expected =
        ["id", "status", "type", "resources"].map(|name| format!("azure.scheduled_event.{name}"));
    assert_eq!(names, expected);
}

#[test]
fn span_events_are_in_the_order_of_time() {
    let mut tracker = tracker();
    let mut transitions = tracker.observe(
        &document(vec![event(EventStatus::Scheduled)]),
        Some(OWN),
        moment(1_000),
    );
    let later = document(vec![moved(3_000)]);
    transitions.extend(tracker.observe(&later, Some(OWN), moment(1_010)));
    transitions.extend(tracker.record_step(
        &EventId::new(ID),
        ApprovalStep::Accepted,
        moment(1_005),
    ));
    let blanked = Event {
        not_before: None,
        ..event(EventStatus::Started)
    };
    transitions.extend(tracker.observe(&document(vec![blanked]), Some(OWN), moment(1_020)));
    let interruption = interruption(1_034, 7_250);
    transitions.extend(tracker.record_interruption(interruption, moment(1_034)));
    transitions.extend(tracker.observe(&document(vec![]), Some(OWN), moment(1_050)));
    let all: Vec<_> = transitions
        .iter()
        .flat_map(|transition| spans(transition, &vm()))
        .collect();
    let names = |span: &SpanData| -> Vec<String> {
        span.events
            .iter()
            .map(|event| event.name.to_string())
            .collect()
    };
    assert_eq!(all.len(), 4);
    assert!(names(&all[0]).is_empty());
    assert_eq!(names(&all[1]), ["approved", "rescheduled"]);
    assert_eq!(names(&all[2]), ["interrupted"]);
    assert_eq!(names(&all[3]), ["approved", "rescheduled", "interrupted"]);
    assert_eq!(
        get(&all[3].attributes, "observed_interruption"),
        Some(&Value::F64(7.25))
    );
    assert!(
        all.iter()
            .all(|span| span.events.is_sorted_by_key(|event| event.timestamp))
    );
}

#[test]
fn event_that_returns_has_the_same_span_ids() {
    let all = spans_of(&[
        (1_000, vec![event(EventStatus::Started)]),
        (1_010, vec![]),
        (1_020, vec![event(EventStatus::Started)]),
        (1_030, vec![]),
    ]);
    let ids: Vec<_> = all.iter().map(|span| (&*span.name, id(span))).collect();
    assert_eq!(ids.len(), 6);
    assert_eq!(ids[2..4], ids[4..6]);
    assert_eq!(all[5].end_time, SystemTime::from(moment(1_030).wall));
}

#[test]
fn each_span_ends_after_its_start_if_the_clock_was_set_back_too() {
    let all = spans_of(&[
        (9_000, vec![event(EventStatus::Scheduled)]),
        (5_400, vec![event(EventStatus::Started)]),
        (1_800, vec![]),
    ]);
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|span| span.start_time < span.end_time));
}

#[test]
fn only_a_failed_approval_is_an_error() {
    for (is_accepted, expected) in [(false, [false, true, true]), (true, [false, false, false])] {
        let mut tracker = tracker();
        let mut all = Vec::new();
        for (seconds, events) in [
            (1_000, vec![event(EventStatus::Scheduled)]),
            (1_010, vec![]),
        ] {
            let seen = document(events);
            for transition in tracker.observe(&seen, Some(OWN), moment(seconds)) {
                all.extend(spans(&transition, &vm()));
            }
            let refused = RequestError::new(FailureReason::Status4xx, "HTTP 400");
            let failed = ApprovalStep::failed(&refused);
            tracker.record_step(&EventId::new(ID), failed, moment(1_005));
            if is_accepted {
                tracker.record_step(&EventId::new(ID), ApprovalStep::Accepted, moment(1_006));
            }
        }
        let errors: Vec<_> = all
            .iter()
            .map(|span| span.status != Status::Unset)
            .collect();
        assert_eq!(
            errors, expected,
            "announced, notice, whole; accepted: {is_accepted}"
        );
    }
}
