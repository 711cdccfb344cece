//! `--vm.name` and the name in instance metadata.

use std::time::Duration;

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use super::{RESTART, user_events};
use crate::support::{
    FakeImds, Reply,
    process::{Process, page},
    simulated_vm::{SimulatedVm, restart},
};

fn contradictions(vm: &SimulatedVm) -> usize {
    let lines = vm.log.iter();
    lines
        .filter(|line| line.name == "VM_NAME_CONTRADICTION")
        .count()
}

#[test]
fn nothing_is_approved_while_instance_metadata_contradict_the_name_of_the_vm() {
    let mut vm = SimulatedVm::new(user_events());
    vm.identify_as("web_1");
    vm.poll(&[restart(&json!({}))]);
    assert_eq!(vm.decision(), "name_contradiction");
    assert!(vm.requested.is_empty());
    assert_eq!(vm.json()["scope"], "self");
    vm.wait_until(1);
    vm.poll(&[restart(&json!({}))]);
    assert!(vm.requested.is_empty());
    assert_eq!(contradictions(&vm), 1);
}

/// A copied configuration, or the name of the host. Also after a restart, before instance metadata answer.
#[test]
fn an_event_with_either_name_is_that_of_this_vm() {
    let mismatch = "azure_scheduled_events_vm_name_mismatch";
    for (resource, scope) in [("web_0", "self"), ("WEB_1 ", "self"), ("web_2", "other")] {
        let mut vm = SimulatedVm::new(user_events());
        let event = restart(&json!({"Resources": [resource]}));
        vm.poll(std::slice::from_ref(&event));
        assert_eq!(vm.metrics().value(mismatch), None);
        vm.identify_as("web_1");
        assert_eq!(vm.json()["scope"], scope, "{resource}");
        assert_eq!(vm.metrics().value(mismatch), Some(1.0));
        vm.poll(std::slice::from_ref(&event));
        vm.restart_process(Duration::from_secs(5));
        vm.poll(&[event]);
        assert_eq!(vm.json()["scope"], scope, "{resource}");
    }
}

/// Instance metadata answer late.
#[test]
fn a_drain_ends_when_the_name_turns_out_to_be_wrong() {
    let mut vm = SimulatedVm::new(ApprovalPolicy {
        drain: Duration::from_mins(1),
        ..user_events()
    });
    vm.poll(&[restart(&json!({}))]);
    assert_eq!(vm.decision(), "draining");
    assert!(!vm.is_serving());
    vm.identify_as("web_1");
    assert_eq!(vm.decision(), "name_contradiction");
    assert!(vm.is_serving());
    vm.wait_until(61);
    vm.poll(&[restart(&json!({}))]);
    assert!(vm.requested.is_empty());
}

#[test]
fn names_that_differ_in_case_or_by_the_underscore_of_2017_03_01_are_no_contradiction() {
    for name in ["WEB_0", "_web_0"] {
        let mut vm = SimulatedVm::new(user_events());
        vm.identify_as(name);
        vm.poll(&[restart(&json!({}))]);
        assert_eq!(vm.requested.len(), 1, "{name}");
        assert_eq!(contradictions(&vm), 0, "{name}");
        let mismatch = "azure_scheduled_events_vm_name_mismatch";
        assert_eq!(vm.metrics().value(mismatch), Some(0.0), "{name}");
        assert!(!vm.page().contains("name-contradiction"), "{name}");
    }
}

#[tokio::test]
async fn log_page_and_json_name_both_names() {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    let mut exporter = Process::start([
        "--web.listen-address=127.0.0.1:0",
        "--imds.poll-interval=200ms",
        "--vm.name=web_1",
        "--approve.user-events",
        "--approve.delay=0s",
        &format!("--imds.url={}", imds.base()),
    ]);
    let address = exporter.address().await;
    let line = exporter.says("VM name contradicts instance metadata").await;
    for words in [
        "level=warn",
        "vm_name=web_1",
        "metadata_name=web_0",
        "--vm.name",
    ] {
        assert!(line.contains(words), "{line}");
    }
    imds.until_requests(3).await;
    assert_eq!(imds.posts(), 0);
    let shown = page(&address, "/").await.unwrap();
    let expected =
        "--vm.name is <code>web_1</code>, but instance metadata name this VM <code>web_0</code>.";
    assert!(shown.contains(expected), "{shown}");
    let json = page(&address, "/api/v1/events").await.unwrap();
    let vm = serde_json::from_str::<Value>(&json).unwrap()["vm"].clone();
    assert_eq!(
        (&vm["name"], &vm["metadata_name"], &vm["name_mismatch"]),
        (&json!("web_1"), &json!("web_0"), &json!(true))
    );
    let url = format!("--url=http://{address}");
    let mut watch = Process::start(["watch", &url]);
    watch
        .says("differs from the name in instance metadata")
        .await;
    let log = exporter.log();
    assert_eq!(
        log.matches("contradicts instance metadata").count(),
        1,
        "{log}"
    );
}
