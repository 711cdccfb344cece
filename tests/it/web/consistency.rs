//! Each answer is of exactly one picture, however fast pictures change.

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
    picture::{event, picture},
    server::{Connection, Server},
};

const CHANGES: u64 = 10_000;
const ANSWERS: usize = 200;

/// A picture whose every number says which one it is.
fn numbered(number: u64) -> Snapshot {
    let events: Vec<Value> = (0..=number % 4)
        .map(|place| event(&format!("event-{place}"), &format!("change {number}")))
        .collect();
    picture(number, &events)
}

/// Which picture an exposition is of; panics where it is of two.
fn of_metrics(text: &str) -> u64 {
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
    assert_eq!(infos.len() as u64, number % 4 + 1, "{text}");
    let description = format!("description=\"change {number}\"");
    assert!(
        infos.iter().all(|line| line.contains(&description)),
        "{text}"
    );
    number
}

/// The same of the JSON.
fn of_json(text: &str) -> u64 {
    let picture: Value = serde_json::from_str(text).unwrap();
    let number = picture["document_incarnation"].as_u64().unwrap();
    assert_eq!(picture["health"]["requests"], number, "{text}");
    let events = picture["events"].as_array().unwrap();
    assert_eq!(events.len() as u64, number % 4 + 1, "{text}");
    let description = Value::from(format!("change {number}"));
    assert!(
        events
            .iter()
            .all(|event| event["Description"] == description),
        "{text}"
    );
    number
}

/// Asks until told to stop; gives back which pictures were seen.
fn scrape(
    mut connection: Connection,
    path: &str,
    read: fn(&str) -> u64,
    answers: &AtomicUsize,
    stop: &AtomicBool,
) -> HashSet<u64> {
    let mut seen = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        connection.ask("GET", path, &[]);
        let reply = connection.reply("GET").unwrap();
        seen.insert(read(reply.text()));
        answers.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the deadline of a test that would otherwise hang"
)]
fn two_scrapers_at_full_speed_never_see_half_a_change() {
    let server = Server::start(numbered(0));
    let stop = Arc::new(AtomicBool::new(false));
    let scrapers = [
        ("/metrics", of_metrics as fn(&str) -> u64),
        ("/api/v1/events", of_json),
    ];
    let running = scrapers.map(|(path, read)| {
        let answers = Arc::new(AtomicUsize::new(0));
        let (connection, counted, stop) =
            (server.connect(), Arc::clone(&answers), Arc::clone(&stop));
        let scraper = move || scrape(connection, path, read, &counted, &stop);
        (std::thread::spawn(scraper), answers)
    });
    let deadline = Instant::now() + Duration::from_mins(5);
    let mut number = 0;
    let is_enough = || {
        let counts = running
            .iter()
            .map(|(_, answers)| answers.load(Ordering::Relaxed));
        counts.min().unwrap_or_default() >= ANSWERS
    };
    while number < CHANGES || !is_enough() {
        number += 1;
        server.snapshot.send_replace(Arc::new(numbered(number)));
        let is_alive = running.iter().all(|(thread, _)| !thread.is_finished());
        assert!(is_alive, "a scraper saw half a change");
        assert!(Instant::now() < deadline, "too slow to say anything");
    }
    stop.store(true, Ordering::Relaxed);
    for (thread, _) in running {
        let seen = thread.join().unwrap();
        assert!(seen.len() > 20, "only {} pictures were seen", seen.len());
    }
}
