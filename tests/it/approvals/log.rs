//! The log lines about decisions.

use std::time::Duration;

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use super::{group, user_events};
use crate::support::{
    log::LogLine,
    simulated_vm::{SimulatedVm, at, restart, started},
};

/// The logged decisions, and the reason of an event that is not approved.
fn decisions(vm: &SimulatedVm) -> Vec<String> {
    let decision = |line: &LogLine| match (line.field("decision")?, line.field("reason")) {
        ("withheld", Some(reason)) => Some(format!("withheld: {reason}")),
        (decision, _) => Some(decision.to_owned()),
    };
    vm.log.iter().filter_map(decision).collect()
}

/// The decisions that are logged when each document has one event, a second after the one before.
fn logged(policy: ApprovalPolicy, events: &[Value]) -> Vec<String> {
    let mut vm = SimulatedVm::new(policy);
    for (seconds, event) in (0..).zip(events) {
        vm.wait_until(seconds);
        vm.poll(std::slice::from_ref(event));
    }
    decisions(&vm)
}

fn other(members: &Value) -> Value {
    let mut event = restart(members);
    event["Resources"] = json!(["web_1"]);
    event
}

#[test]
fn decisions_about_user_events_of_other_vms_are_logged_for_the_group() {
    let terminate = other(&json!({"EventType": "Terminate"}));
    let platform = other(&json!({"EventSource": "Platform"}));
    let user = other(&json!({}));
    let at_once = ApprovalPolicy {
        delay: Duration::ZERO,
        ..group()
    };
    assert_eq!(logged(at_once, std::slice::from_ref(&user)), ["sent"]);
    assert_eq!(logged(group(), std::slice::from_ref(&user)), ["waiting"]);
    let refused = logged(group(), std::slice::from_ref(&terminate));
    assert_eq!(refused, ["withheld: deletion"]);
    assert!(logged(group(), &[platform]).is_empty());
    for event in [user, terminate] {
        assert!(logged(user_events(), &[event]).is_empty());
    }
}

#[test]
fn a_decision_to_approve_that_is_taken_back_is_logged() {
    let drain = ApprovalPolicy {
        drain: Duration::from_secs(30),
        ..user_events()
    };
    let advisory = restart(&json!({"EventStatus": "Advisory"}));
    for (now, reason) in [
        (other(&json!({})), "withheld: other_vm"),
        (advisory, "withheld: advisory"),
        (started(), ""),
    ] {
        let logged = logged(drain, &[restart(&json!({})), now]);
        let expected = ["draining", reason];
        let expected = expected.into_iter().filter(|it| !it.is_empty());
        assert_eq!(logged, expected.collect::<Vec<_>>());
    }
}

#[test]
fn another_reason_not_to_approve_is_logged() {
    let mut vm = SimulatedVm::unnamed(user_events());
    vm.poll(&[restart(&json!({"NotBefore": at(10).rfc1123()}))]);
    vm.wait_until(10);
    vm.identify();
    assert_eq!(
        decisions(&vm),
        ["withheld: identity_unknown", "withheld: not_before_passed"]
    );
}

#[test]
fn without_approvals_only_a_user_event_that_waits_is_logged() {
    let off = ApprovalPolicy::default();
    let paused = restart(&json!({"EventStatus": "Paused"}));
    let scheduled = restart(&json!({}));
    assert_eq!(
        logged(off, &[paused, scheduled]),
        ["withheld: not_scheduled", "withheld: off"]
    );
    for members in [
        json!({"EventSource": "Platform"}),
        json!({"EventSource": "Platform", "EventStatus": "Paused"}),
        json!({"EventStatus": "Advisory"}),
        json!({"EventStatus": "Started"}),
        json!({"Resources": ["web_1"]}),
    ] {
        assert!(logged(off, &[restart(&members)]).is_empty(), "{members}");
    }
}
