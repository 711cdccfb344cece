//! Approvals that this exporter did not send: a document shows them by a start before `NotBefore`, or by a `NotBefore`
//! that moves to about now.

use azure_scheduled_events_exporter::{RequestError, approval::ApprovalPolicy, time::Timestamp};
use serde_json::{Value, json};

use super::user_events;
use crate::support::simulated_vm::{SimulatedVm, at, error, refusal, restart, started, timeout};

/// Approvals are off.
fn vm() -> SimulatedVm {
    SimulatedVm::new(ApprovalPolicy::default())
}

fn scheduled(not_before: Timestamp) -> Value {
    restart(&json!({"NotBefore": not_before.rfc1123()}))
}

#[test]
fn a_start_before_not_before_shows_an_approval_elsewhere() {
    let mut vm = vm();
    vm.poll(&[scheduled(at(900))]);
    vm.wait_until(100);
    vm.poll(&[started()]);
    assert_eq!(
        vm.logged(),
        ["announced", "withheld", "approved elsewhere", "started"]
    );
    let event = vm.json();
    assert_eq!(event["approval"]["decision"], "approved_elsewhere");
    assert_eq!(event["approved_elsewhere_at"], at(100).rfc3339_millis());
    assert_eq!(event["approved_at"], Value::Null);
    let page = vm.page();
    assert!(page.contains("Approved, not by this exporter"), "{page}");
    vm.poll(&[]);
    let spans = vm.spans();
    let whole = spans.last().unwrap();
    let events: Vec<_> = whole.events.iter().map(|event| &*event.name).collect();
    assert_eq!(events, ["approved_elsewhere"]);
}

#[test]
fn a_not_before_that_moves_to_about_now_shows_an_approval_elsewhere() {
    for to in [at(60), at(100), at(109)] {
        let mut vm = vm();
        vm.poll(&[scheduled(at(900))]);
        vm.wait_until(100);
        vm.poll(&[scheduled(to)]);
        assert_eq!(vm.decision(), "approved_elsewhere", "{to:?}");
        assert_eq!(
            vm.serving().1,
            "not serving: Reboot is approved and may start at any moment"
        );
        assert!(vm.page().contains("Approved: may start"), "{}", vm.page());
    }
}

/// An approved event does not start later than it was announced to.
#[test]
fn a_later_not_before_disproves_an_approval_elsewhere() {
    let mut vm = SimulatedVm::new(user_events());
    let behind = |not_before: Timestamp| {
        restart(&json!({"Resources": ["web_1", "web_0"], "NotBefore": not_before.rfc1123()}))
    };
    vm.poll(&[behind(at(900))]);
    vm.wait_until(50);
    vm.poll(&[behind(at(59))]);
    assert_eq!(vm.decision(), "approved_elsewhere");
    assert!(!vm.is_serving());
    vm.wait_until(58);
    assert!(vm.requested.is_empty());
    vm.poll(&[behind(at(1_800))]);
    assert_eq!(vm.decision(), "waiting");
    assert!(vm.is_serving());
    vm.poll(&[]);
    assert_eq!(vm.json()["outcome"], "cancelled");
}

#[test]
fn other_changes_show_no_approval() {
    let preempt = |status: &str| json!({"EventType": "Preempt", "EventStatus": status});
    for (what, before, seconds, after) in [
        ("on time", scheduled(at(900)), 900, started()),
        (
            "10 s early by another clock",
            scheduled(at(900)),
            891,
            started(),
        ),
        ("moved", scheduled(at(900)), 100, scheduled(at(300))),
        (
            "moved to later",
            scheduled(at(300)),
            310,
            scheduled(at(900)),
        ),
        (
            "no time",
            restart(&json!({"NotBefore": ""})),
            100,
            started(),
        ),
        (
            "an eviction",
            restart(&preempt("Scheduled")),
            100,
            restart(&preempt("Started")),
        ),
        (
            "an unknown status",
            scheduled(at(900)),
            100,
            restart(&json!({"EventStatus": "Paused"})),
        ),
    ] {
        let mut vm = vm();
        vm.poll(&[before]);
        vm.wait_until(seconds);
        vm.poll(&[after]);
        assert_eq!(vm.json()["approved_elsewhere_at"], Value::Null, "{what}");
    }
}

#[test]
fn a_contradictory_document_shows_no_approval() {
    let mut vm = vm();
    vm.poll(&[scheduled(at(900))]);
    vm.wait_until(100);
    vm.poll(&[scheduled(at(100)), scheduled(at(900))]);
    assert_eq!(vm.json()["approved_elsewhere_at"], Value::Null);
}

#[test]
fn a_start_after_the_wall_clock_was_set_back_shows_no_approval() {
    let mut vm = vm();
    vm.poll(&[scheduled(at(900))]);
    vm.wait_until(905);
    vm.set_wall_clock(at(5));
    vm.poll(&[started()]);
    assert_eq!(vm.json()["approved_elsewhere_at"], Value::Null);
}

#[test]
fn a_start_after_an_approval_by_this_vm_is_its_own() {
    // A request without an answer may have been accepted.
    for result in [Ok(()), Err(timeout()), Err(error())] {
        let mut vm = SimulatedVm::new(user_events());
        vm.poll(&[scheduled(at(900))]);
        vm.end_approval(result.clone());
        vm.wait_until(100);
        vm.poll(&[started()]);
        assert_eq!(
            vm.json()["approved_elsewhere_at"],
            Value::Null,
            "{result:?}"
        );
    }
}

#[test]
fn a_start_after_a_refused_approval_by_this_vm_was_approved_elsewhere() {
    let unsent = RequestError {
        is_unsent: true,
        ..timeout()
    };
    for refused in [refusal(), unsent] {
        let mut vm = SimulatedVm::new(user_events());
        vm.poll(&[scheduled(at(900))]);
        vm.end_approval(Err(refused.clone()));
        vm.wait_until(50);
        vm.poll(&[started()]);
        let event = vm.json();
        assert_eq!(
            event["approved_elsewhere_at"],
            at(50).rfc3339_millis(),
            "{refused:?}"
        );
        assert_eq!(event["approved_at"], Value::Null);
    }
}
