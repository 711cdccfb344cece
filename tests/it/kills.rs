//! The exporter is killed at random moments, again and again, while events come and go; in the end the collector has
//! every span of every event, and has those that came more than once under the same id.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::support::{FakeImds, PATIENCE, Reply, collector::FakeCollector};

const KILLS: usize = 500;
/// So many events are to end on the way; a slow disk needs more kills for that.
const EVENTS: u32 = 10;
const MAX_KILLS: usize = 4 * KILLS;

/// How long a process lives after its first poll: mostly for some milliseconds, sometimes for half a second, so that
/// each step from the poll to the picture is hit, and each is passed now and then.
fn tracked(random: &mut fastrand::Rng) -> Duration {
    Duration::from_secs_f64(0.001 * 500_f64.powf(random.f64()))
}

/// The life of event after event, as IMDS shows it.
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

    /// Goes on once the state on disk says that this step was seen: what was seen must never be lost after that.
    fn follow(&mut self, state_directory: &Path) -> bool {
        let Some(tracked) = saved_life(state_directory, &Self::event_id(self.number)) else {
            return false;
        };
        let is_seen = match self.step {
            Step::Scheduled => true,
            Step::Started => !tracked["started_at"].is_null(),
            Step::Gone => !tracked["ended"].is_null(),
        };
        if is_seen {
            match self.step {
                Step::Scheduled => self.step = Step::Started,
                Step::Started => self.step = Step::Gone,
                Step::Gone => {
                    self.number += 1;
                    self.step = Step::Scheduled;
                }
            }
        }
        is_seen
    }
}

fn saved_life(state_directory: &Path, id: &str) -> Option<serde_json::Value> {
    let text = std::fs::read(state_directory.join("state.json")).ok()?;
    let state: serde_json::Value =
        serde_json::from_slice(&text).expect("the state file is whole at any moment");
    state["events"]
        .as_array()?
        .iter()
        .find(|tracked| tracked["id"] == id)
        .cloned()
}

fn start(imds: &FakeImds, collector: &FakeCollector, state_directory: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_azure-scheduled-events-exporter"))
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
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the exporter starts")
}

/// Names by trace, and the ids under which each came.
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
    let mut kills = 0;
    while kills < KILLS || (script.number <= EVENTS && kills < MAX_KILLS) {
        kills += 1;
        let mut exporter = start(&imds, &collector, &state_directory);
        // One in four dies before its first poll, the others at any moment after it.
        let polls = imds.event_requests();
        let is_early = random.u8(..4) == 0;
        let began = Instant::now();
        while !is_early && imds.event_requests() == polls {
            assert!(began.elapsed() < PATIENCE, "a new process polls");
            sleep(Duration::from_millis(1)).await;
        }
        let dies_at = Instant::now() + tracked(&mut random);
        while Instant::now() < dies_at {
            if script.follow(&state_directory) {
                imds.now(script.document());
            }
            sleep(Duration::from_millis(2)).await;
        }
        exporter.kill().unwrap();
        exporter.wait().unwrap();
    }
    assert!(
        script.number > EVENTS,
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
    // Each new process asks while IMDS still thinks that it answers the one that was killed.
    imds.take_complaints();
}

/// Lets the event that is under way end, and all that waits be sent.
async fn finish(
    script: &mut Script,
    imds: &FakeImds,
    collector: &FakeCollector,
    state_directory: &Path,
) -> u32 {
    let last = script.number;
    let mut exporter = start(imds, collector, state_directory);
    let deadline = Instant::now() + PATIENCE;
    while script.number == last || spans(collector).len() < expected(last).len() {
        assert!(
            Instant::now() < deadline,
            "event {last} ends and its spans arrive"
        );
        if script.number == last && script.follow(state_directory) {
            imds.now(script.document());
        }
        sleep(Duration::from_millis(5)).await;
    }
    exporter.kill().unwrap();
    exporter.wait().unwrap();
    last
}
