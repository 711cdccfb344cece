//! Golden tests of documents. Each `tests/documents/NAME.json` is the body of a 200, named after its content;
//! `NAME.parsed` is the parsed document. `NAME.prom`, where it exists, has its samples on a VM called `web_0` at
//! 2026-11-17 09:00 UTC, without those of an exporter that has observed no event.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use azure_scheduled_events_exporter::{
    document::{self, Anomalies, Document},
    event::{Event, Source},
    lifecycle::Tracker,
    metrics::{MetricsOptions, Scrape, exposition::Format},
    snapshot::{SeriesScope, Snapshot},
    time::Timestamp,
};

use serde_json::Value;

use crate::support::{
    DEADLINE, FakeImds, Reply, golden::difference, process::PROGRAM, simulated_vm::moment,
};

const OWN_NAME: &str = "web_0";

/// All documents, sorted by name.
pub(crate) fn all() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    files.sort();
    assert!(files.len() >= 40, "documents are missing");
    files
        .into_iter()
        .map(|path| {
            let body = fs::read(&path).unwrap();
            (path, body)
        })
        .collect()
}

#[test]
fn parsed_documents_match_their_goldens() {
    let differences: Vec<_> = all()
        .iter()
        .filter_map(|(path, body)| difference(&path.with_extension("parsed"), &parsed(body)))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The documents whose text needs care in labels, or whose series differ in kind from those of a simple event.
#[test]
fn exposed_documents_match_their_goldens() {
    let unseen = exposition(&Document::default(), &Anomalies::default());
    let unseen: BTreeSet<&str> = unseen.lines().collect();
    let mut differences = Vec::new();
    let exposed = all()
        .into_iter()
        .filter(|(path, _)| path.with_extension("prom").exists());
    let mut compared = 0;
    for (path, body) in exposed {
        let (document, anomalies) = document::parse(&body).unwrap();
        let shown = new_samples(&exposition(&document, &anomalies), &unseen);
        differences.extend(difference(&path.with_extension("prom"), &shown));
        compared += 1;
    }
    assert!(compared >= 20, "only {compared} documents have a NAME.prom");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The other outputs are compared in `scenarios`.
#[tokio::test]
async fn list_has_the_events_of_every_document() {
    for (path, body) in all() {
        let Ok((document, _)) = document::parse(&body) else {
            continue;
        };
        let imds = FakeImds::standing(Reply::ok(body)).await;
        let mut list = Command::new(PROGRAM);
        list.args(["list", "-o", "json", "--imds.url", &imds.base()]);
        let listed = tokio::task::spawn_blocking(move || list.output().unwrap());
        let listed = tokio::time::timeout(DEADLINE, listed).await.unwrap();
        let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
        let id = |event: &Value| event["EventId"].as_str().unwrap().to_owned();
        let events = listed["events"].as_array().unwrap();
        let listed: Vec<_> = events.iter().map(id).collect();
        let parsed = document.events.iter().map(|event| event.id.to_string());
        assert_eq!(listed, parsed.collect::<Vec<_>>(), "{path:?}");
    }
}

#[test]
fn every_golden_has_its_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.extension().unwrap().to_str().unwrap();
        assert!(["json", "parsed", "prom"].contains(&kind), "{path:?}");
        assert!(path.with_extension("json").exists(), "{path:?}");
        let rejected = path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("refused-");
        assert!(!(rejected && kind == "prom"), "{path:?}");
    }
}

#[test]
fn every_exposition_is_valid_and_has_no_duplicate_series() {
    for (path, body) in all() {
        let Ok((document, anomalies)) = document::parse(&body) else {
            continue;
        };
        let text = exposition(&document, &anomalies);
        let mut series = BTreeSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{path:?}: {line}");
            assert!(
                name.starts_with("azure_scheduled_event"),
                "{path:?}: {line}"
            );
            assert!(series.insert(name), "{path:?}: duplicate series {name}");
        }
        assert!(!text.contains(is_unprintable), "{path:?}");
    }
}

/// Some parsers stop at control characters, and terminals hide them.
fn is_unprintable(c: char) -> bool {
    c.is_control() && c != '\n'
}

fn exposition(document: &Document, anomalies: &Anomalies) -> String {
    let now = moment(0);
    let vm_name: Arc<str> = Arc::from(OWN_NAME);
    let mut snapshot = Snapshot::empty(Some(Arc::clone(&vm_name)), now);
    let mut tracker = Tracker::default();
    let counters = Arc::make_mut(&mut snapshot.counters);
    for transition in tracker.observe(document, Some(&*vm_name), now) {
        counters.count(&transition);
    }
    for anomaly in &anomalies.described {
        counters.count_anomalies(anomaly.kind, 1);
    }
    snapshot.events = tracker.events(now).into();
    snapshot.poll = tracker.poll;
    let exposed = MetricsOptions {
        scope: SeriesScope::All,
        resources: true,
        process: false,
    };
    Scrape {
        snapshot: Arc::new(snapshot),
        options: exposed,
        outputs: Arc::default(),
        now,
    }
    .text(Format::Text)
    .unwrap()
}

/// The samples that are not in `known`. Other goldens hold metadata and words.
fn new_samples(text: &str, known: &BTreeSet<&str>) -> String {
    let is_sample = |line: &&str| {
        let is_other = line.starts_with('#') || line.starts_with("azure_scheduled_event_message");
        !is_other && !known.contains(line)
    };
    let samples: Vec<_> = text.lines().filter(is_sample).collect();
    samples.join("\n") + "\n"
}

/// The parsed document as text.
fn parsed(body: &[u8]) -> String {
    let (document, anomalies) = match document::parse(body) {
        Ok(read) => read,
        Err(error) => return format!("refused: {error}\n"),
    };
    let mut text = format!(
        "incarnation {:?}, {} unreadable\n",
        document.incarnation, document.unreadable.entries
    );
    for event in &document.events {
        text.push_str(&describe(event));
    }
    for anomaly in &anomalies.described {
        writeln!(
            text,
            "anomaly {}: {:?}",
            anomaly.kind.as_str(),
            anomaly.detail
        )
        .unwrap();
    }
    text
}

fn describe(event: &Event) -> String {
    let mut text = format!("event {:?}\n", event.id.as_str());
    let mut line = |name: &str, value: String| writeln!(text, "  {name} {value}").unwrap();
    line("type", format!("{:?}", event.event_type.as_str()));
    line("status", format!("{:?}", event.status.as_str()));
    let source = event.source.as_ref().map(Source::as_str);
    line("source", format!("{source:?}"));
    line("resource type", format!("{:?}", event.resource_type));
    line("resources", format!("{:?}", event.resources));
    line("scope", event.scope(Some(OWN_NAME)).as_str().to_owned());
    let not_before = event.not_before.map(Timestamp::rfc3339_millis);
    line("not before", format!("{not_before:?}"));
    line("duration", format!("{:?}", event.duration_seconds));
    line("description", format!("{:?}", event.description));
    for (name, value) in &event.unknown_members {
        line("unknown member", format!("{name:?} {value:?}"));
    }
    text
}
