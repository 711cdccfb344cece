use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::{
    azure::event::{Event, Status},
    outputs::otlp::fixtures::{OWN, event, moment, moved, transitions_of, vm},
};

fn snapshot() -> Snapshot {
    Snapshot::empty(Some(Arc::from(OWN)), moment(0))
}

/// The names of the records, each with its uid.
fn records_of(transitions: &[Transition]) -> Vec<(&'static str, String)> {
    let snapshot = snapshot();
    let transitions = transitions.iter();
    transitions
        .flat_map(|transition| records(transition, &vm(), &snapshot))
        .map(|record| (record.event_name().unwrap(), uid_of(&record)))
        .collect()
}

fn uid_of(record: &SdkLogRecord) -> String {
    let mut attributes = record.attributes_iter();
    let uid = attributes.find(|(key, _)| key.as_str() == "log.record.uid");
    match uid {
        Some((_, AnyValue::String(uid))) => uid.to_string(),
        _ => panic!("{record:?}"),
    }
}

/// The records of a sequence of documents, each with the second when it is observed.
fn observe(documents: &[(i64, Vec<Event>)]) -> Vec<(&'static str, String)> {
    records_of(&transitions_of(documents))
}

fn uids<'a>(records: &'a [(&str, String)]) -> Vec<&'a str> {
    records.iter().map(|(_, uid)| uid.as_str()).collect()
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
    assert_ne!(uid_of(&elsewhere[0]), records_of(&announced)[0].1);
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
    let shown = all.iter().map(|it| format!("{} {}", title(it.0), it.1));
    let expected = [
        "Announced 71ee3227-0e3c-5649-bf74-df72db40cb68",
        "Rescheduled 4c68763c-d385-5bb5-a6b4-cd4ce3412030",
        "Amended 669fcf24-ef04-5345-948c-a8a38383c3b7",
        "Rescheduled 19820796-71fa-5c6a-b785-01e0e60a891b",
        "Ended 5a58e400-32f9-5486-bcc3-744ebfc9518a",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}
