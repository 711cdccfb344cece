//! One exporter for a long time, at five polls per second: events come and go, the collector and an Alertmanager are
//! restarted, refuse and hang, IMDS fails, clients disconnect. Memory, descriptors, threads, series and state
//! file stay flat, and every span arrives.
//!
//! `SOAK_SECONDS=6000 tests/proof soak` makes as many polls as eight hours at one poll per second.

use std::{collections::BTreeMap, path::Path, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    kills::{Script, check, until_exported},
    support::{
        DEADLINE, FakeAlertmanager, FakeImds, Reply,
        collector::{Answer, FakeCollector},
        process::{Process, exporter, page},
        wait_until,
    },
};

/// The peers change their behaviour, the event takes its next step, and a sample is taken.
const STEP: Duration = Duration::from_secs(1);
/// After this many steps each type of event has ended once: the series of its histograms exist.
const WARM_UP: usize = 20;
/// How long an ended event stays in the snapshot.
const ENDED_RETENTION: Duration = Duration::from_mins(10);

#[expect(
    clippy::disallowed_methods,
    reason = "the variable belongs to this test"
)]
fn steps() -> usize {
    let seconds = std::env::var("SOAK_SECONDS");
    seconds.map_or(40, |seconds| {
        seconds.parse().expect("SOAK_SECONDS: a number")
    })
}

/// What must not grow.
#[derive(Debug, Clone, Copy)]
struct Sample {
    resident_bytes: u64,
    descriptors: u64,
    threads: u64,
    /// Events that are pending or ended less than ten minutes ago.
    events: u64,
    event_series: u64,
    other_series: u64,
    spans_spooled: u64,
    state_bytes: u64,
}

impl Sample {
    fn of(metrics: &str, state_directory: &Path) -> Self {
        let samples: Vec<_> = metrics
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        let begin = |prefix: &str| {
            samples
                .iter()
                .filter(|line| line.starts_with(prefix))
                .count() as u64
        };
        let value = |name: &str| -> u64 {
            let line = samples.iter().find_map(|line| line.strip_prefix(name));
            let value: f64 = line
                .unwrap_or_else(|| panic!("no {name}"))
                .trim()
                .parse()
                .unwrap();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            let value = value as u64;
            value
        };
        let event_series = begin("azure_scheduled_event_");
        let state = std::fs::metadata(state_directory.join("state.json"));
        Self {
            resident_bytes: value("process_resident_memory_bytes "),
            descriptors: value("process_open_fds "),
            threads: value("process_threads "),
            events: begin("azure_scheduled_event_info{"),
            event_series,
            // A busy machine can delay the heartbeat by a second, which is measured as the first interruption of a
            // type.
            other_series: samples.len() as u64
                - event_series
                - begin("azure_scheduled_events_observed_interruption_seconds"),
            spans_spooled: value("azure_scheduled_events_spans_spooled "),
            state_bytes: state.map_or(0, |state| state.len()),
        }
    }
}

fn start(peers: &Peers, state_directory: &Path) -> Process {
    let alertmanagers = peers.alertmanagers.iter();
    let mut command = exporter(&peers.imds);
    command
        .arg(format!("--state.directory={}", state_directory.display()))
        .args(alertmanagers.map(|one| format!("--alertmanager.url={}", one.base())))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", peers.collector.base())
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "700");
    Process::start_as(&mut command)
}

/// What the exporter talks to.
struct Peers {
    imds: FakeImds,
    collector: FakeCollector,
    alertmanagers: [FakeAlertmanager; 2],
    /// For each Alertmanager: whether the last message of an alert was its end, by its labels.
    alerts: [BTreeMap<String, bool>; 2],
}

impl Peers {
    async fn start(document: Reply) -> Self {
        Self {
            imds: FakeImds::standing(document).await,
            collector: FakeCollector::restartable().await,
            alertmanagers: [
                FakeAlertmanager::restartable().await,
                FakeAlertmanager::restartable().await,
            ],
            alerts: Default::default(),
        }
    }

    /// Their behaviour in a step. None of the answers makes the exporter drop a span.
    async fn change(&mut self, step: usize, document: Reply) {
        let collector = &mut self.collector;
        match step % 8 {
            0 => collector.now(Answer::status(503)),
            1 => collector.restart().await,
            2 => collector.now(Answer::hang()),
            3 => collector.now(Answer::retry_after(429, "1")),
            4 => collector.now(Answer::reset()),
            5 => collector.now(Answer::slow(Duration::from_millis(300))),
            _ => collector.now(Answer::status(200)),
        }
        let [alertmanager, _] = &mut self.alertmanagers;
        let late = Reply::ok("").after(Duration::from_millis(500));
        match step % 7 {
            0 => alertmanager.now(Reply::error("503 Service Unavailable", "restarting")),
            1 => alertmanager.restart().await,
            2 => alertmanager.now(late.then_reset()),
            _ => alertmanager.now(Reply::ok("")),
        }
        let imds = &self.imds;
        match step % 60 {
            7 => imds.now(Reply::error("500 Internal Server Error", "retry")),
            27 => imds.now(Reply::ok("{\"error\":\"no document\"}")),
            47 => imds.now(Reply::ok("").then_reset()),
            _ => imds.now(document),
        }
        self.take_alerts();
    }

    fn recover(&self, document: Reply) {
        self.collector.now(Answer::status(200));
        self.alertmanagers[0].now(Reply::ok(""));
        self.imds.now(document);
    }

    fn take_alerts(&mut self) {
        for (alertmanager, alerts) in self.alertmanagers.iter().zip(&mut self.alerts) {
            for alert in alertmanager.take_alerts() {
                alerts.insert(alert.labels.to_string(), alert.is_end());
            }
        }
    }

    /// Whether each Alertmanager has received alerts, and the end of all of them.
    fn is_ended(&mut self) -> bool {
        self.take_alerts();
        self.alerts
            .iter()
            .all(|alerts| !alerts.is_empty() && alerts.values().all(|is_end| *is_end))
    }
}

#[tokio::test]
async fn memory_descriptors_and_series_stay_flat_over_many_events_and_outages() {
    let folder = tempfile::tempdir().unwrap();
    let state_directory = folder.path().join("state");
    let mut script = Script::begin();
    let mut peers = Peers::start(script.document()).await;
    let mut exporter = start(&peers, &state_directory);
    let address = exporter.address().await;

    let samples = churn(&mut script, &mut peers, &address, &state_directory).await;

    let polls = peers.imds.event_requests();
    peers.recover(script.document());
    let (imds, collector) = (&peers.imds, &peers.collector);
    let events = until_exported(&mut script, imds, collector, &state_directory).await;
    imds.now(Reply::ok(r#"{"DocumentIncarnation":0,"Events":[]}"#));
    let (spans, repeats) = check(collector, events);
    wait_until(DEADLINE, "no alert is left firing", || {
        peers.is_ended().then_some(())
    })
    .await;
    print!("{polls} polls, {events} events, {spans} spans, {repeats} repeats; ");
    assert_flat(&samples);
    peers.imds.take_complaints();
}

/// Events come and go while the peers fail and recover; returns a sample for each step.
async fn churn(
    script: &mut Script,
    peers: &mut Peers,
    address: &str,
    state_directory: &Path,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut ended = Vec::new();
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for step in 0..steps() {
        ticks.tick().await;
        let before = script.number;
        script.advance(state_directory);
        if script.number > before {
            ended.push(Instant::now());
        }
        peers.change(step, script.document()).await;
        // A client that disconnects in the middle of its request.
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /metrics HTT").await.unwrap();
        drop(client);
        page(address, "/").await.expect("the status page");
        let metrics = page(address, "/metrics").await.expect("a scrape");
        let sample = Sample::of(&metrics, state_directory);
        let is_retained = |at: &&Instant| at.elapsed() < ENDED_RETENTION + DEADLINE;
        let retained = ended.iter().filter(is_retained).count() as u64;
        assert!(
            sample.events <= retained + 1,
            "{sample:?}, {retained} ended"
        );
        samples.push(sample);
    }
    samples
}

/// Compares the first and the last third of the samples after the warm-up.
fn assert_flat(samples: &[Sample]) {
    let measured = &samples[WARM_UP..];
    let third = measured.len() / 3;
    let (first, last) = (&measured[..third], &measured[measured.len() - third..]);
    let maximum =
        |samples: &[Sample], value: fn(&Sample) -> u64| samples.iter().map(value).max().unwrap();
    let both = |value| (maximum(first, value), maximum(last, value));
    let resident = both(|sample| sample.resident_bytes);
    let descriptors = both(|sample| sample.descriptors);
    let threads = both(|sample| sample.threads);
    let events = both(|sample| sample.events);
    let other_series = both(|sample| sample.other_series);
    let spooled = both(|sample| sample.spans_spooled);
    println!(
        "first and last third: {resident:?} bytes resident, {descriptors:?} descriptors, {threads:?} threads, \
         {other_series:?} series and {events:?} events, {spooled:?} spans spooled"
    );
    // What the ended events of ten minutes may take; after that their number is constant.
    let more_events = events.1.saturating_sub(events.0);
    assert!(resident.1 <= resident.0 + resident.0 / 20 + (512 << 10) + (16 << 10) * more_events);
    assert!(descriptors.1 <= descriptors.0 + 2 && threads.1 <= threads.0);
    assert_eq!(other_series.0, other_series.1);
    assert!(spooled.1 <= spooled.0.max(40));
    for sample in samples {
        assert!(sample.event_series <= 16 * sample.events, "{sample:?}");
        assert!(
            sample.state_bytes <= 2_048 * (sample.events + 1),
            "{sample:?}"
        );
    }
}
