//! Who this VM is, as instance metadata tell it.

use azure_scheduled_events_exporter::{imds::identity::TIMEOUT, time::Clock, view::FailureReason};

use crate::support::{FakeImds, Reply, client_of};

#[tokio::test]
async fn the_name_of_this_vm_is_asked_for_and_read() {
    let imds = FakeImds::scripted([]).await;
    let mut client = client_of(&imds.base());
    let identity = client.identify(Clock::start()).await.unwrap();
    assert_eq!(identity.name, "web_0");
    assert_eq!(identity.scale_set, "web");
    assert_eq!(imds.requests().len(), 1);
}

#[tokio::test]
async fn no_answer_but_one_with_a_name_makes_an_identity() {
    let silence = Reply::silence();
    for (reply, reason) in [
        (
            Reply::error("404 Not Found", "classic"),
            FailureReason::Status4xx,
        ),
        (
            Reply::error("400 Bad Request", "classic"),
            FailureReason::Status4xx,
        ),
        (
            Reply::error("429 Too Many Requests", "slow"),
            FailureReason::Throttled,
        ),
        (Reply::ok("{}"), FailureReason::Shape),
        (Reply::ok(r#"{"name":""}"#), FailureReason::Shape),
        (Reply::ok("<html>"), FailureReason::Json),
        (Reply::ok(""), FailureReason::Json),
        (Reply::ok(" ".repeat(5 << 20)), FailureReason::Body),
        (silence, FailureReason::Timeout),
    ] {
        let imds = FakeImds::scripted([]).await;
        imds.identity(reply);
        let mut client = client_of(&imds.base());
        let error = client.identify(Clock::start()).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error} (it has {TIMEOUT:?})");
    }
}
