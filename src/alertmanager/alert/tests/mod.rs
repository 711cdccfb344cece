//! Which alerts an event has.

mod ends;
mod latches;
mod texts;

use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::{
    event::{Event, EventId, EventType, Source, Status},
    lifecycle::{End, Interruption, Outcome, PollGap, Rescheduling},
    snapshot::Identity,
    time::Moment,
};

const SEEN: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(SEEN + seconds).unwrap()
}

/// An event of this VM, first seen at zero.
fn tracked(event_type: &str, source: &str, not_before: Option<i64>) -> TrackedEvent {
    let event = Event {
        id: EventId::new("A1B2C3D4-0000-4000-8000-000000000001"),
        event_type: EventType::new(event_type),
        status: Status::Scheduled,
        source: (!source.is_empty()).then(|| Source::new(source)),
        resource_type: None,
        resources: Some(vec!["web_1".into()]),
        has_more_resources: false,
        not_before: not_before.map(at),
        duration_seconds: None,
        description: None,
        unknown_members: Vec::new(),
    };
    TrackedEvent::begin(event, EventScope::Own, PollGap::Normal, at(0))
}

fn started(mut tracked: TrackedEvent, seconds: i64) -> TrackedEvent {
    tracked.started_at = Some(at(seconds));
    tracked.event.status = Status::Started;
    tracked
}

fn ended(mut tracked: TrackedEvent, seconds: i64) -> TrackedEvent {
    let outcome = Outcome::Completed;
    tracked.end = Some(End {
        at: at(seconds),
        outcome,
    });
    tracked
}

fn snapshot(events: impl IntoIterator<Item = TrackedEvent>) -> Snapshot {
    let now = Moment {
        wall: at(0),
        monotonic: Duration::ZERO,
    };
    let mut snapshot = Snapshot::empty(Some(Arc::from("web_1")), now);
    snapshot.events = events.into_iter().map(Arc::new).collect();
    snapshot
}

#[test]
fn pushed_labels_and_annotations_have_the_bounds_of_the_metrics() {
    let mut tracked = tracked("Fre\neze\u{202e}", &"é\u{200b}".repeat(200), Some(600));
    tracked.event.id = EventId::new("a\tb\u{7}");
    tracked.event.description = Some("Maintenance\r\n\u{2067}".repeat(40).into());
    let snapshot = snapshot([tracked]);
    let [alert] = alerts(&snapshot, at(0)).try_into().unwrap();
    let options = crate::metrics::MetricsOptions {
        scope: crate::snapshot::SeriesScope::Own,
        resources: false,
        process: false,
    };
    let now = snapshot.as_of;
    let format = crate::metrics::exposition::Format::OpenMetrics;
    let text = crate::metrics::render(&Arc::new(snapshot), format, options, 0, now).unwrap();
    let info = text
        .lines()
        .find(|line| line.starts_with("azure_scheduled_event_info{"))
        .unwrap();
    for name in ["event_id", "event_type", "event_source"] {
        let label = format!("{name}=\"{}\"", alert.labels[name]);
        assert!(info.contains(&label), "{label} is not in {info}");
    }
    let (_, description) = info.split_once("description=\"").unwrap();
    let (description, _) = description.split_once('"').unwrap();
    assert_eq!(description.chars().count(), 256);
    let pushed = &alert.annotations["description"];
    assert!(
        pushed.contains(&format!("Azure: \"{description}\"\nEvent: a b\u{fffd}")),
        "{pushed}"
    );
}

/// The alerts as `Name severity`, resolved ones with a plus.
fn names(tracked: TrackedEvent, seconds: i64) -> Vec<String> {
    let name = |alert: Alert| {
        let resolved = if alert.is_resolved { "+" } else { "" };
        let name = alert.labels["alertname"]
            .trim_start_matches("AzureScheduledEvent")
            .to_owned();
        format!("{resolved}{name} {}", alert.labels["severity"])
    };
    alerts(&snapshot([tracked]), at(seconds))
        .into_iter()
        .map(name)
        .collect()
}

fn platform(event_type: &str, not_before: Option<i64>) -> TrackedEvent {
    tracked(event_type, "Platform", not_before)
}

fn freeze(duration: Option<u64>, not_before: Option<i64>) -> TrackedEvent {
    let mut tracked = platform("Freeze", not_before);
    tracked.event.duration_seconds = duration;
    tracked
}

fn assert_alerts(cases: &[(TrackedEvent, i64, &[&str])]) {
    for (tracked, seconds, expected) in cases {
        let alerts = names(tracked.clone(), *seconds);
        assert_eq!(alerts, *expected, "{tracked:?} at {seconds}");
    }
}

#[test]
fn restart_rules_depend_on_source_notice_and_remaining_time() {
    let failed = || started(platform("Reboot", None), 0);
    assert_alerts(&[
        (
            tracked("Reboot", "User", Some(900)),
            0,
            &["UserInitiatedWaiting warning"],
        ),
        (
            tracked("Redeploy", "User", Some(900)),
            0,
            &["UserInitiatedWaiting warning"],
        ),
        (failed(), 0, &["HardwareFailure critical"]),
        (
            started(platform("Redeploy", None), 0),
            0,
            &["HardwareFailure critical"],
        ),
        (
            started(tracked("Redeploy", "", None), 0),
            0,
            &["HardwareFailure critical"],
        ),
        (
            started(platform("Redeploy", Some(600)), 600),
            600,
            &["Redeploy critical"],
        ),
        (platform("Reboot", None), 0, &["Reboot critical"]),
        (tracked("Reboot", "", Some(900)), 0, &["Reboot critical"]),
        (platform("Reboot", Some(3_599)), 0, &["Reboot critical"]),
        (platform("Reboot", Some(3_600)), 0, &["Reboot warning"]),
        (
            platform("Reboot", Some(3_600)),
            1,
            &["Reboot critical", "Reboot warning"],
        ),
        (platform("Redeploy", Some(86_399)), 0, &["Redeploy warning"]),
        (
            platform("Redeploy", Some(86_400)),
            0,
            &["DegradedHardware warning"],
        ),
    ]);
    let late = (platform("Redeploy", Some(86_400)), 82_801);
    let early = (started(platform("Reboot", Some(7_200)), 7_200), 7_200);
    assert_alerts(&[
        (
            late.0,
            late.1,
            &["Redeploy critical", "DegradedHardware warning"],
        ),
        (early.0, early.1, &["Reboot critical", "Reboot warning"]),
    ]);
}

#[test]
fn other_rules_depend_on_type_and_duration() {
    assert_alerts(&[
        (platform("Preempt", Some(30)), 0, &["Preempt critical"]),
        (
            tracked("Terminate", "User", Some(600)),
            0,
            &["Terminate warning"],
        ),
        (
            platform("Quarantine", Some(900)),
            0,
            &["UnknownType warning"],
        ),
        (freeze(None, Some(900)), 0, &["Freeze warning"]),
        (freeze(Some(10), Some(900)), 0, &["Freeze warning"]),
        (freeze(Some(9), Some(900)), 0, &["Freeze info"]),
        (freeze(Some(0), Some(86_399)), 0, &["Freeze info"]),
        (freeze(Some(0), Some(86_400)), 0, &["Freeze info"]),
        (freeze(None, Some(86_400)), 0, &["DegradedHardware warning"]),
        (tracked("Freeze", "User", Some(86_400)), 0, &[]),
    ]);
    let late = freeze(None, Some(86_400));
    assert_alerts(&[(
        late,
        82_801,
        &["Freeze warning", "DegradedHardware warning"],
    )]);
}

#[test]
fn events_of_other_vms_have_no_alert_and_those_of_an_unknown_vm_name_their_resources() {
    let mut preempt = tracked("Preempt", "Platform", Some(30));
    preempt.scope = EventScope::Other;
    assert_eq!(alerts(&snapshot([preempt.clone()]), at(0)), []);
    preempt.scope = EventScope::Unknown;
    preempt.event.resources = Some(vec!["web_4".into(), "web_5".into()]);
    let mut snapshot = snapshot([preempt]);
    snapshot.vm_name = None;
    let [alert] = alerts(&snapshot, at(0)).try_into().unwrap();
    let summary = &alert.annotations["summary"];
    assert_eq!(summary, "Preempt of web_4 and 1 more VM in 30s (13:47 UTC)");
    let description = &alert.annotations["description"];
    assert!(
        description.starts_with("VMs: web_4, web_5 (2)\nWhat: Preempt: "),
        "{description}"
    );
}

#[test]
fn user_event_that_is_first_seen_started_has_no_alert() {
    for event_type in ["Reboot", "Redeploy"] {
        let approved = started(tracked(event_type, "User", None), 0);
        assert_alerts(&[(approved.clone(), 0, &[]), (ended(approved, 60), 61, &[])]);
    }
}

#[test]
fn advisory_has_one_alert_of_severity_info_whatever_its_not_before_is() {
    for not_before in [None, Some(-5), Some(30), Some(900), Some(86_400)] {
        let mut preempt = platform("Preempt", not_before);
        preempt.event.status = Status::Advisory;
        let rebalance = platform("SpotRebalanceRecommendation", not_before);
        for advisory in [preempt, rebalance] {
            assert_alerts(&[
                (advisory.clone(), 0, &["Advisory info"]),
                (ended(advisory, 60), 61, &["+Advisory info"]),
            ]);
        }
    }
}

#[test]
fn alert_is_serialised_as_the_api_specifies() {
    let alert = &alerts(&snapshot([tracked("Preempt", "", Some(30))]), at(0))[0];
    let json: serde_json::Value = serde_json::to_value(alert).unwrap();
    assert_eq!(json["startsAt"], "1970-01-12T13:46:40.000Z");
    assert_eq!(json["endsAt"], "1970-01-12T14:01:40.000Z");
    let keys = |value: &serde_json::Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(keys(&json).len(), 4);
    let labels = ["alertname", "event_id", "event_type", "severity"];
    assert_eq!(
        keys(&json["labels"]),
        labels.map(str::to_owned).into(),
        "no empty label"
    );
}

proptest::proptest! {
    #[test]
    fn labels_contain_neither_reporter_nor_progress(
        event_type in "[A-Za-z]{0,12}|Freeze|Reboot|Redeploy|Preempt|Terminate|SpotRebalanceRecommendation",
        source in "|Platform|User|[a-z]{1,8}",
        not_before in proptest::option::of(-100_000_i64..800_000),
        start in proptest::option::of(0_i64..900_000),
        end in proptest::option::of(0_i64..900_000),
        duration in proptest::option::of(0_u64..100),
        now in 0_i64..900_000,
    ) {
        let mut tracked = tracked(&event_type, &source, not_before);
        tracked.event.duration_seconds = duration;
        tracked.started_at = start.map(at);
        tracked.end = end.map(|end| End { at: at(end), outcome: Outcome::Unknown });
        let alerts = alerts(&snapshot([tracked]), at(now));
        let allowed = ["alertname", "event_id", "event_source", "event_type", "severity"];
        for alert in &alerts {
            for (name, value) in &alert.labels {
                assert!(allowed.contains(&name.as_ref()) && (!value.is_empty() || name == "event_type"), "{name}={value}");
            }
            assert!(alert.starts_at <= alert.ends_at);
        }
        let distinct: BTreeSet<_> = alerts.iter().map(|alert| &alert.labels).collect();
        assert_eq!(distinct.len(), alerts.len(), "one alert for one set of labels");
    }
}
