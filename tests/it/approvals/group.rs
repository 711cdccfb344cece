//! `--approve.for=group`: events that a user requested for other VMs.

use std::time::Duration;

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use super::group;
use crate::support::{
    process::Process,
    simulated_vm::{SimulatedVm, at, restart, timeout},
};

/// Names another VM than this one.
fn other(members: &Value) -> Value {
    let mut event = restart(members);
    event["Resources"] = json!(["web_1"]);
    event
}

fn scheduled() -> [Value; 1] {
    [other(&json!({}))]
}

#[test]
fn another_vm_is_given_the_delay_to_approve_its_event_and_this_vm_is_not_drained() {
    let mut vm = SimulatedVm::new(ApprovalPolicy {
        drain: Duration::from_secs(30),
        ..group()
    });
    vm.poll(&scheduled());
    assert_eq!(vm.decision(), "waiting");
    let approval = vm.json()["approval"].clone();
    assert_eq!(approval["at"], at(60).rfc3339_millis());
    assert_eq!(approval["reason"], "group_event");
    let message = "web_1 is its first resource and approves it; this VM does if it is still Scheduled at the given time: \
                   a user requested it (--approve.user-events, --approve.for=group)";
    assert_eq!(approval["message"], message);
    assert_eq!(vm.json()["approval_decided_at"], Value::Null);
    assert!(vm.page().contains(message), "{}", vm.page());
    vm.wait_until(59);
    vm.poll(&scheduled());
    assert!(vm.requested.is_empty());
    vm.wait_until(60);
    vm.poll(&scheduled());
    assert_eq!(vm.requested.len(), 1);
    assert_eq!(vm.decision(), "sent");
}

#[test]
fn nothing_about_an_event_of_another_vm_fails_the_probe_of_this_one() {
    let mut vm = SimulatedVm::new(ApprovalPolicy {
        delay: Duration::ZERO,
        ..group()
    });
    let started = [other(&json!({"EventStatus": "Started", "NotBefore": ""}))];
    vm.poll(&scheduled());
    assert_eq!(vm.decision(), "sent");
    assert!(vm.is_serving());
    vm.end_approval(Err(timeout()));
    assert_eq!(vm.decision(), "failed");
    assert!(vm.is_serving());
    vm.wait_until(30);
    vm.poll(&scheduled());
    vm.answer(true);
    assert_eq!(vm.decision(), "approved");
    assert!(vm.is_serving());
    vm.poll(&started);
    assert!(vm.is_serving());
}

#[test]
fn an_event_that_no_longer_names_this_vm_ends_the_drain_and_waits_for_the_other_one() {
    let mut vm = SimulatedVm::new(ApprovalPolicy {
        drain: Duration::from_secs(30),
        ..group()
    });
    vm.poll(&[restart(&json!({}))]);
    assert_eq!(vm.decision(), "draining");
    vm.wait_until(25);
    vm.poll(&scheduled());
    assert_eq!(vm.decision(), "waiting");
    assert_eq!(vm.json()["approval_decided_at"], Value::Null);
    assert!(vm.is_serving());
}

#[test]
fn an_event_of_another_vm_is_approved_once_also_by_the_next_process() {
    let mut vm = SimulatedVm::new(group());
    vm.poll(&scheduled());
    vm.wait_until(60);
    vm.poll(&scheduled());
    vm.restart_process(Duration::from_secs(1));
    vm.poll(&scheduled());
    assert_eq!(vm.decision(), "result_unknown");
    assert!(vm.is_serving());
    vm.wait_until(120);
    vm.poll(&scheduled());
    assert!(vm.requested.is_empty());
}

/// Otherwise the event could be one of this VM.
#[test]
fn events_of_other_vms_are_not_approved_before_the_name_of_this_vm_is_certain() {
    let mut vm = SimulatedVm::unnamed(ApprovalPolicy {
        delay: Duration::ZERO,
        ..group()
    });
    vm.poll(&scheduled());
    assert_eq!(vm.decision(), "identity_unknown");
    vm.identify();
    vm.poll(&scheduled());
    assert_eq!(vm.requested.len(), 1);
}

#[tokio::test]
async fn the_first_log_line_has_the_policy() {
    let mut exporter = Process::start([
        "--web.listen-address=127.0.0.1:0",
        "--imds.url=http://127.0.0.1:9",
        "--approve.user-events",
        "--approve.for=group",
    ]);
    let line = exporter.says("message=starting").await;
    let policy = r#"approvals="user events for the group, delay 60s""#;
    assert!(line.contains(policy), "{line}");
}
