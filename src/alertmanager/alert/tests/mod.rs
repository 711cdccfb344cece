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
    let text = crate::metrics::render(&Arc::new(snapshot), options, 0, now).unwrap();
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
fn firing_alert_is_extended_and_resolved_alert_has_the_time_of_the_end() {
    let preempt = tracked("Preempt", "Platform", Some(30));
    let [alert] = &alerts(&snapshot([preempt.clone()]), at(7))[..] else {
        panic!("one alert");
    };
    assert_eq!(alert.starts_at, at(0));
    assert_eq!(alert.ends_at, at(7 + 15 * 60));
    let over = ended(preempt, 60);
    let [alert] = &alerts(&snapshot([over]), at(359))[..] else {
        panic!("one alert");
    };
    assert!(alert.is_resolved);
    assert_eq!(alert.ends_at, at(60));
}

#[test]
fn alert_of_a_restart_that_is_due_outlives_the_time_in_which_the_vm_is_down() {
    let minutes_left = |tracked: TrackedEvent, now: i64| {
        let alerts = alerts(&snapshot([tracked]), at(now));
        let left = |alert: &Alert| alert.ends_at.saturating_since(at(now)).as_secs() / 60;
        alerts.iter().map(left).collect::<Vec<_>>()
    };
    for event_type in ["Reboot", "Redeploy"] {
        let restart = platform(event_type, Some(1_000));
        assert_eq!(minutes_left(restart.clone(), 99), [15], "16 minutes ahead");
        assert_eq!(minutes_left(restart.clone(), 100), [120]);
        assert_eq!(minutes_left(restart.clone(), 1_001), [120], "overdue");
        assert_eq!(minutes_left(started(restart, 1_000), 1_001), [120]);
        assert_eq!(minutes_left(platform(event_type, None), 0), [120]);
        let user = tracked(event_type, "User", Some(600));
        assert_eq!(minutes_left(user, 0), [15], "ends when it starts");
        let mut unknown = platform(event_type, Some(600));
        unknown.scope = EventScope::Unknown;
        assert_eq!(minutes_left(unknown, 0), [15], "it may be another VM");
    }
    assert_eq!(minutes_left(freeze(None, Some(600)), 0), [15]);
    assert_eq!(minutes_left(platform("Preempt", Some(30)), 0), [15]);
}

#[test]
fn alert_that_waits_for_an_approval_is_resolved_when_the_event_starts() {
    let running = started(tracked("Reboot", "User", Some(900)), 40);
    assert_eq!(
        names(running.clone(), 41),
        ["+UserInitiatedWaiting warning"]
    );
    assert_eq!(
        names(ended(running, 400), 401),
        ["+UserInitiatedWaiting warning"]
    );
}

#[test]
fn labels_do_not_change_during_the_life_of_an_event() {
    let scheduled = tracked("Freeze", "Platform", Some(900));
    let running = started(scheduled.clone(), 900);
    let over = ended(running.clone(), 950);
    let labels = |tracked, seconds| alerts(&snapshot([tracked]), at(seconds))[0].labels.clone();
    let first = labels(scheduled, 0);
    assert_eq!(labels(running, 901), first);
    assert_eq!(labels(over, 960), first);
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
fn started_event_is_a_hardware_failure_unless_it_can_have_been_announced_before() {
    for event_type in ["Reboot", "Redeploy"] {
        let critical = format!("{event_type} critical");
        for (gap, expected) in [
            (PollGap::Normal, "HardwareFailure critical"),
            (PollGap::Long, "HardwareFailure critical"),
            (PollGap::Notice, critical.as_str()),
        ] {
            let mut failed = started(platform(event_type, None), 0);
            failed.gap = gap;
            assert_alerts(&[(failed, 1, &[expected])]);
        }
    }
}

#[test]
fn event_without_a_time_that_starts_keeps_its_alert() {
    let scheduled = platform("Reboot", None);
    assert_alerts(&[
        (scheduled.clone(), 0, &["Reboot critical"]),
        (started(scheduled, 60), 61, &["Reboot critical"]),
    ]);
}

fn rescheduled(mut tracked: TrackedEvent, seconds: i64, to: i64) -> TrackedEvent {
    tracked.reschedulings.push(Rescheduling {
        at: at(seconds),
        from: tracked.event.not_before,
        to: at(to),
    });
    tracked.event.not_before = Some(at(to));
    tracked
}

#[test]
fn critical_event_stays_critical_after_a_postponement() {
    for event_type in ["Reboot", "Redeploy"] {
        let critical = format!("{event_type} critical");
        let warning = format!("{event_type} warning");
        let (critical, warning) = (critical.as_str(), warning.as_str());
        let soon = platform(event_type, Some(900));
        let days = rescheduled(soon.clone(), 600, 200_000);
        let ahead = platform(event_type, Some(7_200));
        let unreadable = rescheduled(platform(event_type, None), 60, 9_000);
        assert_alerts(&[
            (rescheduled(soon.clone(), 60, 9_000), 61, &[critical]),
            (days.clone(), 601, &[critical]),
            (rescheduled(days, 700, 300_000), 701, &[critical]),
            // Its last hour had begun when it was postponed.
            (
                rescheduled(ahead.clone(), 3_601, 90_000),
                3_602,
                &[critical, warning],
            ),
            (rescheduled(ahead, 3_600, 90_000), 3_601, &[warning]),
            // The first document had a NotBefore that could not be read.
            (unreadable, 61, &[critical, warning]),
        ]);
    }
}

#[test]
fn postponement_from_hours_to_days_ahead_is_no_new_alert() {
    let hours = platform("Redeploy", Some(7_200));
    assert_alerts(&[
        (hours.clone(), 0, &["Redeploy warning"]),
        (rescheduled(hours, 60, 200_000), 61, &["Redeploy warning"]),
    ]);
}

#[test]
fn reboot_that_becomes_a_redeploy_keeps_its_labels() {
    let mut changed = platform("Reboot", Some(900));
    let labels = |tracked: &TrackedEvent| {
        let [alert] = alerts(&snapshot([tracked.clone()]), at(0))
            .try_into()
            .unwrap();
        alert.labels
    };
    let before = labels(&changed);
    changed.event.event_type = EventType::Redeploy;
    assert_eq!(labels(&changed), before);
    let [alert] = alerts(&snapshot([changed]), at(0)).try_into().unwrap();
    let summary = &alert.annotations["summary"];
    assert!(summary.starts_with("Redeploy of web_1 in 15m"), "{summary}");
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
fn advice_to_redeploy_is_in_every_alert_with_an_hour_of_notice() {
    let is_advised = |tracked: TrackedEvent, seconds| {
        let alerts = alerts(&snapshot([tracked]), at(seconds));
        assert!(!alerts.is_empty());
        let has_advice: BTreeSet<_> = alerts
            .iter()
            .map(|alert| alert.annotations["description"].contains("To do: redeploy the VM"))
            .collect();
        assert_eq!(has_advice.len(), 1);
        has_advice.contains(&true)
    };
    for event_type in ["Freeze", "Reboot", "Redeploy"] {
        for notice in [3_600, 86_399, 86_400, 604_800] {
            let ahead = platform(event_type, Some(notice));
            assert!(is_advised(ahead.clone(), 0), "{event_type} {notice}");
            assert!(is_advised(ahead.clone(), notice - 60), "in the last hour");
            assert!(
                !is_advised(started(ahead, notice), notice),
                "it has started"
            );
        }
        assert!(!is_advised(platform(event_type, Some(3_599)), 0));
    }
    assert!(!is_advised(freeze(Some(0), Some(7_200)), 0));
    assert!(!is_advised(tracked("Reboot", "User", Some(7_200)), 0));
}

#[test]
fn end_is_not_before_the_start_after_the_clock_was_set_back() {
    let over = ended(tracked("Preempt", "Platform", Some(30)), -100);
    let alert = &alerts(&snapshot([over]), at(-90))[0];
    assert_eq!(alert.starts_at, alert.ends_at);
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

/// The summary of the only alert.
fn summary(tracked: &TrackedEvent, seconds: i64) -> String {
    let [alert] = alerts(&snapshot([tracked.clone()]), at(seconds))
        .try_into()
        .unwrap();
    alert.annotations["summary"].clone()
}

fn over(tracked: TrackedEvent, outcome: Outcome, interruption: Option<f64>) -> TrackedEvent {
    let mut over = ended(tracked, 960);
    over.end = Some(End {
        at: at(960),
        outcome,
    });
    let interruption = interruption.map(|seconds| Interruption {
        until: at(950),
        length: Duration::from_secs_f64(seconds),
    });
    over.interruptions = interruption.into_iter().collect();
    over
}

fn advisory(event_type: &str) -> TrackedEvent {
    let mut advisory = platform(event_type, None);
    advisory.event.status = Status::Advisory;
    advisory
}

fn reboot() -> TrackedEvent {
    platform("Reboot", Some(899))
}

#[test]
fn summary_names_what_which_vm_and_when_in_whole_units_that_are_never_rounded_up() {
    // Zero is 13:46:40.
    for (tracked, now, expected) in [
        (reboot(), 0, "Reboot of web_1 in 14m (14:01 UTC)"),
        (reboot(), 839, "Reboot of web_1 in 1m (14:01 UTC)"),
        (reboot(), 840, "Reboot of web_1 in 59s (14:01 UTC)"),
        (reboot(), 899, "Reboot of web_1 in 0s (14:01 UTC)"),
        (reboot(), 900, "Reboot of web_1 due since 14:01 UTC"),
        (
            platform("Reboot", Some(11_699)),
            0,
            "Reboot of web_1 in 3h 14m (17:01 UTC)",
        ),
        (
            platform("Reboot", Some(7_200)),
            0,
            "Reboot of web_1 in 2h 0m (15:46 UTC)",
        ),
        (
            platform("Redeploy", Some(273_600)),
            0,
            "Degraded hardware: Redeploy of web_1 in 3d 4h (1970-01-15 17:46 UTC)",
        ),
        (platform("Reboot", None), 0, "Reboot of web_1 at any moment"),
        (started(reboot(), 899), 901, "Reboot of web_1 in progress"),
    ] {
        assert_eq!(summary(&tracked, now), expected);
    }
}

#[test]
fn summary_says_what_kind_of_event_it_is() {
    let user = |not_before| tracked("Reboot", "User", not_before);
    for (tracked, now, expected) in [
        (
            freeze(Some(0), Some(900)),
            0,
            "Host maintenance of web_1 without interruption in 15m (14:01 UTC)",
        ),
        (
            started(platform("Reboot", None), 0),
            5,
            "Hardware failure: Reboot of web_1 in progress",
        ),
        (
            user(Some(899)),
            0,
            "User Reboot of web_1 waits, at the latest in 14m (14:01 UTC)",
        ),
        (
            user(Some(899)),
            900,
            "User Reboot of web_1 waits for an approval",
        ),
        (user(None), 0, "User Reboot of web_1 waits for an approval"),
        (
            started(user(Some(899)), 100),
            101,
            "User Reboot of web_1 in progress",
        ),
        (
            advisory("SpotRebalanceRecommendation"),
            0,
            "Spot eviction advisory for web_1",
        ),
        (advisory("Preempt"), 0, "Preempt advisory for web_1"),
    ] {
        assert_eq!(summary(&tracked, now), expected);
    }
}

#[test]
fn summary_of_an_ended_event_says_what_became_of_it() {
    let completed = |length| over(started(reboot(), 899), Outcome::Completed, length);
    let cases = [
        (
            completed(Some(42.9)),
            "Reboot of web_1 completed, interrupted for 42s",
        ),
        (
            completed(Some(90.0)),
            "Reboot of web_1 completed, interrupted for 1m 30s",
        ),
        (completed(None), "Reboot of web_1 completed"),
        (
            over(reboot(), Outcome::Cancelled, Some(2.0)),
            "Reboot of web_1 cancelled",
        ),
        (
            over(reboot(), Outcome::Unknown, None),
            "Reboot of web_1 ended, outcome unknown",
        ),
        (
            over(advisory("Preempt"), Outcome::Unknown, None),
            "Preempt advisory for web_1 ended",
        ),
    ];
    for (tracked, expected) in cases {
        assert_eq!(summary(&tracked, 960), expected);
    }
}

#[test]
fn summary_is_the_same_whichever_vm_pushes_it_and_counts_the_other_vms() {
    let mut reboot = platform("Reboot", Some(840));
    for (resources, expected) in [
        (&["web_1", "web_0"][..], "web_0 and 1 more VM"),
        (&["_web_1", "web_2", "_web_0"], "web_0 and 2 more VMs"),
        (&["web_1"], "web_1"),
    ] {
        let names = resources.iter().map(|name| (*name).into());
        reboot.event.resources = Some(names.collect());
        let expected = format!("Reboot of {expected} in 14m (14:00 UTC)");
        assert_eq!(summary(&reboot, 0), expected);
    }
}

/// The description of the only alert.
fn description(snapshot: &Snapshot, seconds: i64) -> String {
    let [alert] = alerts(snapshot, at(seconds)).try_into().unwrap();
    alert.annotations["description"].clone()
}

#[test]
fn description_has_a_line_for_each_property_with_a_value() {
    let mut snapshot = snapshot([platform("Reboot", Some(899))]);
    assert_eq!(
        description(&snapshot, 0),
        "VM: web_1\n\
         What: Reboot: the VM restarts; what is in memory is lost\n\
         When: 14:01 UTC (in 14m)\n\
         Duration: unknown\n\
         To do: move the load of the VM and save what is in memory before that time\n\
         Source: Platform\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
    let mut freeze = started(freeze(Some(9), Some(899)), 899);
    freeze.event.source = None;
    freeze.event.description = Some("Host \"A\"\nis updated".into());
    snapshot.events = Arc::from([Arc::new(freeze)]);
    snapshot.identity = Some(Arc::new(Identity {
        scale_set: "web".to_owned(),
        location: "westeurope".to_owned(),
        ..Identity::default()
    }));
    assert_eq!(
        description(&snapshot, 901),
        "VM: web_1\n\
         Where: scale set web, westeurope\n\
         What: Freeze: the VM is paused; memory and disks are kept, connections may break\n\
         When: started at 14:01 UTC\n\
         Duration: 9s announced\n\
         To do: wait until the VM is back; the alert ends then\n\
         Source: not given, treated as Platform\n\
         Azure: \"Host \"A\" is updated\"\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
}

#[test]
fn description_of_an_ended_event_says_what_became_of_it() {
    let mut over = ended(started(platform("Reboot", Some(899)), 899), 960);
    over.interruptions = vec![Interruption {
        until: at(950),
        length: Duration::from_secs(42),
    }];
    over.event.resources = None;
    let snapshot = snapshot([over]);
    assert_eq!(
        description(&snapshot, 990),
        "VM: web_1\n\
         What: Reboot: the VM restarts; what is in memory is lost\n\
         When: started at 14:01 UTC\n\
         Duration: unknown\n\
         Outcome: completed, interrupted for 42s\n\
         Source: Platform\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
}

#[test]
fn description_names_at_most_ten_vms_and_counts_all_once() {
    let mut reboot = platform("Reboot", Some(840));
    let line = |reboot: &TrackedEvent| {
        let text = description(&snapshot([reboot.clone()]), 0);
        text.lines().next().unwrap().to_owned()
    };
    reboot.event.resources = Some((0..10).map(|n| format!("web_{n}").into()).collect());
    assert_eq!(
        line(&reboot),
        "VMs: web_0, web_1, web_2, web_3, web_4, web_5, web_6, web_7, web_8, web_9 (10)"
    );
    reboot.event.resources = Some((0..14).map(|n| format!("web_{n}").into()).collect());
    assert_eq!(
        line(&reboot),
        "VMs: web_0, web_1, web_10, web_11, web_12, web_13, web_2, web_3, web_4, web_5 and 4 more (14)"
    );
}
