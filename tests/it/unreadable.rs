//! Unreadable entries of `Events`: which missing events they keep pending, and how many.

use std::collections::BTreeSet;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, snapshot::Snapshot};

use crate::support::simulated_vm::{SimulatedVm, at};

fn vm() -> SimulatedVm {
    SimulatedVm::new(ApprovalPolicy::default())
}

fn id(number: usize) -> String {
    format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265")
}

/// Events of another VM.
fn events(numbers: impl Iterator<Item = usize>) -> String {
    let event = |number| {
        let (id, due) = (id(number), at(1_000_000).rfc1123());
        format!(
            r#"{{"EventId":"{id}","EventType":"Freeze","EventStatus":"Scheduled","Resources":["web_1"],"NotBefore":"{due}"}}"#
        )
    };
    numbers.map(event).collect::<Vec<_>>().join(",")
}

/// Polls a document with these entries, and returns the snapshot.
fn poll(vm: &mut SimulatedVm, entries: &str, seconds: u64) -> Snapshot {
    vm.wait_until(seconds);
    let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{entries}]}}"#);
    vm.poll_body(body.as_bytes());
    vm.snapshot()
}

fn pending(snapshot: &Snapshot) -> BTreeSet<&str> {
    let pending = snapshot
        .events
        .iter()
        .filter(|tracked| tracked.is_pending());
    pending.map(|tracked| tracked.shown.id.as_str()).collect()
}

#[test]
fn unreadable_entry_that_stays_does_not_keep_every_missing_event_pending() {
    let mut vm = vm();
    let mut most = 0;
    for second in 0..300 {
        let number = usize::try_from(second).unwrap();
        let entries = format!(r#"{{"EventId":7}},{}"#, events(number..=number));
        let snapshot = poll(&mut vm, &entries, second);
        most = most.max(pending(&snapshot).len());
    }
    assert_eq!(most, 61, "the current event, and those of the last minute");
    let mut left = |seconds| pending(&poll(&mut vm, r#"{"EventId":7}"#, seconds)).len();
    assert_eq!([300, 359, 360].map(&mut left), [60, 1, 0]);
}

#[test]
fn unreadable_entry_keeps_only_the_event_whose_id_it_has() {
    let mut vm = vm();
    poll(&mut vm, &events(0..3), 0);
    let unreadable = format!(r#"{{"Id":"{}"}}"#, id(1).to_lowercase());
    for seconds in [1, 600, 50_000] {
        let snapshot = poll(&mut vm, &unreadable, seconds);
        assert_eq!(pending(&snapshot), BTreeSet::from([&*id(1)]), "{seconds} s");
    }
    assert_eq!(pending(&poll(&mut vm, "", 50_001)).len(), 0);
}

#[test]
fn an_entry_that_contradicts_itself_keeps_no_other_event() {
    let (one, other) = (events(0..1), events(0..1).replace("Freeze", "Reboot"));
    let twice = one.replace("\"EventType\"", "\"EventType\":\"Reboot\",\"EventType\"");
    let in_another_case = one.replace("\"EventType\"", "\"eventtype\":\"Reboot\",\"EventType\"");
    for entries in [format!("{one},{other}"), twice, in_another_case] {
        let mut vm = vm();
        poll(&mut vm, &events(0..3), 0);
        let snapshot = poll(&mut vm, &entries, 1);
        assert_eq!(pending(&snapshot), BTreeSet::from([&*id(0)]), "{entries}");
    }
}

#[test]
fn pending_events_are_capped_with_an_anomaly() {
    let mut vm = vm();
    let first = format!(r#"{{"EventId":7}},{}"#, events(0..10_000));
    assert_eq!(pending(&poll(&mut vm, &first, 0)).len(), 10_000);
    let second = format!(r#"{{"EventId":7}},{}"#, events(9_000..12_000));
    let snapshot = poll(&mut vm, &second, 1);
    let pending = pending(&snapshot);
    assert_eq!(pending.len(), 10_000);
    for number in 9_000..12_000 {
        assert!(
            pending.contains(&*id(number)),
            "{number} is in the document"
        );
    }
    let anomalies = r#"azure_scheduled_events_document_anomalies_total{kind="event"}"#;
    let counted = vm.metrics().value(anomalies);
    assert_eq!(counted, Some(2.0), "the unreadable entry and the cap");
}

/// A document has at most 4 MiB, but the events of many documents are kept at the same time.
#[test]
fn the_texts_of_ended_and_missing_events_are_bounded() {
    let names: Vec<_> = (0..10_000)
        .map(|number| format!(r#""{number:0>200}""#))
        .collect();
    let names = names.join(",");
    let event = |number| {
        let id = id(number);
        format!(
            r#"{{"EventId":"{id}","EventType":"Freeze","EventStatus":"Scheduled","Resources":[{names}]}}"#
        )
    };
    let mut vm = vm();
    for number in 0..8 {
        let seconds = u64::try_from(number).unwrap();
        let snapshot = poll(&mut vm, &event(number), seconds);
        let ended = snapshot.events.len() - 1;
        assert_eq!(ended, number.min(3), "of 2.3 MB each");
        assert_eq!(pending(&snapshot), BTreeSet::from([&*id(number)]));
    }
    for number in 8..16 {
        let mentioned: Vec<_> = (7..number)
            .map(|number| format!("[\"{}\"]", id(number)))
            .collect();
        let entries = format!("{},{}", event(number), mentioned.join(","));
        let seconds = u64::try_from(number).unwrap();
        let snapshot = poll(&mut vm, &entries, seconds);
        assert_eq!(pending(&snapshot).len(), 1 + (number - 7).min(3));
        assert!(pending(&snapshot).contains(&*id(number)));
        let ended = snapshot.events.len() - pending(&snapshot).len();
        assert_eq!(ended, 3, "of 2.3 MB each");
    }
}
