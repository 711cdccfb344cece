//! Advisories through the engine: what they must not cause.

use std::{sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    approval::ApprovalPolicy,
    document::{self, Answer},
    engine::{Effect, Engine, EngineConfig, Input, LogEntry},
    lifecycle::TransitionKind,
    time::{Moment, Timestamp},
};
use serde_json::{Value, json};

fn at(seconds: u64) -> Moment {
    let start = Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_hours(1),
    };
    start.after(Duration::from_secs(seconds))
}

/// An engine on `web_0` that approves whatever it may.
fn engine() -> Engine {
    let config = EngineConfig {
        vm_name: Some(Arc::from("web_0")),
        approvals: ApprovalPolicy {
            user_events: true,
            freeze_below: Some(Duration::from_secs(9)),
            ..ApprovalPolicy::default()
        },
        is_persistent: true,
        ..EngineConfig::default()
    };
    Engine::new(config, None, at(0))
}

/// A freeze that the policy approves unless it is an advisory.
fn freeze(status: &str) -> Value {
    json!([{
        "EventId": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265", "EventStatus": status, "EventType": "Freeze",
        "ResourceType": "VirtualMachine", "Resources": ["web_0"], "NotBefore": at(900).wall.rfc1123(),
        "Description": "", "EventSource": "User", "DurationInSeconds": 5,
    }])
}

/// Gives the engine a document; every write of the state succeeds.
fn poll(engine: &mut Engine, events: &Value, seconds: u64) -> Vec<Effect> {
    let body = json!({ "DocumentIncarnation": seconds, "Events": events }).to_string();
    let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
    let input = Input::Polled {
        result: Ok(Answer::Document {
            document,
            anomalies,
        }),
        took: Duration::ZERO,
    };
    let mut effects = engine.handle(input, at(seconds));
    if saves(&effects) {
        effects.extend(engine.handle(Input::StateWritten(Ok(())), at(seconds)));
    }
    effects
}

fn saves(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::SaveState(_)))
}

fn approves(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::Approve(_)))
}

fn transitions(effects: &[Effect]) -> Vec<&'static str> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Log(LogEntry::Transition(transition)) => Some(transition.kind.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn advisory_needs_no_heartbeat_and_no_save_while_nothing_changes() {
    let mut engine = engine();
    poll(&mut engine, &json!([]), 0);
    assert!(saves(&poll(&mut engine, &freeze("Advisory"), 10)));
    assert!(!engine.looks_for_pauses());
    assert!(!saves(&poll(&mut engine, &freeze("Advisory"), 20)));
    assert!(saves(&poll(&mut engine, &freeze("Scheduled"), 30)));
    assert!(engine.looks_for_pauses());
    assert!(saves(&poll(&mut engine, &freeze("Scheduled"), 40)));
}

#[test]
fn advisory_is_never_approved_and_the_maintenance_that_it_becomes_is() {
    let mut engine = engine();
    poll(&mut engine, &json!([]), 0);
    let advised = poll(&mut engine, &freeze("Advisory"), 10);
    assert_eq!(transitions(&advised), ["announced"]);
    assert!(!approves(&advised));
    assert!(!approves(&poll(&mut engine, &freeze("Advisory"), 600)));
    let scheduled = poll(&mut engine, &freeze("Scheduled"), 610);
    assert_eq!(transitions(&scheduled), ["ended", "announced"]);
    assert!(approves(&scheduled));
}

#[test]
fn advisory_has_no_interruption_of_another_event() {
    let mut events = freeze("Scheduled");
    let mut advisory = freeze("Advisory")[0].clone();
    advisory["EventId"] = json!("A");
    events.as_array_mut().unwrap().push(advisory);
    let mut engine = engine();
    poll(&mut engine, &events, 0);
    engine.handle(Input::Tick, at(1));
    let effects = engine.handle(Input::Tick, at(8));
    let interrupted: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Log(LogEntry::Transition(transition))
                if matches!(transition.kind, TransitionKind::Interrupted(_)) =>
            {
                Some(transition.tracked.event.id.as_str())
            }
            _ => None,
        })
        .collect();
    assert_eq!(interrupted, ["7B1E04C9-52DA-4F6E-9C38-A40D7E91B265"]);
}
