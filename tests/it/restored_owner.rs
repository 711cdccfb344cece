//! Events of a restored state, until instance metadata show whether the state is that of this VM.

use std::time::Duration;

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::json;

use crate::support::simulated_vm::{SimulatedVm, at, restart, started};

const NOTICE: &str = r#"azure_scheduled_events_notice_seconds_count{event_type="Reboot"}"#;
const DAY: u64 = 24 * 60 * 60;

/// A new process on a VM that had the event; its instance metadata do not answer yet.
fn restarted(away: Duration) -> SimulatedVm {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify_id("a-vm");
    vm.poll(&[]);
    vm.wait_until(600);
    vm.poll(&[restart(&json!({"NotBefore": at(4 * DAY).rfc1123()}))]);
    vm.restart_process(away);
    vm.log.clear();
    vm.emitted.clear();
    vm
}

#[test]
fn transitions_before_the_owner_is_known_are_emitted_once_it_is() {
    let mut vm = restarted(Duration::from_secs(5));
    vm.poll(&[started()]);
    assert!(vm.logged().is_empty(), "{:?}", vm.logged());
    assert!(vm.spans().is_empty());
    assert_eq!(vm.metrics().value(NOTICE), None);
    vm.identify_id("a-vm");
    assert_eq!(vm.logged(), ["approved elsewhere", "started"]);
    let spans = vm.spans();
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["scheduled_event notice"]);
    assert_eq!(vm.metrics().value(NOTICE), Some(1.0));
    vm.poll(&[]);
    assert_eq!(vm.logged(), ["approved elsewhere", "started", "ended"]);
}

#[test]
fn transitions_of_events_of_another_vm_are_not_emitted() {
    let mut vm = restarted(Duration::from_secs(5));
    vm.poll(&[started()]);
    vm.identify_id("another-vm");
    assert!(vm.logged().is_empty(), "{:?}", vm.logged());
    assert!(vm.spans().is_empty());
    assert_eq!(vm.metrics().value(NOTICE), None);
    assert_eq!(vm.whole_json()["events"], json!([]));
}

/// The state is that of another VM, which knew an event of this one.
#[test]
fn events_that_another_vm_knew_of_this_one_are_not_emitted() {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify_id("another-vm");
    vm.poll(&[restart(&json!({"Resources": ["web_1"]}))]);
    vm.restart_process_as("web_1", Duration::from_secs(5));
    vm.poll(&[]);
    vm.identify_id("a-vm");
    vm.poll(&[]);
    assert!(vm.spans().is_empty(), "{:?}", vm.spans());
}

/// The feature was disabled for a day: an event that was announced days ahead may not have appeared again.
#[test]
fn a_late_identity_does_not_shorten_the_first_minutes() {
    let mut vm = restarted(Duration::from_hours(25));
    vm.poll(&[]);
    vm.identify_id("a-vm");
    for seconds in [1, 299] {
        vm.wait_until(seconds);
        vm.poll_unchanged();
        assert_eq!(vm.json()["phase"], "scheduled", "{seconds}");
    }
    vm.wait_until(300);
    vm.poll_unchanged();
    assert_eq!(vm.json()["outcome"], "unknown");
}

/// It would otherwise take the VM out of the load balancer as long as instance metadata do not answer.
#[test]
fn an_event_that_no_document_lists_does_not_fail_the_probe_while_its_owner_is_unknown() {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify_id("a-vm");
    vm.poll(&[started()]);
    vm.restart_process(Duration::from_mins(2));
    assert!(!vm.is_serving(), "no document has shown its end");
    vm.poll(&[]);
    assert!(vm.is_serving());
    assert_eq!(vm.whole_json()["events"], json!([]));
    vm.poll(&[started()]);
    assert!(!vm.is_serving());
}

/// Some of its VMs cannot be read, and this VM is not among the others.
#[test]
fn an_own_event_with_partly_unreadable_resources_stays_its_own_across_a_restart() {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify_id("a-vm");
    vm.poll(&[started()]);
    let partly = restart(&json!({"EventStatus": "Started", "Resources": ["web_7", null]}));
    vm.poll(std::slice::from_ref(&partly));
    assert_eq!(vm.json()["scope"], "self");
    vm.restart_process(Duration::from_secs(5));
    assert_eq!(vm.json()["scope"], "self");
    vm.poll(&[partly]);
    vm.identify_id("a-vm");
    assert_eq!(vm.json()["scope"], "self");
    assert!(!vm.is_serving());
}

#[test]
fn event_whose_owner_stays_unknown_is_not_shown_while_it_is_missing_and_ends_after_five_minutes() {
    let mut vm = restarted(Duration::from_secs(5));
    vm.poll(&[]);
    assert_eq!(vm.whole_json()["events"], json!([]));
    let pending = r#"azure_scheduled_events_pending{event_type="Reboot",scope="self"}"#;
    assert!(
        vm.metrics()
            .value(pending)
            .is_none_or(|pending| pending < 1.0)
    );
    assert!(vm.is_serving());
    vm.wait_until(299);
    vm.poll_unchanged();
    assert!(!vm.logged().contains(&"ended".to_owned()));
    vm.wait_until(300);
    vm.poll_unchanged();
    assert!(vm.logged().contains(&"ended".to_owned()));
    assert_eq!(vm.json()["outcome"], "unknown");
}
