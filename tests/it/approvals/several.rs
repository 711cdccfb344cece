//! The command `approve` for several events: one request, `--all-mine` and `--confirm`.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::support::{FakeImds, Reply, events, process::PROGRAM};

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

async fn approve(imds: &FakeImds, arguments: &[&str], input: &'static str) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg("approve")
        .arg(format!("--imds.url={}", imds.base()))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // It may end without reading.
        stdin.write_all(input.as_bytes()).ok();
        drop(stdin);
        child.wait_with_output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
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
    let ended = approve(&imds, &[FREEZE, REBOOT, STARTED, &lower], "").await;
    let started = format!("Redeploy {STARTED} has already started; nothing was sent.");
    let lines = [
        approved("Freeze", FREEZE),
        approved("Reboot", REBOOT),
        started,
    ];
    assert_output(&ended, &lines);
    assert_eq!(approvals(&imds), [document(&[FREEZE, REBOOT])]);

    let ended = approve(&imds, &["--output=json", REBOOT, STARTED], "").await;
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
    let unknown = approve(&imds, &[REBOOT, "unknown"], "").await;
    assert_eq!(imds.posts(), 0);
    imds.approvals(Reply::error("400 Bad Request", "no"));
    let refused = approve(&imds, &[REBOOT, FREEZE], "").await;
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
    let dry = approve(&imds, &["--all-mine", "--dry-run"], "").await;
    let lines = [("Reboot", REBOOT), ("Freeze", FREEZE)];
    let dry_run = lines.map(|(kind, id)| format!("Dry run: {kind} {id} was not approved."));
    assert_output(&dry, &dry_run);
    assert_eq!(imds.posts(), 0);
    let ended = approve(&imds, &["--all-mine"], "").await;
    assert_output(&ended, &lines.map(|(kind, id)| approved(kind, id)));
    assert_eq!(approvals(&imds), [document(&[REBOOT, FREEZE])]);
    imds.identity(Reply::error("404 Not Found", "classic"));
    let none = approve(&imds, &["--all-mine", "--vm.name=web_2"], "").await;
    let text = "No event that names this VM waits for an approval.";
    assert_output(&none, &[text.to_owned()]);
}

#[tokio::test]
async fn what_is_not_known_is_no_reason_to_approve_nothing() {
    let document = |events: Value| {
        Reply::ok(json!({"DocumentIncarnation": 3, "Events": events}).to_string()).then_close()
    };
    let imds = FakeImds::standing(document(json!([]))).await;
    let none = approve(&imds, &["--all-mine", "--vm.name=web_0"], "").await;
    let text = String::from_utf8_lossy(&none.stdout);
    assert!(text.starts_with("No events yet; they may take "), "{text}");
    let json = approve(
        &imds,
        &["--all-mine", "--vm.name=web_0", "--output=json"],
        "",
    )
    .await;
    assert!(json.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&json.stderr), text);
    let mut unnamed = event(REBOOT, "Reboot", "Scheduled", "web_0");
    unnamed["Resources"] = json!(7);
    imds.now(document(json!([unnamed, "unreadable"])));
    let unread = approve(&imds, &["--all-mine", "--vm.name=web_0"], "").await;
    let text = "No event that is known to name this VM waits for an approval. 2 may name it: see the log lines above.";
    assert_output(&unread, &[text.to_owned()]);
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn without_the_name_of_this_vm_none_of_its_events_is_approved() {
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":3,"Events":[]}"#)).await;
    imds.identity(Reply::error("405 Method Not Allowed", "no"));
    let mut command = Command::new(PROGRAM);
    let url = format!("--imds.url={}", imds.base());
    command.args(["approve", "--all-mine", &url]);
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let ended = ended.await.unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let cause = r#"(instance metadata: HTTP 405 "no")"#;
    let expected = format!("error: the name of this VM is unknown {cause}: set --vm.name\n");
    assert_eq!(stderr, expected);
}

#[tokio::test]
async fn each_event_is_asked_for_and_no_answer_is_no() {
    let imds = imds().await;
    let declined = |kind: &str, id: &str| format!("{kind} {id} was not approved.");
    for (input, lines, sent) in [
        (
            "no\nY\n",
            [declined("Reboot", REBOOT), approved("Freeze", FREEZE)],
            &[FREEZE][..],
        ),
        (
            "yes",
            [approved("Reboot", REBOOT), declined("Freeze", FREEZE)],
            &[REBOOT],
        ),
        (
            "",
            [declined("Reboot", REBOOT), declined("Freeze", FREEZE)],
            &[],
        ),
    ] {
        let before = approvals(&imds).len();
        let ended = approve(&imds, &["--all-mine", "--confirm"], input).await;
        assert_output(&ended, &lines);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let question =
            format!("moment, and cannot be stopped or postponed.\nApprove Reboot {REBOOT}? [y/N] ");
        assert!(stderr.contains(&question), "{stderr}");
        let expected = (!sent.is_empty()).then(|| document(sent));
        assert_eq!(approvals(&imds)[before..], Vec::from_iter(expected));
    }
    let dry = approve(&imds, &[REBOOT, "--confirm", "--dry-run"], "y\n").await;
    let not_asked = !String::from_utf8_lossy(&dry.stderr).contains("[y/N]");
    assert!(not_asked && dry.status.success());
}

/// The document is read again after the answers.
#[tokio::test]
async fn what_has_changed_since_the_question_is_shown_and_asked_again() {
    let freeze = event(FREEZE, "Freeze", "Scheduled", "web_0");
    let with = |member: &str, value: Value| {
        let mut changed = freeze.clone();
        changed[member] = value;
        changed
    };
    let document = |event: &Value| {
        Reply::ok(json!({"DocumentIncarnation": 3, "Events": [event]}).to_string()).then_close()
    };
    for (changed, words) in [
        (
            with("EventType", json!("Redeploy")),
            "type Freeze is now Redeploy",
        ),
        (
            with("Resources", json!(["web_0", "web_1"])),
            "resources web_0 is now web_0, web_1",
        ),
        (
            with("EventSource", json!("User")),
            "source Platform is now User",
        ),
        (
            with("DurationInSeconds", json!(9)),
            "duration unknown is now 9s",
        ),
        (
            with("EventStatus", json!("Paused")),
            "status Scheduled is now Paused",
        ),
    ] {
        let once = FakeImds::scripted([document(&freeze), document(&changed)]).await;
        let ended = approve(&once, &[FREEZE, "--confirm"], "y\n").await;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(stderr.contains(words), "{words} in {stderr}");
        assert_eq!(stderr.matches("[y/N]").count(), 2, "{stderr}");
        assert_eq!(once.posts(), 0);
        let script = [&freeze, &changed, &changed].map(document);
        let twice = FakeImds::scripted(script).await;
        twice.approvals(Reply::ok(""));
        approve(&twice, &[FREEZE, "--confirm"], "y\ny\n").await;
        assert_eq!(twice.posts(), 1);
    }
    let same = with("Resources", json!(["WEB_0 "]));
    let imds = FakeImds::scripted([document(&freeze), document(&same)]).await;
    imds.approvals(Reply::ok(""));
    approve(&imds, &[FREEZE, "--confirm"], "y\n").await;
    assert_eq!(imds.posts(), 1);
}

#[tokio::test]
async fn an_event_that_is_gone_or_has_started_since_the_question_is_not_approved() {
    let events = [
        event(FREEZE, "Freeze", "Scheduled", "web_0"),
        event(REBOOT, "Reboot", "Scheduled", "web_0"),
    ];
    let document = |events: &[Value]| {
        Reply::ok(json!({"DocumentIncarnation": 3, "Events": events}).to_string()).then_close()
    };
    let imds = FakeImds::scripted([document(&events), document(&events[1..])]).await;
    let gone = approve(&imds, &["--all-mine", "--confirm"], "y\ny\n").await;
    let stderr = String::from_utf8_lossy(&gone.stderr);
    let words = format!("error: not approved, nothing was sent: no event \"{FREEZE}\" is pending");
    assert!(stderr.contains(&words), "{stderr}");
    assert_eq!((gone.status.code(), imds.posts()), (Some(1), 0));
    let started = event(FREEZE, "Freeze", "Started", "web_0");
    let imds = FakeImds::scripted([document(&events), document(&[started])]).await;
    let ended = approve(&imds, &[FREEZE, "--confirm"], "y\n").await;
    assert_output(
        &ended,
        &[format!(
            "Freeze {FREEZE} has already started; nothing was sent."
        )],
    );
    assert_eq!(imds.posts(), 0);
}
