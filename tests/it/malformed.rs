//! Property tests of parsing: no input panics, only a document is accepted, and readable events are never lost.

use azure_scheduled_events_exporter::document::{self, Anomalies, AnomalyKind, Document};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::events::{event, numbered_id};

/// One of the originals with one to three random changes.
pub(crate) fn damaged(seed: u64, originals: &[Vec<u8>]) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut body = rng.choice(originals).unwrap().clone();
    for _ in 0..rng.usize(1..=3) {
        let at = rng.usize(0..=body.len());
        let end = (at + rng.usize(0..40)).min(body.len());
        match rng.u8(0..16) {
            0 if at < body.len() => body[at] ^= 1 << rng.u8(0..8),
            1 if at < body.len() => body[at] = rng.u8(..),
            2 => drop(body.drain(at..end)),
            3 => body.truncate(at),
            4 => body.insert(at, *rng.choice(b"{}[]\",:\\0-.enu \n\xff\xc3").unwrap()),
            5 => {
                let piece = body[at..end].to_vec();
                let to = rng.usize(0..=body.len());
                body.splice(to..to, piece);
            }
            6 => {
                let other = rng.choice(originals).unwrap();
                let from = rng.usize(0..=other.len());
                let piece = &other[from..(from + 200).min(other.len())];
                body.splice(at..at, piece.iter().copied());
            }
            7 => {
                let word = *rng
                    .choice(&[
                        "null",
                        "true",
                        "1e999",
                        "-0",
                        "\"\\u0000\"",
                        "[[[[",
                        "{\"\":",
                        "\"\"",
                    ])
                    .unwrap();
                body.splice(at..end, word.bytes());
            }
            // Another value or name; the JSON stays valid.
            _ => replace_string(&mut body, &mut rng),
        }
    }
    body
}

/// Replaces a quoted string with another value.
fn replace_string(body: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    let quotes: Vec<_> = (0..body.len()).filter(|at| body[*at] == b'"').collect();
    let pairs: Vec<_> = quotes.chunks_exact(2).collect();
    let Some(pair) = rng.choice(&pairs) else {
        return;
    };
    let other = *rng
        .choice(&[
            "null",
            "7",
            "-1",
            "[]",
            "{}",
            "\"\"",
            "\"Events\"",
            "\"EventId\"",
            "\"x\"",
            "[null]",
        ])
        .unwrap();
    body.splice(pair[0]..=pair[1], other.bytes());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[0-9A-Za-z :,+-]{0,30}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// An entry of `Events` that has no readable id.
fn unreadable_entry() -> impl Strategy<Value = Value> {
    let invalid_id = any_json().prop_filter("not a string", |id| !id.is_string());
    prop_oneof![
        any_json().prop_filter("no id", |entry| entry.get("EventId").is_none()),
        invalid_id.prop_map(|id| json!({ "EventId": id, "EventType": "Freeze" })),
        Just(json!({ "EventId": "" })),
        Just(json!({ "EventId": "x".repeat(1_000) })),
    ]
}

fn good_entry(number: usize) -> Value {
    event(&json!({ "EventId": numbered_id(number), "DurationInSeconds": 9 }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn unreadable_entries_do_not_affect_readable_events(
        entries in prop::collection::vec(prop::option::of(unreadable_entry()), 0..20),
        incarnation in any_json(),
    ) {
        let numbered = entries.iter().enumerate();
        let all: Vec<Value> = numbered.clone()
            .map(|(number, entry)| entry.clone().unwrap_or_else(|| good_entry(number)))
            .collect();
        let body = json!({ "DocumentIncarnation": incarnation, "Events": all }).to_string();
        let (document, _) = document::parse(body.as_bytes()).unwrap();
        let lost = entries.iter().flatten().count();
        prop_assert_eq!(document.unreadable.entries, lost);
        prop_assert_eq!(document.events.len(), entries.len() - lost);
        prop_assert!(document.events.iter().all(|event| event.duration_seconds == Some(9)));
    }

    #[test]
    fn a_malformed_field_affects_no_other_field(
        index in 0_usize..8,
        value in any_json(),
    ) {
        let names = [
            "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore", "Description",
            "EventSource", "DurationInSeconds",
        ];
        let good = good_entry(1);
        let mut malformed = good.clone();
        malformed[names[index]] = value;
        let read = |entry: &Value| {
            let body = json!({ "DocumentIncarnation": 1, "Events": [entry] }).to_string();
            let (mut document, _) = document::parse(body.as_bytes()).unwrap();
            assert!(document.is_complete());
            document.events.remove(0)
        };
        let (mut expected, actual) = (read(&good), read(&malformed));
        match index {
            0 => expected.status = actual.status.clone(),
            1 => expected.event_type = actual.event_type.clone(),
            2 => expected.resource_type.clone_from(&actual.resource_type),
            3 => {
                expected.resources.clone_from(&actual.resources);
                expected.has_more_resources = actual.has_more_resources;
            }
            4 => expected.not_before = actual.not_before,
            5 => expected.description.clone_from(&actual.description),
            6 => expected.source.clone_from(&actual.source),
            _ => expected.duration_seconds = actual.duration_seconds,
        }
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn json_without_an_events_array_is_not_a_document(value in any_json()) {
        let is_document = value.get("Events").is_some_and(Value::is_array);
        prop_assert_eq!(document::parse(value.to_string().as_bytes()).is_ok(), is_document);
        let wrapped = json!({ "DocumentIncarnation": 1, "Events": value });
        let read = document::parse(wrapped.to_string().as_bytes());
        prop_assert_eq!(read.is_ok(), value.is_array());
    }
}

/// A document with an event with these members.
fn with_members(members: &Value) -> (Document, Anomalies) {
    let body = json!({ "DocumentIncarnation": 1, "Events": [event(members)] });
    document::parse(body.to_string().as_bytes()).unwrap()
}

fn kinds(anomalies: &Anomalies) -> Vec<AnomalyKind> {
    anomalies.described.iter().map(|it| it.kind).collect()
}

#[test]
fn names_of_one_event_are_limited() {
    let names: Vec<String> = (0..10_001).map(|number| format!("web_{number}")).collect();
    let (document, anomalies) = with_members(&json!({ "Resources": names }));
    let kept = document.events[0].resources.as_ref().unwrap();
    assert_eq!(kept.len(), 10_000);
    let kinds = kinds(&anomalies);
    assert!(kinds.contains(&AnomalyKind::Resources), "{kinds:?}");
}

#[test]
fn long_texts_of_an_event_are_cut_with_an_anomaly() {
    let long = "é".repeat(100_000);
    let cases = [
        ("EventType", AnomalyKind::EventType, 256),
        ("EventStatus", AnomalyKind::EventStatus, 256),
        ("EventSource", AnomalyKind::EventSource, 256),
        ("ResourceType", AnomalyKind::ResourceType, 256),
        ("Description", AnomalyKind::Description, 4_096),
    ];
    for (member, kind, max) in cases {
        for (length, is_cut) in [(max / 2, false), (max / 2 + 1, true), (100_000, true)] {
            let text: String = long.chars().take(length).collect();
            let (document, anomalies) = with_members(&json!({ member: text }));
            let event = &document.events[0];
            let kept = match member {
                "EventType" => event.event_type.as_str(),
                "EventStatus" => event.status.as_str(),
                "EventSource" => event.source.as_ref().unwrap().as_str(),
                "ResourceType" => event.resource_type.as_ref().unwrap(),
                _ => event.description.as_ref().unwrap(),
            };
            assert_eq!(kept, "é".repeat(length.min(max / 2)), "{member} {length}");
            let kinds = kinds(&anomalies);
            assert_eq!(kinds, vec![kind; usize::from(is_cut)], "{member} {length}");
        }
    }
}

#[test]
fn an_event_with_a_name_that_is_too_long_is_kept_and_never_approved() {
    let long = format!("a{}", "é".repeat(100_000));
    let cut = format!("a{}", "é".repeat(127));
    for resources in [
        json!(["web_0", long]),
        json!(["web_0", [long]]),
        json!(long),
    ] {
        let (is_list, is_nested) = (resources.is_array(), resources[1].is_array());
        let (document, anomalies) = with_members(&json!({ "Resources": resources }));
        let event = &document.events[0];
        let names = event.resources.as_ref().unwrap();
        assert_eq!(names.len(), if is_list && !is_nested { 2 } else { 1 });
        assert_eq!(event.has_more_resources, is_nested);
        assert!(names.iter().all(|name| name.len() <= 256));
        assert!(is_list || *names[0] == *cut);
        assert!(document.contradicted.contains(&event.id));
        let kinds = kinds(&anomalies);
        assert_eq!(kinds, [AnomalyKind::Resources, AnomalyKind::Contradiction]);
    }
}
