//! `--approve.drain`: the event counts as due between the decision and the approval, so that `/-/serving` fails first.

use std::time::Duration;

use azure_scheduled_events_exporter::approval::ApprovalPolicy;
use serde_json::{Value, json};

use super::{APPROVED, RESTART, user_events};
use crate::support::{
    FakeImds, Reply,
    exporter::{Exporter, settings},
    simulated_vm::{SimulatedVm, at, restart},
};

fn drain(seconds: u64) -> ApprovalPolicy {
    ApprovalPolicy {
        drain: Duration::from_secs(seconds),
        ..user_events()
    }
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
