//! A pushed alert equals the alert of the Prometheus rules: `alerts/tests/messages.yml` has the series and the expected
//! alerts, promtool checks the rules with it, and the event that those series describe must give the same alerts here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Alert, alerts};
use crate::{
    event::{Event, EventId, EventScope, EventType, Source, Status},
    lifecycle::{End, Interruption, Outcome, PollGap, TrackedEvent},
    snapshot::{Identity, Snapshot},
    time::{Moment, Timestamp},
};

const MESSAGES: &str = include_str!("../../../alerts/tests/messages.yml");
const OUTCOMES: &str = include_str!("../../../alerts/tests/outcomes.yml");
/// The blocks that a single VM that reports its own event covers completely.
const BLOCKS: [&str; 22] = [
    "preempt",
    "terminate",
    "hardware failure",
    "hardware failure as a redeploy",
    "hardware failure of unknown source",
    "reboot soon",
    "reboot of 0 s",
    "reboot hours ahead",
    "redeploy soon",
    "redeploy hours ahead",
    "freeze of unknown length",
    "freeze of thirty seconds",
    "freeze hours ahead",
    "freeze of nine seconds",
    "freeze that interrupts nothing",
    "degraded hardware",
    "reboot started by a user",
    "unknown type",
    "advisory",
    "advisory with a NotBefore",
    "advisory of another type",
    "a description that needs escaping",
];

type Fields = BTreeMap<String, String>;

#[test]
fn pushed_alerts_have_the_labels_and_the_text_of_the_rules() {
    for name in BLOCKS {
        let block = MESSAGES
            .split("\n  - name: ")
            .find_map(|block| block.strip_prefix(&format!("{name}\n")))
            .unwrap_or_else(|| panic!("no block {name:?}"));
        let pushed = alerts(&snapshot(block), seconds(60.0));
        let (_, expected) = block
            .split_once("- exp_labels:\n")
            .unwrap_or_else(|| panic!("{name}: no alert"));
        let (labels, annotations) = expected
            .split_once("            exp_annotations:\n")
            .unwrap();
        let mut labels = fields(labels);
        labels.insert("alertname".to_owned(), alertname(block));
        let pushed: Vec<_> = pushed.iter().map(as_fields).collect();
        assert_eq!(pushed, [(labels, fields(annotations))], "{name}");
    }
}

#[test]
fn resolved_alerts_have_the_text_of_the_last_evaluation_of_the_rules() {
    let completed = Outcome::Completed;
    for (name, started_at, outcome, interruption) in [
        (
            "'completed, with the interruption that the VM measured'",
            Some(960.0),
            completed,
            Some(42),
        ),
        (
            "'completed, without a measurement'",
            Some(960.0),
            completed,
            None,
        ),
        ("cancelled before NotBefore", None, Outcome::Cancelled, None),
        (
            "an outcome that the exporter does not know",
            None,
            Outcome::Unknown,
            None,
        ),
    ] {
        let block = OUTCOMES
            .split("\n  - name: ")
            .find_map(|block| block.strip_prefix(&format!("{name}\n")))
            .unwrap_or_else(|| panic!("no block {name}"));
        let (_, expected) = block.split_once("            exp_annotations:\n").unwrap();
        let length = interruption.map(Duration::from_secs);
        let mut tracked = restart("web_0", started_at.map(seconds));
        let at = seconds(1_200.0);
        let until = at;
        tracked.end = Some(End { at, outcome });
        tracked.interruptions = length
            .map(|length| Interruption { until, length })
            .into_iter()
            .collect();
        let snapshot = snapshot_of(tracked, "web_0", "", "westeurope", at);
        let pushed: Vec<_> = alerts(&snapshot, at).iter().map(as_fields).collect();
        let annotations: Vec<_> = pushed.into_iter().map(|(_, texts)| texts).collect();
        assert_eq!(annotations, [fields(expected)], "{name}");
    }
}

/// A Reboot that was seen after a minute and is due after 16 minutes.
fn restart(vm_name: &str, started_at: Option<Timestamp>) -> TrackedEvent {
    let event = Event {
        id: EventId::new("A1B2C3D4-0000-4000-8000-000000000001"),
        event_type: EventType::Reboot,
        status: Status::Scheduled,
        source: Some(Source::Platform),
        resource_type: None,
        resources: Some(vec![vm_name.into()]),
        has_more_resources: false,
        not_before: Some(seconds(960.0)),
        duration_seconds: None,
        description: None,
        unknown_members: Vec::new(),
    };
    TrackedEvent {
        started_at,
        ..TrackedEvent::begin(event, EventScope::Own, PollGap::Normal, seconds(60.0))
    }
}

fn snapshot_of(
    tracked: TrackedEvent,
    vm_name: &str,
    scale_set: &str,
    location: &str,
    wall: Timestamp,
) -> Snapshot {
    let now = Moment {
        wall,
        monotonic: Duration::ZERO,
    };
    let mut snapshot = Snapshot::empty(Some(Arc::from(vm_name)), now);
    snapshot.identity = Some(Arc::new(Identity {
        scale_set: scale_set.to_owned(),
        location: location.to_owned(),
        ..Identity::default()
    }));
    snapshot.events = Arc::from([Arc::new(tracked)]);
    snapshot
}

fn as_fields(alert: &Alert) -> (Fields, Fields) {
    let labels = alert.labels.iter();
    let labels = labels.map(|(name, value)| (name.clone().into_owned(), value.clone()));
    let annotations = alert.annotations.iter();
    let annotations = annotations.map(|(name, value)| ((*name).to_owned(), value.clone()));
    (labels.collect(), annotations.collect())
}

/// The last one in the block.
fn alertname(block: &str) -> String {
    let (_, rest) = block.rsplit_once("        alertname: ").unwrap();
    rest.lines().next().unwrap().to_owned()
}

/// Lines of `name: value`; a value may be a block scalar.
fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    let mut lines = text
        .lines()
        .take_while(|line| line.starts_with("              "))
        .peekable();
    while let Some(line) = lines.next() {
        let (name, value) = line.trim().split_once(": ").unwrap();
        let mut value = value.trim_matches('\'').to_owned();
        if value == "|-" {
            let mut text = Vec::new();
            while let Some(more) = lines.next_if(|line| line.starts_with("                ")) {
                text.push(more.trim_start().to_owned());
            }
            value = text.join("\n");
        }
        fields.insert(name.to_owned(), value);
    }
    fields
}

type Series = (String, Fields, Option<f64>);

/// The series of a block: name, labels, value once the event is there.
fn series_of(block: &str) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for line in block.lines().map(str::trim) {
        if let Some(definition) = line.strip_prefix("- series: '") {
            let (name, labels) = definition.trim_end_matches("}'").split_once('{').unwrap();
            series.push((name.to_owned(), labels_of(labels), None));
        } else if let Some(values) = line.strip_prefix("values: '_x4 ") {
            let value = values.split(['+', ' ', '\'']).next().unwrap();
            series.last_mut().unwrap().2 = Some(value.parse().unwrap());
        }
    }
    series
}

/// A snapshot with the event that the series of a block describe.
fn snapshot(block: &str) -> Snapshot {
    let series = series_of(block);
    let value = |series_name: &str| {
        series
            .iter()
            .find(|(name, ..)| name == series_name)
            .and_then(|(.., value)| *value)
    };
    let labels = |series_name: &str| {
        &series
            .iter()
            .find(|(name, ..)| name == series_name)
            .unwrap()
            .1
    };
    let info = labels("azure_scheduled_event_info");
    let status = series.iter().find_map(|(_, labels, value)| {
        labels
            .get("event_status")
            .filter(|_| *value == Some(1.0))
            .map(|status| Status::new(status))
    });
    let status = status.unwrap();
    let is_started = status == Status::Started;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small whole numbers"
    )]
    let integer = |value: f64| value as u64;
    let resources = value("azure_scheduled_event_resources")
        .map(integer)
        .unwrap();
    let text = |name: &str| Some(info[name].as_str()).filter(|text| !text.is_empty());
    let vm = labels("azure_scheduled_events_vm_info");
    let vm_name: Box<str> = vm["vm_name"].as_str().into();
    let others = (1..resources).map(|n| format!("web_{n}").into());
    let event = Event {
        id: EventId::new(&info["event_id"]),
        event_type: EventType::new(&info["event_type"]),
        status,
        source: text("event_source").map(Source::new),
        resource_type: None,
        resources: Some([vm_name.clone()].into_iter().chain(others).collect()),
        has_more_resources: false,
        not_before: value("azure_scheduled_event_not_before_timestamp_seconds").map(seconds),
        duration_seconds: value("azure_scheduled_event_duration_seconds").map(integer),
        description: text("description").map(Into::into),
        unknown_members: Vec::new(),
    };
    let first_seen_at = value("azure_scheduled_event_first_seen_timestamp_seconds")
        .map(seconds)
        .unwrap();
    let tracked = TrackedEvent {
        started_at: is_started.then(|| seconds(60.0)),
        ..TrackedEvent::begin(event, EventScope::Own, PollGap::Normal, first_seen_at)
    };
    let (scale_set, location) = (&vm["vm_scale_set"], &vm["location"]);
    snapshot_of(tracked, &vm_name, scale_set, location, seconds(60.0))
}

#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
fn seconds(seconds: f64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds as i64).unwrap()
}

/// `name="value",…` with the escapes of the exposition.
fn labels_of(mut text: &str) -> Fields {
    let mut labels = Fields::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (_, '\\') => value.push(chars.next().unwrap().1),
                (end, '"') => break end,
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        text = rest.split_at(end + 1).1;
    }
    labels
}
