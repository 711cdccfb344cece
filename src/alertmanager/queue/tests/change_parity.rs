//! After a change of the type, direct push has the alerts of the Prometheus rules. `alerts/tests/changes.yml` has the
//! series and the alerts that promtool expects. Here the documents that those series describe must give the same
//! alerts.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const CHANGES: &str = include_str!("../../../../alerts/tests/changes.yml");
const BLOCKS: [&str; 4] = [
    "warnings have the present type, the critical alert the type in the first moment of the last hour",
    "a Reboot that becomes a Redeploy of a later time is not critical at the time of the Reboot",
    "a critical Reboot that becomes a Redeploy days ahead stays the one page",
    "a Reboot by a user that becomes a Redeploy waits until it starts",
];
/// `alertname`, `severity` and `event_type`.
const LABELS: [&str; 3] = ["alertname", "severity", "event_type"];

type Identity = [String; 3];

#[test]
fn push_has_the_alerts_of_the_rules_after_a_change_of_the_type() {
    for name in BLOCKS {
        let block = CHANGES
            .split("\n  - name: ")
            .find_map(|block| block.strip_prefix(&format!("{name}\n")))
            .unwrap_or_else(|| panic!("no block {name:?}"));
        let expected = expected(block);
        assert!(!expected.is_empty(), "{name}");
        let last = *expected.keys().max().unwrap();
        let series = series_of(block);
        let mut setup = Setup::new();
        setup.now.wall = at_minute(0);
        let mut firing = BTreeSet::new();
        for minute in 0..=last {
            setup.poll_body(if minute > 0 { 60 } else { 0 }, &event(&series, minute));
            for alert in setup.sent_alone() {
                let identity = LABELS.map(|name| alert.labels[name].clone());
                if alert.is_resolved {
                    firing.remove(&identity);
                } else {
                    firing.insert(identity);
                }
            }
            if let Some(expected) = expected.get(&minute) {
                assert_eq!(firing, *expected, "{name}, after {minute} minutes");
            }
        }
    }
}

fn at_minute(minute: usize) -> Timestamp {
    Timestamp::from_unix_seconds(i64::try_from(minute * 60).unwrap()).unwrap()
}

/// The alerts that fire after a number of minutes.
fn expected(block: &str) -> BTreeMap<usize, BTreeSet<Identity>> {
    let check = |line: &str| {
        let (minutes, rest) = line
            .trim()
            .strip_prefix("- { eval_time: ")?
            .split_once("m, ")?;
        let (_, samples) = rest.split_once("exp_samples: ")?;
        let samples = samples.split("labels: '").skip(1);
        let alerts = samples.map(|sample| LABELS.map(|name| label(sample, name)));
        Some((minutes.parse().unwrap(), alerts.collect()))
    };
    block.lines().filter_map(check).collect()
}

fn label(text: &str, name: &str) -> String {
    let (_, rest) = text
        .split_once(&format!("{name}=\""))
        .unwrap_or_else(|| panic!("no label {name} in {text}"));
    rest.split('"').next().unwrap().to_owned()
}

/// A series and its value at each minute.
type Series = (String, Vec<Option<i64>>);

fn series_of(block: &str) -> Vec<Series> {
    let series = |line: &str| {
        let (series, values) = line
            .trim()
            .strip_prefix("- { series: '")?
            .split_once("', values: '")?;
        Some((series.to_owned(), expand(values.split('\'').next()?)))
    };
    block.lines().filter_map(series).collect()
}

/// `_x4 1+0x9 stale`, as promtool reads it.
fn expand(notation: &str) -> Vec<Option<i64>> {
    let mut values = Vec::new();
    for item in notation.split(' ') {
        let (value, count) = match item.split_once('x') {
            Some(("_", count)) => ("_", count.parse().unwrap()),
            Some((value, count)) => (value, count.parse::<usize>().unwrap() + 1),
            None => (item, 1),
        };
        let value = value.split('+').next().unwrap().parse().ok();
        values.extend(std::iter::repeat_n(value, count));
    }
    values
}

/// The event that the series have at this minute, as a document has it.
fn event(series: &[Series], minute: usize) -> String {
    let at = |values: &Vec<Option<i64>>| values.get(minute).copied().flatten();
    let status = series.iter().find(|(name, values)| {
        name.starts_with("azure_scheduled_event_status{") && at(values) == Some(1)
    });
    let Some((labels, _)) = status else {
        return String::new();
    };
    let event_type = label(labels, "event_type");
    let not_before = series.iter().find_map(|(name, values)| {
        let is_of_type = name.starts_with("azure_scheduled_event_not_before_timestamp_seconds{")
            && label(name, "event_type") == event_type;
        is_of_type.then(|| at(values)).flatten()
    });
    let not_before = Timestamp::from_unix_seconds(not_before.unwrap()).unwrap();
    format!(
        r#"{{"EventId":"E1","EventStatus":"{}","EventType":"{event_type}","Resources":["web_0"],"NotBefore":"{}","EventSource":"{}"}}"#,
        label(labels, "event_status"),
        not_before.rfc1123(),
        label(labels, "event_source"),
    )
}
