//! The ID of each line about an event of this VM: an operator's script or query waits for it.

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use crate::support::simulated_vm::{SimulatedVm, at, restart, started};

/// The IDs of the lines about transitions, by their names. A line without one has the ID of its level.
fn ids(vm: &SimulatedVm) -> Vec<&'static str> {
    let lines = vm.log.iter();
    let lines = lines.filter(|line| line.field("transition").is_some());
    let id = |name: &'static str| if name.starts_with("event ") { "" } else { name };
    lines.map(|line| id(line.name)).collect()
}

/// The lines of these documents of one event each, a second after each other.
fn ids_of(events: &[Value]) -> Vec<&'static str> {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    for (seconds, event) in (0..).zip(events) {
        vm.wait_until(seconds);
        vm.poll(
            event
                .is_object()
                .then_some(event)
                .map_or(&[], std::slice::from_ref),
        );
    }
    ids(&vm)
}

fn other(members: &Value) -> Value {
    let mut event = restart(members);
    event["Resources"] = json!(["web_1"]);
    event
}

#[test]
fn transitions_of_events_of_this_vm_have_ids() {
    let own = || restart(&json!({}));
    let later = restart(&json!({"NotBefore": at(1_800).rfc1123()}));
    let described = restart(&json!({"Description": "Changed"}));
    let back = restart(&json!({"NotBefore": ""}));
    let other_started = other(&json!({"EventStatus": "Started", "NotBefore": ""}));
    let rows: [(&[Value], &[&str]); 10] = [
        (&[own(), json!(null)], &["ANNOUNCED", "ENDED"]),
        (
            &[own(), json!(null), own()],
            &["ANNOUNCED", "ENDED", "ANNOUNCED"],
        ),
        (&[own(), later], &["ANNOUNCED", "RESCHEDULED"]),
        (&[own(), described], &["ANNOUNCED", "CHANGED"]),
        (&[own(), started()], &["ANNOUNCED", "APPROVED", "STARTED"]),
        (&[started(), back], &["ANNOUNCED", "STARTED", "CHANGED"]),
        (&[own(), other(&json!({}))], &["ANNOUNCED", "LEFT_VM"]),
        (&[other(&json!({})), own()], &["", "ANNOUNCED"]),
        (&[other(&json!({})), other_started], &["", "", ""]),
        (
            &[other(&json!({})), other(&json!({"Description": "Changed"}))],
            &["", ""],
        ),
    ];
    for (events, expected) in rows {
        assert_eq!(ids_of(events), expected, "{events:?}");
    }
}

#[test]
fn an_event_that_may_name_this_vm_has_the_ids_of_its_own() {
    let mut vm = SimulatedVm::unnamed(ApprovalPolicy::default());
    vm.poll(&[restart(&json!({}))]);
    vm.identify_as("web_2");
    assert_eq!(ids(&vm), ["ANNOUNCED", "LEFT_VM"]);
}

#[test]
fn only_the_first_line_of_an_advisory_has_the_id_of_advisories() {
    let advisory = restart(&json!({"EventStatus": "Advisory"}));
    assert_eq!(ids_of(&[advisory, json!(null)]), ["ADVISORY", ""]);
}

#[test]
fn an_approval_of_this_exporter_has_an_id() {
    let mut vm = SimulatedVm::new(ApprovalPolicy {
        user_events: true,
        ..ApprovalPolicy::default()
    });
    vm.poll(&[restart(&json!({}))]);
    vm.answer(true);
    assert_eq!(ids(&vm), ["ANNOUNCED", "APPROVED"]);
}
