//! Each response is of exactly one snapshot, however fast snapshots change.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use azure_scheduled_events_exporter::snapshot::Snapshot;
use serde_json::Value;

use super::{
    snapshot::{engine, event, poll},
    test_server::{Connection, TestServer},
};
use crate::support::driven_engine::DrivenEngine;

const CHANGES: u64 = 2_000;
const EVENTS: usize = 3;
const RESPONSES: usize = 200;

/// The snapshot after poll `number`. Its values all contain the number.
fn numbered(engine: &mut DrivenEngine, number: u64) -> Snapshot {
    let events: Vec<Value> = (0..EVENTS)
        .map(|index| event(&format!("event-{index}"), &format!("change {number}")))
        .collect();
    poll(engine, number, &events)
}

/// The number of the snapshot of a response, as metrics or as JSON; panics if it mixes two.
fn number(text: &str) -> u64 {
    let prefixes = [
        "change ",
        "document_incarnation ",
        "document_incarnation\": ",
        "imds_requests_total ",
        "\"requests\": ",
    ];
    let rests = prefixes
        .iter()
        .flat_map(|prefix| text.split(prefix).skip(1));
    let numbers = rests.filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits?.parse().ok()
    });
    let numbers: Vec<u64> = numbers.collect();
    assert!(numbers.len() >= 2 + EVENTS, "{text}");
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{text}");
    numbers[0]
}

/// Sends requests until `stop` is set. Returns the numbers of the snapshots seen.
fn scrape(
    mut connection: Connection,
    path: &str,
    responses: &AtomicUsize,
    stop: &AtomicBool,
) -> HashSet<u64> {
    let mut seen = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        connection.request("GET", path, &[]);
        let response = connection.response("GET").unwrap();
        seen.insert(number(response.text()));
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
    let mut change = 1;
    let server = TestServer::start(numbered(&mut engine, change));
    let stop = Arc::new(AtomicBool::new(false));
    let running = ["/metrics", "/api/v1/events"].map(|path| {
        let responses = Arc::new(AtomicUsize::new(0));
        let (connection, counter, stop) =
            (server.connect(), Arc::clone(&responses), Arc::clone(&stop));
        let scraper = move || scrape(connection, path, &counter, &stop);
        (std::thread::spawn(scraper), responses)
    });
    let deadline = Instant::now() + Duration::from_mins(5);
    let is_done = || {
        let counts = running
            .iter()
            .map(|(_, responses)| responses.load(Ordering::Relaxed));
        counts.min().unwrap_or_default() >= RESPONSES
    };
    while change < CHANGES || !is_done() {
        change += 1;
        let snapshot = numbered(&mut engine, change);
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
