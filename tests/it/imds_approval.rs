//! The approval request of the IMDS client.

use azure_scheduled_events_exporter::event::EventId;
use serde_json::{Value, json};

use crate::support::{DEADLINE, FakeImds, Reply, client_of, events::event, process::Process};

const ID: &str = "e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E";

/// As in every sample of that version; the later versions do not have the member.
#[tokio::test]
async fn an_approval_of_the_preview_version_names_the_incarnation_of_the_document() {
    for (version, incarnation, expected) in [
        ("2017-03-01", "5", Some("5")),
        ("2017-03-01", "\"6\"", Some("6")),
        ("2017-03-01", "null", None),
        ("2017-08-01", "5", None),
        ("2020-07-01", "5", None),
    ] {
        let event = event(&json!({"EventId": ID}));
        let document = format!(r#"{{"DocumentIncarnation":{incarnation},"Events":[{event}]}}"#);
        let imds = FakeImds::of_version(version, Reply::ok(document)).await;
        imds.approvals(Reply::ok(""));
        let arguments = ["approve", ID, &format!("--imds.api-version={version}")];
        let url = format!("--imds.url={}", imds.base());
        let ended = Process::start(arguments.into_iter().chain([&*url]))
            .end()
            .await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let requests = imds.requests();
        let sent: Value = serde_json::from_str(&requests.last().unwrap().body).unwrap();
        let mut body = json!({ "StartRequests": [{ "EventId": ID }] });
        if let Some(incarnation) = expected {
            body["DocumentIncarnation"] = incarnation.into();
        }
        assert_eq!(sent, body, "{version} {incarnation}");
    }
}

#[tokio::test]
async fn an_id_cannot_break_out_of_the_body() {
    let imds = FakeImds::scripted([Reply::ok("")]).await;
    let mut client = client_of(&imds.base());
    let id = EventId::new("\"}],\"x\":\"\\");
    client
        .approve(std::slice::from_ref(&id), None, DEADLINE)
        .await
        .unwrap();
    let sent: Value = serde_json::from_str(&imds.requests()[0].body).unwrap();
    assert_eq!(
        sent,
        json!({ "StartRequests": [{ "EventId": id.as_str() }] })
    );
}

#[tokio::test]
async fn a_200_is_an_approval_with_any_body() {
    let imds = FakeImds::scripted([
        Reply::ok(r#"{"DocumentIncarnation":3,"Events":[]}"#),
        Reply::ok("<html>"),
        Reply::ok("x".repeat(5 << 20)),
        Reply::ok("{").without_last(1).then_hang(),
        Reply::ok("{").without_last(1).then_close(),
    ])
    .await;
    let mut client = client_of(&imds.base());
    for _ in 0..5 {
        client
            .approve(&[EventId::new(ID)], None, DEADLINE)
            .await
            .unwrap();
    }
}
