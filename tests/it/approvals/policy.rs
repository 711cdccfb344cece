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
use serde_json::{Value, json};

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
    let body = json!({ "DocumentIncarnation": 0, "Events": [event] });
    seen_in(&body.to_string(), Some(OWN))
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

/// An event, the name of the VM, and the seconds since the first document.
type Circumstance = (&'static str, Arc<TrackedEvent>, Option<&'static str>, u64);

/// One circumstance per row, for a restart requested by a user and for a short freeze.
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
        for (what, tracked, vm_name, seconds) in
            resource_orders(&members).into_iter().chain(gaps(&members))
        {
            row(table, what, &tracked, vm_name, at(seconds));
        }
        histories(table, &restart(&members));
        contradictions(table, &restart(&members));
    }
}

fn with(members: &Value, more: &Value) -> Arc<TrackedEvent> {
    let mut all = members.clone();
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    only(&seen(&restart(&all)))
}

/// First and later VMs of `Resources`.
fn resource_orders(members: &Value) -> Vec<Circumstance> {
    let first = with(members, &json!({}));
    let second = with(members, &json!({"Resources": ["web_9", OWN]}));
    let underscore = with(members, &json!({"Resources": ["_web_0", "_web_9"]}));
    let beginning = with(members, &json!({"Resources": ["web_", OWN]}));
    let own = Some(OWN);
    vec![
        ("first in Resources", first.clone(), own, 0),
        ("first, just before NotBefore", first.clone(), own, 899),
        ("first, at NotBefore", first.clone(), own, 900),
        ("first in another case", first, Some("WEB_0"), 0),
        (
            "first with the underscore of 2017-03-01",
            underscore,
            own,
            0,
        ),
        ("first is only a beginning of our name", beginning, own, 0),
        ("second, before the delay", second.clone(), own, 59),
        ("second, after the delay", second.clone(), own, 60),
        ("second, just before NotBefore", second.clone(), own, 899),
        ("second, at NotBefore", second, own, 900),
    ]
}

/// Events with missing or unexpected values.
fn gaps(members: &Value) -> Vec<Circumstance> {
    let plain = with(members, &json!({}));
    let with = |more: Value| with(members, &more);
    let missing = with(json!({"Resources": null}));
    let empty = with(json!({"Resources": []}));
    let nameless = with(json!({"Resources": [""]}));
    let no_time = with(json!({"NotBefore": ""}));
    let started = with(json!({"EventStatus": "Started", "NotBefore": ""}));
    let unknown_status = with(json!({"EventStatus": "Paused"}));
    let advisory = with(json!({"EventStatus": "Advisory"}));
    let own = Some(OWN);
    let another = Some("web_7");
    vec![
        ("own name unknown", plain.clone(), None, 0),
        ("another VM's, before the delay", plain.clone(), another, 59),
        ("another VM's, after the delay", plain.clone(), another, 60),
        (
            "another VM's, just before NotBefore",
            plain.clone(),
            another,
            899,
        ),
        ("another VM's, at NotBefore", plain, another, 900),
        ("Resources missing", missing, own, 600),
        ("Resources empty", empty, own, 600),
        ("Resources with an empty name", nameless, own, 600),
        ("NotBefore missing", no_time, own, 0),
        ("Started", started, own, 0),
        ("a status that we do not know", unknown_status, own, 0),
        ("Advisory", advisory, own, 0),
    ]
}

/// Earlier transitions of the event.
fn histories(table: &mut String, event: &Value) {
    let mut approved = seen(event);
    let id = EventId::new(ID);
    let accepted = approved.record_step(&id, ApprovalStep::Accepted, at(1));
    assert!(accepted.is_some());
    row(table, "approved before", &only(&approved), Some(OWN), at(2));
    let mut moved = event.clone();
    moved["NotBefore"] = json!(at(1_800).wall.rfc1123());
    see(&mut approved, &json!([moved]), 3);
    row(
        table,
        "approved, then moved",
        &only(&approved),
        Some(OWN),
        at(4),
    );
    let mut ended = seen(event);
    see(&mut ended, &json!([]), 1);
    row(table, "gone", &only(&ended), Some(OWN), at(2));
    let mut regressed = event.clone();
    regressed["EventStatus"] = json!("Started");
    let mut tracker = seen(&regressed);
    see(&mut tracker, &json!([event]), 1);
    row(
        table,
        "Started, then Scheduled again",
        &only(&tracker),
        Some(OWN),
        at(2),
    );
}

/// Documents that contradict themselves or their predecessors.
fn contradictions(table: &mut String, event: &Value) {
    let mut row = |what: &str, tracker: &Tracker| {
        row(table, what, &only(tracker), Some(OWN), at(2));
    };
    let changed = |name: &str, value: Value| {
        let mut changed = event.clone();
        changed[name] = value;
        changed
    };
    let once = |entries: &str| {
        let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{entries}]}}"#);
        seen_in(&body, Some(OWN))
    };
    for (name, value) in [
        ("Resources", json!(["web_1"])),
        ("EventType", json!("Redeploy")),
        ("EventStatus", json!(null)),
        ("EventSource", json!(null)),
        ("NotBefore", json!("")),
        ("DurationInSeconds", json!(8)),
    ] {
        let other = changed(name, value);
        row(
            &format!("listed twice, {name} differs"),
            &once(&format!("{event},{other}")),
        );
    }
    let twice = event
        .to_string()
        .replacen('{', r#"{"DurationInSeconds":7,"#, 1);
    row("a member twice in the event", &once(&twice));
    let body = format!(r#"{{"DocumentIncarnation":1,"DocumentIncarnation":2,"Events":[{event}]}}"#);
    row("a member twice in the document", &seen_in(&body, Some(OWN)));
    let unreadable = format!(r#"{event},{{"ID":"{ID}"}}"#);
    row("an unreadable entry with its id", &once(&unreadable));
    for (name, other) in [
        ("EventSource", r#""eventsource":"Platform","EventSource""#),
        ("DurationInSeconds", r#""DURATIONINSECONDS""#),
    ] {
        let text = event.to_string().replace(&format!("\"{name}\""), other);
        row(&format!("{name} in another case"), &once(&text));
    }
    for (what, resources) in [
        ("Resources a single name", json!(OWN)),
        ("Resources with a number", json!([OWN, 7])),
    ] {
        row(what, &once(&changed("Resources", resources).to_string()));
    }
    for name in [
        "EventType",
        "EventSource",
        "Resources",
        "NotBefore",
        "DurationInSeconds",
    ] {
        let mut tracker = seen(event);
        see(&mut tracker, &json!([changed(name, json!(null))]), 1);
        row(&format!("{name} was there and is missing now"), &tracker);
        see(&mut tracker, &json!([event]), 2);
        row(&format!("{name} was missing and is there again"), &tracker);
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
