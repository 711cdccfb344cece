use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;

use super::*;
use crate::{
    azure::event::EventId,
    core::{
        assessment::fixtures::{at, ended, freeze, moment, platform, snapshot, started, tracked},
        lifecycle::{End, Outcome, TrackedEvent},
    },
    outputs::due_alerts::{ALERT_LABELS, Labels, due_alerts},
};

const NO_DIFFERENCE: ClockDifference = ClockDifference {
    ahead: Duration::ZERO,
    behind: Duration::ZERO,
};

/// As an Alertmanager reads it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Alert {
    labels: Labels,
    annotations: Labels,
    starts_at: Timestamp,
    ends_at: Timestamp,
}

/// What is sent to an Alertmanager with such a clock.
fn alerts(mut snapshot: Snapshot, clocks: ClockDifference, now: Moment) -> Vec<Alert> {
    snapshot.poll.last_success = Some(now);
    let due = due_alerts(&snapshot, &Labels::new(), now).into_iter();
    let json = due.map(|alert| json(&alert, &snapshot, clocks, now));
    json.map(|json| serde_json::from_value(json).unwrap())
        .collect()
}

#[test]
fn alert_of_a_restart_that_is_due_outlives_the_time_in_which_the_vm_is_down() {
    let minutes_left = |tracked: TrackedEvent, now: i64| {
        let alerts = alerts(snapshot([tracked]), NO_DIFFERENCE, moment(now));
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
fn times_hold_by_the_clock_of_alertmanager_too() {
    let clocks = |ahead, behind| ClockDifference {
        ahead: Duration::from_secs(ahead),
        behind: Duration::from_secs(behind),
    };
    let (ahead, behind, both) = (clocks(1_200, 0), clocks(0, 3_600), clocks(1_200, 3_600));
    let preempt = platform("Preempt", Some(30));
    for (tracked, now, expected) in [
        (preempt.clone(), 1, [900, 2_100, 900, 2_100]),
        (ended(preempt.clone(), 1), 1, [150, 1_350, 150, 1_350]),
        (ended(preempt, 1), 301, [-300, -300, -3_900, -3_900]),
    ] {
        let ends = [NO_DIFFERENCE, ahead, behind, both].map(|clocks| {
            let [alert] = alerts(snapshot([tracked.clone()]), clocks, moment(now))
                .try_into()
                .unwrap();
            assert!(alert.starts_at <= alert.ends_at, "{alert:?}");
            alert.ends_at
        });
        assert_eq!(ends, expected.map(|left| at(now + left)), "{now}");
    }
}

#[test]
fn end_is_not_before_the_start_after_the_clock_was_set_back() {
    let over = ended(tracked("Preempt", "Platform", Some(30)), -300);
    let alert = &alerts(snapshot([over]), NO_DIFFERENCE, moment(-190))[0];
    assert_eq!(alert.starts_at, alert.ends_at);
}

#[test]
fn pushed_labels_and_annotations_have_the_bounds_of_the_metrics() {
    let mut tracked = tracked("Fre\neze\u{202e}", &"é\u{200b}".repeat(50), Some(600));
    tracked.shown.id = EventId::new("a\tb\u{7}");
    tracked.shown.description = Some("Maintenance\r\n\u{2067}".repeat(40).into());
    let snapshot = snapshot([tracked]);
    let [alert] = alerts(snapshot.clone(), NO_DIFFERENCE, moment(0))
        .try_into()
        .unwrap();
    let options = crate::outputs::metrics::MetricsOptions {
        scope: crate::core::snapshot::SeriesScope::Own,
        resources: false,
        process: false,
    };
    let now = snapshot.as_of;
    let format = crate::outputs::metrics::exposition::Format::OpenMetrics;
    let text = crate::outputs::metrics::Scrape {
        snapshot: Arc::new(snapshot),
        options,
        outputs: Arc::default(),
        now,
    }
    .text(format)
    .unwrap();
    let info = text
        .lines()
        .find(|line| line.starts_with("azure_scheduled_event_info{"))
        .unwrap();
    for name in ["event_id", "event_type", "event_source"] {
        let label = format!("{name}=\"{}\"", alert.labels[name].replace('\\', r"\\"));
        assert!(info.contains(&label), "{label} is not in {info}");
    }
    let (_, description) = info.split_once("description=\"").unwrap();
    let (description, _) = description.split_once('"').unwrap();
    assert_eq!(description.chars().count(), 256);
    let pushed = &alert.annotations["description"];
    assert!(
        pushed.contains(&format!(
            "Azure: \"{description}\"\nEvent: a\\u{{9}}b\\u{{7}}"
        )),
        "{pushed}"
    );
}

#[test]
fn alert_is_serialised_as_the_api_specifies() {
    let mut snapshot = snapshot([tracked("Preempt", "", Some(30))]);
    snapshot.poll.last_success = Some(moment(0));
    let due = &due_alerts(&snapshot, &Labels::new(), moment(0))[0];
    let mut json = json(due, &snapshot, NO_DIFFERENCE, moment(0));
    json["annotations"] = Value::Null;
    let expected = json!({
        "labels": {
            "alertname": "AzureScheduledEventPreempt", "severity": "critical", "event_type": "Preempt",
            "event_id": "A1B2C3D4-0000-4000-8000-000000000001",
        },
        "annotations": null,
        "startsAt": "1970-01-12T13:46:40.000Z",
        "endsAt": "1970-01-12T14:01:40.000Z",
    });
    assert_eq!(json, expected, "no empty label");
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
        tracked.shown.duration_seconds = duration;
        tracked.started_at = start.map(at);
        tracked.end = end.map(|end| End { at: at(end), outcome: Outcome::Unknown });
        let alerts = alerts(snapshot([tracked]), NO_DIFFERENCE, moment(now));
        for alert in &alerts {
            for (name, value) in &alert.labels {
                let is_known = ALERT_LABELS.contains(&name.as_ref());
                assert!(is_known && (!value.is_empty() || name == "event_type"), "{name}={value}");
            }
            assert!(alert.starts_at <= alert.ends_at);
        }
        let distinct: BTreeSet<_> = alerts.iter().map(|alert| &alert.labels).collect();
        assert_eq!(distinct.len(), alerts.len(), "one alert for one set of labels");
    }
}
