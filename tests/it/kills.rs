//! Exporters are killed at random moments while events come and go. In the end the collector has every span and every
//! log record of every event, and repeated ones have the same id. `KILLS=10000 cargo test --test it kills` kills them
//! more often.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::{FakeCollector, uid},
    process::{Process, exporter},
    wait_until,
};

/// Exporters at a time, each with its own metadata service, collector and state directory: a process mostly waits.
const EXPORTERS: usize = 8;

/// The minimum numbers of kills and of ended events of one exporter; a slow disk needs up to four times as many kills
/// for the events.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable belongs to this test"
)]
fn minimums() -> (usize, u32) {
    let kills: usize =
        std::env::var("KILLS").map_or(40, |kills| kills.parse().expect("KILLS: a number"));
    let kills = kills.div_ceil(EXPORTERS);
    (kills, u32::try_from(kills / 50).unwrap().max(1))
}

/// How long a process lives after its first poll: 1 to 500 ms, half of them less than 25 ms. Each step from the poll to
/// the snapshot is interrupted in some processes and completed in others.
fn lifetime(random: &mut fastrand::Rng) -> Duration {
    Duration::from_secs_f64(0.001 * 500_f64.powf(random.f64()))
}

const EVENT_TYPES: [&str; 5] = ["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"];

/// One event after the other, as IMDS shows them.
pub(crate) struct Script {
    pub(crate) number: u32,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Scheduled,
    Started,
    Gone,
}

impl Script {
    pub(crate) fn begin() -> Self {
        Self {
            number: 1,
            step: Step::Scheduled,
        }
    }

    fn event_type(number: u32) -> &'static str {
        EVENT_TYPES[number as usize % EVENT_TYPES.len()]
    }

    fn event_id(number: u32) -> String {
        format!("7B1E04C9-52DA-4F6E-9C38-{number:012X}")
    }

    pub(crate) fn document(&self) -> Reply {
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
        let event_type = Self::event_type(self.number);
        Reply::ok(format!(
            r#"{{"DocumentIncarnation":{},"Events":[{{"EventId":"{id}","EventStatus":"{status}","EventType":"{event_type}","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"{not_before}","Description":"","EventSource":"Platform","DurationInSeconds":5}}]}}"#,
            self.number
        ))
    }

    /// Takes the next step once the state file has this one: it must not be lost from then on.
    pub(crate) fn advance(&mut self, state_directory: &Path) -> bool {
        let Some(tracked) = saved_event(state_directory, &Self::event_id(self.number)) else {
            return false;
        };
        let is_saved = match self.step {
            Step::Scheduled => true,
            Step::Started => !tracked["started_at"].is_null(),
            Step::Gone => !tracked["end"].is_null(),
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
        .find(|tracked| tracked["shown"]["id"] == id)
        .cloned()
}

fn start(imds: &FakeImds, collector: &FakeCollector, state_directory: &Path) -> Process {
    let mut command = exporter(imds);
    command
        .arg(format!("--state.directory={}", state_directory.display()))
        .arg("--log.level=error")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.base());
    Process::start_as(&mut command)
}

/// A busy machine can delay the heartbeat by a second, which is measured as an interruption.
const INTERRUPTED: &str = "azure.scheduled_event.interrupted";

/// Trace, name and id of each span and log record, with repeats.
fn all_records(collector: &FakeCollector) -> Vec<(Vec<u8>, String, Vec<u8>)> {
    let mut all = Vec::new();
    for received in collector.received() {
        let spans = received.spans().cloned();
        all.extend(spans.map(|span| (span.trace_id, span.name, span.span_id)));
        let logs = received.log_records().cloned();
        all.extend(logs.map(|record| {
            let uid = uid(&record).into_bytes();
            (record.trace_id, record.event_name, uid)
        }));
    }
    all.retain(|(_, name, _)| name != INTERRUPTED);
    all
}

/// The ids of each span and log record by trace and name.
fn records(collector: &FakeCollector) -> BTreeMap<(Vec<u8>, String), BTreeSet<Vec<u8>>> {
    let mut records: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (trace, name, id) in all_records(collector) {
        records.entry((trace, name)).or_default().insert(id);
    }
    records
}

fn expected(events: u32) -> BTreeSet<(Vec<u8>, String)> {
    let names = |number| {
        let event_type = Script::event_type(number);
        let spans = ["announced", "notice", "impact", event_type];
        // It starts long before its time. A Spot eviction is carried out and not approved.
        let is_approved = (event_type != "Preempt").then_some("approved_elsewhere");
        let logs = ["announced", "started", "ended"]
            .into_iter()
            .chain(is_approved);
        let spans = spans.map(|name| format!("scheduled_event {name}"));
        let logs = logs.map(|name| format!("azure.scheduled_event.{name}"));
        spans.into_iter().chain(logs).collect::<Vec<_>>()
    };
    let traces = (1..=events).map(|number| {
        let hex: String = Script::event_id(number)
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        let trace = u128::from_str_radix(&hex, 16).expect("a GUID");
        (number, trace.to_be_bytes().to_vec())
    });
    traces
        .flat_map(|(number, trace)| {
            let names = names(number).into_iter();
            names.map(move |name| (trace.clone(), name))
        })
        .collect()
}

#[tokio::test]
async fn no_span_and_no_log_record_is_lost_when_the_exporter_is_killed_at_any_moment() {
    let started_at = Instant::now();
    let mut exporters = JoinSet::new();
    for seed in 0..EXPORTERS {
        exporters.spawn(kill_repeatedly(seed as u64));
    }
    let all = exporters.join_all().await;
    let sum = |index: usize| all.iter().map(|counts| counts[index]).sum::<usize>();
    println!(
        "{} kills ({:.1} per second), {} events, {} spans and log records expected and received, {} repeats",
        sum(0),
        sum(0) as f64 / started_at.elapsed().as_secs_f64(),
        sum(1),
        sum(2),
        sum(3),
    );
}

/// The numbers of kills, events, spans and log records, and repeats.
async fn kill_repeatedly(seed: u64) -> [usize; 4] {
    let folder = tempfile::tempdir().unwrap();
    let state_directory = folder.path().join("state");
    let mut script = Script::begin();
    let imds = FakeImds::standing(script.document()).await;
    let collector = FakeCollector::scripted([]).await;
    let mut random = fastrand::Rng::with_seed(seed);
    let (min_kills, min_events) = minimums();
    let mut kills = 0;
    while kills < min_kills || (script.number <= min_events && kills < 4 * min_kills.max(10)) {
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
    let events = finish(&mut script, &imds, &collector, &state_directory).await;
    // A new process polls while the request of the killed one is still in flight.
    imds.take_complaints();
    let (records, repeats) = check(&collector, events);
    [kills, events as usize, records, repeats]
}

/// The number of distinct spans and log records of these events, and of repeats.
pub(crate) fn check(collector: &FakeCollector, events: u32) -> (usize, usize) {
    let received = records(collector);
    let keys: BTreeSet<_> = received.keys().cloned().collect();
    assert_eq!(keys, expected(events), "the records of {events} events");
    assert!(
        received.values().all(|ids| ids.len() == 1),
        "one id for each record of each event: {received:?}"
    );
    let distinct: BTreeSet<_> = received.values().flatten().collect();
    assert_eq!(distinct.len(), received.len(), "no id for two records");
    let sent = all_records(collector).len();
    (received.len(), sent - received.len())
}

/// Waits until the current event has ended and all spans and log records have been exported; returns its number.
async fn finish(
    script: &mut Script,
    imds: &FakeImds,
    collector: &FakeCollector,
    state_directory: &Path,
) -> u32 {
    let _exporter = start(imds, collector, state_directory);
    until_exported(script, imds, collector, state_directory).await
}

/// The same with an exporter that runs.
pub(crate) async fn until_exported(
    script: &mut Script,
    imds: &FakeImds,
    collector: &FakeCollector,
    state_directory: &Path,
) -> u32 {
    let last = script.number;
    wait_until(DEADLINE, "the last event ends and is exported", || {
        if script.number == last && script.advance(state_directory) {
            let is_last = script.number == last;
            // The next event is not announced.
            if is_last {
                imds.now(script.document());
            }
        }
        (script.number > last && records(collector).len() >= expected(last).len()).then_some(())
    })
    .await;
    last
}
