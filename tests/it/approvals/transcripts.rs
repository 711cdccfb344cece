//! Golden tests of the commands `approve` and `list`: `tests/approvals/commands.txt` has the answers of IMDS and the arguments,
//! `commands.golden` the exit codes, what is printed, and what IMDS received.
//!
//! | line | meaning |
//! |---|---|
//! | `= What it shows.` | begins a case with an IMDS of its own |
//! | `document` | IMDS returns the events of the indented lines, as in `tests/scenarios`, without `due=` where `list` counts down to it; the only one again and again; `closing`: and closes the connection |
//! | `reply 503 Busy` | IMDS returns this status instead of the document, or to an approval |
//! | `body {…}` | IMDS returns this text instead of the document |
//! | `approvals 400 Bad Request` | IMDS returns this status to each approval; `closed` and `silence` are no response |
//! | `identity 404 Not Found` | IMDS has no instance metadata, or these; otherwise they name `web_0` |
//! | `$ A --dry-run` | runs `approve`, or `list`; a letter stands for an id, as in `tests/scenarios` |

use std::{fmt::Write as _, mem, path::Path};

use serde_json::json;

use super::manual::query;
use crate::{
    scenarios::timeline,
    support::{FakeImds, Reply, golden::difference},
};

/// Too late to be repeated.
fn later(status: &str) -> Reply {
    Reply::http(status, &[("Retry-After", "60")], "")
}

/// What IMDS will return, until a command needs it.
#[derive(Default)]
struct Case {
    replies: Vec<Reply>,
    approvals: Option<Reply>,
    identity: Option<Reply>,
    imds: Option<FakeImds>,
}

impl Case {
    /// A command that is not the first one of its case has the IMDS of that one.
    async fn imds(&mut self) -> &FakeImds {
        let mut replies = mem::take(&mut self.replies);
        if self.imds.is_none() {
            self.imds = Some(if replies.len() == 1 {
                FakeImds::standing(replies.remove(0)).await
            } else {
                FakeImds::scripted(mem::take(&mut replies)).await
            });
        }
        let imds = self.imds.as_ref().unwrap();
        if let Some(reply) = replies.pop() {
            imds.now(reply);
        }
        if let Some(reply) = self.approvals.take() {
            imds.approvals(reply);
        }
        if let Some(reply) = self.identity.take() {
            imds.identity(reply);
        }
        imds
    }

    async fn run(&mut self, arguments: &str) -> String {
        let full = |word: &str| {
            let is_lower = word.chars().all(char::is_lowercase);
            match (word.len(), is_lower) {
                (1, true) => timeline::id(word).to_lowercase(),
                (1, false) => timeline::id(word),
                _ => word.to_owned(),
            }
        };
        let arguments: Vec<_> = arguments.split_whitespace().map(full).collect();
        let mut arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let command = match arguments[0] {
            "list" => arguments.remove(0),
            _ => "approve",
        };
        let imds = self.imds().await;
        let known = imds.requests().len();
        let ended = query(imds, command, &arguments).await;
        let mut report = format!("  exit code {}\n", ended.status.code().unwrap());
        for (name, bytes) in [("stdout", ended.stdout), ("stderr", ended.stderr)] {
            let text = String::from_utf8(bytes).unwrap();
            let text = text.replace(&imds.base(), "IMDS");
            // The log has a thread of its own.
            let (logged, printed): (Vec<_>, Vec<_>) =
                text.lines().partition(|line| line.starts_with("ts="));
            for line in printed.into_iter().chain(logged) {
                writeln!(report, "  {name}: {}", without_time(line)).unwrap();
            }
        }
        for request in &imds.requests()[known..] {
            if request.method == "POST" {
                writeln!(report, "  sent: {}", request.body).unwrap();
            }
        }
        report
    }
}

/// Without the time of a log line.
fn without_time(line: &str) -> &str {
    match line.strip_prefix("ts=").and_then(|it| it.split_once(' ')) {
        Some((_time, rest)) => rest,
        None => line,
    }
}

#[tokio::test]
async fn commands_have_their_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/approvals");
    let text = std::fs::read_to_string(folder.join("commands.txt")).unwrap();
    let mut report = String::new();
    let mut case = Case::default();
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if ["=", "$"].contains(&word) {
            writeln!(report, "{line}").unwrap();
        }
        match (word, rest) {
            ("=", _) => case = Case::default(),
            ("document", end) => {
                let mut entries = Vec::new();
                while let Some(entry) = lines.next_if(|line| line.starts_with(' ')) {
                    entries.push(entry.trim().to_owned());
                }
                let document = timeline::document(&json!(8), &entries);
                let reply = Reply::ok(document);
                let is_closing = end == "closing";
                case.replies.push(if is_closing {
                    reply.then_close()
                } else {
                    reply
                });
            }
            ("body", text) => case.replies.push(Reply::ok(text)),
            ("reply", status) => case.replies.push(Reply::error(status, "no")),
            ("approvals", "closed") => case.approvals = Some(Reply::raw("").then_close()),
            ("approvals", "silence") => case.approvals = Some(Reply::silence()),
            ("approvals", status) => case.approvals = Some(later(status)),
            ("identity", json) if json.starts_with('{') => case.identity = Some(Reply::ok(json)),
            ("identity", status) => case.identity = Some(Reply::error(status, "no")),
            ("$", arguments) => report += &case.run(arguments).await,
            _ => panic!("{line}"),
        }
    }
    assert_eq!(difference(&folder.join("commands.golden"), &report), None);
}
