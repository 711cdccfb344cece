//! Each response is of exactly one snapshot, however fast snapshots change.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use azure_scheduled_events_exporter::{engine::Engine, snapshot::Snapshot};
use serde_json::Value;

use super::{
    snapshot::{engine, event, poll},
    test_server::{Connection, TestServer},
};

const CHANGES: u64 = 2_000;
const EVENTS: usize = 3;
const RESPONSES: usize = 200;

/// The snapshot after poll `number`. Its values all contain the number.
fn numbered(engine: &mut Engine, number: u64) -> Snapshot {
    let events: Vec<Value> = (0..EVENTS)
        .map(|index| event(&format!("event-{index}"), &format!("change {number}")))
        .collect();
    poll(engine, number, &events)
}

/// The number of the snapshot of an exposition; panics if it mixes two.
fn number_in_metrics(text: &str) -> u64 {
    let value = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.split(['{', ' ']).next() == Some(name));
        let number = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        number.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    let number = value("azure_scheduled_events_document_incarnation");
    let requests = value("azure_scheduled_events_imds_requests_total");
    assert_eq!(requests, number, "{text}");
    let infos: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("azure_scheduled_event_info{"))
        .collect();
    assert_eq!(infos.len(), EVENTS, "{text}");
    let description = format!("description=\"change {number}\"");
    assert!(
        infos.iter().all(|line| line.contains(&description)),
        "{text}"
    );
    number
}

/// The same for the JSON.
fn number_in_json(text: &str) -> u64 {
    let body: Value = serde_json::from_str(text).unwrap();
    let number = body["document_incarnation"].as_u64().unwrap();
    assert_eq!(body["health"]["requests"], number, "{text}");
    let events = body["events"].as_array().unwrap();
    assert_eq!(events.len(), EVENTS, "{text}");
    let description = Value::from(format!("change {number}"));
    assert!(
        events
            .iter()
            .all(|event| event["Description"] == description),
        "{text}"
    );
    number
}

/// Sends requests until `stop` is set. Returns the numbers of the snapshots seen.
fn scrape(
    mut connection: Connection,
    path: &str,
    read: fn(&str) -> u64,
    responses: &AtomicUsize,
    stop: &AtomicBool,
) -> HashSet<u64> {
    let mut seen = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        connection.request("GET", path, &[]);
        let response = connection.response("GET").unwrap();
        seen.insert(read(response.text()));
        responses.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the deadline of a test that would otherwise hang"
)]
fn concurrent_scrapers_never_see_a_partial_change() {
    let mut engine = engine();
    let mut number = 1;
    let server = TestServer::start(numbered(&mut engine, number));
    let stop = Arc::new(AtomicBool::new(false));
    let scrapers = [
        ("/metrics", number_in_metrics as fn(&str) -> u64),
        ("/api/v1/events", number_in_json),
    ];
    let running = scrapers.map(|(path, read)| {
        let responses = Arc::new(AtomicUsize::new(0));
        let (connection, counter, stop) =
            (server.connect(), Arc::clone(&responses), Arc::clone(&stop));
        let scraper = move || scrape(connection, path, read, &counter, &stop);
        (std::thread::spawn(scraper), responses)
    });
    let deadline = Instant::now() + Duration::from_mins(5);
    let is_done = || {
        let counts = running
            .iter()
            .map(|(_, responses)| responses.load(Ordering::Relaxed));
        counts.min().unwrap_or_default() >= RESPONSES
    };
    while number < CHANGES || !is_done() {
        number += 1;
        let snapshot = numbered(&mut engine, number);
        server.snapshot.send_replace(Arc::new(snapshot));
        let is_alive = running.iter().all(|(thread, _)| !thread.is_finished());
        assert!(is_alive, "a scraper saw a partial change");
        assert!(Instant::now() < deadline, "deadline exceeded");
    }
    stop.store(true, Ordering::Relaxed);
    for (thread, _) in running {
        let seen = thread.join().unwrap();
        assert!(seen.len() > 20, "only {} snapshots were seen", seen.len());
    }
}
