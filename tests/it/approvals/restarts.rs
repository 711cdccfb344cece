//! An approval that is in flight when the process ends is finished or recorded, and never sent twice.

use serde_json::Value;

use super::{RESTART, approval, settings_with, user_events};
use crate::support::{FakeImds, Reply, exporter::Exporter};

/// An exporter that ends while its approval is in flight, and what the next one says about the event.
async fn next_decision(is_killed: bool) -> Value {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    let (reply, gate) = Reply::ok("").gated();
    imds.approvals(reply);
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings_with(&imds, user_events());
    settings.state = Some(directory.path().to_owned());
    let exporter = Exporter::start(settings.clone());
    imds.until_posts(1).await;
    if is_killed {
        exporter.kill().await;
    } else {
        let stopping = tokio::spawn(exporter.stop());
        gate.open();
        stopping.await.unwrap();
    }
    let before = imds.event_requests();
    let exporter = Exporter::start(settings);
    imds.until_requests(before + 3).await;
    assert_eq!(imds.posts(), 1);
    let approval = approval(&exporter).await;
    exporter.stop().await;
    approval
}

#[tokio::test]
async fn an_approval_in_flight_at_shutdown_is_finished_and_saved() {
    assert_eq!(next_decision(false).await["decision"], "approved");
}

#[tokio::test]
async fn an_approval_without_an_answer_is_not_sent_again_after_a_restart() {
    assert_eq!(next_decision(true).await["reason"], "result_unknown");
}
