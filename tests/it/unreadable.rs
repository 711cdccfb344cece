//! Unreadable entries of `Events`: which missing events they keep pending, and how many.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    document::{self, Answer},
    engine::{Effect, Engine, EngineConfig, Input},
    metrics::{self, MetricsOptions, exposition::Format},
    snapshot::{SeriesScope, Snapshot},
    time::{Moment, Timestamp},
};

fn at(seconds: u64) -> Moment {
    let start = Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(1_000),
    };
    start.after(Duration::from_secs(seconds))
}

fn engine() -> Engine {
    let config = EngineConfig {
        vm_name: Some("web_0".into()),
        ..EngineConfig::default()
    };
    Engine::new(config, None, at(0))
}

fn id(number: usize) -> String {
    format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265")
}

/// Events of another VM.
fn events(numbers: impl Iterator<Item = usize>) -> String {
    let event = |number| {
        let (id, due) = (id(number), at(1_000_000).wall.rfc1123());
        format!(
            r#"{{"EventId":"{id}","EventType":"Freeze","EventStatus":"Scheduled","Resources":["web_1"],"NotBefore":"{due}"}}"#
        )
    };
    numbers.map(event).collect::<Vec<_>>().join(",")
}

/// Polls a document with these entries, and returns the snapshot.
fn poll(engine: &mut Engine, entries: &str, seconds: u64) -> Arc<Snapshot> {
    let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{entries}]}}"#);
    let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
    let result = Ok(Answer::Document {
        document,
        anomalies,
    });
    let took = Duration::ZERO;
    let effects = engine.handle(Input::Polled { result, took }, at(seconds));
    let published = effects.into_iter().find_map(|effect| match effect {
        Effect::Publish(snapshot) => Some(snapshot),
        _ => None,
    });
    published.unwrap()
}

fn pending(snapshot: &Snapshot) -> BTreeSet<&str> {
    let pending = snapshot
        .events
        .iter()
        .filter(|tracked| tracked.is_pending());
    pending.map(|tracked| tracked.event.id.as_str()).collect()
}

fn event_anomalies(snapshot: &Arc<Snapshot>) -> String {
    let options = MetricsOptions {
        scope: SeriesScope::Own,
        resources: false,
        process: false,
    };
    let text = metrics::render(snapshot, Format::Text, options, 0, at(0)).unwrap();
    let series = r#"azure_scheduled_events_document_anomalies_total{kind="event"} "#;
    text.lines()
        .find_map(|line| line.strip_prefix(series))
        .unwrap()
        .to_owned()
}

#[test]
fn unreadable_entry_that_stays_does_not_keep_every_missing_event_pending() {
    let mut engine = engine();
    let mut most = 0;
    for second in 0..300 {
        let number = usize::try_from(second).unwrap();
        let entries = format!(r#"{{"EventId":7}},{}"#, events(number..=number));
        let snapshot = poll(&mut engine, &entries, second);
        most = most.max(pending(&snapshot).len());
    }
    assert_eq!(most, 61, "the current event, and those of the last minute");
    let mut left = |seconds| pending(&poll(&mut engine, r#"{"EventId":7}"#, seconds)).len();
    assert_eq!([300, 359, 360].map(&mut left), [60, 1, 0]);
}

#[test]
fn unreadable_entry_keeps_only_the_event_whose_id_it_has() {
    let mut engine = engine();
    poll(&mut engine, &events(0..3), 0);
    let unreadable = format!(r#"{{"EventId":["{}"]}}"#, id(1).to_lowercase());
    for seconds in [1, 600, 50_000] {
        let snapshot = poll(&mut engine, &unreadable, seconds);
        assert_eq!(pending(&snapshot), BTreeSet::from([&*id(1)]), "{seconds} s");
    }
    assert_eq!(pending(&poll(&mut engine, "", 50_001)).len(), 0);
}

#[test]
fn an_entry_that_contradicts_itself_keeps_no_other_event() {
    let (one, other) = (events(0..1), events(0..1).replace("Freeze", "Reboot"));
    let twice = one.replace("\"EventType\"", "\"EventType\":\"Reboot\",\"EventType\"");
    let in_another_case = one.replace("\"EventType\"", "\"eventtype\":\"Reboot\",\"EventType\"");
    for entries in [format!("{one},{other}"), twice, in_another_case] {
        let mut engine = engine();
        poll(&mut engine, &events(0..3), 0);
        let snapshot = poll(&mut engine, &entries, 1);
        assert_eq!(pending(&snapshot), BTreeSet::from([&*id(0)]), "{entries}");
    }
}

#[test]
fn pending_events_are_capped_with_an_anomaly() {
    let mut engine = engine();
    let first = format!(r#"{{"EventId":7}},{}"#, events(0..10_000));
    assert_eq!(pending(&poll(&mut engine, &first, 0)).len(), 10_000);
    let second = format!(r#"{{"EventId":7}},{}"#, events(9_000..12_000));
    let snapshot = poll(&mut engine, &second, 1);
    let pending = pending(&snapshot);
    assert_eq!(pending.len(), 10_000);
    for number in 9_000..12_000 {
        assert!(
            pending.contains(&*id(number)),
            "{number} is in the document"
        );
    }
    assert_eq!(
        event_anomalies(&snapshot),
        "2",
        "the unreadable entry and the cap"
    );
}

/// A document has at most 4 MiB, but the events of many documents are kept at the same time.
#[test]
fn the_texts_of_ended_and_missing_events_are_bounded() {
    let names: Vec<_> = (0..10_000)
        .map(|number| format!(r#""{number:0>200}""#))
        .collect();
    let names = names.join(",");
    let event = |number| {
        let id = id(number);
        format!(
            r#"{{"EventId":"{id}","EventType":"Freeze","EventStatus":"Scheduled","Resources":[{names}]}}"#
        )
    };
    let mut engine = engine();
    for number in 0..8 {
        let seconds = u64::try_from(number).unwrap();
        let snapshot = poll(&mut engine, &event(number), seconds);
        let ended = snapshot.events.len() - 1;
        assert_eq!(ended, number.min(3), "of 2.3 MB each");
        assert_eq!(pending(&snapshot), BTreeSet::from([&*id(number)]));
    }
    for number in 8..16 {
        let mentioned: Vec<_> = (7..number)
            .map(|number| format!("[\"{}\"]", id(number)))
            .collect();
        let entries = format!("{},{}", event(number), mentioned.join(","));
        let seconds = u64::try_from(number).unwrap();
        let snapshot = poll(&mut engine, &entries, seconds);
        assert_eq!(pending(&snapshot).len(), 1 + (number - 7).min(3));
        assert!(pending(&snapshot).contains(&*id(number)));
        let ended = snapshot.events.len() - pending(&snapshot).len();
        assert_eq!(ended, 3, "of 2.3 MB each");
    }
}
