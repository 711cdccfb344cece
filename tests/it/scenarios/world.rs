//! Drives the engine with a timeline and simulated time: polls, heartbeat ticks, restarts from the saved
//! state.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    RequestError,
    approval::ApprovalPolicy,
    document::{self, Answer},
    engine::Input,
    lifecycle::{Transition, TransitionKind, words_of},
    metrics::{MetricsOptions, Scrape, exposition::Format},
    pause::{PERIOD, lateness},
    snapshot::{SeriesScope, Snapshot},
    time::Timestamp,
};
use opentelemetry::logs::Severity;

use super::{
    agreement::{Outputs, assert_one_outcome},
    alerts,
    approvals::{self, short_id},
    describe_changes, telemetry,
    timeline::{Step, Stimulus},
    web,
};
use crate::support::{driven_engine::failure, simulated_vm::SimulatedVm};

/// What a timeline compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Samples,
    Alerts,
    Approvals,
    /// The members of `/api/v1/events`.
    Json,
    /// The text of the status page, whole.
    Page,
    /// What an Alertmanager is sent.
    Pushes,
    Telemetry,
    Words,
}

pub(super) struct World {
    /// Time since the beginning, by a clock that never jumps.
    elapsed: Duration,
    vm: SimulatedVm,
    is_running: bool,
    view: View,
    /// What was compared last.
    compared: BTreeMap<String, String>,
}

impl World {
    /// A VM whose name is known from the start, or is read from instance metadata later.
    pub(super) fn new(
        is_named: bool,
        poll_interval: Duration,
        policy: ApprovalPolicy,
        view: View,
    ) -> Self {
        let name = is_named.then_some("web_0");
        let mut world = Self {
            elapsed: Duration::ZERO,
            vm: SimulatedVm::with(policy, name, poll_interval),
            is_running: true,
            view,
            compared: BTreeMap::new(),
        };
        world.compared = match view {
            View::Samples => world.scrape(),
            View::Approvals => approvals::describe(&world.vm),
            _ => BTreeMap::new(),
        };
        world
    }

    /// Advances to the step, performs it, and describes its result.
    pub(super) fn perform(&mut self, step: &Step) -> String {
        let mut report = String::new();
        self.wait_until(step.at, &mut report);
        writeln!(report, "{}", step.line).unwrap();
        self.apply_stimulus(&step.stimulus, &mut report);
        if self.is_running {
            match self.view {
                View::Samples => self.compare(&mut report),
                View::Words => {
                    let words = alerts::words(&self.vm);
                    describe_changes(words, &mut self.compared, "  ", &mut report);
                }
                View::Json => {
                    let members = web::members(&self.vm.whole_json());
                    describe_changes(members, &mut self.compared, "  ", &mut report);
                }
                View::Page => web::describe_page(&self.vm.page(), &mut report),
                View::Approvals => approvals::compare(&self.vm, &mut self.compared, &mut report),
                View::Alerts => {
                    describe_changes(alerts::of(&self.vm), &mut self.compared, "  ", &mut report);
                }
                View::Pushes => {
                    let pushed = alerts::pushed(&self.vm);
                    describe_changes(pushed, &mut self.compared, "  ", &mut report);
                }
                View::Telemetry => telemetry::describe(&self.vm, &mut self.compared, &mut report),
            }
            self.assert_agreement(&step.line);
        }
        report
    }

    /// All outputs give the same answers.
    fn assert_agreement(&mut self, context: &str) {
        let outputs = Outputs {
            json: self.vm.whole_json(),
            page: self.vm.page(),
            metrics: self.vm.metrics(),
            is_serving: self.vm.is_serving(),
        };
        outputs.assert_agreement(context);
        let (spans, records) = (self.vm.spans(), self.vm.log_records());
        assert_one_outcome(&self.vm.log, &spans, &records, context);
        self.vm.emitted.clear();
        self.vm.log.clear();
        let is_critical_start = records
            .iter()
            .filter(|record| record.event_name() == Some("azure.scheduled_event.started"))
            .any(|record| record.severity_number() == Some(Severity::Error));
        assert!(
            !is_critical_start || !outputs.is_serving,
            "{context}: a critical page"
        );
    }

    /// Advances the time, with heartbeat ticks.
    fn wait_until(&mut self, at: Duration, report: &mut String) {
        assert!(
            at >= self.elapsed,
            "the times of a timeline must not decrease: {at:?}"
        );
        while self.elapsed + PERIOD <= at {
            self.advance(PERIOD);
            self.tick(report);
        }
        self.advance(at.saturating_sub(self.elapsed));
    }

    fn advance(&mut self, elapsed: Duration) {
        self.elapsed += elapsed;
        self.vm.now = self.vm.now.after(elapsed);
    }

    fn tick(&mut self, report: &mut String) {
        if self.is_running && self.vm.ticks() {
            self.handle(Input::Tick, report);
        }
    }

    /// Gives an input to the engine, and describes the transitions.
    fn handle(&mut self, input: Input, report: &mut String) {
        let (logged, emitted) = (self.vm.log.len(), self.vm.emitted.len());
        let requested = self.vm.requested.len();
        let journal = Arc::clone(&self.vm.published.journal.id);
        self.vm.handle(input);
        assert!(self.vm.requested.is_empty() || self.view != View::Samples);
        let entries = self.vm.emitted[emitted..].iter();
        let mut entries: Vec<_> = entries.map(|(entry, _)| &entry.transition).collect();
        for line in &self.vm.log[logged..] {
            if self.view == View::Approvals {
                approvals::describe_decision(line, report);
            }
            if self.view == View::Json && line.message.starts_with("warming up") {
                writeln!(report, "  logged: {}", line.message).unwrap();
            }
            let (id, kind) = (line.field("event_id"), line.field("transition"));
            let Some(kind) = kind else { continue };
            let is_same = |it: &&Transition| {
                Some(it.tracked.shown.id.as_str()) == id && words_of(it.kind.event_name()) == kind
            };
            let position = entries.iter().position(is_same);
            describe(
                entries.remove(position.expect("an entry of the journal")),
                report,
            );
        }
        // It was logged as one that may name this VM, or is an entry of a new journal again.
        let is_new = journal != self.vm.published.journal.id;
        entries.retain(|it| !is_new && !matches!(it.kind, TransitionKind::Amended { .. }));
        assert!(entries.is_empty(), "not in the log: {entries:?}");
        for ids in &self.vm.requested[requested..] {
            let ids: Vec<_> = ids.iter().map(|id| short_id(id.as_str())).collect();
            writeln!(report, "  request to approve {}", ids.join(", ")).unwrap();
        }
    }

    fn polled(&mut self, result: Result<Answer, RequestError>, report: &mut String) {
        let (took, late) = (Duration::ZERO, std::mem::take(&mut self.vm.late));
        self.handle(Input::Polled { result, took, late }, report);
    }

    fn apply_stimulus(&mut self, stimulus: &Stimulus, report: &mut String) {
        match stimulus {
            Stimulus::Document(body) => {
                let (document, anomalies) = document::parse(body).unwrap();
                let answer = Answer::Document {
                    document,
                    anomalies,
                };
                self.polled(Ok(answer), report);
            }
            Stimulus::Unchanged => self.polled(Ok(Answer::Unchanged), report),
            Stimulus::Failed(reason) => {
                self.polled(Err(failure(*reason)), report);
            }
            Stimulus::Approved(id) => {
                let (ids, result, took) = (vec![id.clone()], Ok(()), Duration::ZERO);
                self.handle(Input::ApprovalSent { ids, result, took }, report);
            }
            Stimulus::Answered(result) => {
                let (ids, took) = (self.vm.requested.remove(0), Duration::ZERO);
                let result = result.clone();
                self.handle(Input::ApprovalSent { ids, result, took }, report);
            }
            Stimulus::Nameless => assert_eq!(self.vm.published.vm_name, None),
            Stimulus::Named(result) => {
                let result = result.clone().map(|identity| *identity);
                let took = Duration::ZERO;
                self.handle(Input::Identified { result, took }, report);
            }
            Stimulus::Frozen {
                length,
                is_monotonic_stopped,
            } => self.freeze(*length, *is_monotonic_stopped, report),
            Stimulus::Clock { by, is_forward } => {
                let wall = self.vm.now.wall;
                self.vm.now.wall = if *is_forward {
                    wall.after(*by)
                } else {
                    wall.before(*by)
                };
            }
            Stimulus::Stops => {
                self.handle(Input::Shutdown, report);
                self.is_running = false;
            }
            Stimulus::Killed => self.is_running = false,
            Stimulus::Starts { rebooted } => self.start(u32::from(*rebooted)),
            Stimulus::StartsAs(name) => {
                self.vm.vm_name = Some(name.clone());
                self.start(0);
            }
            Stimulus::Host(host) => self.vm.host = host.as_deref().map(Arc::from),
            Stimulus::Policy(_) | Stimulus::View(_) | Stimulus::Interval(_) | Stimulus::Look => {}
        }
    }

    fn start(&mut self, boots: u32) {
        assert!(!self.is_running, "it runs");
        self.vm.boot += boots;
        self.vm.restart_process(Duration::ZERO);
        self.is_running = true;
    }

    fn freeze(&mut self, length: Duration, is_monotonic_stopped: bool, report: &mut String) {
        // The last tick before the pause, and the first after it.
        self.tick(report);
        let before = self.vm.now;
        self.advance(length);
        if is_monotonic_stopped {
            self.vm.now.monotonic = before.monotonic + PERIOD;
            self.vm.now.awake = before.awake + PERIOD;
        }
        // It began when the next poll was due.
        self.vm.late = lateness(before, self.vm.now, Duration::ZERO);
        self.tick(report);
    }

    /// Describes which samples are new, changed or gone since the last scrape.
    fn compare(&mut self, report: &mut String) {
        let now = self.scrape();
        let before = std::mem::take(&mut self.compared);
        for (series, value) in &before {
            match now.get(series) {
                None => writeln!(report, "  - {series}").unwrap(),
                Some(new) if new != value => {
                    writeln!(report, "  ~ {series} {value} → {new}").unwrap();
                }
                Some(_) => {}
            }
        }
        for (series, value) in &now {
            // Before the first document the series is absent: an event may be pending.
            let is_gauge =
                series.starts_with("events_pending") || series.starts_with("events_advisories");
            let is_zero = is_gauge && value == "0";
            if !before.contains_key(series) && !is_zero {
                writeln!(report, "  + {series} {value}").unwrap();
            }
        }
        self.compared = now;
    }

    /// The samples except those that every poll changes, and the single buckets.
    fn scrape(&self) -> BTreeMap<String, String> {
        let mut snapshot = Snapshot::clone(&self.vm.published);
        snapshot.as_of = self.vm.now;
        let exposed = MetricsOptions {
            scope: SeriesScope::Own,
            resources: false,
            process: false,
        };
        let text = Scrape {
            snapshot: Arc::new(snapshot),
            options: exposed,
            outputs: Arc::default(),
            now: self.vm.now,
        }
        .text(Format::Text)
        .unwrap();
        let is_compared = |line: &&str| {
            !line.starts_with('#')
                && !["_bucket{", "_last_success_", "_build_info", "_imds_request"]
                    .iter()
                    .any(|part| line.contains(part))
        };
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (shortened(series), value.to_owned())
        };
        text.lines().filter(is_compared).map(sample).collect()
    }
}

fn describe(transition: &Transition, report: &mut String) {
    let tracked = &transition.tracked;
    let details = match &transition.kind {
        TransitionKind::Ended(outcome) => format!(": {}", outcome.as_str()),
        TransitionKind::Rescheduled(it) => {
            let from = it
                .from
                .map_or_else(|| "nothing".to_owned(), Timestamp::rfc3339);
            format!(": from {from} to {}", it.to.rfc3339())
        }
        TransitionKind::StatusChanged(was) => {
            format!(
                ": from {} to {}",
                was.as_str(),
                tracked.shown.status.as_str()
            )
        }
        TransitionKind::Interrupted(it) => {
            format!(": {:?} until {}", it.length, it.until.rfc3339_millis())
        }
        TransitionKind::Announced
        | TransitionKind::Started
        | TransitionKind::Amended { .. }
        | TransitionKind::Approved
        | TransitionKind::ApprovedElsewhere
        | TransitionKind::Returned { .. } => String::new(),
    };
    let event = &tracked.shown;
    let kind = words_of(transition.kind.event_name());
    writeln!(
        report,
        "  {} {} {kind}{details}",
        event.id, event.event_type
    )
    .unwrap();
}

/// Without labels that repeat the id or what the tests of `assessment` compare, and without the common prefix of the
/// names.
fn shortened(series: &str) -> String {
    let mut short = series.trim_start_matches("azure_scheduled_").to_owned();
    for label in ["event_source=\"Platform\",", "event_source=\"User\","] {
        if !short.starts_with("event_info") {
            short = short.replace(label, "");
        }
    }
    if short.starts_with("event_message")
        && let Some((rest, _)) = short.split_once(",description=")
    {
        short = format!("{rest}}}");
    }
    short
        .replace("-52DA-4F6E-9C38-A40D7E91B265", "…")
        .replace("-52da-4f6e-9c38-a40d7e91b265", "…")
}
