//! The exporter's core in a world where time goes by as a timeline says: every poll, every beat of the pulse, every
//! restart by the state file.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    document,
    heartbeat::{Heartbeat, PERIOD},
    lifecycle::{Restored, Tracker, Transition, TransitionKind},
    metrics::{self, MetricsOptions, exposition::Format},
    snapshot::{SeriesScope, Snapshot},
    state::{Directory, Found, Saved},
    time::{Moment, Timestamp},
};

use super::timeline::{Happening, Step, start};

const ENDED_RETENTION: Duration = Duration::from_mins(10);

pub(super) struct World {
    /// By a clock that never jumps, since the beginning.
    elapsed: Duration,
    now: Moment,
    tracker: Tracker,
    heartbeat: Heartbeat,
    /// All that is shown; the lives are filled in at each scrape.
    snapshot: Snapshot,
    is_running: bool,
    folder: tempfile::TempDir,
    /// The samples of the last scrape.
    shown: BTreeMap<String, String>,
}

impl World {
    pub(super) fn new() -> Self {
        let now = Moment {
            wall: start(),
            monotonic: Duration::from_secs(100),
        };
        let mut world = Self {
            elapsed: Duration::ZERO,
            now,
            tracker: Tracker::new(ENDED_RETENTION),
            heartbeat: Heartbeat::default(),
            snapshot: Snapshot::empty(Some(Arc::from("web_0")), now),
            is_running: true,
            folder: tempfile::tempdir().unwrap(),
            shown: BTreeMap::new(),
        };
        world.shown = world.scrape();
        world
    }

    /// Goes to the step, carries it out, and tells what came of it.
    pub(super) fn take(&mut self, step: &Step) -> String {
        let mut told = String::new();
        self.wait_until(step.at, &mut told);
        writeln!(told, "{}", step.line).unwrap();
        let happened = self.carry_out(&step.happening);
        self.tell(&happened, &mut told);
        if self.is_running {
            self.compare(&mut told);
        }
        told
    }

    /// Time goes by; the pulse is taken while there is something to take it for.
    fn wait_until(&mut self, at: Duration, told: &mut String) {
        assert!(
            at >= self.elapsed,
            "a timeline goes forward, not back to {at:?}"
        );
        while self.elapsed + PERIOD <= at {
            self.pass(PERIOD);
            let happened = self.beat();
            self.tell(&happened, told);
        }
        self.pass(at.saturating_sub(self.elapsed));
    }

    fn pass(&mut self, elapsed: Duration) {
        self.elapsed += elapsed;
        self.now = self.now.after(elapsed);
    }

    fn beat(&mut self) -> Vec<Transition> {
        if !self.is_running || !self.tracker.is_own_pending() {
            self.heartbeat.reset();
            return Vec::new();
        }
        let interruption = self.heartbeat.tick(self.now);
        interruption
            .map(|it| self.tracker.record_interruption(it, self.now.wall))
            .unwrap_or_default()
    }

    fn carry_out(&mut self, happening: &Happening) -> Vec<Transition> {
        let name = self.snapshot.vm_name.clone();
        match happening {
            Happening::Document(body) => {
                let (document, anomalies) = document::parse(body).unwrap();
                let happened = self.tracker.observe(&document, name.as_deref(), self.now);
                let counters = Arc::make_mut(&mut self.snapshot.counters);
                anomalies
                    .iter()
                    .for_each(|anomaly| counters.count_anomalies(anomaly.kind, 1));
                self.snapshot.has_document = true;
                self.snapshot.health.incarnation = document.incarnation;
                self.snapshot.health.succeed(self.now);
                return happened;
            }
            Happening::Unchanged => {
                self.tracker.document_unchanged(self.now);
                self.snapshot.health.succeed(self.now);
            }
            Happening::Failed(reason) => {
                self.tracker.poll_failed(self.now);
                self.snapshot
                    .health
                    .count_request(Duration::ZERO, Some(*reason));
                self.snapshot
                    .health
                    .fail(*reason, String::new(), self.now.wall);
            }
            Happening::Nameless => self.snapshot.vm_name = None,
            Happening::Named(name) => {
                self.snapshot.vm_name = Some(Arc::from(name.as_str()));
                self.tracker.set_vm_name(Some(name));
            }
            Happening::Frozen {
                length,
                is_monotonic_stopped,
            } => {
                // The last beat before it, and the first after it.
                let mut happened = self.beat();
                let monotonic = self.now.monotonic;
                self.pass(*length);
                if *is_monotonic_stopped {
                    self.now.monotonic = monotonic + PERIOD;
                }
                happened.extend(self.beat());
                return happened;
            }
            Happening::Clock { by, is_forward } => {
                let wall = self.now.wall;
                self.now.wall = if *is_forward {
                    wall.after(*by)
                } else {
                    wall.before(*by)
                };
            }
            Happening::Stops => self.stop(),
            Happening::Starts { rebooted } => self.start(*rebooted),
            Happening::Look => {}
        }
        Vec::new()
    }

    fn stop(&mut self) {
        self.is_running = false;
        let saved = Saved {
            boot_id: None,
            heartbeat_at: self.now.wall,
            document_at: self.tracker.document_at(),
            vm_name: self.snapshot.vm_name.as_deref().map(str::to_owned),
            vm_id: None,
            events: self.tracker.events(),
        };
        Directory::open(self.folder.path())
            .unwrap()
            .write(&saved)
            .unwrap();
    }

    /// A new process: it counts from zero, and its monotonic clock begins anew.
    fn start(&mut self, rebooted: bool) {
        assert!(!self.is_running, "it runs");
        self.now.monotonic = Duration::from_secs(1);
        let Found::State(saved) = Directory::open(self.folder.path())
            .unwrap()
            .read(self.now.wall)
        else {
            panic!("there is no state to take over")
        };
        let name = saved.vm_name.as_deref().map(Arc::from);
        let restored = Restored {
            events: saved.events,
            document_at: saved.document_at,
            heartbeat_at: Some(saved.heartbeat_at),
            rebooted,
        };
        self.tracker = Tracker::restore(ENDED_RETENTION, restored, self.now);
        self.heartbeat = Heartbeat::default();
        self.snapshot = Snapshot::empty(name, self.now);
        self.snapshot.has_document = true;
        self.is_running = true;
    }

    fn tell(&mut self, happened: &[Transition], told: &mut String) {
        for transition in happened {
            Arc::make_mut(&mut self.snapshot.counters).count(transition);
            let tracked = &transition.tracked;
            write!(
                told,
                "  {} {} {}",
                tracked.event.id,
                tracked.event.event_type,
                transition.kind.as_str()
            )
            .unwrap();
            match &transition.kind {
                TransitionKind::Ended(outcome) => write!(told, ": {}", outcome.as_str()),
                TransitionKind::Rescheduled(it) => {
                    let from = it
                        .from
                        .map_or_else(|| "nothing".to_owned(), Timestamp::rfc3339);
                    write!(told, ": from {from} to {}", it.to.rfc3339())
                }
                TransitionKind::StatusChanged(was) => write!(
                    told,
                    ": from {} to {}",
                    was.as_str(),
                    tracked.event.status.as_str()
                ),
                TransitionKind::Interrupted(it) => write!(
                    told,
                    ": {:?} until {}",
                    it.length,
                    it.until.rfc3339_millis()
                ),
                TransitionKind::Appeared
                | TransitionKind::Started
                | TransitionKind::Amended { .. }
                | TransitionKind::Approved
                | TransitionKind::Returned => Ok(()),
            }
            .unwrap();
            told.push('\n');
        }
    }

    /// Tells which samples are new, changed or gone since the last scrape.
    fn compare(&mut self, told: &mut String) {
        let now = self.scrape();
        let before = std::mem::take(&mut self.shown);
        for (series, value) in &before {
            match now.get(series) {
                None => writeln!(told, "  - {series}").unwrap(),
                Some(new) if new != value => {
                    writeln!(told, "  ~ {series} {value} → {new}").unwrap();
                }
                Some(_) => {}
            }
        }
        for (series, value) in &now {
            // Before the first document it is not known that nothing is pending.
            let is_zero = series.starts_with("events_pending") && value == "0";
            if !before.contains_key(series) && !is_zero {
                writeln!(told, "  + {series} {value}").unwrap();
            }
        }
        self.shown = now;
    }

    /// The samples but for those that every poll moves, and the single buckets.
    fn scrape(&self) -> BTreeMap<String, String> {
        let mut snapshot = self.snapshot.clone();
        snapshot.events = self.tracker.events().into();
        snapshot.as_of = self.now;
        let exposed = MetricsOptions {
            scope: SeriesScope::Own,
            resources: false,
            process: false,
        };
        let text =
            Format::Text.write(metrics::render(&Arc::new(snapshot), exposed, 0, self.now).unwrap());
        let is_told = |line: &&str| {
            !line.starts_with('#')
                && !["_bucket{", "_last_success_", "_build_info", "_imds_request"]
                    .iter()
                    .any(|part| line.contains(part))
        };
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (shortened(series), value.to_owned())
        };
        text.lines().filter(is_told).map(sample).collect()
    }
}

/// The labels that say no more than the id does are left out, and what is common to all names.
fn shortened(series: &str) -> String {
    let mut short = series.trim_start_matches("azure_scheduled_").to_owned();
    for label in ["event_source=\"Platform\",", "event_source=\"User\","] {
        if !short.starts_with("event_info") {
            short = short.replace(label, "");
        }
    }
    short
        .replace("-52DA-4F6E-9C38-A40D7E91B265", "…")
        .replace("-52da-4f6e-9c38-a40d7e91b265", "…")
}
