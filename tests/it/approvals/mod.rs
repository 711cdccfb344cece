//! Approvals of the whole exporter, counted by the receiving IMDS. Those of the engine are `approvals-*` in
//! `tests/scenarios`.

mod drain;
mod manual;
mod names;
mod off;
mod policy;
mod restarts;
mod retries;
mod together;
mod transcripts;

use std::time::Duration;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, config::Config};
use serde_json::Value;

use crate::support::{
    FakeImds,
    exporter::{Exporter, settings},
    process::Process,
};

/// A restart of `web_0` and `web_1`, requested by a user, far ahead.
const RESTART: &str = r#"{"DocumentIncarnation":8,"Events":[{"EventId":"e2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E","EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["web_0","web_1"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"User","DurationInSeconds":-1}]}"#;

const APPROVED: &str =
    r#"azure_scheduled_events_approvals_total{event_type="Reboot",result="approved"}"#;
const FAILED: &str =
    r#"azure_scheduled_events_approvals_total{event_type="Reboot",result="failed"}"#;

/// `--approve.user-events`.
fn user_events() -> ApprovalPolicy {
    ApprovalPolicy {
        user_events: true,
        ..ApprovalPolicy::default()
    }
}

/// Everything that can be approved.
fn everything() -> ApprovalPolicy {
    ApprovalPolicy {
        for_group: true,
        freeze_below: Some(Duration::from_mins(10)),
        ..user_events()
    }
}

/// The settings of an exporter with this policy.
fn settings_with(imds: &FakeImds, approvals: ApprovalPolicy) -> Config {
    Config {
        approvals,
        ..settings(&imds.base())
    }
}

/// The only event in the JSON of a running exporter.
async fn event(exporter: &Exporter) -> Value {
    let (status, body) = exporter.get("/api/v1/events").await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).unwrap();
    body["events"][0].clone()
}

async fn approval(exporter: &Exporter) -> Value {
    event(exporter).await["approval"].clone()
}

#[tokio::test]
async fn the_policy_is_logged_at_the_start() {
    let mut exporter = Process::start([
        "--web.listen-address=127.0.0.1:0",
        "--imds.url=http://127.0.0.1:9",
        "--approve.user-events",
        "--approve.for=group",
    ]);
    let line = exporter.says("message=\"approvals are on\"").await;
    let policy = "user_events=true for_group=true delay=1m drain=0s dry_run=false";
    assert!(line.contains(policy), "{line}");
}
