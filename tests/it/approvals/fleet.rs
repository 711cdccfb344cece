//! Two VMs: the first of `Resources` approves, the other is its backup, also for events that do not name it.

use std::time::Duration;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, time::Timestamp};
use serde_json::Value;

use super::{APPROVED, azure::Azure, event, group, user_events};
use crate::support::exporter::{Exporter, settings};

const DELAY: Duration = Duration::from_secs(2);

fn on(azure: &mut Azure, vm_name: &'static str) -> Exporter {
    with(user_events(), azure, vm_name)
}

fn with(policy: ApprovalPolicy, azure: &mut Azure, vm_name: &'static str) -> Exporter {
    let mut settings = settings(&azure.base_of(vm_name));
    settings.imds.vm_name = Some(vm_name.into());
    settings.approvals = ApprovalPolicy {
        delay: DELAY,
        ..policy
    };
    Exporter::start(settings)
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

#[tokio::test]
async fn a_vm_approves_its_own_event_before_one_that_approves_for_the_group() {
    let mut azure = Azure::playing(&[], 1.0);
    let primary = on(&mut azure, "web_0");
    let secondary = with(group(), &mut azure, "web_1");
    azure.until_gets(4).await;
    azure.request_restart(&["web_0"]).await;
    primary
        .until("the VM approves", |it| it.value(APPROVED) == Some(1.0))
        .await;
    // Two exporters with five polls a second: longer than the delay.
    azure.until_gets(30).await;
    assert_eq!(azure.posts(), 1);
    let seen = event(&secondary).await;
    assert_eq!(seen["approval"]["decision"], "approved_elsewhere");
    primary.stop().await;
    secondary.stop().await;
}

/// `web_0` hangs: it has no exporter.
#[tokio::test]
async fn for_the_group_another_vm_approves_once_after_the_delay() {
    let mut azure = Azure::playing(&[], 1.0);
    let secondary = with(group(), &mut azure, "web_1");
    let idle = on(&mut azure, "web_2");
    azure.until_gets(4).await;
    azure.request_restart(&["web_0"]).await;
    let appeared = r#"azure_scheduled_events_pending{event_type="Reboot",scope="other"}"#;
    for exporter in [&secondary, &idle] {
        exporter
            .until("it is seen", |it| it.value(appeared) == Some(1.0))
            .await;
    }
    assert_eq!(event(&secondary).await["approval"]["decision"], "waiting");
    assert_eq!(event(&idle).await["approval"]["reason"], "other_vm");
    assert_eq!(azure.posts(), 0);
    secondary
        .until("it approves", |it| it.value(APPROVED) == Some(1.0))
        .await;
    azure.until_started().await;
    azure.until_gets(10).await;
    assert_eq!(azure.posts(), 1);
    assert_eq!(idle.metrics().await.value(APPROVED), Some(0.0));
    let event = event(&secondary).await;
    let waited = time(&event["approved_at"]).saturating_since(time(&event["first_seen_at"]));
    assert!(waited >= DELAY, "{waited:?}");
    assert_eq!(secondary.get("/-/serving").await.0, 200);
    secondary.stop().await;
    idle.stop().await;
}

/// `web_0` hangs: it has no exporter.
#[tokio::test]
async fn for_itself_a_vm_does_not_approve_an_event_of_another_one() {
    let mut azure = Azure::playing(&[], 1.0);
    let secondary = on(&mut azure, "web_1");
    azure.until_gets(2).await;
    azure.request_restart(&["web_0"]).await;
    // Five polls a second: longer than the delay.
    azure.until_gets(15).await;
    assert_eq!(event(&secondary).await["approval"]["reason"], "other_vm");
    assert_eq!(azure.posts(), 0);
    secondary.stop().await;
}
