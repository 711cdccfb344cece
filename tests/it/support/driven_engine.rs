//! The engine, driven by inputs at simulated times. The test performs the effects, which are kept here.

use std::{sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    FailureReason, Identity, RequestError,
    document::{self, Answer},
    engine::{Effect, Engine, EngineConfig, Input, SavedState},
    event::EventId,
    journal::{Entry, Journal},
    otlp::{
        log_record,
        trace::{self, vm_key},
    },
    pause::Lateness,
    snapshot::Snapshot,
    state::{Directory, Found},
    time::{Moment, Timestamp},
};
use opentelemetry_sdk::{logs::SdkLogRecord, trace::SpanData};

use super::log::{self, LogLine};

/// An engine whose state is written at once.
pub(crate) struct DrivenEngine {
    engine: Engine,
    pub(crate) now: Moment,
    /// By how much the wait before the next poll was longer than asked for.
    pub(crate) late: Lateness,
    /// The physical host, as it is read when that is due.
    pub(crate) host: Option<Arc<str>>,
    /// The last one that was published.
    pub(crate) published: Arc<Snapshot>,
    pub(crate) saved: Option<SavedState>,
    /// How often the state was saved.
    pub(crate) saves: usize,
    pub(crate) log: Vec<LogLine>,
    /// The entries of the journal that were published, each with the snapshot.
    pub(crate) emitted: Vec<(Arc<Entry>, Arc<Snapshot>)>,
    /// As it was written last.
    written: Arc<Journal>,
    /// The requested approvals that the test has not answered.
    pub(crate) requested: Vec<Vec<EventId>>,
}

/// That of the VM with this name, which saves its state.
pub(crate) fn config(vm_name: Option<&str>, boot: u32) -> EngineConfig {
    EngineConfig {
        vm_name: vm_name.map(Into::into),
        owner_tag: Some("team".into()),
        poll_interval: Duration::from_secs(1),
        boot_id: Some(boot.to_string()),
        is_persistent: true,
        journal: Journal::new("first"),
        next_journal_id: "next".into(),
        ..EngineConfig::default()
    }
}

/// A request that failed so, without an answer.
pub(crate) fn failure(reason: FailureReason) -> RequestError {
    RequestError {
        reason,
        status: None,
        message: "no complete answer".to_owned(),
        retry_after: None,
        is_unsent: false,
    }
}

impl DrivenEngine {
    pub(crate) fn new(config: EngineConfig, restored: Option<SavedState>, now: Moment) -> Self {
        let mut engine = Engine::new(config, restored, now);
        let effects = engine.begin(now);
        let mut driven = Self {
            now,
            late: Lateness::default(),
            host: None,
            published: Arc::new(engine.snapshot(now)),
            engine,
            saved: None,
            saves: 0,
            log: Vec::new(),
            emitted: Vec::new(),
            written: Arc::default(),
            requested: Vec::new(),
        };
        driven.perform(effects);
        driven
    }

    /// A new process, which restores the last state that was saved.
    pub(crate) fn restart(&mut self, mut config: EngineConfig, now: Moment) {
        let now = self.saved.as_ref().map_or(now, |saved| saved.resume(now));
        self.now = now;
        if let Some(saved) = self.saved.as_ref().map(|it| &it.journal) {
            let entries = self.written.after(0).map(|it| Entry::clone(it)).collect();
            config.journal = Journal::restore(saved, self.written.dropped, entries);
        }
        self.engine = Engine::new(config, self.saved.clone(), now);
        self.published = Arc::new(self.snapshot());
        self.requested.clear();
        let effects = self.engine.begin(now);
        self.perform(effects);
    }

    /// Gives an input to the engine.
    pub(crate) fn handle(&mut self, input: Input) {
        if input.needs_physical_host() {
            self.engine.set_physical_host(self.host.clone());
        }
        let (effects, lines) = log::capture(|| self.engine.handle(input, self.now));
        self.log.extend(lines);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write { journal, state } => {
                    self.written = journal;
                    self.saved = Some(*state);
                    self.saves += 1;
                    self.handle(Input::StateWritten(Ok(())));
                }
                Effect::Approve(ids) => self.requested.push(ids),
                Effect::Publish { snapshot, .. } => self.publish(snapshot),
                // The test polls with a whole document anyway.
                Effect::ForgetDocument => {}
            }
        }
    }

    fn publish(&mut self, snapshot: Arc<Snapshot>) {
        let (was, journal) = (&self.published.journal, &snapshot.journal);
        let known = if was.id == journal.id { was.newest } else { 0 };
        let new = journal.after(known.max(journal.first.saturating_sub(1)));
        let new = new.map(|entry| (Arc::clone(entry), Arc::clone(&snapshot)));
        self.emitted.extend(new);
        self.published = snapshot;
    }

    pub(crate) fn polled(&mut self, result: Result<Answer, RequestError>) {
        let (took, late) = (Duration::ZERO, std::mem::take(&mut self.late));
        self.handle(Input::Polled { result, took, late });
    }

    /// A poll that returns this document.
    pub(crate) fn poll_body(&mut self, body: &[u8]) {
        let (document, anomalies) = document::parse(body).unwrap();
        self.polled(Ok(Answer::Document {
            document,
            anomalies,
        }));
    }

    /// A poll that returns 304.
    pub(crate) fn poll_unchanged(&mut self) {
        self.polled(Ok(Answer::Unchanged));
    }

    /// Instance metadata are these.
    pub(crate) fn identified(&mut self, identity: Identity) {
        let (result, took) = (Ok(identity), Duration::ZERO);
        self.handle(Input::Identified { result, took });
    }

    pub(crate) fn tick(&mut self) {
        self.handle(Input::Tick);
    }

    pub(crate) fn looks_for_pauses(&self) -> bool {
        self.engine.looks_for_pauses()
    }

    /// Whether ticks are due.
    pub(crate) fn ticks(&self) -> bool {
        self.engine.ticks_in(self.now) == Some(Duration::ZERO)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.engine.snapshot(self.now)
    }

    /// What an exporter of traces sends of the changes.
    pub(crate) fn spans(&self) -> Vec<SpanData> {
        let spans = self
            .emitted
            .iter()
            .flat_map(|(entry, _)| trace::spans(&entry.transition, &vm_key(entry.vm.as_deref())));
        spans.collect()
    }

    /// What an exporter of logs sends of the changes.
    pub(crate) fn log_records(&self) -> Vec<SdkLogRecord> {
        let records = self.emitted.iter().flat_map(|(entry, snapshot)| {
            log_record::records(&entry.transition, &vm_key(entry.vm.as_deref()), snapshot)
        });
        records.collect()
    }
}

/// A state after it was written to a file and read from it at this time.
pub(crate) fn through_a_file(saved: &SavedState, at: Timestamp) -> SavedState {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(folder.path()).unwrap();
    directory.write(saved, &Journal::default()).unwrap();
    match directory.read(at) {
        Found::State(read) => *read,
        other => panic!("no state: {other:?}"),
    }
}
