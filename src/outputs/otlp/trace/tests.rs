use std::{collections::HashSet, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::{
    azure::event::{EventId, EventScope, Status as EventStatus},
    base::time::Moment,
    outputs::otlp::fixtures::{OWN, document, event, moment, tracker, transitions_of, vm},
};

/// The spans of a sequence of documents, each with the second when it is observed.
fn spans_of(documents: &[(i64, Vec<Event>)]) -> Vec<SpanData> {
    let transitions = transitions_of(documents);
    let transitions = transitions.iter();
    transitions
        .flat_map(|transition| spans(transition, &vm()))
        .collect()
}

fn trace(span: &SpanData) -> TraceId {
    span.span_context.trace_id()
}

fn id(span: &SpanData) -> SpanId {
    span.span_context.span_id()
}

#[test]
fn span_ids_do_not_change_between_versions() {
    let all = spans_of(&[(1_000, vec![event(EventStatus::Started)]), (1_010, vec![])]);
    let ids: Vec<_> = all.iter().map(|span| id(span).to_string()).collect();
    assert_eq!(
        trace(&all[0]).to_string(),
        "602d9444d2cd49c786248643e7171297"
    );
    assert_eq!(
        ids,
        [
            "19848889219955cb",
            "ee162e81d11350ff",
            "d59728bc16135f3c",
            "ea621c0a0604503f"
        ]
    );
}

fn ended_event(id: &str) -> TrackedEvent {
    let mut tracker = tracker();
    let event = Event {
        id: EventId::new(id),
        ..event(EventStatus::Started)
    };
    tracker.observe(&document(vec![event]), Some(OWN), moment(1_000));
    tracker.observe(&document(vec![]), Some(OWN), moment(1_010));
    TrackedEvent::clone(&tracker.events(moment(1_000))[0])
}

/// The spans of an event that is found to name this VM.
fn backfill(tracked: &TrackedEvent, vm: &str, at: Moment) -> Vec<SpanData> {
    let kind = TransitionKind::Amended {
        was_scope: EventScope::Unknown,
    };
    let tracked = Arc::new(tracked.clone());
    spans(&Transition { at, kind, tracked }, vm)
}

proptest! {
    #[test]
    fn ids_depend_on_event_vm_and_phase(id in "[a-f0-9-]{1,40}", names in prop::collection::hash_set("[a-z0-9_-]{1,20}", 2)) {
        let tracked = ended_event(&id);
        let names: Vec<_> = names.into_iter().collect();
        let all: Vec<_> = names.iter().map(|name| backfill(&tracked, &vm_key(Some(name)), moment(9_000))).collect();
        let ids = |spans: &[SpanData]| -> Vec<_> { spans.iter().map(|span| (trace(span), self::id(span), span.parent_span_id)).collect() };
        let uppercase = backfill(&ended_event(&id.to_uppercase()), &vm_key(Some(&names[0].to_uppercase())), moment(9_000));
        prop_assert_eq!(ids(&all[0]), ids(&uppercase));
        let traces: HashSet<_> = all.iter().flatten().map(trace).collect();
        let spans: HashSet<_> = all.iter().flatten().map(self::id).collect();
        prop_assert_eq!(traces.len(), 1);
        prop_assert_eq!(spans.len(), 8);
        prop_assert!(!traces.contains(&TraceId::INVALID) && !spans.contains(&SpanId::INVALID));
    }
}
