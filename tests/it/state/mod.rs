//! The state file: reading and writing it, restarts, and failing disks.

mod blocked_disk;
#[cfg(unix)]
mod bounds;
mod disks;
mod file;
#[cfg(feature = "root-tests")]
mod mounts;
mod restarts;
mod unannounced;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use azure_scheduled_events_exporter::{
    document,
    engine::SavedState,
    journal::Journal,
    lifecycle::{SavedJournal, Tracker},
    state::Directory,
    time::{Moment, MonotonicTime, Timestamp},
};

use crate::support::{
    DEADLINE, FakeImds, Reply, ask_until,
    exporter::Metrics,
    process::{Process, page},
    wait_until,
};

const FIRST_SEEN: &str = "azure_scheduled_event_first_seen_timestamp_seconds{event_id=\"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265\",event_type=\"Freeze\",event_source=\"Platform\",scope=\"self\"}";

fn freeze(status: &str) -> Reply {
    Reply::ok(format!(
        r#"{{"DocumentIncarnation":2,"Events":[{{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"{status}","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"","Description":"","EventSource":"Platform","DurationInSeconds":9}}]}}"#
    ))
}

fn at() -> Timestamp {
    Timestamp::from_unix_seconds(1_794_906_000).unwrap()
}

/// A state with one event.
fn saved(vm_id: &str) -> SavedState {
    SavedState {
        vm_id: Some(vm_id.to_owned()),
        ..saved_at(at(), "Freeze")
    }
}

/// A state with one event of this type that was written at this time.
fn saved_at(wall: Timestamp, event_type: &str) -> SavedState {
    let body = format!(
        r#"{{"DocumentIncarnation":2,"Events":[{{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"{event_type}","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}}]}}"#
    );
    let mut tracker = Tracker::default();
    let (document, _) = document::parse(body.as_bytes()).unwrap();
    let now = Moment::new(wall, Duration::from_hours(1));
    tracker.observe(&document, Some("web_0"), now);
    SavedState {
        boot_id: Some("a-boot".to_owned()),
        heartbeat_at: wall,
        monotonic: now.monotonic,
        document_at: Some(Moment {
            awake: MonotonicTime::default(),
            ..now
        }),
        set_back: Duration::ZERO,
        document_incarnation: Some(2),
        warm_up_until: None,
        vm_name: Some("web_0".into()),
        metadata_name: None,
        owner: None,
        vm_id: None,
        journal: SavedJournal::default(),
        events: tracker.events(now),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's file needs no atomic write"
)]
fn put(folder: &Path, text: &[u8]) {
    fs::write(folder.join("state.json"), text).unwrap();
}

fn put_state(folder: &Path, state: &SavedState) {
    let mut directory = Directory::open(folder).unwrap();
    directory.write(state, &Journal::default()).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// An exporter process with a state directory.
struct Running {
    process: Process,
    address: String,
}

impl Running {
    fn arguments(imds: &FakeImds, directory: &Path) -> Vec<String> {
        vec![
            format!("--imds.url={}", imds.base()),
            format!("--state.directory={}", directory.display()),
            "--web.listen-address=127.0.0.1:0".to_owned(),
            "--imds.poll-interval=200ms".to_owned(),
        ]
    }

    async fn start(imds: &FakeImds, directory: &Path) -> Self {
        Self::of(Process::start(Self::arguments(imds, directory))).await
    }

    async fn of(mut process: Process) -> Self {
        let address = process.address().await;
        Self { process, address }
    }

    /// Scrapes until `condition` holds.
    async fn until(&self, what: &str, condition: impl Fn(&Metrics) -> bool) -> Metrics {
        let metrics = async || Metrics(page(&self.address, "/metrics").await.unwrap_or_default());
        ask_until(what, metrics, condition).await
    }

    async fn first_seen(&self) -> f64 {
        let metrics = self
            .until("the event is shown", |it| it.value(FIRST_SEEN).is_some())
            .await;
        metrics.value(FIRST_SEEN).unwrap()
    }
}

/// A member of the state file, as JSON text.
fn member(folder: &Path, name: &str) -> String {
    let text = fs::read(folder.join("state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    state[name].to_string()
}

/// Waits for a file with this name, or with this prefix if it ends in `-`.
async fn wait_for(folder: &Path, start: &str) -> PathBuf {
    wait_until(DEADLINE, start, || {
        let names = if folder.is_dir() {
            names(folder)
        } else {
            Vec::new()
        };
        let is_match =
            |name: &&String| *name == start || start.ends_with('-') && name.starts_with(start);
        names.iter().find(is_match).map(|name| folder.join(name))
    })
    .await
}
