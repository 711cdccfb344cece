//! The command `approve`: its output, its request and its exit codes.

use std::{
    process::{Command, Output as Ended},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::RESTART;
use crate::support::{FakeImds, Reply};

const TYPED: &str = "E2C6D8F1-0a97-4b35-8d14-6f52c3b09a7e";
const VERBATIM: &str = "e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E";

/// Runs the program; it ends by itself.
async fn run(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_azure-scheduled-events-exporter"));
    command.args(arguments).env_remove("STATE_DIRECTORY");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

pub(super) async fn approve(imds: &FakeImds, arguments: &[&str]) -> Ended {
    let url = format!("--imds.url={}", imds.base());
    run(&[&["approve", &url], arguments].concat()).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn imds(approvals: Reply) -> FakeImds {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    imds.approvals(approvals);
    imds
}

#[tokio::test]
async fn approve_shows_the_description() {
    let described = "\"Description\":\"Restart as requested by authorized user.\"";
    let restart = RESTART.replace("\"Description\":\"\"", described);
    let imds = FakeImds::standing(Reply::ok(restart)).await;
    let ended = approve(&imds, &[TYPED, "--dry-run"]).await;
    let stderr = text(&ended.stderr);
    let line = "\n  Description: Restart as requested by authorized user.\n";
    assert!(stderr.contains(line), "{stderr}");
}

#[tokio::test]
async fn approve_prints_the_effect_and_sends_the_verbatim_id() {
    let imds = imds(Reply::ok("")).await;
    let ended = approve(&imds, &[TYPED]).await;
    assert_eq!(ended.status.code(), Some(0));
    let stderr = text(&ended.stderr);
    for expected in [
        "Reboot e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E, requested by a user (User)",
        "Effect on each VM: the VM restarts; what is in memory is lost",
        "all 2 VMs that it names (this VM is one of them): web_0, web_1",
    ] {
        assert!(stderr.contains(expected), "{expected} in {stderr}");
    }
    let result = format!("Approved: Reboot {VERBATIM} may start at any moment now.\n");
    assert_eq!(text(&ended.stdout), result);
    let requests = imds.requests();
    let post = requests.last().unwrap();
    assert_eq!(
        (post.method.as_str(), post.body.as_str()),
        (
            "POST",
            &*format!(r#"{{"StartRequests":[{{"EventId":"{VERBATIM}"}}]}}"#)
        )
    );
    assert_eq!(imds.posts(), 1);
}

/// IMDS never answers the approval, so that stderr was written before the answer.
#[tokio::test]
async fn the_effect_is_printed_before_the_request() {
    let imds = imds(Reply::silence()).await;
    let ended = approve(&imds, &["--imds.timeout=1s", TYPED]).await;
    assert_eq!(ended.status.code(), Some(2));
    assert_eq!(text(&ended.stdout), "");
    let stderr = text(&ended.stderr);
    let position = |what: &str| {
        stderr
            .find(what)
            .unwrap_or_else(|| panic!("{what} in {stderr}"))
    };
    assert!(position("web_0, web_1") < position("error: may have been approved"));
    assert!(
        stderr.contains("it is Scheduled now, not before 2999-12-31"),
        "{stderr}"
    );
}

/// The first document, the answer to the approval, the next document, the exit code and the words.
type ResultRow<'a> = (&'a str, Reply, &'a str, i32, &'a str);

async fn check_results<'a>(rows: impl IntoIterator<Item = ResultRow<'a>>) {
    for (first, answer, next, code, words) in rows {
        let imds = FakeImds::scripted([Reply::ok(first), Reply::ok(next)]).await;
        imds.approvals(answer);
        let ended = approve(&imds, &[TYPED]).await;
        let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
        assert_eq!(ended.status.code(), Some(code), "{words}: {stderr}");
        let said = format!("{stdout}{stderr}");
        assert!(said.contains(words), "{words} in {said}");
        assert_eq!(stdout.is_empty(), code > 0, "{stdout}");
        assert_eq!(imds.posts(), 1);
    }
}

/// Too late to be repeated.
fn later(status: &str) -> Reply {
    Reply::http(status, &[("Retry-After", "60")], "")
}

fn closed() -> Reply {
    Reply::raw("").then_close()
}

const GONE: &str = r#"{"DocumentIncarnation":9,"Events":[]}"#;

#[tokio::test]
async fn a_refused_approval_is_not_approved() {
    let words = "error: not approved: HTTP ";
    let gone = "it is gone from the document now";
    check_results([
        (RESTART, later("400 Bad Request"), RESTART, 1, words),
        (RESTART, later("429 Slow"), RESTART, 1, words),
        (RESTART, later("400 Bad Request"), GONE, 1, gone),
    ])
    .await;
}

#[tokio::test]
async fn an_approval_without_an_answer_may_have_been_approved() {
    let past = RESTART.replace("2999", "1999");
    let started = past.replace("Scheduled", "Started");
    let words = "error: may have been approved: ";
    check_results([
        (RESTART, later("503 Busy"), RESTART, 2, words),
        (RESTART, closed(), GONE, 2, words),
        (RESTART, later("204 No Content"), RESTART, 2, words),
        (&*past, later("503 Busy"), &*started, 2, "it is Started now"),
    ])
    .await;
}

#[tokio::test]
async fn an_event_that_starts_before_its_not_before_is_approved() {
    let started = RESTART.replace("Scheduled", "Started");
    let blank = RESTART.replace("Fri, 31 Dec 2999 23:59:59 GMT", "");
    let words = "Approved: Reboot";
    check_results([
        (RESTART, later("503 Busy"), &*started, 0, words),
        (RESTART, closed(), &*blank, 0, words),
        (RESTART, later("302 Found"), &*started, 0, words),
    ])
    .await;
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
    let busy = Reply::http("503 Busy", &[], "");
    let imds =
        FakeImds::scripted([Reply::ok(RESTART), busy, Reply::ok(RESTART), Reply::ok("")]).await;
    let ended = approve(&imds, &[TYPED]).await;
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert_eq!(imds.posts(), 2);
}

#[tokio::test]
async fn an_approval_is_not_repeated_for_an_event_that_has_changed() {
    let busy = Reply::http("503 Busy", &[], "");
    let changed = Reply::ok(RESTART.replace("Reboot", "Redeploy"));
    let imds = FakeImds::scripted([Reply::ok(RESTART), busy, changed]).await;
    let ended = approve(&imds, &[TYPED]).await;
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
    assert_eq!(imds.posts(), 1);
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

#[tokio::test]
async fn list_explains_its_mark_and_names_the_cause_of_a_missing_one() {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    let url = format!("--imds.url={}", imds.base());
    imds.identity(Reply::ok(
        r#"{"name":"web_0\n","osProfile":{"computerName":"web000000"}}"#,
    ));
    let listed = text(&run(&["list", &url]).await.stdout);
    assert!(listed.contains("web_0*,web_1"), "{listed}");
    assert!(
        listed.ends_with("\n* this VM, host web000000\n"),
        "{listed}"
    );
    let either = text(&run(&["list", &url, "--vm.name=web_1"]).await.stdout);
    assert!(either.contains("web_0*,web_1*"), "{either}");
    assert!(
        either.contains(r#"--vm.name is "web_1", but instance metadata name this VM "web_0""#),
        "{either}"
    );
    let approved = approve(&imds, &[TYPED, "--vm.name=web_1"]).await;
    assert!(text(&approved.stderr).contains("error: not approved: --vm.name is"));
    imds.identity(Reply::http("403 Forbidden", &[], ""));
    let unknown = text(&run(&["list", &url]).await.stdout);
    let cause = "Note: the name of this VM is unknown (instance metadata: HTTP 403; ";
    assert!(
        unknown.contains(cause) && unknown.contains("set --vm.name"),
        "{unknown}"
    );
    let approved = approve(&imds, &[TYPED, "--dry-run"]).await;
    assert!(
        text(&approved.stderr)
            .contains("whether this VM is one of them: the name of this VM is unknown")
    );
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn a_dry_run_prints_the_effect_and_sends_nothing() {
    let imds = imds(Reply::ok("")).await;
    let ended = approve(&imds, &[TYPED, "--dry-run", "--output=json"]).await;
    assert_eq!(ended.status.code(), Some(0));
    let approval: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(approval["result"], "dry_run");
    assert_eq!(approval["event"]["EventId"], VERBATIM);
    assert_eq!(
        approval["event"]["Resources"],
        serde_json::json!(["web_0", "web_1"])
    );
    assert!(text(&ended.stderr).contains("web_0, web_1"));
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn a_started_event_is_not_approved() {
    let imds = imds(Reply::ok("")).await;
    imds.now(Reply::ok(RESTART.replace("Scheduled", "Started")));
    let ended = approve(&imds, &[TYPED, "--output=json"]).await;
    assert_eq!(ended.status.code(), Some(0));
    let approval: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(approval["result"], "already_started");
    let stderr = text(&ended.stderr);
    let line = "\n  It has started: there is nothing to approve.\n";
    assert!(stderr.contains(line), "{stderr}");
    assert!(!stderr.contains("may start"), "{stderr}");
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn approve_says_that_the_entry_of_the_event_cannot_be_read() {
    let imds = imds(Reply::ok("")).await;
    let entry = RESTART.replace("\"EventId\":", "\"EventId\":7,\"Id\":");
    imds.now(Reply::ok(entry));
    let unreadable = approve(&imds, &[TYPED]).await;
    let other = approve(&imds, &["602d9444-d2cd-49c7-8624-8643e7171297"]).await;
    for (ended, expected) in [
        (unreadable, format!("the entry of event \"{TYPED}\" cannot be read")),
        (other, "no event \"602d9444-d2cd-49c7-8624-8643e7171297\" is pending; pending events: 0, unreadable entries: 1 ".to_owned()),
    ] {
        let stderr = text(&ended.stderr);
        assert!(stderr.contains(&expected), "{expected} in {stderr}");
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
    }
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn an_advisory_has_nothing_to_approve() {
    let imds = imds(Reply::ok("")).await;
    imds.now(Reply::ok(RESTART.replace("Scheduled", "Advisory")));
    let ended = approve(&imds, &[TYPED]).await;
    assert_eq!(ended.status.code(), Some(0));
    let result = format!("Reboot {VERBATIM} is an advisory: nothing to approve.\n");
    assert_eq!(text(&ended.stdout), result);
    let stderr = text(&ended.stderr);
    for expected in [
        "Advisory, no deadline",
        "this is advice, no maintenance is scheduled",
    ] {
        assert!(stderr.contains(expected), "{expected} in {stderr}");
    }
    assert!(!stderr.contains("may start at any moment"), "{stderr}");
    let json = approve(&imds, &[TYPED, "--output=json"]).await;
    let approval: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(approval["result"], "advisory");
    assert_eq!(imds.posts(), 0);
}

#[tokio::test]
async fn approve_says_that_a_freeze_of_0_s_interrupts_nothing() {
    let imds = imds(Reply::ok("")).await;
    let freeze = r#"{"DocumentIncarnation":1,"Events":[{"EventId":"e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"Platform","DurationInSeconds":0}]}"#;
    imds.now(Reply::ok(freeze));
    let ended = approve(&imds, &[TYPED, "--dry-run"]).await;
    let stderr = text(&ended.stderr);
    let expected = "Effect on each VM: host maintenance; no interruption of the VM is expected.\n";
    assert!(stderr.contains(expected), "{stderr}");
}

#[tokio::test]
async fn approve_and_list_show_a_missing_source_as_treated_as_platform() {
    let imds = imds(Reply::ok("")).await;
    let (user, null) = (r#""EventSource":"User""#, r#""EventSource":null"#);
    imds.now(Reply::ok(RESTART.replace(user, null)));
    let approved = approve(&imds, &[TYPED, "--dry-run"]).await;
    let stderr = text(&approved.stderr);
    let source = "not given, treated as Platform";
    assert!(stderr.contains(&format!(", source {source}, ")), "{stderr}");
    let listed = run(&["list", &format!("--imds.url={}", imds.base())]).await;
    let stdout = text(&listed.stdout);
    assert!(stdout.contains(source), "{stdout}");
}

#[tokio::test]
async fn a_failure_leaves_stdout_empty_and_exits_with_1() {
    let imds = imds(Reply::error("400 Bad Request", "malformed")).await;
    let refused = approve(&imds, &[TYPED, "--output=json"]).await;
    let unknown = approve(&imds, &["602d9444-d2cd-49c7-8624-8643e7171297"]).await;
    imds.now(Reply::error("404 Not Found", "no"));
    let unread = approve(&imds, &[TYPED]).await;
    for (ended, expected) in [
        (refused, "error: not approved: HTTP 400"),
        (
            unknown,
            "no event \"602d9444-d2cd-49c7-8624-8643e7171297\" is pending; pending events: 1 ",
        ),
        (unread, "/metadata/scheduledevents: HTTP 404"),
    ] {
        let stderr = text(&ended.stderr);
        assert!(stderr.contains(expected), "{expected} in {stderr}");
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert_eq!(text(&ended.stdout), "", "{stderr}");
    }
    assert_eq!(imds.posts(), 1);
}

#[tokio::test]
async fn approve_refuses_an_event_with_two_different_entries() {
    let (start, event) = RESTART.split_once(r#""Events":["#).unwrap();
    let event = event.strip_suffix("]}").unwrap();
    let other = event.replacen("-1", "9", 1);
    let document = format!(r#"{start}"Events":[{event},{other}]}}"#);
    let imds = FakeImds::standing(Reply::ok(document)).await;
    let ended = approve(&imds, &[TYPED]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stdout.is_empty(), "{ended:?}");
    assert!(text(&ended.stderr).contains("contradicts itself"));
    assert_eq!(imds.posts(), 0);
}
