//! The approval policy: a table of its decisions, and the decisions that it must never make.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    approval::{ApprovalDecision, ApprovalPolicy, ApprovalStep, SkipReason, verdict},
    document,
    event::EventId,
    lifecycle::{TrackedEvent, Tracker},
    time::{Moment, Timestamp},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{
    golden::difference,
    simulated_vm::{ID, moment as at, restart},
};

const OWN: &str = "web_0";

fn policies() -> [(&'static str, ApprovalPolicy); 5] {
    let off = ApprovalPolicy::default();
    let freeze_below = Some(Duration::from_secs(9));
    let users = ApprovalPolicy {
        user_events: true,
        ..off
    };
    let both = ApprovalPolicy {
        freeze_below,
        ..users
    };
    [
        ("off", off),
        ("user-events", users),
        (
            "freeze-below=9s",
            ApprovalPolicy {
                freeze_below,
                ..off
            },
        ),
        ("both", both),
        (
            "both, for=group",
            ApprovalPolicy {
                for_group: true,
                ..both
            },
        ),
    ]
}

/// A tracker after this event was announced.
fn seen(event: &Value) -> Tracker {
    let mut tracker = Tracker::default();
    see(&mut tracker, &json!([event]), 0);
    tracker
}

/// A tracker after this document.
fn seen_in(body: &str, vm_name: Option<&str>) -> Tracker {
    let mut tracker = Tracker::default();
    let (document, _) = document::parse(body.as_bytes()).unwrap();
    tracker.observe(&document, vm_name, at(0));
    tracker
}

fn see(tracker: &mut Tracker, events: &Value, seconds: u64) {
    let body = json!({ "DocumentIncarnation": seconds, "Events": events }).to_string();
    let (document, _) = document::parse(body.as_bytes()).unwrap();
    tracker.observe(&document, Some(OWN), at(seconds));
}

fn only(tracker: &Tracker) -> Arc<TrackedEvent> {
    tracker.events(at(0)).pop().unwrap()
}

fn word(decision: ApprovalDecision) -> String {
    match decision {
        ApprovalDecision::Due(_) => "APPROVE".to_owned(),
        ApprovalDecision::Waiting { leader, .. } => format!("wait({leader})"),
        ApprovalDecision::Approved { .. } => "approved".to_owned(),
        ApprovalDecision::ApprovedElsewhere { .. } => "approved_elsewhere".to_owned(),
        ApprovalDecision::Withheld(why) => why.as_str().to_owned(),
        other => panic!("{other:?} is no decision of the policy"),
    }
}

fn certain(vm_name: Option<&str>) -> Result<&str, SkipReason> {
    vm_name.ok_or(SkipReason::IdentityUnknown)
}

fn row(table: &mut String, what: &str, tracked: &TrackedEvent, vm_name: Option<&str>, now: Moment) {
    write!(table, "{what:58}").unwrap();
    for (_, settings) in policies() {
        let decision = word(verdict(tracked, &settings, certain(vm_name), now));
        write!(table, " {decision:18}").unwrap();
    }
    table.truncate(table.trim_end().len());
    table.push('\n');
}

fn heading(table: &mut String, title: &str) {
    write!(table, "{title:58}").unwrap();
    for (policy, _) in policies() {
        write!(table, " {policy:18}").unwrap();
    }
    table.truncate(table.trim_end().len());
    table.push('\n');
}

/// Every event type, for the first VM of `Resources`, and for one that is not among them after the delay.
fn kinds(table: &mut String, title: &str, vm_name: &str, durations: &[i32], seconds: u64) {
    heading(table, title);
    for event_type in [
        "Freeze",
        "Reboot",
        "Redeploy",
        "Preempt",
        "Terminate",
        "Hibernate",
        "SpotRebalanceRecommendation",
    ] {
        for source in [
            json!("User"),
            json!("Platform"),
            json!("Partner"),
            json!(null),
        ] {
            for duration in durations {
                let event = restart(&json!({
                    "EventType": event_type, "EventSource": source, "DurationInSeconds": duration,
                }));
                let source = source.as_str().unwrap_or("(none)");
                let what = format!("{event_type:10}{source:10}{duration:2}");
                row(
                    table,
                    &what,
                    &only(&seen(&event)),
                    Some(vm_name),
                    at(seconds),
                );
            }
        }
    }
}

/// What | the name of this VM, or `-` | the seconds since the first document | the documents, one a second, divided by
/// `;`. The entries of a document are divided by `&`: each is the event with these members.
const CIRCUMSTANCES: &str = r#"
first in Resources | web_0 | 0 | {}
first, just before NotBefore | web_0 | 899 | {}
first, at NotBefore | web_0 | 900 | {}
first in another case | WEB_0 | 0 | {}
first with the underscore of 2017-03-01 | web_0 | 0 | {"Resources": ["_web_0", "_web_9"]}
first is only a beginning of our name | web_0 | 0 | {"Resources": ["web_", "web_0"]}
second, before the delay | web_0 | 59 | {"Resources": ["web_9", "web_0"]}
second, after the delay | web_0 | 60 | {"Resources": ["web_9", "web_0"]}
second, just before NotBefore | web_0 | 899 | {"Resources": ["web_9", "web_0"]}
second, at NotBefore | web_0 | 900 | {"Resources": ["web_9", "web_0"]}
own name unknown | - | 0 | {}
another VM's, before the delay | web_7 | 59 | {}
another VM's, after the delay | web_7 | 60 | {}
another VM's, just before NotBefore | web_7 | 899 | {}
another VM's, at NotBefore | web_7 | 900 | {}
Resources missing | web_0 | 600 | {"Resources": null}
Resources empty | web_0 | 600 | {"Resources": []}
Resources with an empty name | web_0 | 600 | {"Resources": [""]}
NotBefore missing | web_0 | 0 | {"NotBefore": ""}
Started | web_0 | 0 | {"EventStatus": "Started", "NotBefore": ""}
a status that we do not know | web_0 | 0 | {"EventStatus": "Paused"}
Advisory | web_0 | 0 | {"EventStatus": "Advisory"}
gone | web_0 | 2 | {} ; nothing
Started, then Scheduled again | web_0 | 2 | {"EventStatus": "Started"} ; {}
listed twice, Resources differs | web_0 | 2 | {} & {"Resources": ["web_1"]}
listed twice, EventType differs | web_0 | 2 | {} & {"EventType": "Redeploy"}
listed twice, EventStatus differs | web_0 | 2 | {} & {"EventStatus": null}
listed twice, EventSource differs | web_0 | 2 | {} & {"EventSource": null}
listed twice, NotBefore differs | web_0 | 2 | {} & {"NotBefore": ""}
listed twice, DurationInSeconds differs | web_0 | 2 | {} & {"DurationInSeconds": 8}
Resources a single name | web_0 | 2 | {"Resources": "web_0"}
Resources with a number | web_0 | 2 | {"Resources": ["web_0", 7]}
EventType was there and is missing now | web_0 | 2 | {} ; {"EventType": null}
EventType was missing and is there again | web_0 | 2 | {} ; {"EventType": null} ; {}
EventSource was there and is missing now | web_0 | 2 | {} ; {"EventSource": null}
EventSource was missing and is there again | web_0 | 2 | {} ; {"EventSource": null} ; {}
Resources was there and is missing now | web_0 | 2 | {} ; {"Resources": null}
Resources was missing and is there again | web_0 | 2 | {} ; {"Resources": null} ; {}
NotBefore was there and is missing now | web_0 | 2 | {} ; {"NotBefore": null}
NotBefore was missing and is there again | web_0 | 2 | {} ; {"NotBefore": null} ; {}
DurationInSeconds was there and is missing now | web_0 | 2 | {} ; {"DurationInSeconds": null}
DurationInSeconds was missing and is there again | web_0 | 2 | {} ; {"DurationInSeconds": null} ; {}
"#;

/// For a restart requested by a user and for a short freeze.
fn circumstances(table: &mut String) {
    for (kind, members) in [
        ("User reboot", json!({})),
        (
            "Platform freeze of 5 s",
            json!({"EventType": "Freeze", "EventSource": "Platform", "DurationInSeconds": 5}),
        ),
    ] {
        table.push('\n');
        heading(table, &kind.to_uppercase());
        let event = restart(&members);
        for line in CIRCUMSTANCES.lines().filter(|line| !line.is_empty()) {
            let parts: Vec<_> = line.split(" | ").collect();
            let [what, vm_name, seconds, documents] = parts[..] else {
                panic!("{line}");
            };
            let mut tracker = Tracker::default();
            for (second, document) in (0..).zip(documents.split(" ; ")) {
                let entries = document.split(" & ").filter(|entry| *entry != "nothing");
                let entries = entries.map(|members| with(&event, members));
                see(&mut tracker, &entries.collect(), second);
            }
            let vm_name = Some(vm_name).filter(|name| *name != "-");
            let now = at(seconds.parse().unwrap());
            row(table, what, &only(&tracker), vm_name, now);
        }
        approvals(table, &event);
        unusual_texts(table, &event.to_string());
    }
}

fn with(event: &Value, members: &str) -> Value {
    let mut event = event.clone();
    for (name, value) in serde_json::from_str::<Map<_, _>>(members).unwrap() {
        event[name] = value;
    }
    event
}

fn approvals(table: &mut String, event: &Value) {
    let mut approved = seen(event);
    let id = EventId::new(ID);
    let accepted = approved.record_step(&id, ApprovalStep::Accepted, at(1));
    assert!(accepted.is_some());
    row(table, "approved before", &only(&approved), Some(OWN), at(2));
    let mut moved = event.clone();
    moved["NotBefore"] = json!(at(1_800).wall.rfc1123());
    see(&mut approved, &json!([moved]), 3);
    let moved = only(&approved);
    row(table, "approved, then moved", &moved, Some(OWN), at(4));
}

/// Documents that no decoder of JSON writes.
fn unusual_texts(table: &mut String, event: &str) {
    let once = |entries: &str| format!(r#"{{"DocumentIncarnation":1,"Events":[{entries}]}}"#);
    let twice = event.replacen('{', r#"{"DurationInSeconds":7,"#, 1);
    let incarnations = once(event).replacen('{', r#"{"DocumentIncarnation":2,"#, 1);
    let unreadable = format!(r#"{event},{{"ID":"{ID}"}}"#);
    let source = r#""eventsource":"Platform","EventSource""#;
    let source = event.replace(r#""EventSource""#, source);
    let duration = event.replace("DurationInSeconds", "DURATIONINSECONDS");
    for (what, body) in [
        ("a member twice in the event", once(&twice)),
        ("a member twice in the document", incarnations),
        ("an unreadable entry with its id", once(&unreadable)),
        ("EventSource in another case", once(&source)),
        ("DurationInSeconds in another case", once(&duration)),
    ] {
        let tracked = only(&seen_in(&body, Some(OWN)));
        row(table, what, &tracked, Some(OWN), at(2));
    }
}

#[test]
fn decisions_match_the_table() {
    let mut table = String::new();
    let title = "KIND (type, source, duration)";
    kinds(&mut table, title, OWN, &[-1, 0, 8, 9], 1);
    table.push('\n');
    let title = "KIND, ANOTHER VM'S, AFTER THE DELAY";
    kinds(&mut table, title, "web_7", &[8], 60);
    circumstances(&mut table);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/approvals/decisions.txt");
    let differs = difference(&file, &table);
    assert!(differs.is_none(), "{}", differs.unwrap_or_default());
}

fn any_event() -> impl Strategy<Value = Value> {
    let word = |words: &[&str]| {
        let all: Vec<_> = words.iter().map(|word| json!(word)).collect();
        prop_oneof![9 => prop::sample::select(all), 1 => Just(json!(null)), 1 => ".{0,6}".prop_map(Value::from)]
    };
    let types = word(&[
        "Freeze",
        "reboot",
        "REDEPLOY",
        "Preempt",
        "preempt",
        "Terminate",
        "TERMINATE",
        "Hibernate",
        "SpotRebalanceRecommendation",
    ]);
    let sources = word(&["User", "user", "Platform", "Partner"]);
    let statuses = prop_oneof![4 => Just(json!("Scheduled")), 1 => word(&["started", "Started", "Paused", "Advisory"])];
    let names = prop::sample::select(vec![
        "web_0", "WEB_0", "_web_0", "web_1", "web_", "web_00", "",
    ]);
    let resources = prop_oneof![
        9 => prop::collection::vec(names, 0..4).prop_map(|names| json!(names)),
        1 => Just(json!(null)),
        1 => Just(json!("web_0")),
    ];
    let duration = prop_oneof![
        (-3_i64..20).prop_map(Value::from),
        Just(json!(null)),
        Just(json!("5")),
        any::<i64>().prop_map(Value::from),
    ];
    let not_before = prop_oneof![
        4 => (0_u64..2_000).prop_map(|seconds| json!(at(seconds).wall.rfc1123())),
        1 => Just(json!("")),
        1 => Just(json!("soon")),
    ];
    (types, sources, statuses, resources, duration, not_before).prop_map(
        |(event_type, source, status, resources, duration, not_before)| {
            json!({
                "EventId": ID, "EventType": event_type, "EventSource": source, "EventStatus": status,
                "Resources": resources, "DurationInSeconds": duration, "NotBefore": not_before,
            })
        },
    )
}

fn any_settings() -> impl Strategy<Value = ApprovalPolicy> {
    let below = prop::option::of((0_u64..1_000_000).prop_map(Duration::from_millis));
    let delay = (0_u64..1_000).prop_map(Duration::from_secs);
    let drain = (0_u64..100).prop_map(Duration::from_secs);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (flags, below, delay, drain).prop_map(
        |((user_events, for_group, dry_run), freeze_below, delay, drain)| ApprovalPolicy {
            user_events,
            for_group,
            freeze_below,
            delay,
            drain,
            dry_run,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Checks the document itself, not the parsed event.
    #[test]
    fn no_combination_causes_a_forbidden_approval(
        event in any_event(),
        settings in any_settings(),
        vm_name in prop::option::of(prop::sample::select(vec!["web_0", "Web_0", "web_1", "web_2"])),
        seconds in 0_u64..2_000,
    ) {
        let body = json!({ "DocumentIncarnation": 1, "Events": [event] });
        let tracker = seen_in(&body.to_string(), vm_name);
        let Some(tracked) = tracker.events(at(0)).pop() else { return Ok(()) };
        let decision = verdict(&tracked, &settings, certain(vm_name), at(seconds));
        if !matches!(decision, ApprovalDecision::Due(_) | ApprovalDecision::Waiting { .. } | ApprovalDecision::Draining { .. }) {
            return Ok(());
        }
        let value_of = |member: &str| event[member].as_str().unwrap_or_default().to_ascii_lowercase();
        prop_assert!(settings.user_events || settings.freeze_below.is_some(), "off");
        prop_assert!(["freeze", "reboot", "redeploy"].contains(&&*value_of("EventType")), "{event}");
        prop_assert!(["user", "platform"].contains(&&*value_of("EventSource")), "{event}");
        prop_assert_eq!(value_of("EventStatus"), "scheduled");
        let vm_name = vm_name.expect("the name of this VM is known").to_ascii_lowercase();
        let named = event["Resources"].as_array().expect("a list of names");
        let named: Vec<_> = named.iter().map(|name| name.as_str().unwrap()).collect();
        let named: Vec<_> = named
            .iter()
            .map(|name| name.to_ascii_lowercase().trim_start_matches('_').to_owned())
            .collect();
        let is_user_event = settings.user_events && value_of("EventSource") == "user";
        let is_for_others = settings.for_group && is_user_event && !named.is_empty();
        prop_assert!(named.contains(&vm_name) || is_for_others, "{event}");
        let not_before = Timestamp::parse(&value_of("NotBefore"));
        prop_assert!(not_before.is_some_and(|at_| at_ > at(seconds).wall), "{event}");
        if !is_user_event {
            let below = settings.freeze_below.expect("a limit is set");
            prop_assert_eq!(value_of("EventType"), "freeze");
            // A number in a string is read as a number.
            let seconds = event["DurationInSeconds"]
                .as_i64()
                .or_else(|| value_of("DurationInSeconds").parse().ok());
            let duration = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            prop_assert!(duration.is_some_and(|it| Duration::from_secs(it) < below), "{event}");
        }
        if named[0] != vm_name && matches!(decision, ApprovalDecision::Due(_)) {
            prop_assert!(Duration::from_secs(seconds) >= settings.delay, "{event}");
        }
    }
}
