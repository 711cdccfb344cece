//! Alerts as they are pushed.

mod ends;

use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::{
    azure::event::EventId,
    core::{
        assessment::fixtures::{at, ended, freeze, moment, platform, snapshot, started, tracked},
        lifecycle::{End, Outcome},
    },
};

fn alerts(snapshot: &Snapshot, now: Moment) -> Vec<Alert> {
    let alerts = |tracked| {
        matches(tracked, now).map(move |matched| {
            let labels = matched.labels(tracked, &Labels::new());
            matched.alert(tracked, snapshot, labels, now)
        })
    };
    let events = snapshot.events.iter().map(AsRef::as_ref);
    events.flat_map(alerts).collect()
}

#[test]
fn pushed_labels_and_annotations_have_the_bounds_of_the_metrics() {
    let mut tracked = tracked("Fre\neze\u{202e}", &"é\u{200b}".repeat(50), Some(600));
    tracked.shown.id = EventId::new("a\tb\u{7}");
    tracked.shown.description = Some("Maintenance\r\n\u{2067}".repeat(40).into());
    let snapshot = snapshot([tracked]);
    let [alert] = alerts(&snapshot, moment(0)).try_into().unwrap();
    let options = crate::outputs::metrics::MetricsOptions {
        scope: crate::core::snapshot::SeriesScope::Own,
        resources: false,
        process: false,
    };
    let now = snapshot.as_of;
    let format = crate::outputs::metrics::exposition::Format::OpenMetrics;
    let text =
        crate::outputs::metrics::render(&Arc::new(snapshot), format, options, &Arc::default(), now)
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
    let alert = &alerts(&snapshot([tracked("Preempt", "", Some(30))]), moment(0))[0];
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
        tracked.shown.duration_seconds = duration;
        tracked.started_at = start.map(at);
        tracked.end = end.map(|end| End { at: at(end), outcome: Outcome::Unknown });
        let alerts = alerts(&snapshot([tracked]), moment(now));
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
