//! Documents that contradict themselves or each other: the event is shown and counted, and never approved.

use super::{RESTART, approval, everything, settings_with};
use crate::support::{FakeImds, Reply, exporter::Exporter, process::Process};

const CONTRADICTIONS: &str =
    r#"azure_scheduled_events_document_anomalies_total{kind="contradiction"}"#;

/// [`RESTART`], with its event in two entries of which one has another value.
fn twice(from: &str, to: &str) -> String {
    let (start, event) = RESTART.split_once(r#""Events":["#).unwrap();
    let event = event.strip_suffix("]}").unwrap();
    let other = event.replacen(from, to, 1);
    assert_ne!(event, other, "{from}");
    format!(r#"{start}"Events":[{event},{other}]}}"#)
}

/// `policy` has the decisions about every kind of contradiction.
#[tokio::test]
async fn a_contradictory_document_is_counted_and_never_approved() {
    let imds = FakeImds::standing(Reply::ok(twice(r#""Reboot""#, r#""Freeze""#))).await;
    imds.approvals(Reply::ok(""));
    let exporter = Exporter::start(settings_with(&imds, everything()));
    imds.until_requests(4).await;
    let metrics = exporter.metrics().await;
    assert_eq!(metrics.value(CONTRADICTIONS), Some(1.0));
    let approval = approval(&exporter).await;
    assert_eq!(approval["decision"], "withheld", "{approval}");
    assert_eq!(approval["reason"], "contradictory", "{approval}");
    assert_eq!(imds.posts(), 0);
    exporter.stop().await;
}

#[tokio::test]
async fn a_source_that_was_user_and_is_missing_is_a_contradiction() {
    let undated = RESTART.replacen("Fri, 31 Dec 2999 23:59:59 GMT", "", 1);
    let imds = FakeImds::standing(Reply::ok(&undated)).await;
    imds.approvals(Reply::ok(""));
    let exporter = Exporter::start(settings_with(&imds, everything()));
    imds.until_requests(2).await;
    imds.now(Reply::ok(RESTART.replacen(r#""User""#, "null", 1)));
    let seen = |it: &crate::support::exporter::Metrics| it.value(CONTRADICTIONS) == Some(1.0);
    exporter.until("the contradiction is counted", seen).await;
    imds.until_requests(imds.event_requests() + 3).await;
    assert_eq!(approval(&exporter).await["reason"], "contradictory");
    assert!(seen(&exporter.metrics().await), "it is counted once");
    assert_eq!(imds.posts(), 0);
    exporter.stop().await;
}

#[tokio::test]
async fn approve_refuses_a_contradictory_event() {
    let imds = FakeImds::standing(Reply::ok(twice("-1", "9"))).await;
    imds.approvals(Reply::ok(""));
    let url = format!("--imds.url={}", imds.base());
    let id = "e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E";
    let ended = Process::start(["approve", &url, id]).end().await;
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
    assert!(ended.log.contains("contradicts itself"), "{ended:?}");
    assert_eq!(imds.posts(), 0);
}
