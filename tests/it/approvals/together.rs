//! The exporter approves all events that are due by one request, and one by one after an error.

use std::{collections::BTreeSet, time::Duration};

use azure_scheduled_events_exporter::event::EventId;
use serde_json::{Value, json};

use super::{APPROVED, FAILED, settings_with, user_events};
use crate::support::{
    FakeImds, Reply,
    events::{document, numbered_id},
    exporter::Exporter,
    simulated_vm::{self, SimulatedVm, error, refusal, restart, timeout},
};

/// Ten restarts of `web_0` that a user requested.
fn restarts() -> Vec<Value> {
    let far = "Fri, 31 Dec 2999 23:59:59 GMT";
    let restart = |it| restart(&json!({"EventId": numbered_id(it), "NotBefore": far}));
    (0..10).map(restart).collect()
}

async fn imds() -> FakeImds {
    FakeImds::standing(document(8, restarts())).await
}

/// The requests in their order: the number of events of each approval, and 0 for each document that was read.
fn requested(imds: &FakeImds) -> Vec<usize> {
    let requests = imds.requests().into_iter();
    let of_events = requests.filter(|it| it.target.contains("scheduledevents"));
    let events = of_events.map(|it| match &*it.method {
        "POST" => serde_json::from_str::<Value>(&it.body).unwrap()["StartRequests"]
            .as_array()
            .unwrap()
            .len(),
        _ => 0,
    });
    events.collect()
}

#[tokio::test]
async fn ten_user_restarts_are_approved_by_one_post() {
    let imds = imds().await;
    imds.approvals(Reply::ok(""));
    let exporter = Exporter::start(settings_with(&imds, user_events()));
    exporter
        .until("all are approved", |it| it.value(APPROVED) == Some(10.0))
        .await;
    imds.until_requests(imds.event_requests() + 2).await;
    let requested: Vec<_> = requested(&imds).into_iter().filter(|it| *it > 0).collect();
    assert_eq!(requested, [10]);
    exporter.stop().await;
}

#[tokio::test]
async fn after_an_error_each_event_has_a_post_of_its_own() {
    for error in ["400 Bad Request", "500 Internal Server Error"] {
        let imds = imds().await;
        imds.approvals(Reply::error(error, "no"));
        let exporter = Exporter::start(settings_with(&imds, user_events()));
        imds.until_posts(1).await;
        imds.approvals(Reply::ok(""));
        exporter
            .until("all are approved", |it| it.value(APPROVED) == Some(10.0))
            .await;
        let requested = requested(&imds);
        assert_eq!(requested[..3], [0, 10, 0], "{error}");
        let alone = requested.iter().filter(|it| **it == 1).count();
        let posts = requested.iter().filter(|it| **it > 0).count();
        assert_eq!((alone, posts), (10, 11), "{error}: {requested:?}");
        let is_read = |two: &[usize]| two[0] == 0 || two[1] == 0;
        assert!(requested.windows(2).all(is_read), "{error}: {requested:?}");
        exporter.stop().await;
    }
}

#[tokio::test]
async fn without_an_answer_the_document_is_read_before_the_rest_is_approved() {
    let imds = imds().await;
    imds.approvals(Reply::silence());
    let mut settings = settings_with(&imds, user_events());
    settings.imds.timeout = Duration::from_secs(1);
    let exporter = Exporter::start(settings);
    imds.until_posts(1).await;
    let mut events = restarts();
    for started in &mut events[..4] {
        started["EventStatus"] = json!("Started");
        started["NotBefore"] = json!("");
    }
    imds.now(document(9, events));
    exporter
        .until("the attempt failed", |it| it.value(FAILED) == Some(10.0))
        .await;
    imds.approvals(Reply::ok(""));
    exporter
        .until("the rest is approved", |it| it.value(APPROVED) == Some(6.0))
        .await;
    let requested = requested(&imds);
    assert_eq!(requested[..3], [0, 10, 0]);
    let posts: Vec<_> = requested.into_iter().filter(|it| *it > 0).collect();
    assert_eq!(posts, [10, 6], "four were approved");
    exporter.stop().await;
}

#[test]
fn a_new_event_is_not_sent_together_with_one_that_was_refused() {
    let mut vm = SimulatedVm::new(user_events());
    let refused = restart(&json!({}));
    vm.poll(std::slice::from_ref(&refused));
    vm.end_approval(Err(refusal()));
    vm.wait_until(2);
    let new = restart(&json!({"EventId": "E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E"}));
    vm.poll(&[refused.clone(), new.clone()]);
    let ids = |vm: &SimulatedVm| -> Vec<_> {
        let requested = vm.requested[0].iter();
        requested.map(|id| id.as_str().to_owned()).collect()
    };
    assert_eq!(ids(&vm), ["E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E"]);
    vm.end_approval(Ok(()));
    vm.wait_until(3);
    vm.poll(&[refused, new]);
    assert_eq!(ids(&vm), [simulated_vm::ID]);
}

#[test]
fn no_answer_to_several_may_have_approved_all_and_the_document_is_read_first() {
    let mut vm = SimulatedVm::new(user_events());
    let events = ["A", "B"].map(|id| restart(&json!({"EventId": id})));
    vm.poll(&events);
    vm.end_approval(Err(timeout()));
    for event in vm.whole_json()["events"].as_array().unwrap() {
        let message = event["approval"]["message"].as_str().unwrap();
        assert!(message.starts_with("May have been approved"), "{message}");
    }
    assert!(vm.requested.is_empty(), "before a document");
    vm.wait_until(1);
    let started = restart(&json!({"EventId": "A", "EventStatus": "Started", "NotBefore": ""}));
    vm.poll(&[started, events[1].clone()]);
    assert_eq!(vm.requested.len(), 1);
    assert_eq!(vm.requested[0].len(), 1, "A was approved");
}

/// IMDS cannot start the first one.
#[test]
fn an_error_about_one_event_does_not_keep_others_from_their_approval() {
    for failed in [refusal(), error()] {
        let mut vm = SimulatedVm::new(user_events());
        let events = ["A", "B", "C"].map(|id| restart(&json!({"EventId": id})));
        let mut approved = BTreeSet::new();
        for second in 0..6 {
            vm.wait_until(second);
            vm.poll(&events[..if second < 4 { 2 } else { 3 }]);
            let Some(ids) = vm.requested.first().cloned() else {
                continue;
            };
            let is_accepted = ids.iter().all(|id| id.as_str() != "A");
            vm.end_approval(if is_accepted {
                approved.extend(ids);
                Ok(())
            } else {
                Err(failed.clone())
            });
        }
        let approved: Vec<_> = approved.iter().map(EventId::as_str).collect();
        assert_eq!(approved, ["B", "C"], "{failed:?}");
    }
}
