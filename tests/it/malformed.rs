//! Properties of reading documents: whatever comes, nothing panics, nothing but a document is one, and what is readable
//! is never lost with what is not.

use std::collections::HashSet;

use azure_scheduled_events_exporter::{
    document::{self, AnomalyKind},
    event::EventId,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::documents;

const CASES: u64 = 20_000;

/// One of the known documents, damaged in one to three places.
fn damaged(seed: u64, originals: &[Vec<u8>]) -> Vec<u8> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut body = dice.choice(originals).unwrap().clone();
    for _ in 0..dice.usize(1..=3) {
        let at = dice.usize(0..=body.len());
        let end = (at + dice.usize(0..40)).min(body.len());
        match dice.u8(0..16) {
            0 if at < body.len() => body[at] ^= 1 << dice.u8(0..8),
            1 if at < body.len() => body[at] = dice.u8(..),
            2 => drop(body.drain(at..end)),
            3 => body.truncate(at),
            4 => body.insert(at, *dice.choice(b"{}[]\",:\\0-.enu \n\xff\xc3").unwrap()),
            5 => {
                let piece = body[at..end].to_vec();
                let to = dice.usize(0..=body.len());
                body.splice(to..to, piece);
            }
            6 => {
                let other = dice.choice(originals).unwrap();
                let from = dice.usize(0..=other.len());
                let piece = &other[from..(from + 200).min(other.len())];
                body.splice(at..at, piece.iter().copied());
            }
            7 => {
                let word = *dice
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
            // A value or a name becomes another one, and the JSON stays whole.
            _ => exchange(&mut body, &mut dice),
        }
    }
    body
}

/// Puts another value, or another word, in the place of one.
fn exchange(body: &mut Vec<u8>, dice: &mut fastrand::Rng) {
    let quotes: Vec<_> = (0..body.len()).filter(|at| body[*at] == b'"').collect();
    let pairs: Vec<_> = quotes.chunks_exact(2).collect();
    let Some(pair) = dice.choice(&pairs) else {
        return;
    };
    let other = *dice
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

/// What another reader of JSON makes of it.
fn has_events_array(body: &[u8]) -> Option<bool> {
    let text = String::from_utf8_lossy(body);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.get("Events").is_some_and(Value::is_array))
}

#[test]
fn twenty_thousand_damaged_documents_neither_panic_nor_give_a_false_all_clear() {
    let documents = documents::all().into_iter().map(|(_, body)| body);
    let originals: Vec<_> = documents.filter(|body| body.len() < 4_000).collect();
    let (mut read, mut refused, mut incomplete) = (0_u32, 0_u32, 0_u32);
    for seed in 0..CASES {
        let body = damaged(seed, &originals);
        let Ok((document, anomalies)) = document::parse(&body) else {
            refused += 1;
            continue;
        };
        read += 1;
        incomplete += u32::from(!document.is_complete());
        assert_ne!(has_events_array(&body), Some(false), "seed {seed}");
        let ids: HashSet<&EventId> = document.events.iter().map(|event| &event.id).collect();
        assert_eq!(ids.len(), document.events.len(), "seed {seed}: an id twice");
        for anomaly in &anomalies {
            assert!(anomaly.detail.len() < 2_000, "seed {seed}");
            assert!(!anomaly.detail.contains(char::is_control), "seed {seed}");
        }
        let lost = anomalies
            .iter()
            .any(|anomaly| anomaly.kind == AnomalyKind::Event);
        assert!(
            document.is_complete() || lost,
            "seed {seed}: lost in silence"
        );
    }
    // Damage that is always fatal, or never, would show nothing.
    assert!(
        read > 2_000 && refused > 2_000 && incomplete > 200,
        "{read} {refused} {incomplete}"
    );
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
    let odd_id = any_json().prop_filter("no string", |id| !id.is_string());
    prop_oneof![
        any_json().prop_filter("no id", |entry| entry.get("EventId").is_none()),
        odd_id.prop_map(|id| json!({ "EventId": id, "EventType": "Freeze" })),
        Just(json!({ "EventId": "" })),
        Just(json!({ "EventId": "x".repeat(1_000) })),
    ]
}

fn good_entry(number: usize) -> Value {
    json!({
        "EventId": format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265"),
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0"],
        "NotBefore": "Tue, 17 Nov 2026 09:15:42 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unreadable_neighbours_never_lose_a_readable_event(
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
        prop_assert_eq!(document.unreadable_events, lost);
        prop_assert_eq!(document.events.len(), entries.len() - lost);
        prop_assert!(document.events.iter().all(|event| event.duration_seconds == Some(9)));
    }

    #[test]
    fn a_malformed_field_costs_that_field_and_no_other(
        place in 0_usize..8,
        value in any_json(),
    ) {
        let names = [
            "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore", "Description",
            "EventSource", "DurationInSeconds",
        ];
        let good = good_entry(1);
        let mut odd = good.clone();
        odd[names[place]] = value;
        let read = |entry: &Value| {
            let body = json!({ "DocumentIncarnation": 1, "Events": [entry] }).to_string();
            let (mut document, _) = document::parse(body.as_bytes()).unwrap();
            assert!(document.is_complete());
            document.events.remove(0)
        };
        let (mut expected, actual) = (read(&good), read(&odd));
        match place {
            0 => expected.status = actual.status.clone(),
            1 => expected.event_type = actual.event_type.clone(),
            2 => expected.resource_type.clone_from(&actual.resource_type),
            3 => expected.resources.clone_from(&actual.resources),
            4 => expected.not_before = actual.not_before,
            5 => expected.description.clone_from(&actual.description),
            6 => expected.source.clone_from(&actual.source),
            _ => expected.duration_seconds = actual.duration_seconds,
        }
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn json_without_an_array_of_events_is_never_a_document(value in any_json()) {
        let is_document = value.get("Events").is_some_and(Value::is_array);
        prop_assert_eq!(document::parse(value.to_string().as_bytes()).is_ok(), is_document);
        let wrapped = json!({ "DocumentIncarnation": 1, "Events": value });
        let read = document::parse(wrapped.to_string().as_bytes());
        prop_assert_eq!(read.is_ok(), value.is_array());
    }
}
