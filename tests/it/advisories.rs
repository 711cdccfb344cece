//! Advisories through the engine: what they must not cause.

use std::time::Duration;

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use crate::support::{
    log::LogLine,
    simulated_vm::{ID, SimulatedVm, restart},
};

/// A VM that approves whatever it may.
fn vm() -> SimulatedVm {
    SimulatedVm::new(ApprovalPolicy {
        user_events: true,
        freeze_below: Some(Duration::from_secs(9)),
        ..ApprovalPolicy::default()
    })
}

/// A freeze that the policy approves unless it is an advisory.
fn freeze(status: &str) -> Value {
    restart(&json!({"EventType": "Freeze", "EventStatus": status, "DurationInSeconds": 5}))
}

/// Whether a document with this event is saved.
fn saves(vm: &mut SimulatedVm, status: &str, seconds: u64) -> bool {
    let before = vm.saves;
    vm.wait_until(seconds);
    vm.poll(&[freeze(status)]);
    vm.saves > before
}

#[test]
fn advisory_needs_no_heartbeat_and_no_save_while_nothing_changes() {
    let mut vm = vm();
    vm.poll(&[]);
    assert!(saves(&mut vm, "Advisory", 10));
    assert!(!vm.looks_for_pauses());
    assert!(!saves(&mut vm, "Advisory", 20));
    assert!(saves(&mut vm, "Scheduled", 30));
    assert!(vm.looks_for_pauses());
    assert!(saves(&mut vm, "Scheduled", 40));
}

#[test]
fn advisory_is_never_approved_and_the_maintenance_that_it_becomes_is() {
    let mut vm = vm();
    vm.poll(&[]);
    for seconds in [10, 600] {
        vm.wait_until(seconds);
        vm.poll(&[freeze("Advisory")]);
        assert!(vm.requested.is_empty());
    }
    assert_eq!(vm.logged(), ["announced"]);
    vm.wait_until(610);
    vm.poll(&[freeze("Scheduled")]);
    assert_eq!(vm.logged(), ["announced", "ended", "announced", "sent"]);
    assert_eq!(vm.requested.len(), 1);
}

#[test]
fn advisory_has_no_interruption_of_another_event() {
    let mut advisory = freeze("Advisory");
    advisory["EventId"] = json!("A");
    let mut vm = vm();
    vm.poll(&[freeze("Started"), advisory]);
    for seconds in [1, 8] {
        vm.wait_until(seconds);
        vm.tick();
    }
    let is_interruption = |line: &&LogLine| line.name == "INTERRUPTED";
    let interrupted = vm.log.iter().filter(is_interruption);
    let interrupted: Vec<_> = interrupted.map(|line| line.field("event_id")).collect();
    assert_eq!(interrupted, [Some(ID)]);
}
