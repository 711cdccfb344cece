use std::{collections::BTreeSet, sync::Arc, time::SystemTime};

use opentelemetry::trace::{SpanId, TraceId};

use super::*;
use crate::core::approval::ApprovalStep;
use crate::{
    azure::event::{Event, EventId, EventType, Status},
    outputs::otlp::fixtures::{
        ID, OWN, document, event, interruption, moment, moved, of_another_vm, tracker,
        transitions_of, vm,
    },
};

fn snapshot() -> Snapshot {
    Snapshot::empty(Some(Arc::from(OWN)), moment(0))
}

fn records_of(transitions: &[Transition]) -> Vec<Sent> {
    let snapshot = snapshot();
    let transitions = transitions.iter();
    transitions
        .flat_map(|transition| records(transition, &vm(), &snapshot))
        .map(|record| sent(&record))
        .collect()
}

/// What a record says.
#[derive(Debug)]
struct Sent {
    name: EventName,
    at: SystemTime,
    severity: Severity,
    body: String,
    trace_id: TraceId,
    span_id: SpanId,
    uid: String,
    attributes: Vec<(String, AnyValue)>,
}

fn sent(record: &SdkLogRecord) -> Sent {
    let text = |value: Option<&AnyValue>| match value {
        Some(AnyValue::String(text)) => text.to_string(),
        other => panic!("{other:?}"),
    };
    let name = record.event_name().unwrap();
    let mut names = EventName::ALL.iter();
    let context = record.trace_context().unwrap();
    let attributes = record.attributes_iter().cloned();
    let attributes: Vec<_> = attributes
        .map(|(key, value)| (key.to_string(), value))
        .collect();
    let at = record.timestamp().unwrap();
    assert_eq!(record.observed_timestamp(), Some(at));
    Sent {
        name: *names.find(|it| it.as_str() == name).unwrap(),
        at,
        severity: record.severity_number().unwrap(),
        body: text(record.body()),
        trace_id: context.trace_id,
        span_id: context.span_id,
        uid: text(get(&attributes, "log.record.uid")),
        attributes,
    }
}

fn get<'a>(attributes: &'a [(String, AnyValue)], name: &str) -> Option<&'a AnyValue> {
    let mut attributes = attributes.iter();
    attributes
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

/// The records of a sequence of documents, each with the second when it is observed.
fn observe(documents: &[(i64, Vec<Event>)]) -> Vec<Sent> {
    records_of(&transitions_of(documents))
}

fn uids(records: &[Sent]) -> Vec<&str> {
    records.iter().map(|record| record.uid.as_str()).collect()
}

/// Scheduled, with another duration.
fn amended(seconds: u64) -> Event {
    Event {
        duration_seconds: Some(seconds),
        ..event(Status::Scheduled)
    }
}

/// An event with a status that is not documented.
fn updating() -> Event {
    Event {
        status: Status::Other("Updating".into()),
        ..amended(5)
    }
}

fn names(records: &[Sent]) -> Vec<EventName> {
    records.iter().map(|record| record.name).collect()
}

#[test]
fn each_transition_has_a_record_with_name_severity_and_text() {
    let all = observe(&[
        (1_000, vec![event(Status::Scheduled)]),
        (1_010, vec![moved(3_000)]),
        (
            3_000,
            vec![Event {
                not_before: None,
                ..event(Status::Started)
            }],
        ),
        (3_060, vec![]),
        (3_070, vec![event(Status::Started)]),
    ]);
    let shown = all.iter();
    let shown: Vec<_> = shown
        .map(|it| format!("{} {:?} {}", it.name.as_str(), it.severity, it.body))
        .collect();
    let expected = [
        "announced Error Announced: Reboot of web_0 and 1 more VM at 00:33 UTC",
        "rescheduled Error Rescheduled: Reboot of web_0 and 1 more VM at 00:50 UTC",
        "started Error Started: Reboot of web_0 and 1 more VM in progress since 00:50 UTC",
        "ended Info Ended: Reboot of web_0 and 1 more VM completed",
        "returned Error Returned: Reboot of web_0 and 1 more VM in progress since 00:50 UTC",
        "rescheduled Error Rescheduled: Reboot of web_0 and 1 more VM in progress since 00:50 UTC",
    ];
    assert_eq!(
        shown,
        expected.map(|it| format!("azure.scheduled_event.{it}"))
    );
    let times: Vec<_> = all.iter().map(|record| record.at).collect();
    assert_eq!(
        times[..2],
        [
            SystemTime::from(moment(1_000).wall),
            SystemTime::from(moment(1_010).wall)
        ]
    );
}

#[test]
fn approvals_interruptions_and_amendments_have_records_too() {
    let mut tracker = tracker();
    let first = document(vec![event(Status::Scheduled)]);
    tracker.observe(&first, Some(OWN), moment(1_000));
    let approved = tracker.record_step(&EventId::new(ID), ApprovalStep::Accepted, moment(1_005));
    let mut transitions: Vec<_> = approved.into_iter().collect();
    let redeploy = Event {
        event_type: EventType::Redeploy,
        ..event(Status::Started)
    };
    transitions.extend(tracker.observe(&document(vec![redeploy]), Some(OWN), moment(1_010)));
    for seconds in [1_020, 1_030] {
        let interruption = interruption(seconds, if seconds == 1_020 { 7_250 } else { 2_000 });
        transitions.extend(tracker.record_interruption(interruption, moment(seconds)));
    }
    let all = records_of(&transitions);
    let expected = [
        EventName::Approved,
        EventName::Amended,
        EventName::Started,
        EventName::Interrupted,
        EventName::Interrupted,
    ];
    assert_eq!(names(&all), expected);
    let lengths: Vec<_> = all
        .iter()
        .filter_map(|record| get(&record.attributes, "azure.scheduled_event.interruption"))
        .collect();
    assert_eq!(lengths, [&AnyValue::Double(7.25), &AnyValue::Double(2.0)]);
    assert_eq!(
        get(
            &all[4].attributes,
            "azure.scheduled_event.observed_interruption"
        ),
        Some(&AnyValue::Double(7.25))
    );
}

#[test]
fn advisory_has_a_name_of_its_own() {
    let all = observe(&[
        (1_000, vec![event(Status::Advisory)]),
        (1_010, vec![event(Status::Scheduled)]),
        (1_020, vec![]),
    ]);
    let expected = [
        EventName::Advisory,
        EventName::Ended,
        EventName::Announced,
        EventName::Ended,
    ];
    assert_eq!(names(&all), expected);
    let uids: BTreeSet<_> = all.iter().map(|record| record.uid.as_str()).collect();
    assert_eq!(uids.len(), 4);
    assert_eq!(all[0].severity, Severity::Info);
}

#[test]
fn record_has_the_trace_and_a_span_of_the_event() {
    let documents = [(1_000, vec![event(Status::Scheduled)]), (1_010, vec![])];
    let all = observe(&documents);
    let spans: Vec<_> = transitions_of(&documents)
        .iter()
        .flat_map(|transition| trace::spans(transition, &vm()))
        .collect();
    assert!(
        all.iter()
            .all(|record| record.trace_id == spans[0].span_context.trace_id())
    );
    assert_eq!(all[0].span_id, spans[0].span_context.span_id());
    assert_eq!(all[1].span_id, spans.last().unwrap().span_context.span_id());
}

#[test]
fn record_that_is_made_again_has_the_same_uid_whatever_the_time() {
    let sequence = [
        vec![event(Status::Scheduled)],
        vec![moved(3_000)],
        vec![event(Status::Scheduled)],
        vec![moved(3_000)],
        vec![amended(5)],
        vec![amended(9)],
        vec![amended(5)],
        vec![updating()],
        vec![amended(5)],
        vec![updating()],
        vec![event(Status::Started)],
        vec![],
        vec![event(Status::Started)],
        vec![],
    ];
    let [early, late] = [1_000, 1_100].map(|start| {
        let documents: Vec<_> = (start..).zip(sequence.iter().cloned()).collect();
        observe(&documents)
    });
    assert_eq!(uids(&early), uids(&late));
    let distinct: BTreeSet<_> = uids(&early).into_iter().collect();
    assert_eq!(distinct.len(), early.len(), "{early:?}");
    assert!(distinct.iter().all(|uid| Uuid::parse_str(uid).is_ok()));
    let announced = transitions_of(&[(1_000, vec![event(Status::Scheduled)])]);
    let other = trace::vm_key(Some("web_1"));
    let elsewhere = records(&announced[0], &other, &snapshot());
    assert_ne!(sent(&elsewhere[0]).uid, records_of(&announced)[0].uid);
}

#[test]
fn uids_do_not_change_between_versions() {
    let strange = Event {
        resources: Some(vec!["web_0".into(), "a,1:b".into()]),
        source: None,
        unknown_members: vec![("Extra".into(), "{\"a\":1}".into())],
        ..amended(5)
    };
    let all = observe(&[
        (1_000, vec![event(Status::Scheduled)]),
        (1_010, vec![moved(3_000)]),
        (1_020, vec![strange]),
        (1_030, vec![]),
    ]);
    let shown = all.iter().map(|it| format!("{:?} {}", it.name, it.uid));
    let expected = [
        "Announced 71ee3227-0e3c-5649-bf74-df72db40cb68",
        "Rescheduled 4c68763c-d385-5bb5-a6b4-cd4ce3412030",
        "Amended 669fcf24-ef04-5345-948c-a8a38383c3b7",
        "Rescheduled 19820796-71fa-5c6a-b785-01e0e60a891b",
        "Ended 5a58e400-32f9-5486-bcc3-744ebfc9518a",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn uid_of_an_interruption_by_a_boot_does_not_depend_on_its_length() {
    let uid = |length: i64| {
        let mut tracker = tracker();
        let started = document(vec![event(Status::Started)]);
        tracker.observe(&started, Some(OWN), moment(1_000));
        let interruption = interruption(1_100 + length, length.unsigned_abs() * 1_000);
        let transitions = tracker.record_interruption(interruption, moment(1_100 + length));
        records_of(&transitions)[0].uid.clone()
    };
    assert_eq!(uid(10), uid(20));
}

#[test]
fn only_events_of_this_vm_have_records_and_a_late_name_backfills_them() {
    let all = observe(&[
        (1_000, vec![of_another_vm(Status::Scheduled)]),
        (2_010, vec![of_another_vm(Status::Started)]),
        (2_020, vec![event(Status::Started)]),
        (2_030, vec![]),
    ]);
    let named: Vec<_> = all.iter().map(|record| (record.name, record.at)).collect();
    let expected = [
        (EventName::Announced, SystemTime::from(moment(1_000).wall)),
        (EventName::Started, SystemTime::from(moment(2_010).wall)),
        (EventName::Ended, SystemTime::from(moment(2_030).wall)),
    ];
    assert_eq!(named, expected);
    let usual = observe(&[
        (1_000, vec![event(Status::Scheduled)]),
        (2_010, vec![event(Status::Started)]),
        (2_030, vec![]),
    ]);
    assert_eq!(uids(&all), uids(&usual));
    assert!(observe(&[(1_000, vec![of_another_vm(Status::Scheduled)])]).is_empty());
}

#[test]
fn names_are_distinct_and_in_one_namespace() {
    let names: BTreeSet<_> = EventName::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(names.len(), EventName::ALL.len());
    let prefix = "azure.scheduled_event.";
    assert!(names.iter().all(|name| name.starts_with(prefix)));
}

#[test]
fn event_that_leaves_this_vm_has_a_last_record() {
    let all = observe(&[
        (1_000, vec![event(Status::Scheduled)]),
        (1_010, vec![of_another_vm(Status::Scheduled)]),
        (1_020, vec![of_another_vm(Status::Started)]),
        (1_030, vec![]),
    ]);
    assert_eq!(names(&all), [EventName::Announced, EventName::Amended]);
    assert_eq!(all[1].severity, Severity::Info);
    let names = AnyValue::from_iter(["web_1"]);
    assert_eq!(
        get(&all[1].attributes, "azure.scheduled_event.resources"),
        Some(&names)
    );
}
