//! Memory is returned after large documents and beside clients that do not read, on Linux.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpStream},
};

use serde_json::{Value, json};

use crate::support::{
    DEADLINE, FakeImds, RefusingPort, connect_from,
    events::{self, document, numbered_id},
    process::{Process, exporter, page},
    wait_until,
};

/// Without the limit on names per event, those of the large document take 34 MB until the event is forgotten.
const MAX_AFTER_DOCUMENT: u64 = 12_000_000;
/// Without the limit on large responses, those to the clients that do not read take hundreds of megabytes.
const MAX_BESIDE_READERS: u64 = 40_000_000;
const MAX_AFTER_READERS: u64 = 30_000_000;
/// 300 events, the last 1,000 that ended, and the journal.
const MAX_OF_NEW_EVENTS: u64 = 25_000_000;
const READERS: usize = 200;

fn event(number: usize, names: &[String]) -> Value {
    events::event(&json!({
        "EventId": numbered_id(number),
        "Resources": names,
        "Description": "Host server is undergoing maintenance.",
        "DurationInSeconds": 9,
    }))
}

/// Anonymous memory of the process in bytes: without the pages of its program file.
fn anonymous(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let (_, rest) = status.split_once("RssAnon:").unwrap();
    rest.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

async fn until_below(process: &Process, limit: u64, when: &str) {
    let mut last = 0;
    let waiting = wait_until(DEADLINE, "memory is returned", || {
        last = anonymous(process);
        (last <= limit).then_some(())
    });
    assert!(
        tokio::time::timeout(DEADLINE / 2, waiting).await.is_ok(),
        "{last} bytes of memory {when}, at most {limit}"
    );
}

/// Requests one of the largest pages, and reads nothing.
fn open_without_reading(number: usize, address: SocketAddr) -> TcpStream {
    let mut stream = connect_from(2, address);
    let path = ["/metrics", "/api/v1/transitions"][number % 2];
    // It fails where the exporter has closed the connection.
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").ok();
    stream
}

#[tokio::test]
async fn memory_of_ever_new_events_is_bounded_while_an_alertmanager_is_away() {
    let imds = FakeImds::standing(document(1, [])).await;
    let away = RefusingPort::reserve();
    let mut command = exporter(&imds);
    command
        .env("MALLOC_TRIM_THRESHOLD_", "131072")
        .arg(format!("--alertmanager.url={}", away.base()));
    let mut exporter = Process::start_as(&mut command);
    let address = exporter.address().await;
    let own = ["web_0".to_owned()];
    let mut most = 0;
    for poll in 0..15 {
        let events = (0..300).map(|number| event(300 * poll + number, &own));
        imds.now(document(2, events));
        imds.until_requests(imds.event_requests() + 2).await;
        most = most.max(anonymous(&exporter));
    }
    assert!(
        most <= MAX_OF_NEW_EVENTS,
        "{most} bytes of memory, at most {MAX_OF_NEW_EVENTS}"
    );
    let metrics = page(&address, "/metrics").await.unwrap();
    let counter = "azure_scheduled_events_alert_ends_dropped_total ";
    let mut lines = metrics.lines();
    let dropped = lines.find_map(|line| line.strip_prefix(counter)).unwrap();
    let dropped: f64 = dropped.parse().unwrap();
    assert!(dropped >= 2_000.0, "{dropped}");
}

/// With the setting of glibc that the systemd unit and the image have.
#[tokio::test]
async fn memory_of_a_large_document_and_of_slow_readers_is_returned() {
    let imds = FakeImds::standing(document(1, [])).await;
    let mut command = exporter(&imds);
    command.env("MALLOC_TRIM_THRESHOLD_", "131072");
    let mut exporter = Process::start_as(&mut command);
    let address: SocketAddr = exporter.address().await.parse().unwrap();

    let names: Vec<_> = (0..300_000).map(|number| format!("web_{number}")).collect();
    imds.now(document(2, [event(0, &names)]));
    exporter.says("transition=announced").await;
    imds.now(document(3, []));
    exporter.says("transition=ended").await;
    let requests = imds.event_requests();
    imds.until_requests(requests + 5).await;
    until_below(&exporter, MAX_AFTER_DOCUMENT, "after a large document").await;

    let own = ["web_0".to_owned()];
    let events = (1..=1_000).map(|number| event(number, &own));
    let requests = imds.event_requests();
    imds.now(document(4, events));
    // A debug build takes half a minute on a busy machine.
    wait_until(DEADLINE * 4, "the document is read", || {
        (imds.event_requests() >= requests + 3).then_some(())
    })
    .await;
    let open: Vec<_> = (0..READERS)
        .map(|number| open_without_reading(number, address))
        .collect();
    let mut most = 0;
    for _ in 0..10 {
        let metrics = page(&address.to_string(), "/metrics").await.unwrap();
        assert!(metrics.contains("000003E8-"));
        most = most.max(anonymous(&exporter));
    }
    assert!(
        most <= MAX_BESIDE_READERS,
        "{most} bytes of memory beside clients that do not read, at most {MAX_BESIDE_READERS}"
    );
    drop(open);
    imds.now(document(5, []));
    let address = address.to_string();
    for _ in 0..3 {
        assert!(page(&address, "/-/healthy").await.is_some());
    }
    until_below(&exporter, MAX_AFTER_READERS, "after the clients").await;
}
