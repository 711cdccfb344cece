//! Compares the tables of `docs/telemetry.md` with what is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    attribute::{Attribute, Key, Value},
    fixtures::{OWN, document, event, identity, interruption, moment, tracker, vm},
    log_record::{EventName, LogRecord, Severity, records},
    resource,
    settings::OtlpSettings,
    trace::{Span, SpanEventName, spans},
};
use crate::{
    event::{Event, EventType, Status},
    lifecycle::{Tracker, Transition},
    snapshot::{Identity, Snapshot},
    time::Timestamp,
};

const PAGE: &str = include_str!("../../docs/telemetry.md");
const NAMESPACE: &str = "azure.scheduled_event.";
/// 2026-11-17 09:00 UTC, so that the examples are times of these years.
const START: i64 = 1_794_906_000;

/// The first cells of each row that begins with a name, below this heading. The other cells are for people.
fn table(heading: &str, cells: usize) -> Vec<Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<_> = rows
        .map(|row| {
            let all: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert!(all.len() > cells && !all.contains(&""), "{row}");
            all.into_iter().take(cells).collect()
        })
        .collect();
    assert!(!rows.is_empty(), "no table below {heading}");
    rows
}

/// Compares the tables without regard to the order of their rows.
fn assert_rows(heading: &str, expected: impl IntoIterator<Item = Vec<String>>) {
    let expected: BTreeSet<_> = expected.into_iter().collect();
    let cells = expected.first().unwrap().len();
    let page = table(heading, cells);
    let shown: BTreeSet<Vec<String>> = page
        .iter()
        .map(|row| row.iter().map(|cell| (*cell).to_owned()).collect())
        .collect();
    assert_eq!(shown.len(), page.len(), "{heading}: a row stands twice");
    let rows = |rows: Vec<&Vec<String>>| {
        let rows = rows.iter().map(|row| format!("  {}\n", row.join(" | ")));
        rows.collect::<String>()
    };
    let missing = rows(expected.difference(&shown).collect());
    let wrong = rows(shown.difference(&expected).collect());
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "{heading}: missing rows\n{missing}and wrong rows\n{wrong}"
    );
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Comma-separated; a dash for nothing.
fn list(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        "–".to_owned()
    } else {
        names.join(", ")
    }
}

fn at(seconds: i64) -> Timestamp {
    moment(START + seconds).wall
}

fn scheduled() -> Event {
    Event {
        not_before: Some(at(942)),
        ..event(Status::Scheduled)
    }
}

fn observe(tracker: &mut Tracker, seconds: i64, events: &[Event]) -> Vec<Transition> {
    let document = document(events.to_vec());
    tracker.observe(&document, Some(OWN), moment(START + seconds))
}

/// An event that changes in each way that a document can show, is interrupted, ends, returns and ends again.
fn changes() -> Vec<Transition> {
    let started = Event {
        not_before: None,
        ..event(Status::Started)
    };
    let amended = Event {
        duration_seconds: Some(5),
        not_before: Some(at(1_800)),
        ..scheduled()
    };
    let unknown = Event {
        status: Status::Other("Updating".into()),
        ..amended.clone()
    };
    let mut tracker = tracker();
    let mut all = observe(&mut tracker, 0, &[scheduled()]);
    all.extend(observe(&mut tracker, 10, &[amended]));
    all.extend(observe(&mut tracker, 20, &[unknown]));
    all.extend(observe(&mut tracker, 1_810, std::slice::from_ref(&started)));
    let interruption = interruption(START + 1_820, 7_250);
    all.extend(tracker.record_interruption(interruption, interruption.until));
    all.extend(observe(&mut tracker, 1_830, &[]));
    all.extend(observe(&mut tracker, 1_840, &[started]));
    all.extend(observe(&mut tracker, 1_850, &[]));
    all
}

/// Approvals by this exporter, one of them after a withdrawn decision, and by another client.
fn approvals() -> Vec<Transition> {
    let id = scheduled().id;
    let mut all = Vec::new();
    for is_own in [true, false] {
        let mut tracker = tracker();
        all.extend(observe(&mut tracker, 0, &[scheduled()]));
        tracker.record_decision(&id, true, at(1));
        if is_own {
            tracker.record_approval_request(&id, at(2));
            all.extend(tracker.record_approval(&id, at(3)));
        } else {
            tracker.record_decision(&id, false, at(2));
        }
        all.extend(observe(&mut tracker, 60, &[event(Status::Started)]));
        all.extend(observe(&mut tracker, 70, &[]));
    }
    all
}

fn advisory() -> Vec<Transition> {
    let advisory = Event {
        event_type: EventType::SpotRebalanceRecommendation,
        ..event(Status::Advisory)
    };
    let mut tracker = tracker();
    let mut all = observe(&mut tracker, 0, &[advisory]);
    all.extend(observe(&mut tracker, 10, &[]));
    all
}

fn transitions() -> Vec<Transition> {
    let all = [changes(), approvals(), advisory()];
    all.into_iter().flatten().collect()
}

fn all_spans() -> Vec<Span> {
    let all = transitions();
    all.iter().flat_map(|it| spans(it, &vm())).collect()
}

fn all_records() -> Vec<LogRecord> {
    let snapshot = Snapshot::empty(Some(Arc::from(OWN)), moment(START));
    let all = transitions();
    let records = all.iter().flat_map(|it| records(it, &vm(), &snapshot));
    records.collect()
}

/// The last part of the name of a span; `root` for that of the whole event.
fn part(span: &Span) -> String {
    match (span.parent_span_id, span.name.split_once(' ')) {
        (Some(_), Some((_, part))) => code(part),
        _ => "root".to_owned(),
    }
}

/// The names of attributes without the namespace.
fn short(attributes: impl IntoIterator<Item = Key>) -> BTreeSet<String> {
    let names = attributes.into_iter().map(Key::as_str);
    names
        .map(|name| code(name.strip_prefix(NAMESPACE).unwrap()))
        .collect()
}

#[test]
fn page_lists_the_resource_with_its_sources() {
    let endpoint = |name: &str| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://localhost:4318".to_owned())
    };
    let settings = OtlpSettings::from_env(endpoint).unwrap().unwrap();
    let identity = Identity {
        resource_id: "/subscriptions/5d9c1c62-…/virtualMachines/2".to_owned(),
        zone: "2".to_owned(),
        ..identity()
    };
    let mut resource = resource::of(&settings, Some(&identity), None);
    resource.insert("service.version".to_owned(), "1.0.0".to_owned());
    let rows = resource.iter();
    assert_rows(
        "Resource",
        rows.map(|(key, value)| vec![code(key), code(value)]),
    );
    assert!(PAGE.contains(&code(resource::SCHEMA_URL)));
    assert!(resource::SCHEMA_URL.ends_with("/1.44.0") && PAGE.contains("Version 1.44 of"));
    let registry = "https://opentelemetry.io/docs/specs/semconv/registry/attributes";
    let in_conventions = resource
        .keys()
        .map(String::as_str)
        .filter(|key| *key != "azure.vm.scaleset.name");
    for key in in_conventions.chain([Key::Uid.as_str()]) {
        let (namespace, _) = key.split_once('.').unwrap();
        let anchor = key.replace(['.', '_'], "-");
        let link = format!("({registry}/{namespace}/#{anchor})");
        let mut rows = PAGE
            .lines()
            .filter(|line| line.starts_with(&format!("| `{key}` |")));
        assert!(rows.any(|row| row.contains(&link)), "{key}: {link}");
    }
}

#[test]
fn page_lists_the_spans() {
    let root = code("scheduled_event <EventType>");
    let rows = all_spans()
        .into_iter()
        .map(|span| match span.parent_span_id {
            Some(_) => vec![code(&span.name), root.clone()],
            None => vec![root.clone(), "–".to_owned()],
        });
    assert_rows("Spans", rows);
}

#[test]
fn page_lists_the_span_events() {
    let mut found: BTreeMap<String, (Vec<String>, BTreeSet<String>)> = BTreeMap::new();
    for span in all_spans() {
        for event in &span.events {
            let (on, attributes) = found.entry(event.name.clone()).or_default();
            let part = part(&span);
            if !on.contains(&part) {
                on.push(part);
            }
            let names = event.attributes.iter();
            attributes.extend(names.map(|it| it.key.clone()));
        }
    }
    let names: BTreeSet<_> = found.keys().map(String::as_str).collect();
    let all = SpanEventName::ALL.iter().map(|name| name.as_str());
    assert_eq!(
        names,
        all.collect(),
        "the transitions of this test have all"
    );
    let rows = found.iter().map(|(name, (on, attributes))| {
        let keys = Key::ALL.iter().copied();
        let keys = keys.filter(|key| attributes.contains(key.as_str()));
        let mut on = on.clone();
        on.sort_by_key(|part| part != "root");
        vec![code(name), on.join(", "), list(&short(keys))]
    });
    assert_rows("Span events", rows);
}

#[test]
fn page_lists_the_log_events() {
    let all = all_records();
    let names: BTreeSet<_> = all.iter().map(|record| record.name).collect();
    assert_eq!(names, EventName::ALL.into_iter().collect());
    let own = [Key::RescheduledFrom, Key::Interruption, Key::PreviousStatus];
    let rows = names.into_iter().map(|name| {
        let records = all.iter().filter(|record| record.name == name);
        let attributes: Vec<_> = records
            .clone()
            .flat_map(|record| &record.attributes)
            .collect();
        let has = |key: &Key| attributes.iter().any(|it| it.key == key.as_str());
        let severities: Vec<_> = records.map(|record| record.severity).collect();
        let is_info = severities.iter().all(|it| *it == Severity::Info);
        let severity = if is_info {
            code("INFO")
        } else {
            "of the alert".to_owned()
        };
        vec![
            code(name.as_str()),
            severity,
            list(&short(own.into_iter().filter(has))),
        ]
    });
    assert_rows("Log events", rows);
}

#[test]
fn page_lists_the_attributes() {
    let (spans, records) = (all_spans(), all_records());
    let events = spans.iter().flat_map(|span| &span.events);
    let carriers = [
        (
            "spans",
            spans
                .iter()
                .flat_map(|it| &it.attributes)
                .collect::<Vec<_>>(),
        ),
        (
            "span events",
            events.flat_map(|it| &it.attributes).collect(),
        ),
        (
            "log records",
            records.iter().flat_map(|it| &it.attributes).collect(),
        ),
    ];
    let rows = Key::ALL.iter().map(|key| {
        let with_key = |it: &&&Attribute| it.key == key.as_str();
        let on = carriers
            .iter()
            .filter(|(_, all)| all.iter().any(|it| with_key(&it)));
        let on: Vec<_> = on.map(|(carrier, _)| *carrier).collect();
        let mut first = carriers
            .iter()
            .filter_map(|(_, all)| all.iter().find(with_key));
        let value = &first.next().unwrap_or_else(|| panic!("no {key:?}")).value;
        let (kind, example) = match value {
            Value::Text(text) => ("string", text.clone()),
            Value::Int(number) => ("int", number.to_string()),
            Value::Float(number) => ("double", number.to_string()),
            Value::Texts(texts) => ("string[]", format!("{texts:?}")),
        };
        let example = code(&example);
        vec![code(key.as_str()), kind.to_owned(), example, on.join(", ")]
    });
    assert_rows("Attributes", rows);
}
