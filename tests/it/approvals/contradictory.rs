//! Documents that contradict themselves or each other: the event is shown and counted, and never approved.

use serde_json::Value;
use tokio::task::JoinSet;

use super::{RESTART, everything};
use crate::support::{
    FakeImds, Reply,
    exporter::{Exporter, settings},
    process::Process,
};

const CONTRADICTIONS: &str =
    r#"azure_scheduled_events_document_anomalies_total{kind="contradiction"}"#;
const DUPLICATES: &str =
    r#"azure_scheduled_events_document_anomalies_total{kind="duplicate_member"}"#;

/// [`RESTART`], with its event in two entries of which one has another value.
fn twice(from: &str, to: &str) -> String {
    let (start, event) = RESTART.split_once(r#""Events":["#).unwrap();
    let event = event.strip_suffix("]}").unwrap();
    let other = event.replacen(from, to, 1);
    assert_ne!(event, other, "{from}");
    format!(r#"{start}"Events":[{event},{other}]}}"#)
}

fn changed(from: &str, to: &str) -> String {
    let changed = RESTART.replacen(from, to, 1);
    assert_ne!(changed, RESTART, "{from}");
    changed
}

/// Each document with the number of its duplicate members.
fn contradictory_documents() -> Vec<(&'static str, String, f64)> {
    vec![
        ("type", twice(r#""Reboot""#, r#""Freeze""#), 0.0),
        ("source", twice(r#""User""#, r#""Platform""#), 0.0),
        ("no source", twice(r#""User""#, "null"), 0.0),
        ("duration", twice("-1", "9"), 0.0),
        ("time", twice("23:59:59", "23:59:58"), 0.0),
        (
            "member twice",
            changed(
                r#""EventSource""#,
                r#""EventSource":"Platform","EventSource""#,
            ),
            1.0,
        ),
        (
            "no list of names",
            changed(r#"["web_0","web_1"]"#, r#""web_0""#),
            0.0,
        ),
        (
            "a number as a name",
            changed(r#"["web_0","web_1"]"#, r#"["web_0",1]"#),
            0.0,
        ),
        (
            "an unreadable entry of the same event",
            changed(
                "]}",
                r#",{"EventId":["e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E"]}]}"#,
            ),
            0.0,
        ),
    ]
}

/// Documents with members that decoders may read in different ways.
fn ambiguous_documents() -> Vec<(&'static str, String, f64)> {
    vec![
        (
            "a documented name in lower case",
            changed(
                r#""EventSource""#,
                r#""eventsource":"Platform","EventSource""#,
            ),
            0.0,
        ),
        (
            "a documented name in upper case alone",
            changed(r#""DurationInSeconds""#, r#""DURATIONINSECONDS""#),
            0.0,
        ),
    ]
}

async fn approval(exporter: &Exporter) -> Value {
    let (_, body) = exporter.get("/api/v1/events").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["events"].as_array().unwrap().len(), 1, "{body}");
    body["events"][0]["approval"].clone()
}

#[tokio::test]
async fn contradictory_documents_are_never_approved() {
    let mut reading = JoinSet::new();
    for (name, document, duplicates) in contradictory_documents()
        .into_iter()
        .chain(ambiguous_documents())
    {
        reading.spawn(async move {
            let imds = FakeImds::standing(Reply::ok(&document)).await;
            imds.approvals(Reply::ok(""));
            let mut settings = settings(&imds.base());
            settings.approvals = everything();
            let exporter = Exporter::start(settings);
            imds.until_requests(4).await;
            let metrics = exporter.metrics().await;
            assert_eq!(metrics.value(CONTRADICTIONS), Some(1.0), "{name}");
            assert_eq!(metrics.value(DUPLICATES), Some(duplicates), "{name}");
            let approval = approval(&exporter).await;
            assert_eq!(approval["decision"], "withheld", "{name}: {approval}");
            assert_eq!(approval["reason"], "contradictory", "{name}: {approval}");
            assert_eq!(imds.posts(), 0, "{name}");
            exporter.stop().await;
        });
    }
    while let Some(done) = reading.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_source_that_was_user_and_is_missing_is_a_contradiction() {
    let undated = RESTART.replacen("Fri, 31 Dec 2999 23:59:59 GMT", "", 1);
    let imds = FakeImds::standing(Reply::ok(&undated)).await;
    imds.approvals(Reply::ok(""));
    let mut settings = settings(&imds.base());
    settings.approvals = everything();
    let exporter = Exporter::start(settings);
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
