//! A running sender with its journal, and entries to send.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    document,
    journal::{Entry, Journal},
    lifecycle::{SavedCursor, SavedJournal, Tracker},
    otlp::{
        Signal,
        sender::{CollectorClient, RetryTiming, Sender, SignalQueue},
        settings::OtlpSettings,
    },
    output_counters::{ExportCounts, ExportFailure},
    snapshot::Snapshot,
    time::{Clock, Moment, Timestamp},
};
use opentelemetry_proto::tonic::common::v1::{KeyValue as SentAttribute, any_value};
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::FakeCollector,
    events::{self, document as reply},
    install_cryptography,
    process::{Process, exporter},
};

pub(super) const TIMING: RetryTiming = RetryTiming {
    initial_backoff: Duration::from_millis(5),
    max_backoff: Duration::from_millis(20),
    flush_timeout: Duration::from_secs(1),
};

/// What a sender begins with.
pub(super) struct Start {
    pub(super) signal: Signal,
    pub(super) timing: RetryTiming,
    /// Of an earlier process.
    pub(super) kept: Option<(Journal, SavedCursor)>,
    pub(super) is_durable: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            signal: Signal::Traces,
            timing: TIMING,
            kept: None,
            is_durable: false,
        }
    }
}

pub(super) struct Sending {
    pub(super) journal: Journal,
    pub(super) queue: Arc<SignalQueue>,
    pub(super) counts: watch::Receiver<ExportCounts>,
    _snapshots: watch::Sender<Arc<Snapshot>>,
    stop: CancellationToken,
    pub(super) running: JoinHandle<()>,
}

impl Sending {
    pub(super) fn start(endpoint: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_as(Start::default(), endpoint, environment)
    }

    pub(super) fn start_as(start: Start, endpoint: &str, environment: &[(&str, &str)]) -> Self {
        install_cryptography();
        let clock = Clock::start();
        let (journal, saved) = start.kept.unzip();
        let journal = journal.unwrap_or_else(|| Journal::new("a"));
        let moved = Arc::new(Notify::new());
        let shared = Arc::new(journal.clone());
        let queue = Arc::new(SignalQueue::new(
            start.signal,
            &shared,
            saved.as_ref(),
            moved,
        ));
        let snapshot = Snapshot::empty(Some("web_0".into()), clock.now());
        let (publisher, snapshots) = watch::channel(Arc::new(snapshot));
        let settings = settings(endpoint, environment);
        let exporter = settings.exporter(start.signal).unwrap();
        let client = CollectorClient::new(exporter, clock, start.timing).unwrap();
        let stop = CancellationToken::new();
        let sender = Sender {
            client,
            queue: Arc::clone(&queue),
            settings,
            snapshots,
            is_durable: start.is_durable,
            stop: stop.clone(),
        };
        Self {
            journal,
            counts: queue.counts().subscribe(),
            queue,
            _snapshots: publisher,
            stop,
            running: tokio::spawn(sender.run()),
        }
    }

    /// Adds entries together.
    pub(super) fn append(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let dropped = self.journal.append(numbers.into_iter().map(entry));
        self.queue.update(&Arc::new(self.journal.clone()), &dropped);
    }

    /// The owner of a restored journal becomes known.
    pub(super) fn confirm_owner(&mut self) {
        self.journal.ownership.is_doubtful = false;
        self.append([]);
    }

    pub(super) async fn until(
        &mut self,
        condition: impl Fn(&ExportCounts) -> bool,
    ) -> ExportCounts {
        let waiting = self.counts.wait_for(|counts| condition(counts));
        let waited = timeout(DEADLINE, waiting).await;
        let counts = waited.ok().map(|counts| counts.unwrap().clone());
        counts.unwrap_or_else(|| panic!("timed out at {:?}", self.counts.borrow()))
    }

    pub(super) async fn until_failed(&mut self, reason: ExportFailure, times: u64) -> ExportCounts {
        self.until(|counts| counts.failures[&reason] >= times).await
    }

    /// Adds an entry, and waits until one more is exported.
    pub(super) async fn send(&mut self, number: u64) -> ExportCounts {
        let before = self.counts.borrow().exported;
        self.append([number]);
        self.until(|counts| counts.exported == before + 1).await
    }

    pub(super) async fn stop(self) -> (ExportCounts, (Journal, SavedCursor)) {
        self.stop.cancel();
        timeout(DEADLINE, self.running).await.unwrap().unwrap();
        let saved = self.queue.saved(&self.journal);
        let counts = self.counts.borrow().clone();
        (counts, (self.journal, saved))
    }
}

/// The journal as the next process reads it, before it is known whose it is.
pub(super) fn restored(journal: &Journal) -> Journal {
    let saved = SavedJournal {
        id: Arc::clone(&journal.id),
        newest: journal.newest,
        ..SavedJournal::default()
    };
    let entries = journal.after(0).map(|entry| (**entry).clone()).collect();
    let mut restored = Journal::restore(&saved, journal.dropped, entries);
    restored.first = restored.newest + 1;
    restored
}

pub(super) fn settings(endpoint: &str, environment: &[(&str, &str)]) -> OtlpSettings {
    let all: BTreeMap<_, _> = environment
        .iter()
        .copied()
        .chain([("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)])
        .collect();
    OtlpSettings::from_env(|name| all.get(name).map(|value| (*value).to_owned()))
        .unwrap()
        .unwrap()
}

pub(super) const NO_LOGS: (&str, &str) = ("OTEL_LOGS_EXPORTER", "none");
pub(super) const SEEN_AT: i64 = 1_794_906_942;

/// The end of an event, with one span and one log record. The number is the end of its id, and its type, which is in the
/// name of the span.
pub(super) fn entry(number: u64) -> Entry {
    let event = json!({
        "EventId": format!("{number:032x}"), "EventType": number.to_string(), "EventStatus": "Advisory",
        "Resources": ["web_0", "web_1"], "EventSource": "Platform", "DurationInSeconds": 9,
    });
    let body = |events| json!({"DocumentIncarnation": 1, "Events": events}).to_string();
    let mut tracker = Tracker::default();
    let mut observe = |events, seconds: u64| {
        let (document, _) = document::parse(body(events).as_bytes()).unwrap();
        let at = Timestamp::from_unix_seconds(SEEN_AT).unwrap();
        let now = Moment::new(at, Duration::ZERO).after(Duration::from_secs(seconds));
        tracker.observe(&document, Some("web_0"), now)
    };
    observe(json!([event]), 0);
    let ended = observe(json!([]), 2).pop().unwrap();
    Entry::new(ended, Some(&"web_0".into()))
}

/// The numbers of the entries whose spans were accepted, in order.
pub(super) fn accepted(collector: &FakeCollector) -> Vec<u64> {
    let names = collector.accepted();
    let number = |name: &String| name.rsplit(' ').next().unwrap().parse().unwrap();
    names.iter().map(number).collect()
}

/// The program with these variables, and a state directory if it is given.
pub(super) fn exporting(
    imds: &FakeImds,
    state: Option<&Path>,
    environment: &[(&str, &str)],
) -> Process {
    let mut command = exporter(imds);
    command.envs(environment.iter().copied());
    if let Some(state) = state {
        command.arg(format!("--state.directory={}", state.display()));
    }
    Process::start_as(&mut command)
}

/// Ends the program, and returns its log.
pub(super) async fn stop(process: Process) -> String {
    process.signal("TERM");
    process.end().await.log
}

/// A Freeze of this VM.
pub(super) fn event(status: &str) -> Reply {
    event_of(status, "web_0")
}

pub(super) fn event_of(status: &str, resource: &str) -> Reply {
    let members = json!({
        "EventStatus": status, "Resources": [resource], "DurationInSeconds": 5, "Description": "Host \"a\\b\"",
    });
    reply(1, [events::event(&members)])
}

pub(super) fn no_event() -> Reply {
    Reply::ok(r#"{"DocumentIncarnation":2,"Events":[]}"#)
}

pub(super) fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    range.collect()
}

pub(super) fn base(collector: &FakeCollector) -> String {
    format!("http://{}", collector.address)
}

pub(super) fn text(attributes: &[SentAttribute], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}
