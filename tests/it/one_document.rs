//! Several changes of an event in one document: each is told once.

use std::{collections::HashSet, time::Duration};

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use crate::support::simulated_vm::{SimulatedVm, restart};

fn vm() -> SimulatedVm {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify();
    vm.poll(&[]);
    vm
}

/// The names of the spans; each has an id of its own.
fn spans(vm: &SimulatedVm) -> Vec<String> {
    let spans = vm.spans();
    let ids: HashSet<_> = spans.iter().map(|it| it.span_context.span_id()).collect();
    assert_eq!(ids.len(), spans.len(), "{spans:?}");
    assert!(
        spans.iter().all(|it| it.name.ends_with("announced")
            || it.end_time.duration_since(it.start_time).unwrap() >= Duration::from_secs(1)),
        "{spans:?}"
    );
    let names = spans.iter();
    names
        .map(|it| it.name.trim_start_matches("scheduled_event ").to_owned())
        .collect()
}

/// The names of the log records.
fn records(vm: &SimulatedVm) -> Vec<String> {
    let records = vm.log_records();
    let name = |it: &opentelemetry_sdk::logs::SdkLogRecord| {
        let name = it.event_name().unwrap();
        name.trim_start_matches("azure.scheduled_event.").to_owned()
    };
    records.iter().map(name).collect()
}

/// What `watch` prints.
fn transitions(vm: &SimulatedVm) -> Vec<String> {
    let (_, body) = vm.get("/api/v1/transitions?after=0");
    let body: Value = serde_json::from_str(&body).unwrap();
    let transitions = body["transitions"].as_array().unwrap().iter();
    transitions
        .filter(|it| it["event"]["scope"] == "self" || it["was_scope"] == "self")
        .map(|it| {
            let is_new = it["transition"] == "changed" && it["event"]["scope"] == "self";
            let name = if is_new && !it["was_scope"].is_null() {
                json!("announced")
            } else {
                it["transition"].clone()
            };
            name.as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn an_event_that_names_this_vm_when_it_starts_has_each_span_once() {
    let mut vm = vm();
    vm.poll(&[restart(&json!({"Resources": ["web_1"]}))]);
    vm.wait_until(60);
    vm.poll(&[restart(
        &json!({"Resources": ["web_0"], "EventStatus": "Started", "NotBefore": ""}),
    )]);
    vm.wait_until(120);
    vm.poll(&[]);
    let expected = ["announced", "notice", "impact", "Reboot"];
    assert_eq!(spans(&vm), expected);
    let expected = ["announced", "approved_elsewhere", "started", "ended"];
    assert_eq!(records(&vm), expected);
    assert_eq!(transitions(&vm), ["announced", "started", "ended"]);
}

#[test]
fn an_event_that_leaves_this_vm_when_it_starts_has_a_notice_and_no_impact() {
    let mut vm = vm();
    vm.poll(&[restart(&json!({}))]);
    vm.wait_until(60);
    vm.poll(&[restart(
        &json!({"Resources": ["web_1"], "EventStatus": "Started", "NotBefore": ""}),
    )]);
    assert_eq!(spans(&vm), ["announced", "notice", "Reboot"]);
}

#[test]
fn an_event_that_comes_back_and_names_this_vm_is_announced_once() {
    let mut vm = vm();
    vm.poll(&[restart(&json!({"Resources": ["web_1"]}))]);
    vm.wait_until(60);
    vm.poll(&[]);
    vm.wait_until(120);
    vm.poll(&[restart(&json!({}))]);
    assert_eq!(spans(&vm), ["announced"]);
    assert_eq!(records(&vm), ["announced"]);
    assert_eq!(transitions(&vm), ["announced"]);
}
