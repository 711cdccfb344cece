//! The exporter approves all events that are due by one request, and one by one after an error.

use std::time::Duration;

use serde_json::{Value, json};

use super::{APPROVED, FAILED, settings_with, user_events};
use crate::support::{
    FakeImds, Reply,
    events::{document, numbered_id},
    exporter::Exporter,
    simulated_vm::restart,
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
