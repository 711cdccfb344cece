//! One exporter: one approval per event, also after a restart; retries after a refusal; dry run.

use std::time::Duration;

use serde_json::json;

use super::{APPROVED, FAILED, RESTART, approval, settings_with, user_events};
use crate::support::{
    FakeImds, Reply,
    exporter::{Exporter, Metrics, settings},
    simulated_vm::{SimulatedVm, restart, timeout},
};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;

/// An IMDS that waits for other VMs: the event stays scheduled although it was approved.
async fn slow_host() -> FakeImds {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    imds.approvals(Reply::ok(""));
    imds
}

#[tokio::test]
async fn an_event_that_stays_scheduled_is_approved_once() {
    let imds = slow_host().await;
    let exporter = Exporter::start(settings_with(&imds, user_events()));
    let metrics = exporter
        .until("it is approved", |it| it.value(APPROVED) == Some(1.0))
        .await;
    imds.until_requests(imds.event_requests() + 4).await;
    assert_eq!(imds.posts(), 1);
    assert_eq!(metrics.value(FAILED), Some(0.0));
    let sent = imds.requests();
    let post = sent.iter().find(|it| it.method == "POST").unwrap();
    assert_eq!(
        post.body,
        r#"{"StartRequests":[{"EventId":"e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E"}]}"#
    );
    let approval = approval(&exporter).await;
    assert_eq!(approval["decision"], "approved");
    assert!(approval["at"].is_string(), "{approval}");
    exporter.stop().await;
}

#[tokio::test]
async fn a_refused_approval_is_counted_and_retried_after_the_next_document() {
    let imds = slow_host().await;
    imds.approvals(Reply::error("500 Internal Server Error", "oops"));
    let exporter = Exporter::start(settings_with(&imds, user_events()));
    exporter
        .until("two attempts failed", |it| it.value(FAILED) >= Some(2.0))
        .await;
    assert!(exporter.metrics().await.is_up(), "polling continues");
    imds.approvals(Reply::ok(""));
    exporter
        .until("the third is accepted", |it| {
            it.value(APPROVED) == Some(1.0)
        })
        .await;
    assert!(read_between(&imds), "{:?}", methods(&imds));
    exporter.stop().await;
}

/// The methods of the requests for events, in their order.
fn methods(imds: &FakeImds) -> Vec<String> {
    let requests = imds.requests().into_iter();
    let of_events = requests.filter(|it| it.target.contains("scheduledevents"));
    of_events.map(|it| it.method).collect()
}

/// Whether the document was read between any two attempts.
fn read_between(imds: &FakeImds) -> bool {
    methods(imds).windows(2).all(|two| two != ["POST", "POST"])
}

#[tokio::test]
async fn an_approval_that_times_out_is_retried_after_the_next_document() {
    let imds = slow_host().await;
    imds.approvals(Reply::silence());
    let mut settings = settings_with(&imds, user_events());
    settings.imds.timeout = Duration::from_secs(1);
    let exporter = Exporter::start(settings);
    imds.until_posts(1).await;
    while exporter.metrics().await.value(FAILED) < Some(1.0) {
        assert_eq!(exporter.get("/-/serving").await.0, 503);
    }
    // The wait for the retry.
    assert_eq!(exporter.get("/-/serving").await.0, 503);
    imds.approvals(Reply::ok(""));
    exporter
        .until("a later one is accepted", |it| {
            it.value(APPROVED) == Some(1.0)
        })
        .await;
    assert!(read_between(&imds), "{:?}", methods(&imds));
    exporter.stop().await;
}

/// It cannot have been accepted.
#[tokio::test]
async fn an_approval_whose_connection_is_not_opened_is_not_due_and_is_retried() {
    let mut imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    imds.approvals(Reply::ok(""));
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings_with(&imds, user_events());
    settings.imds.timeout = Duration::from_secs(1);
    settings.state = Some(directory.path().to_owned());
    let exporter = Exporter::start(settings.clone());
    exporter.until("it is up", Metrics::is_up).await;
    imds.stop_accepting().await;
    imds.now(Reply::http("200 OK", &[("Connection", "close")], RESTART).then_close());
    exporter
        .until("the attempt failed", |it| it.value(FAILED) == Some(1.0))
        .await;
    assert_eq!(exporter.get("/-/serving").await.0, 200);
    assert_eq!(approval(&exporter).await["decision"], "failed");
    exporter.stop().await;
    imds.accept_again();
    let exporter = Exporter::start(settings);
    exporter
        .until("the next process approves it", |it| {
            it.value(APPROVED) == Some(1.0)
        })
        .await;
    assert_eq!(imds.posts(), 1);
    exporter.stop().await;
}

/// Each attempt delays a poll until its timeout.
#[test]
fn approvals_that_imds_does_not_answer_leave_most_of_the_time_to_polls() {
    let events: Vec<_> = (0..150)
        .map(|number| {
            restart(&json!({"EventId": format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265")}))
        })
        .collect();
    let mut vm = SimulatedVm::new(user_events());
    let mut attempts = 0;
    let mut seconds = 0;
    while seconds < 120 {
        vm.wait_until(seconds);
        vm.poll(&events);
        if !vm.requested.is_empty() {
            seconds += 3;
            vm.wait_until(seconds);
            vm.end_approval(Err(timeout()));
            attempts += 1;
        }
        seconds += 1;
    }
    assert!((5..=12).contains(&attempts), "{attempts}");
    vm.wait_until(140);
    vm.poll(&events);
    assert_eq!(vm.requested[0].len(), events.len());
    vm.end_approval(Ok(()));
    vm.wait_until(141);
    vm.poll(&events);
    assert!(vm.requested.is_empty());
}

#[tokio::test]
async fn no_http_request_to_the_exporter_causes_an_approval() {
    let imds = slow_host().await;
    let exporter = Exporter::start(settings(&imds.base()));
    imds.until_requests(1).await;
    for path in ["/", "/api/v1/events", "/api/v1/approve", "/-/approve"] {
        for method in ["POST", "PUT", "DELETE"] {
            let status = exporter.send(method, path, RESTART).await;
            assert_eq!(status, 405, "{method} {path}");
        }
    }
    imds.until_requests(imds.event_requests() + 2).await;
    assert_eq!(imds.posts(), 0);
    exporter.stop().await;
}
