//! Events of a restored state, until instance metadata show whether the state is that of this VM.

use std::time::Duration;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, engine::Input};
use serde_json::json;

use crate::support::simulated_vm::{SimulatedVm, at, restart, started, timeout};

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
fn restored_events_go_on_before_the_owner_is_known_and_are_not_sent_until_then() {
    let mut vm = restarted(Duration::from_secs(5));
    vm.poll(&[started()]);
    assert_eq!(vm.logged(), ["approved elsewhere", "started"]);
    assert_eq!(vm.metrics().value(NOTICE), Some(1.0));
    assert!(vm.emitted.iter().all(|(entry, _)| entry.may_be_foreign));
    assert!(!vm.published.journal.is_owned);
    vm.identify_id("a-vm");
    assert!(vm.published.journal.is_owned);
    let spans = vm.spans();
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["scheduled_event notice"]);
    vm.poll(&[]);
    assert_eq!(vm.logged(), ["approved elsewhere", "started", "ended"]);
}

#[test]
fn what_was_restored_of_another_vm_leaves_the_events_and_the_journal() {
    let mut vm = restarted(Duration::from_secs(5));
    let other = restart(&json!({"EventId": "other", "NotBefore": at(2 * DAY).rfc1123()}));
    vm.poll(&[started(), other.clone()]);
    let was = vm.published.journal.id.clone();
    vm.identify_id("another-vm");
    let journal = &vm.published.journal;
    assert_ne!(journal.id, was);
    let left = journal.after(0);
    let left = left.map(|it| (it.number, it.transition.tracked.shown.id.as_str()));
    assert_eq!(left.collect::<Vec<_>>(), [(1, "other")]);
    let events = vm.whole_json()["events"].clone();
    assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    // The next document announces what it lists, and only that.
    vm.log.clear();
    vm.poll(&[started(), other]);
    assert_eq!(vm.logged(), ["announced", "started"]);
}

/// The state is that of another VM, which knew an event of this one.
#[test]
fn events_that_another_vm_knew_of_this_one_are_not_sent() {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify_id("another-vm");
    vm.poll(&[restart(&json!({"Resources": ["web_1"]}))]);
    vm.restart_process_as("web_1", Duration::from_secs(5));
    vm.poll(&[]);
    assert!(vm.emitted.iter().all(|(entry, _)| entry.may_be_foreign));
    vm.identify_id("a-vm");
    vm.poll(&[]);
    assert_eq!(vm.published.journal.after(0).count(), 0);
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
fn a_restored_event_that_a_document_lacks_has_ended_although_the_owner_is_unknown() {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify_id("a-vm");
    vm.poll(&[started()]);
    vm.restart_process(Duration::from_mins(2));
    assert!(!vm.is_serving(), "no document has shown its end");
    vm.poll(&[]);
    assert!(vm.is_serving());
    assert_eq!(vm.json()["outcome"], "completed");
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

/// The owner of the state becomes known while an event of this VM, which this process has read and approved, is pending.
#[test]
fn what_this_process_has_read_is_neither_announced_nor_approved_again_after_a_foreign_state() {
    let policy = ApprovalPolicy {
        user_events: true,
        ..ApprovalPolicy::default()
    };
    let mut vm = SimulatedVm::new(policy);
    vm.identify_id("another-vm");
    vm.poll(&[]);
    vm.restart_process(Duration::from_secs(5));
    let user_reboot = [restart(&json!({"NotBefore": at(900).rfc1123()}))];
    let (result, took) = (Err(timeout()), Duration::ZERO);
    vm.handle(Input::Identified { result, took });
    vm.poll(&user_reboot);
    assert_eq!(vm.requested.len(), 1);
    vm.answer(true);
    let approved_at = vm.json()["approved_at"].clone();
    assert!(approved_at.is_string());
    vm.identify_id("a-vm");
    assert_eq!(vm.json()["approved_at"], approved_at);
    vm.wait_until(2);
    vm.poll(&user_reboot);
    assert!(vm.requested.is_empty(), "a second approval");
    assert_eq!(vm.json()["approved_at"], approved_at);
    let observed = r#"azure_scheduled_events_observed_total{event_type="Reboot",scope="self"}"#;
    assert_eq!(vm.metrics().value(observed), Some(1.0));
    assert_eq!(
        vm.published.journal.after(0).count(),
        2,
        "announced, approved"
    );
}
