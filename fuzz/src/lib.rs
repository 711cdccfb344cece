//! What must hold for any bytes, one function for each parser, which returns whether it reads the input. The fuzz targets run them on the inputs that libFuzzer
//! finds, and `tests/it/damaged_inputs.rs` on a few thousand damaged examples.

use std::{collections::HashSet, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    document::{self, AnomalyKind, Answer},
    engine::{Effect, Engine, EngineConfig, Input, SavedState},
    event::EventId,
    journal::Journal,
    lifecycle::SavedJournal,
    metrics::{MetricsOptions, Scrape, exposition::Format},
    otlp::{log_record, settings::OtlpSettings, trace},
    pause::Lateness,
    simulator::Scenario,
    snapshot::SeriesScope,
    state::journal_file,
    time::{Moment, Timestamp},
    web_config::WebConfig,
};

/// The event of this document continues the one in `seeds/state`.
const STARTED: &[u8] = br#"{"DocumentIncarnation":2,"Events":[{"EventId":"A991815F-96A9-4B96-B3AB-4B59E5B82605","EventStatus":"Started","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web-vmss_0"],"NotBefore":"","Description":"","EventSource":"Platform","DurationInSeconds":9}]}"#;
const EMPTY: &[u8] = br#"{"DocumentIncarnation":3,"Events":[]}"#;

/// The body of a 200 of IMDS: no duplicate id, and no event is lost without an anomaly.
pub fn document(body: &[u8]) -> bool {
    let Ok((document, anomalies)) = document::parse(body) else {
        return false;
    };
    let ids: HashSet<&EventId> = document.events.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), document.events.len(), "duplicate id");
    let is_printable = |detail: &str| !detail.contains(char::is_control);
    assert!(
        anomalies
            .described
            .iter()
            .all(|anomaly| is_printable(&anomaly.detail))
    );
    // Only the first 64 anomalies are described.
    let described = anomalies.described.iter();
    let is_recorded = described.len() == 64
        || described
            .clone()
            .any(|anomaly| anomaly.kind == AnomalyKind::Event);
    assert!(
        document.is_complete() || is_recorded,
        "an event was lost without an anomaly"
    );
    true
}

/// A state file: one that is read is written and read back unchanged, and an exporter that starts with it can handle
/// polls and scrapes.
pub fn state(text: &[u8]) -> bool {
    let Ok(saved) = SavedState::from_json(text) else {
        return false;
    };
    let written = saved
        .to_json()
        .expect("a state that was read can be written");
    let again = SavedState::from_json(&written).expect("a state that was written can be read");
    assert_eq!(again, saved);
    start_with(saved);
    true
}

fn start_with(saved: SavedState) {
    let config = EngineConfig {
        boot_id: Some("1".to_owned()),
        is_persistent: true,
        ..EngineConfig::default()
    };
    let mut now = Moment::new(
        Timestamp::from_unix_seconds(1_795_314_700).expect("a time in 2026"),
        Duration::from_secs(1),
    );
    let options = MetricsOptions {
        scope: SeriesScope::All,
        resources: true,
        process: false,
    };
    let mut engine = Engine::new(config, Some(saved), now);
    for body in [STARTED, EMPTY] {
        let (document, anomalies) = document::parse(body).expect("a valid document");
        let input = Input::Polled {
            result: Ok(Answer::Document {
                document,
                anomalies,
            }),
            took: Duration::from_millis(1),
            late: Lateness::default(),
        };
        for effect in engine.handle(input, now) {
            if let Effect::Publish { snapshot, .. } = effect {
                for entry in snapshot.journal.after(0) {
                    trace::spans(&entry.transition, "web_0");
                    log_record::records(&entry.transition, "web_0", &snapshot);
                }
            }
        }
        let snapshot = Arc::new(engine.snapshot(now));
        let text = Scrape {
            snapshot,
            options,
            outputs: Arc::default(),
            now,
        }
        .text(Format::OpenMetrics);
        text.expect("every state can be scraped");
        now = now.after(Duration::from_secs(1));
    }
}

/// A file of a journal, with the checksums in it and with valid ones: the entries that are read are written and read back
/// unchanged. It is read if each line is.
pub fn journal(content: &[u8]) -> bool {
    let is_read = read_journal(content);
    let lines = content.split(|byte| *byte == b'\n');
    let json = lines.map(|line| line.get(9..).unwrap_or(line));
    let lines: Vec<_> = json.map(journal_file::line).collect();
    read_journal(&lines.concat());
    is_read
}

fn read_journal(content: &[u8]) -> bool {
    let id = Arc::from("0f6b5a52-6a1c-4a37-9c1f-5f1d0e7b9a34");
    let Ok(found) = journal_file::parse(content, &id) else {
        return false;
    };
    let saved = SavedJournal {
        id: Arc::clone(&id),
        ..SavedJournal::default()
    };
    let journal = Journal::restore(&saved, found.dropped, found.entries.clone());
    let written = journal_file::content(&journal).expect("a journal that was read can be written");
    let again = journal_file::parse(&written, &id).expect("a journal that was written can be read");
    assert_eq!(again.entries, found.entries);
    assert_eq!(again.dropped, found.dropped);
    found.entries.len() + 1 == content.split_inclusive(|byte| *byte == b'\n').count()
}

/// OpenTelemetry's environment variables, a line `NAME=VALUE` for each: an endpoint that is accepted has a host, and a
/// message is one line.
pub fn environment(text: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(text) else {
        return false;
    };
    let lookup = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.split_once('='));
        values
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| value.to_owned())
    };
    let read = OtlpSettings::from_env(lookup);
    match &read {
        Ok(Some(settings)) => {
            assert!(!settings.exporters.is_empty() || !settings.ignored.is_empty());
            for exporter in &settings.exporters {
                assert!(exporter.endpoint.has_host() && !exporter.timeout.is_zero());
            }
            assert!(settings.ignored.iter().all(|message| is_one_line(message)));
        }
        Ok(None) => {}
        Err(error) => assert!(is_one_line(error)),
    }
    read.is_ok()
}

/// A scenario file of the simulator: an error is one line.
pub fn scenario(text: &[u8]) -> bool {
    let read = Scenario::parse("fuzz", "file fuzz.json", text);
    read.map_err(|error| assert!(is_one_line(&error), "{error:?}"))
        .is_ok()
}

/// A file of `--web.config.file`: an error is one line.
pub fn web_config(text: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(text) else {
        return false;
    };
    let read = WebConfig::check(text);
    read.map_err(|error| assert!(is_one_line(&error), "{error:?}"))
        .is_ok()
}

fn is_one_line(message: &str) -> bool {
    !message.contains(char::is_control)
}
