//! `--approve.drain`: the event counts as due between the decision and the approval, so that `/-/serving` fails first.

use std::time::Duration;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, time::Timestamp};
use serde_json::{Value, json};

use super::{APPROVED, DRY_RUN, RESTART, user_events};
use crate::support::{
    FakeImds, Reply,
    exporter::{Exporter, settings},
    simulated_vm::{SimulatedVm, at, restart, started},
};

fn drain(seconds: u64) -> ApprovalPolicy {
    ApprovalPolicy {
        drain: Duration::from_secs(seconds),
        ..user_events()
    }
}

fn scheduled() -> Value {
    restart(&json!({}))
}

#[test]
fn an_event_counts_as_due_between_the_decision_and_the_approval() {
    let mut vm = SimulatedVm::new(drain(30));
    vm.poll(&[scheduled()]);
    assert_eq!(
        vm.serving(),
        (
            false,
            "not serving: Reboot is about to be approved".to_owned()
        )
    );
    assert_eq!(vm.decision(), "draining");
    assert_eq!(vm.json()["approval"]["at"], at(30).rfc3339_millis());
    assert!(vm.page().contains("Approval is sent in"), "{}", vm.page());
    vm.wait_until(29);
    vm.poll(&[scheduled()]);
    assert!(vm.requested.is_empty(), "it drains for 30 s");
    vm.wait_until(30);
    vm.poll(&[scheduled()]);
    assert_eq!(vm.requested.len(), 1);
    assert_eq!(vm.decision(), "sent");
    assert!(!vm.is_serving());
    vm.answer(true);
    vm.wait_until(40);
    vm.poll(&[started()]);
    assert_eq!(vm.serving().1, "not serving: Reboot has started");
    let event = vm.json();
    for (member, seconds) in [
        ("approval_decided_at", 0),
        ("approval_sent_at", 30),
        ("approved_at", 30),
        ("started_at", 40),
    ] {
        assert_eq!(event[member], at(seconds).rfc3339_millis(), "{member}");
    }
    let page = vm.page();
    for change in [
        "Approval decided",
        "Approval sent",
        "Approved by this exporter",
    ] {
        assert!(page.contains(change), "{change} in {page}");
    }
    vm.wait_until(100);
    vm.poll(&[]);
    assert!(vm.is_serving());
    assert_eq!(
        vm.logged(),
        [
            "announced",
            "draining",
            "sent",
            "approved",
            "started",
            "ended"
        ]
    );
    let spans = vm.spans();
    let whole = spans.last().unwrap();
    let events: Vec<_> = whole.events.iter().map(|event| &*event.name).collect();
    assert_eq!(events, ["approval_decided", "approval_sent", "approved"]);
}

#[test]
fn an_approved_event_may_start_at_any_moment() {
    let mut vm = SimulatedVm::new(user_events());
    vm.poll(&[scheduled()]);
    vm.answer(true);
    vm.wait_until(10);
    vm.poll(&[scheduled()]);
    assert_eq!(
        vm.serving(),
        (
            false,
            "not serving: Reboot is approved and may start at any moment".to_owned()
        )
    );
    let page = vm.page();
    assert!(
        page.contains("Approved: may start") && page.contains("<title>Reboot may start now"),
        "{page}"
    );
    assert!(!page.contains("Earliest start in"), "{page}");
}

#[test]
fn an_approved_event_that_does_not_interrupt_this_vm_does_not_count_as_due() {
    for (is_ours, members) in [
        (true, json!({"EventType": "Freeze", "DurationInSeconds": 0})),
        (false, json!({"Resources": ["web_9"]})),
    ] {
        let mut vm = SimulatedVm::new(drain(30));
        vm.poll(&[restart(&members)]);
        assert_eq!(vm.decision() == "draining", is_ours, "{members}");
        assert!(vm.is_serving(), "{members}");
    }
}

#[test]
fn a_step_of_the_wall_clock_neither_shortens_nor_prolongs_the_drain() {
    for wall in [at(8 * 60), Timestamp::UNIX_EPOCH] {
        let mut vm = SimulatedVm::new(drain(30));
        vm.poll(&[scheduled()]);
        vm.set_wall_clock(wall);
        vm.wait_until(29);
        vm.poll(&[scheduled()]);
        assert!(vm.requested.is_empty(), "{wall:?}");
        vm.wait_until(30);
        vm.poll(&[scheduled()]);
        assert_eq!(vm.requested.len(), 1, "{wall:?}");
    }
}

#[test]
fn a_drain_ends_without_an_approval_when_the_event_is_no_longer_approved() {
    for (events, is_serving, decision) in [
        (vec![started()], false, "approved_elsewhere"),
        (vec![], true, ""),
        (
            vec![restart(&json!({"Resources": ["web_1"]}))],
            true,
            "other_vm",
        ),
        (
            vec![restart(&json!({"EventType": "Terminate"}))],
            true,
            "contradictory",
        ),
        (
            vec![restart(&json!({"EventSource": "Platform"}))],
            true,
            "contradictory",
        ),
    ] {
        let mut vm = SimulatedVm::new(drain(30));
        vm.poll(&[scheduled()]);
        vm.wait_until(25);
        vm.poll(&events);
        assert_eq!(vm.is_serving(), is_serving, "{events:?}");
        assert_eq!(vm.decision(), decision, "{events:?}");
        vm.wait_until(60);
        vm.poll(&events);
        assert!(vm.requested.is_empty(), "{events:?}");
    }
}

#[test]
fn not_before_ends_the_drain_without_an_approval() {
    let scheduled = restart(&json!({"NotBefore": at(20).rfc1123()}));
    let mut vm = SimulatedVm::new(drain(30));
    for (seconds, decision) in [
        (0, "draining"),
        (20, "not_before_passed"),
        (60, "not_before_passed"),
    ] {
        vm.wait_until(seconds);
        vm.poll(std::slice::from_ref(&scheduled));
        assert_eq!(vm.decision(), decision, "{seconds}");
        assert!(!vm.is_serving(), "{seconds}");
    }
    assert!(vm.requested.is_empty());
}

#[test]
fn an_event_that_is_approved_again_drains_again() {
    let mut vm = SimulatedVm::new(drain(30));
    vm.poll(&[scheduled()]);
    vm.wait_until(20);
    vm.poll(&[restart(&json!({"Resources": null}))]);
    assert_eq!(vm.decision(), "resources_unknown");
    vm.wait_until(40);
    vm.poll(&[scheduled()]);
    assert_eq!(vm.decision(), "draining");
    vm.wait_until(69);
    vm.poll(&[scheduled()]);
    assert!(vm.requested.is_empty());
    vm.wait_until(70);
    vm.poll(&[scheduled()]);
    assert_eq!(vm.requested.len(), 1);
}

#[test]
fn a_drain_goes_on_over_a_restart() {
    let mut vm = SimulatedVm::new(drain(90));
    vm.poll(&[scheduled()]);
    vm.wait_until(20);
    vm.poll(&[scheduled()]);
    vm.restart_process(Duration::from_mins(1));
    assert!(!vm.is_serving(), "before the first poll of the new process");
    vm.poll(&[scheduled()]);
    assert_eq!(vm.decision(), "draining");
    vm.wait_until(9);
    vm.poll(&[scheduled()]);
    assert!(vm.requested.is_empty(), "it drains for 90 s in all");
    vm.wait_until(10);
    vm.poll(&[scheduled()]);
    assert_eq!(vm.requested.len(), 1);
    vm.restart_process(Duration::from_secs(1));
    for seconds in [0, 30, 60] {
        vm.wait_until(seconds);
        vm.poll(&[scheduled()]);
        assert_eq!(vm.decision(), "result_unknown");
        assert_eq!(
            vm.serving().1,
            "not serving: Reboot may be approved and start at any moment"
        );
        assert!(vm.page().contains("<title>Reboot may start now"));
    }
    assert!(vm.requested.is_empty(), "it was sent before the restart");
}

#[test]
fn a_restart_in_a_drain_keeps_the_vm_drained_while_its_name_is_unknown() {
    let mut vm = SimulatedVm::unnamed(drain(30));
    vm.identify();
    vm.poll(&[scheduled()]);
    assert_eq!(vm.decision(), "draining");
    vm.restart_process(Duration::from_secs(5));
    let reason = "not serving: Reboot is about to be approved";
    assert_eq!(vm.serving().1, reason);
    vm.poll(&[scheduled()]);
    assert_eq!(vm.decision(), "identity_unknown");
    assert_eq!(vm.serving().1, reason);
    let page = vm.page();
    assert!(page.contains("About to be approved: may start"), "{page}");
    vm.identify();
    assert_eq!(vm.decision(), "draining");
    assert_eq!(vm.serving().1, reason);
}

#[test]
fn the_page_shows_no_countdown_to_not_before_while_an_approval_is_imminent() {
    let mut refused = SimulatedVm::new(drain(30));
    refused.poll(&[scheduled()]);
    refused.wait_until(30);
    refused.poll(&[scheduled()]);
    refused.answer(false);
    let mut backup = SimulatedVm::new(drain(30));
    backup.poll(&[restart(&json!({"Resources": ["web_1", "web_0"]}))]);
    for (vm, decision, label) in [
        (&refused, "failed", "Approval is retried in"),
        (&backup, "waiting", "web_1 may approve it at"),
    ] {
        assert_eq!(vm.decision(), decision);
        let page = vm.page();
        assert!(page.contains("<title>Reboot may start soon"), "{page}");
        assert!(page.contains(label), "{page}");
        assert!(!page.contains("Earliest start in"), "{page}");
    }
}

#[test]
fn the_page_shows_an_event_that_is_about_to_be_approved_before_an_earlier_one() {
    let mut vm = SimulatedVm::new(drain(30));
    let earlier = restart(&json!({
        "EventId": "0A1E04C9-52DA-4F6E-9C38-A40D7E91B265",
        "EventType": "Redeploy",
        "EventSource": "Platform",
        "NotBefore": at(600).rfc1123(),
    }));
    vm.poll(&[earlier, scheduled()]);
    let page = vm.page();
    assert!(page.contains("<title>Reboot may start soon"), "{page}");
}

#[test]
fn the_trace_shows_a_drain_that_not_before_ended() {
    let scheduled = restart(&json!({"NotBefore": at(20).rfc1123()}));
    let mut vm = SimulatedVm::new(drain(30));
    vm.poll(std::slice::from_ref(&scheduled));
    vm.wait_until(20);
    vm.poll(std::slice::from_ref(&scheduled));
    assert_eq!(vm.serving().1, "not serving: Reboot is due");
    assert!(vm.page().contains("<title>Reboot may start now"));
    vm.wait_until(21);
    vm.poll(&[started()]);
    vm.wait_until(60);
    vm.poll(&[]);
    let spans = vm.spans();
    let whole = spans.last().unwrap();
    let events: Vec<_> = whole.events.iter().map(|event| &*event.name).collect();
    assert_eq!(events, ["approval_decided"]);
}

#[test]
fn the_trace_shows_a_drain_of_an_approval_that_failed_too_often() {
    let scheduled = restart(&json!({"NotBefore": at(7_200).rfc1123()}));
    let mut vm = SimulatedVm::new(drain(30));
    vm.poll(std::slice::from_ref(&scheduled));
    let mut seconds = 30;
    while vm.decision() != "gave_up" {
        assert!(seconds < 3_600 && !vm.is_serving(), "after {seconds} s");
        vm.wait_until(seconds);
        vm.poll(std::slice::from_ref(&scheduled));
        vm.answer(false);
        seconds += 60;
    }
    let withdrawn_at = at(seconds - 60);
    assert!(vm.is_serving());
    assert_eq!(vm.json()["approval_decided_at"], Value::Null);
    let page = vm.page();
    assert!(page.contains("Decision to approve withdrawn"), "{page}");
    vm.wait_until(3_600);
    vm.poll(&[]);
    let spans = vm.spans();
    let whole = spans.last().unwrap();
    let time = |name: &str| {
        let event = whole.events.iter().find(|event| event.name == name);
        event.map(|event| event.timestamp)
    };
    assert_eq!(time("approval_decided"), Some(at(0).into()));
    assert_eq!(time("approval_withdrawn"), Some(withdrawn_at.into()));
}

#[test]
fn a_dry_run_drains_nothing() {
    let mut vm = SimulatedVm::new(ApprovalPolicy {
        dry_run: true,
        ..drain(30)
    });
    vm.poll(&[scheduled()]);
    assert_eq!(vm.decision(), "dry_run");
    assert!(vm.is_serving());
    vm.poll(&[scheduled()]);
    assert!(vm.requested.is_empty());
    assert_eq!(vm.logged(), ["announced", "dry_run"]);
    assert_eq!(vm.metrics().value(DRY_RUN), Some(1.0));
}

/// The first VM may approve the event at any moment after its own drain.
#[test]
fn a_vm_that_waits_for_the_first_one_drains_at_once_and_again_before_its_own_approval() {
    let scheduled = restart(&json!({"Resources": ["web_1", "web_0"]}));
    for (drained, is_serving, sent_after) in [(0, true, 60), (30, false, 90)] {
        let mut vm = SimulatedVm::new(drain(drained));
        vm.poll(std::slice::from_ref(&scheduled));
        assert_eq!(vm.decision(), "waiting");
        assert_eq!(vm.is_serving(), is_serving, "{drained}");
        if drained > 0 {
            for seconds in [60, sent_after - 1] {
                vm.wait_until(seconds);
                vm.poll(std::slice::from_ref(&scheduled));
                assert!(vm.requested.is_empty(), "{drained} {seconds}");
            }
        }
        vm.wait_until(sent_after);
        vm.poll(std::slice::from_ref(&scheduled));
        assert_eq!(vm.requested.len(), 1, "{drained}");
    }
}

#[test]
fn a_refused_approval_keeps_a_drained_vm_drained_until_the_retry() {
    for (drained, is_serving) in [(0, true), (30, false)] {
        let mut vm = SimulatedVm::new(drain(drained));
        vm.poll(&[scheduled()]);
        vm.wait_until(drained + 1);
        vm.poll(&[scheduled()]);
        vm.answer(false);
        assert_eq!(vm.decision(), "failed");
        assert_eq!(vm.is_serving(), is_serving, "{drained}");
        vm.wait_until(drained + 61);
        vm.poll(&[scheduled()]);
        assert_eq!(vm.requested.len(), 1, "the retry is not drained again");
    }
}

#[tokio::test]
async fn the_whole_exporter_fails_its_probe_before_it_sends_the_approval() {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    imds.approvals(Reply::ok(""));
    let mut settings = settings(&imds.base());
    settings.approvals = drain(5);
    // Without the end of the drain, the next poll would be an hour later.
    settings.interval = Duration::from_hours(1);
    let exporter = Exporter::start(settings);
    imds.until_requests(1).await;
    loop {
        let (status, reason) = exporter.get("/-/serving").await;
        let sent = imds.posts();
        if status == 503 {
            assert_eq!(sent, 0, "{reason}");
            break;
        }
        assert_eq!(sent, 0, "{reason}");
    }
    exporter
        .until("it is approved", |it| it.value(APPROVED) == Some(1.0))
        .await;
    assert_eq!((imds.posts(), imds.event_requests()), (1, 3));
    let (status, reason) = exporter.get("/-/serving").await;
    assert_eq!(status, 503, "{reason}");
    exporter.stop().await;
}
