use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::*;
use crate::{
    document::Document,
    event::{Event, EventId, EventType, Source, Status},
    lifecycle::{Interruption, Tracker},
    time::Moment,
};

const ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";
const OWN: &str = "web_0";

fn event(status: Status) -> Event {
    Event {
        id: EventId::new(ID),
        event_type: EventType::Reboot,
        status,
        source: Some(Source::Platform),
        resource_type: Some("VirtualMachine".into()),
        resources: Some(vec![OWN.into()]),
        not_before: Timestamp::from_unix_seconds(2_000),
        duration_seconds: Some(9),
        description: None,
        unknown_members: Vec::new(),
    }
}

fn moment(seconds: i64) -> Moment {
    Moment {
        wall: Timestamp::from_unix_seconds(seconds).unwrap(),
        monotonic: Duration::from_secs(u64::try_from(seconds).unwrap()),
    }
}

fn document(events: Vec<Event>) -> Document {
    Document {
        events,
        ..Document::default()
    }
}

fn vm() -> VmKey {
    VmKey::of(None, Some(OWN))
}

fn snapshot() -> Snapshot {
    Snapshot::empty(Some(Arc::from(OWN)), moment(0))
}

fn records_of(transitions: &[Transition]) -> Vec<LogRecord> {
    let snapshot = snapshot();
    let transitions = transitions.iter();
    transitions
        .flat_map(|transition| records(transition, &vm(), &snapshot))
        .collect()
}

/// The records of a sequence of documents, each with the second when it is observed.
fn observe(documents: &[(i64, Vec<Event>)]) -> Vec<LogRecord> {
    let mut tracker = Tracker::new(Duration::from_mins(10));
    let transitions: Vec<_> = documents
        .iter()
        .flat_map(|(at, events)| tracker.observe(&document(events.clone()), Some(OWN), moment(*at)))
        .collect();
    records_of(&transitions)
}

fn moved(seconds: i64) -> Event {
    Event {
        not_before: Timestamp::from_unix_seconds(seconds),
        ..event(Status::Scheduled)
    }
}

fn shown(records: &[LogRecord]) -> Vec<(&str, Severity, &str)> {
    let shown = records
        .iter()
        .map(|record| (record.name.as_str(), record.severity, record.body.as_str()));
    shown.collect()
}

fn get<'a>(record: &'a LogRecord, name: &str) -> Option<&'a Value> {
    let key = format!("azure.scheduled_event.{name}");
    let mut attributes = record.attributes.iter();
    attributes
        .find(|attribute| attribute.key == key)
        .map(|attribute| &attribute.value)
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
    let name = |name: &str| format!("azure.scheduled_event.{name}");
    let expected = [
        (
            name("announced"),
            Severity::Error,
            "Announced: Reboot of web_0 in 16m (00:33 UTC)",
        ),
        (
            name("rescheduled"),
            Severity::Error,
            "Rescheduled: Reboot of web_0 in 33m (00:50 UTC)",
        ),
        (
            name("started"),
            Severity::Error,
            "Started: Reboot of web_0 in progress",
        ),
        (
            name("ended"),
            Severity::Info,
            "Ended: Reboot of web_0 completed",
        ),
        (
            name("returned"),
            Severity::Error,
            "Returned: Reboot of web_0 in progress",
        ),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, severity, body)| (name.as_str(), *severity, *body))
        .collect();
    assert_eq!(shown(&all)[..5], expected);
    let times: Vec<_> = all.iter().map(|record| record.at).collect();
    assert_eq!(times[..2], [moment(1_000).wall, moment(1_010).wall]);
}

#[test]
fn approvals_interruptions_and_amendments_have_records_too() {
    let mut tracker = Tracker::new(Duration::from_mins(10));
    let first = document(vec![event(Status::Scheduled)]);
    tracker.observe(&first, Some(OWN), moment(1_000));
    let approved = tracker.record_approval(&EventId::new(ID), moment(1_005).wall);
    let mut transitions: Vec<_> = approved.into_iter().collect();
    let redeploy = Event {
        event_type: EventType::Redeploy,
        ..event(Status::Started)
    };
    transitions.extend(tracker.observe(&document(vec![redeploy]), Some(OWN), moment(1_010)));
    for (until, length) in [(1_020, 7_250), (1_030, 2_000)] {
        let interruption = Interruption {
            until: moment(until).wall,
            length: Duration::from_millis(length),
        };
        transitions.extend(tracker.record_interruption(interruption, moment(until).wall));
    }
    let all = records_of(&transitions);
    let names: Vec<_> = all.iter().map(|record| record.name).collect();
    let expected = [
        EventName::Approved,
        EventName::Amended,
        EventName::Started,
        EventName::Interrupted,
        EventName::Interrupted,
    ];
    assert_eq!(names, expected);
    let lengths: Vec<_> = all
        .iter()
        .filter_map(|record| get(record, "interruption"))
        .collect();
    assert_eq!(lengths, [&Value::Float(7.25), &Value::Float(2.0)]);
    assert_eq!(
        get(&all[4], "observed_interruption"),
        Some(&Value::Float(7.25))
    );
}

#[test]
fn advisory_has_a_name_of_its_own() {
    let all = observe(&[
        (1_000, vec![event(Status::Advisory)]),
        (1_010, vec![event(Status::Scheduled)]),
        (1_020, vec![]),
    ]);
    let names: Vec<_> = all.iter().map(|record| record.name).collect();
    let expected = [
        EventName::Advisory,
        EventName::Ended,
        EventName::Announced,
        EventName::Ended,
    ];
    assert_eq!(names, expected);
    let uids: BTreeSet<_> = all.iter().map(LogRecord::uid).collect();
    assert_eq!(uids.len(), 4);
    assert_eq!(all[0].severity, Severity::Info);
}

#[test]
fn record_has_the_trace_and_a_span_of_the_event() {
    let all = observe(&[(1_000, vec![event(Status::Scheduled)]), (1_010, vec![])]);
    let mut tracker = Tracker::new(Duration::from_mins(10));
    let spans: Vec<_> = [vec![event(Status::Scheduled)], vec![]]
        .into_iter()
        .zip(1_000..)
        .flat_map(|(events, at)| tracker.observe(&document(events), Some(OWN), moment(at)))
        .flat_map(|transition| trace::spans(&transition, &vm()))
        .collect();
    assert!(
        all.iter()
            .all(|record| record.trace_id == spans[0].trace_id)
    );
    assert_eq!(all[0].span_id, spans[0].span_id);
    assert_eq!(all[1].span_id, spans.last().unwrap().span_id);
}

#[test]
fn record_that_is_made_again_has_the_same_uid_whatever_the_time() {
    let sequence = [
        vec![event(Status::Scheduled)],
        vec![moved(3_000)],
        vec![event(Status::Scheduled)],
        vec![moved(3_000)],
        vec![event(Status::Started)],
        vec![],
        vec![event(Status::Started)],
        vec![],
    ];
    let [early, late] = [1_000, 1_100].map(|start| {
        let documents: Vec<_> = (start..).zip(sequence.iter().cloned()).collect();
        observe(&documents)
    });
    let uids = |records: &[LogRecord]| -> Vec<String> {
        records
            .iter()
            .map(|record| record.uid().to_owned())
            .collect()
    };
    assert_eq!(uids(&early), uids(&late));
    let distinct: BTreeSet<_> = uids(&early).into_iter().collect();
    assert_eq!(distinct.len(), early.len(), "{early:?}");
    assert!(distinct.iter().all(|uid| Uuid::parse_str(uid).is_ok()));
    let announced = [(1_000, vec![event(Status::Scheduled)])];
    let of_another_vm = {
        let mut tracker = Tracker::new(Duration::from_mins(10));
        let (at, events) = &announced[0];
        let transitions = tracker.observe(&document(events.clone()), Some(OWN), moment(*at));
        let other = VmKey::of(None, Some("web_1"));
        records(&transitions[0], &other, &snapshot())
    };
    assert_ne!(of_another_vm[0].uid(), observe(&announced)[0].uid());
}

#[test]
fn uid_of_an_interruption_by_a_boot_does_not_depend_on_its_length() {
    let uid = |length: i64| {
        let mut tracker = Tracker::new(Duration::from_mins(10));
        tracker.observe(
            &document(vec![event(Status::Started)]),
            Some(OWN),
            moment(1_000),
        );
        let interruption = Interruption {
            until: moment(1_100 + length).wall,
            length: Duration::from_secs(length.unsigned_abs()),
        };
        let transitions = tracker.record_interruption(interruption, interruption.until);
        records_of(&transitions)[0].uid().to_owned()
    };
    assert_eq!(uid(10), uid(20));
}

#[test]
fn only_events_of_this_vm_have_records_and_a_late_name_backfills_them() {
    let of_another_vm = |status| Event {
        resources: Some(vec!["web_1".into()]),
        ..event(status)
    };
    let all = observe(&[
        (1_000, vec![of_another_vm(Status::Scheduled)]),
        (2_010, vec![of_another_vm(Status::Started)]),
        (2_020, vec![event(Status::Started)]),
        (2_030, vec![]),
    ]);
    let named: Vec<_> = all.iter().map(|record| (record.name, record.at)).collect();
    let expected = [
        (EventName::Announced, moment(1_000).wall),
        (EventName::Started, moment(2_010).wall),
        (EventName::Ended, moment(2_030).wall),
    ];
    assert_eq!(named, expected);
    let usual = observe(&[
        (1_000, vec![event(Status::Scheduled)]),
        (2_010, vec![event(Status::Started)]),
        (2_030, vec![]),
    ]);
    let uids = |records: &[LogRecord]| -> Vec<String> {
        records
            .iter()
            .map(|record| record.uid().to_owned())
            .collect()
    };
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
