//! Two VMs of one event: the first of `Resources` approves, the other is its backup.

use std::time::Duration;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, time::Timestamp};
use serde_json::Value;

use super::{APPROVED, azure::Azure, user_events};
use crate::support::exporter::{Exporter, settings};

const DELAY: Duration = Duration::from_secs(2);

fn on(azure: &mut Azure, vm_name: &'static str) -> Exporter {
    let mut settings = settings(&azure.base_of(vm_name));
    settings.imds.vm_name = Some(vm_name.into());
    settings.approvals = ApprovalPolicy {
        delay: DELAY,
        ..user_events()
    };
    Exporter::start(settings)
}

async fn event(exporter: &Exporter) -> Value {
    let body = exporter.get("/api/v1/events").await.1;
    serde_json::from_str::<Value>(&body).unwrap()["events"][0].clone()
}

fn time(value: &Value) -> Timestamp {
    Timestamp::parse(value.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_first_vm_of_two_approves_alone() {
    let mut azure = Azure::playing(&[], 1.0);
    let leader = on(&mut azure, "web_0");
    let backup = on(&mut azure, "web_1");
    azure.until_gets(4).await;
    azure.request_restart(&["web_0", "web_1"]).await;
    leader
        .until("the leader approves", |it| it.value(APPROVED) == Some(1.0))
        .await;
    azure.until_started().await;
    // Two exporters with five polls a second: longer than the delay.
    azure.until_gets(30).await;
    assert_eq!(azure.posts(), 1);
    assert_eq!(backup.metrics().await.value(APPROVED), Some(0.0));
    let seen = event(&backup).await;
    assert_eq!(seen["approval"]["decision"], "approved_elsewhere");
    assert!(seen["approved_elsewhere_at"].is_string(), "{seen}");
    leader.stop().await;
    backup.stop().await;
}

#[tokio::test]
async fn without_the_first_vm_the_other_approves_once_after_the_delay() {
    let mut azure = Azure::playing(&[], 1.0);
    let leader = on(&mut azure, "web_0");
    let backup = on(&mut azure, "web_1");
    azure.until_gets(4).await;
    leader.kill().await;
    azure.request_restart(&["web_0", "web_1"]).await;
    let appeared = r#"azure_scheduled_events_pending{event_type="Reboot",scope="self"}"#;
    backup
        .until("it is seen", |it| it.value(appeared) == Some(1.0))
        .await;
    let waiting = event(&backup).await["approval"].clone();
    assert_eq!(waiting["decision"], "waiting");
    let message = waiting["message"].as_str().unwrap();
    assert!(
        message.starts_with("web_0 is its first resource"),
        "{message}"
    );
    assert_eq!(azure.posts(), 0);
    backup
        .until("the backup approves", |it| it.value(APPROVED) == Some(1.0))
        .await;
    azure.until_started().await;
    azure.until_gets(5).await;
    assert_eq!(azure.posts(), 1);
    let event = event(&backup).await;
    let waited = time(&event["approved_at"]).saturating_since(time(&event["first_seen_at"]));
    assert!(waited >= DELAY, "{waited:?}");
    println!(
        "the backup approved {waited:?} after the first observation, with a delay of {DELAY:?}"
    );
    backup.stop().await;
}
