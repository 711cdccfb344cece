//! The commands `approve` and `list`: what they wait for, and what is printed with a time. `transcripts` has the rest.

use std::{
    process::{Command, Output as Ended, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::RESTART;
use crate::support::{FakeImds, Reply, events::event, process::PROGRAM};

const TYPED: &str = "E2C6D8F1-0a97-4b35-8d14-6f52c3b09a7e";

/// Runs the program; it ends by itself.
async fn run(arguments: &[&str]) -> Ended {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_remove("STATE_DIRECTORY");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

pub(super) async fn query(imds: &FakeImds, command: &str, arguments: &[&str]) -> Ended {
    let url = format!("--imds.url={}", imds.base());
    run(&[&[command, &url], arguments].concat()).await
}

async fn approve(imds: &FakeImds, arguments: &[&str]) -> Ended {
    query(imds, "approve", arguments).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn temporary_failures_are_repeated() {
    let slow = Reply::http("429 Slow", &[("Retry-After", "2")], "");
    let failures = [
        slow,
        Reply::error("410 Gone", "updating"),
        Reply::http("503 Busy", &[], ""),
        Reply::raw("").then_close(),
    ];
    let imds = FakeImds::scripted(failures.into_iter().chain([Reply::ok(RESTART)])).await;
    let began = Instant::now();
    let ended = run(&["list", &format!("--imds.url={}", imds.base())]).await;
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(
        began.elapsed() >= Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    let busy = Reply::http("503 Busy", &[("Retry-After", "3")], "");
    let imds =
        FakeImds::scripted([Reply::ok(RESTART), busy, Reply::ok(RESTART), Reply::ok("")]).await;
    let ended = approve(&imds, &[TYPED]).await;
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains(". It has not accepted the approval yet.\n"),
        "{stderr}"
    );
    assert!(!stderr.contains("two minutes"), "{stderr}");
    assert_eq!(imds.posts(), 2);
}

/// A single connection that hangs costs one `--imds.timeout`.
#[tokio::test]
async fn a_request_that_hangs_is_repeated_and_the_wait_is_said() {
    let imds = FakeImds::scripted([Reply::silence(), Reply::ok(RESTART)]).await;
    let ended = run(&[
        "list",
        &format!("--imds.url={}", imds.base()),
        "--imds.timeout=3s",
    ])
    .await;
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("Waiting for IMDS at http://"), "{stderr}");
}

/// Exit code 1 would mean that it is not approved.
#[tokio::test]
async fn an_approval_is_reported_on_stderr_where_stdout_is_full() {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    for (output, result) in [
        ("table", "Approved: Reboot "),
        ("json", r#""result": "approved""#),
    ] {
        let mut command = Command::new(PROGRAM);
        command
            .args(["approve", TYPED, "--output", output])
            .arg(format!("--imds.url={}", imds.base()))
            .stdout(std::fs::File::create("/dev/full").unwrap())
            .stderr(Stdio::piped());
        let ended = tokio::task::spawn_blocking(move || command.spawn()?.wait_with_output());
        let ended = ended.await.unwrap().unwrap();
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains(result), "{stderr}");
        assert!(stderr.contains("cannot write to stdout"), "{stderr}");
    }
    assert_eq!(imds.posts(), 2);
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
    for said in [&none.stdout, &json.stderr] {
        let text = String::from_utf8_lossy(said);
        assert!(text.starts_with("No events yet: they may take "), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let unnamed = event(&json!({"Resources": 7}));
    imds.now(document(json!([unnamed, "unreadable"])));
    let unread = approve(&imds, &["--all-mine", "--vm.name=web_0"]).await;
    let text = "No event that is known to name this VM waits for an approval. 2 may name it: see the log lines above.";
    assert_eq!(unread.status.code(), Some(0), "{unread:?}");
    assert_eq!(String::from_utf8_lossy(&unread.stdout), format!("{text}\n"));
    assert_eq!(imds.posts(), 0);
}
