//! The exporter is killed at random moments while events come and go. In the end the collector has every span of every
//! event, and repeated spans have the same id. `KILLS=500 cargo test --test it kills` kills it more often.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::FakeCollector,
    process::{PROGRAM, Process},
    wait_until,
};

/// The minimum numbers of kills and of ended events; a slow disk needs up to four times as many kills for the events.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable belongs to this test"
)]
fn minimums() -> (usize, u32) {
    let kills = std::env::var("KILLS").map_or(40, |kills| kills.parse().expect("KILLS: a number"));
    (kills, u32::try_from(kills / 50).unwrap().max(1))
}

/// How long a process lives after its first poll: 1 to 500 ms, half of them less than 25 ms. Each step from the poll to
/// the snapshot is interrupted in some processes and completed in others.
fn lifetime(random: &mut fastrand::Rng) -> Duration {
    Duration::from_secs_f64(0.001 * 500_f64.powf(random.f64()))
}

/// One event after the other, as IMDS shows them.
struct Script {
    number: u32,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Scheduled,
    Started,
    Gone,
}

impl Script {
    fn event_id(number: u32) -> String {
        format!("7B1E04C9-52DA-4F6E-9C38-{number:012X}")
    }

    fn document(&self) -> Reply {
        let (status, not_before) = match self.step {
            Step::Scheduled => ("Scheduled", "Fri, 31 Dec 2999 23:59:59 GMT"),
            Step::Started => ("Started", ""),
            Step::Gone => {
                return Reply::ok(format!(
                    r#"{{"DocumentIncarnation":{},"Events":[]}}"#,
                    self.number
                ));
            }
        };
        let id = Self::event_id(self.number);
        Reply::ok(format!(
            r#"{{"DocumentIncarnation":{},"Events":[{{"EventId":"{id}","EventStatus":"{status}","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"{not_before}","Description":"","EventSource":"Platform","DurationInSeconds":5}}]}}"#,
            self.number
        ))
    }

    /// Takes the next step once the state file has this one: it must not be lost from then on.
    fn advance(&mut self, state_directory: &Path) -> bool {
        let Some(tracked) = saved_event(state_directory, &Self::event_id(self.number)) else {
            return false;
        };
        let is_saved = match self.step {
            Step::Scheduled => true,
            Step::Started => !tracked["started_at"].is_null(),
            Step::Gone => !tracked["ended"].is_null(),
        };
        if is_saved {
            match self.step {
                Step::Scheduled => self.step = Step::Started,
                Step::Started => self.step = Step::Gone,
                Step::Gone => {
                    self.number += 1;
                    self.step = Step::Scheduled;
                }
            }
        }
        is_saved
    }
}

fn saved_event(state_directory: &Path, id: &str) -> Option<serde_json::Value> {
    let text = std::fs::read(state_directory.join("state.json")).ok()?;
    let state: serde_json::Value =
        serde_json::from_slice(&text).expect("the state file is complete at any time");
    state["events"]
        .as_array()?
        .iter()
        .find(|tracked| tracked["id"] == id)
        .cloned()
}

fn start(imds: &FakeImds, collector: &FakeCollector, state_directory: &Path) -> Process {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--imds.poll-interval=200ms",
            "--vm.name=web_0",
        ])
        .arg(format!("--imds.url={}", imds.base()))
        .arg(format!("--state.directory={}", state_directory.display()))
        .arg("--log.level=error")
        .env(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            format!("http://{}", collector.address),
        );
    Process::start_as(&mut command)
}

/// The ids of each span by trace and name.
fn spans(collector: &FakeCollector) -> BTreeMap<(Vec<u8>, String), BTreeSet<Vec<u8>>> {
    let mut spans: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for received in collector.received() {
        for span in received.spans() {
            let key = (span.trace_id.clone(), span.name.clone());
            spans.entry(key).or_default().insert(span.span_id.clone());
        }
    }
    spans
}

fn expected(events: u32) -> BTreeSet<(Vec<u8>, String)> {
    let names =
        ["announced", "notice", "impact", "Freeze"].map(|name| format!("scheduled_event {name}"));
    let traces = (1..=events).map(|number| {
        let hex: String = Script::event_id(number)
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        u128::from_str_radix(&hex, 16)
            .expect("a GUID")
            .to_be_bytes()
            .to_vec()
    });
    traces
        .flat_map(|trace| names.clone().map(|name| (trace.clone(), name)))
        .collect()
}

#[tokio::test]
async fn no_span_is_lost_when_the_exporter_is_killed_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let state_directory = folder.path().join("state");
    let mut script = Script {
        number: 1,
        step: Step::Scheduled,
    };
    let imds = FakeImds::standing(script.document()).await;
    let collector = FakeCollector::scripted([]).await;
    let mut random = fastrand::Rng::with_seed(7);
    let (min_kills, min_events) = minimums();
    let mut kills = 0;
    while kills < min_kills || (script.number <= min_events && kills < 4 * min_kills) {
        kills += 1;
        let polls = imds.event_requests();
        let exporter = start(&imds, &collector, &state_directory);
        // One in four is killed before its first poll, the others at any time after it.
        if random.u8(..4) != 0 {
            imds.until_requests(polls + 1).await;
        }
        let killed_at = Instant::now() + lifetime(&mut random);
        while Instant::now() < killed_at {
            if script.advance(&state_directory) {
                imds.now(script.document());
            }
            sleep(Duration::from_millis(2)).await;
        }
        drop(exporter);
    }
    assert!(
        script.number > min_events,
        "only {} events in {kills} kills",
        script.number
    );
    let last = finish(&mut script, &imds, &collector, &state_directory).await;

    let received = spans(&collector);
    let keys: BTreeSet<_> = received.keys().cloned().collect();
    assert_eq!(keys, expected(last), "the spans of {last} events");
    assert!(
        received.values().all(|ids| ids.len() == 1),
        "one id for each span of each event"
    );
    let distinct: BTreeSet<_> = received.values().flatten().collect();
    assert_eq!(distinct.len(), received.len(), "no id for two spans");
    let sent: usize = collector
        .received()
        .iter()
        .map(|request| request.spans().count())
        .sum();
    println!(
        "{kills} kills, {last} events, {} spans expected and received, {} repeats",
        received.len(),
        sent - received.len()
    );
    // A new process polls while the request of the killed one is still in flight.
    imds.take_complaints();
}

/// Waits until the current event has ended and all spans have been exported; returns its number.
async fn finish(
    script: &mut Script,
    imds: &FakeImds,
    collector: &FakeCollector,
    state_directory: &Path,
) -> u32 {
    let last = script.number;
    let _exporter = start(imds, collector, state_directory);
    wait_until(DEADLINE, "the last event ends and is exported", || {
        if script.number == last && script.advance(state_directory) {
            imds.now(script.document());
        }
        (script.number > last && spans(collector).len() >= expected(last).len()).then_some(())
    })
    .await;
    last
}
