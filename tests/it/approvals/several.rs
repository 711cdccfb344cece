//! The command `approve` for several events: one request, and `--all-mine`.

use std::process::Output;

use serde_json::{Value, json};

use super::manual::approve;
use crate::support::{FakeImds, Reply, events};

const REBOOT: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";
const FREEZE: &str = "E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E";
const OTHER: &str = "0C3A7A52-7A0B-4E0E-9D0B-6A4C1C7E5F21";
const STARTED: &str = "5D2F9A1B-6C1E-4F5A-8B3C-2E7D9F0A1B6C";

fn event(id: &str, event_type: &str, status: &str, resource: &str) -> Value {
    events::event(&json!({
        "EventId": id,
        "EventStatus": status,
        "EventType": event_type,
        "Resources": [resource],
    }))
}

/// The IMDS of `web_0`, which closes the connection after each document.
async fn imds() -> FakeImds {
    let events = [
        event(REBOOT, "Reboot", "Scheduled", "web_0"),
        event(OTHER, "Reboot", "Scheduled", "web_1"),
        event(STARTED, "Redeploy", "Started", "web_0"),
        event(FREEZE, "Freeze", "Scheduled", "WEB_0"),
    ];
    let document = json!({"DocumentIncarnation": 3, "Events": events}).to_string();
    let imds = FakeImds::standing(Reply::ok(document).then_close()).await;
    imds.approvals(Reply::ok(""));
    imds
}

/// The events of each approval that IMDS got.
fn approvals(imds: &FakeImds) -> Vec<Value> {
    let requests = imds.requests().into_iter();
    let posts = requests.filter(|request| request.method == "POST");
    posts
        .map(|post| serde_json::from_str(&post.body).unwrap())
        .collect()
}

fn document(ids: &[&str]) -> Value {
    let requests = ids.iter().map(|id| json!({"EventId": id}));
    json!({"StartRequests": requests.collect::<Vec<_>>()})
}

fn assert_output(ended: &Output, lines: &[String]) {
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), lines, "{stderr}");
}

fn approved(event_type: &str, id: &str) -> String {
    format!("Approved: {event_type} {id} may start at any moment now.")
}

#[tokio::test]
async fn several_events_are_approved_in_one_document() {
    let imds = imds().await;
    let lower = REBOOT.to_lowercase();
    let ended = approve(&imds, &[FREEZE, REBOOT, STARTED, &lower]).await;
    let started = format!("Redeploy {STARTED} has already started; nothing was sent.");
    let lines = [
        approved("Freeze", FREEZE),
        approved("Reboot", REBOOT),
        started,
    ];
    assert_output(&ended, &lines);
    assert_eq!(approvals(&imds), [document(&[FREEZE, REBOOT])]);

    let ended = approve(&imds, &["--output=json", REBOOT, STARTED]).await;
    let reports = serde_json::Deserializer::from_slice(&ended.stdout).into_iter::<Value>();
    let reports: Vec<_> = reports
        .map(|report| {
            let report = report.unwrap();
            (report["result"].clone(), report["event"]["EventId"].clone())
        })
        .collect();
    let expected = [("approved", REBOOT), ("already_started", STARTED)];
    assert_eq!(
        reports,
        expected.map(|(result, id)| (json!(result), json!(id)))
    );
}

#[tokio::test]
async fn nothing_is_approved_if_one_event_cannot_be() {
    let imds = imds().await;
    let unknown = approve(&imds, &[REBOOT, "unknown"]).await;
    assert_eq!(imds.posts(), 0);
    imds.approvals(Reply::error("400 Bad Request", "no"));
    let refused = approve(&imds, &[REBOOT, FREEZE]).await;
    let states = format!(
        "; {REBOOT}: it is Scheduled now, not before 2999-12-31T23:59:59Z; {FREEZE}: it is Scheduled now"
    );
    for (ended, words) in [
        (unknown, "error: no event \"unknown\" is pending"),
        (refused, &*states),
    ] {
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(stderr.contains(words), "{words} in {stderr}");
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert!(ended.stdout.is_empty());
    }
}

#[tokio::test]
async fn all_scheduled_events_of_this_vm_are_approved_on_request() {
    let imds = imds().await;
    let dry = approve(&imds, &["--all-mine", "--dry-run"]).await;
    let lines = [("Reboot", REBOOT), ("Freeze", FREEZE)];
    let dry_run = lines.map(|(kind, id)| format!("Dry run: {kind} {id} was not approved."));
    assert_output(&dry, &dry_run);
    assert_eq!(imds.posts(), 0);
    let ended = approve(&imds, &["--all-mine"]).await;
    assert_output(&ended, &lines.map(|(kind, id)| approved(kind, id)));
    assert_eq!(approvals(&imds), [document(&[REBOOT, FREEZE])]);
    imds.identity(Reply::error("404 Not Found", "classic"));
    let none = approve(&imds, &["--all-mine", "--vm.name=web_2"]).await;
    let text = "No event that names this VM waits for an approval.";
    assert_output(&none, &[text.to_owned()]);
}

#[tokio::test]
async fn what_is_not_known_is_no_reason_to_approve_nothing() {
    let document = |events: Value| {
        Reply::ok(json!({"DocumentIncarnation": 3, "Events": events}).to_string()).then_close()
    };
    let imds = FakeImds::standing(document(json!([]))).await;
    let none = approve(&imds, &["--all-mine", "--vm.name=web_0"]).await;
    let json = approve(&imds, &["--all-mine", "--vm.name=web_0", "--output=json"]).await;
    assert!(json.stdout.is_empty());
    // The time in them may differ by a minute.
    for said in [&none.stdout, &json.stderr] {
        let text = String::from_utf8_lossy(said);
        assert!(text.starts_with("No events yet; they may take "), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let mut unnamed = event(REBOOT, "Reboot", "Scheduled", "web_0");
    unnamed["Resources"] = json!(7);
    imds.now(document(json!([unnamed, "unreadable"])));
    let unread = approve(&imds, &["--all-mine", "--vm.name=web_0"]).await;
    let text = "No event that is known to name this VM waits for an approval. 2 may name it: see the log lines above.";
    assert_output(&unread, &[text.to_owned()]);
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn without_the_name_of_this_vm_none_of_its_events_is_approved() {
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":3,"Events":[]}"#)).await;
    imds.identity(Reply::error("405 Method Not Allowed", "no"));
    let ended = approve(&imds, &["--all-mine"]).await;
    assert_eq!(ended.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let cause = r#"(instance metadata: HTTP 405 "no")"#;
    let expected = format!("error: the name of this VM is unknown {cause}: set --vm.name\n");
    assert_eq!(stderr, expected);
}
