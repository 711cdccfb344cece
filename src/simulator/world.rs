//! The state of the simulated Azure: pending events, active faults, running scenarios.
//!
//! Time is an argument, and no task runs in the background. [`World::advance`] applies all changes that are due, in
//! order and with their own times, so tests simulate hours without waiting.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use uuid::{Builder, Uuid};

use super::{
    scenario::{EventSpec, Fault, FaultSpec, Scenario},
    vm::Vm,
};
use crate::{
    azure::event::{EventId, Status},
    base::time::{Moment, MonotonicTime, Timestamp},
};

const MAX_RUNS: usize = 100;
/// Names of VMs that are kept; further ones are only in `Resources`.
const MAX_VMS: usize = 10_000;
/// After (re-)enabling.
const FIRST_INCARNATION: u64 = 1;
/// Requests per second and VM; see
/// <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#rate-limiting>.
const RATE_LIMIT: usize = 5;

#[derive(Debug)]
pub struct World {
    pub(super) vm: Vm,
    /// The names of this VM and of all that a started scenario names.
    pub(super) vm_names: BTreeSet<Box<str>>,
    pub(super) speed: f64,
    /// The physical host of the VM, until it is written.
    pub(super) new_host: Option<Box<str>>,
    /// The status page of the exporter that `demo` runs beside it.
    pub(super) exporter_url: Option<Box<str>>,
    id_seed: u64,
    pub incarnation: u64,
    started: u64,
    pub runs: Vec<ScenarioRun>,
    /// The events in the document, in the order of their announcement.
    pub pending: Vec<PendingEvent>,
    /// The requests that the rate limit accepted within the last second, with their VMs.
    accepted: Vec<(MonotonicTime, Box<str>)>,
    pub(super) requests: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Clone)]
pub struct PendingEvent {
    pub id: EventId,
    pub(super) spec: EventSpec,
    pub(super) resources: Vec<Box<str>>,
    pub(super) scenario: Box<str>,
    /// `None` once the event has started, or if an advisory has none.
    pub not_before: Option<Timestamp>,
    pub(super) status: Status,
    pub(super) is_approved: bool,
    pub(super) changes_at: MonotonicTime,
    /// Whether the next change is the start. Otherwise the event leaves the document.
    pub(super) will_start: bool,
}

#[derive(Debug)]
pub struct ScenarioRun {
    /// At the speed of the simulation.
    pub(super) scenario: Scenario,
    number: u64,
    pub cycle: u64,
    started: Moment,
    announced: usize,
    resets: usize,
    first_request: Option<MonotonicTime>,
}

/// A change of a pending event or of a run.
#[derive(Debug, Clone, Copy)]
enum Change {
    Event,
    Announcement,
    Reset,
    Restart,
    End,
}

impl PendingEvent {
    fn start(&mut self, at: MonotonicTime) {
        self.status = Status::Started;
        self.not_before = None;
        self.will_start = false;
        self.changes_at = at + self.spec.shown_for();
    }

    /// Moves the start forward; a start or cancellation that comes first stays.
    fn approve(&mut self, at: MonotonicTime) {
        self.is_approved = true;
        let starts_at = at + self.spec.starts_after_approval.unwrap_or_default();
        if starts_at < self.changes_at {
            self.will_start = true;
            self.changes_at = starts_at;
        }
    }
}

impl World {
    /// Creates a simulation without events and faults. `id_seed` is part of each event id.
    pub fn new(vm: Vm, speed: f64, id_seed: u64) -> Self {
        let results = [
            "approvals",
            "documents",
            "metadata",
            "refused",
            "unanswered",
            "unchanged",
        ];
        Self {
            vm_names: [vm.name.clone()].into(),
            vm,
            speed,
            new_host: Some("host-a".into()),
            exporter_url: None,
            id_seed,
            incarnation: FIRST_INCARNATION,
            started: 0,
            runs: Vec::new(),
            pending: Vec::new(),
            accepted: Vec::new(),
            requests: results.map(|result| (result, 0)).into(),
        }
    }

    /// Starts a scenario; those that are running continue.
    ///
    /// # Errors
    /// When too many scenarios are running.
    pub fn start(&mut self, scenario: Scenario, now: Moment) -> Result<(), String> {
        self.advance(now);
        if self.runs.len() >= MAX_RUNS {
            return Err(format!(
                "{MAX_RUNS} scenarios are running already: clear them first"
            ));
        }
        self.started += 1;
        let mut scenario = scenario.at_speed(self.speed);
        let new = &scenario.tags;
        let is_new = |name: &str| new.keys().any(|it| it.eq_ignore_ascii_case(name));
        self.vm.tags.retain(|name, _| !is_new(name));
        self.vm.tags.append(&mut scenario.tags);
        self.vm.zone = scenario.zone.take().unwrap_or_else(|| self.vm.zone.clone());
        let resources = scenario.events.iter().flat_map(|event| &event.resources);
        let names = resources.map(|resource| self.vm.resource(resource));
        let free = MAX_VMS.saturating_sub(self.vm_names.len());
        self.vm_names.extend(names.take(free));
        self.runs.push(ScenarioRun {
            scenario,
            number: self.started,
            cycle: 0,
            started: now,
            announced: 0,
            resets: 0,
            first_request: None,
        });
        self.advance(now);
        Ok(())
    }

    /// The VM with this name in any case: the simulated one, or another one that a started scenario names.
    pub(super) fn find_vm(&self, name: &str) -> Option<Vm> {
        let mut names = self.vm_names.iter();
        let known = names.find(|known| known.eq_ignore_ascii_case(name))?;
        Some(if *known == self.vm.name {
            self.vm.clone()
        } else {
            self.vm.neighbour(known)
        })
    }

    pub fn clear(&mut self, now: Moment) {
        self.advance(now);
        self.runs.clear();
        if !self.pending.is_empty() {
            self.pending.clear();
            self.incarnation += 1;
        }
    }

    /// Approves events, which start at once unless their scenario delays the start. Has no effect on events that have
    /// started already and on advisories.
    ///
    /// # Errors
    /// When no event with one of the ids is pending; then none is approved.
    pub fn approve(&mut self, ids: &[EventId], now: Moment) -> Result<(), String> {
        self.advance(now);
        let is_pending = |id: &EventId| self.pending.iter().any(|event| event.id == *id);
        if let Some(unknown) = ids.iter().find(|id| !is_pending(id)) {
            return Err(format!("no event {:?} is pending", unknown.as_str()));
        }
        for event in &mut self.pending {
            if event.status == Status::Scheduled && ids.contains(&event.id) {
                event.approve(now.monotonic);
            }
        }
        self.advance(now);
        Ok(())
    }

    pub fn advance(&mut self, now: Moment) {
        let mut changed_at = None;
        while let Some((at, change, index)) = self.next().filter(|next| next.0 <= now.monotonic) {
            self.apply(change, index, at, now);
            let is_shown = matches!(change, Change::Event | Change::Announcement);
            // All changes at one time are in one document.
            self.incarnation += u64::from(is_shown && changed_at.replace(at) != Some(at));
        }
    }

    pub fn next_change(&self) -> Option<MonotonicTime> {
        self.next().map(|(at, ..)| at)
    }

    /// The active fault and the time of its end; of several, the one that started last. A delay of enabling
    /// comes after all others.
    pub(super) fn fault(&self, now: Moment) -> Option<(FaultSpec, MonotonicTime)> {
        self.active_faults(now)
            .max_by_key(|(spec, window)| (spec.fault != Fault::Enabling, window.start))
            .map(|(spec, window)| (spec, window.end))
    }

    fn active_faults(
        &self,
        now: Moment,
    ) -> impl Iterator<Item = (FaultSpec, Range<MonotonicTime>)> {
        let windows = self.runs.iter().flat_map(|run| {
            let faults = run.scenario.faults.iter();
            faults.map(|spec| (*spec, run.fault_window(spec)))
        });
        windows.filter(move |(_, window)| window.contains(&now.monotonic))
    }

    /// Incarnation and events of the document that a request gets. The request starts the delay of enabling, if a
    /// scenario waits for it.
    pub(super) fn deliver(&mut self, now: Moment) -> (u64, &[PendingEvent]) {
        for run in &mut self.runs {
            run.first_request.get_or_insert(now.monotonic);
        }
        let is_enabling = self
            .active_faults(now)
            .any(|(spec, _)| spec.fault == Fault::Enabling);
        if is_enabling {
            (FIRST_INCARNATION, &[])
        } else {
            (self.incarnation, &self.pending)
        }
    }

    /// Returns whether the rate limit accepts a request of this VM at `now`, and counts it.
    pub(super) fn accept_request(&mut self, vm: &str, now: Moment) -> bool {
        let now = now.monotonic;
        self.accepted
            .retain(|(at, _)| *at + Duration::from_secs(1) > now);
        let of_vm = self.accepted.iter().filter(|(_, of)| **of == *vm);
        let is_accepted = of_vm.count() < RATE_LIMIT;
        if is_accepted {
            self.accepted.push((now, vm.into()));
        }
        is_accepted
    }

    /// The next change, its time, and the index of the pending event or of the run.
    fn next(&self) -> Option<(MonotonicTime, Change, usize)> {
        let events = self.pending.iter().enumerate();
        let events = events.map(|(index, event)| (event.changes_at, Change::Event, index));
        let runs = self.runs.iter().enumerate().map(|(index, run)| {
            let (at, change) = run.next_change();
            (at, change, index)
        });
        // `min_by_key` returns the first minimum: at equal times an event ends before the next is announced.
        events.chain(runs).min_by_key(|(at, ..)| *at)
    }

    fn apply(&mut self, change: Change, index: usize, at: MonotonicTime, now: Moment) {
        match (change, self.runs.get_mut(index)) {
            (Change::Event, _) => match self.pending.get_mut(index) {
                Some(event) if event.will_start => event.start(at),
                _ => self.end(index),
            },
            (Change::Announcement, _) => self.announce(index),
            (Change::Reset, Some(run)) => {
                run.resets += 1;
                self.incarnation = FIRST_INCARNATION;
            }
            (Change::Restart, Some(run)) => run.restart(now),
            (Change::End, Some(_)) => drop(self.runs.remove(index)),
            (_, None) => {}
        }
    }

    fn end(&mut self, index: usize) {
        let event = self.pending.remove(index);
        if event.status == Status::Started && event.resources.contains(&self.vm.name) {
            self.new_host = event.spec.moves_to.or(self.new_host.take());
        }
    }

    fn announce(&mut self, index: usize) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Some(spec) = run.scenario.events.get(run.announced).cloned() else {
            return;
        };
        let given = spec.event_id.as_deref().map(EventId::new);
        let id = given
            .filter(|id| self.pending.iter().all(|event| event.id != *id))
            .unwrap_or_else(|| {
                event_id([self.id_seed, run.number, run.cycle, run.announced as u64])
            });
        run.announced += 1;
        let announced = run.started.after(spec.at);
        let (status, wait, will_start) = match (spec.canceled_after, spec.notice) {
            _ if spec.is_advisory() => (Status::Advisory, spec.shown_for(), false),
            (Some(wait), _) => (Status::Scheduled, wait, false),
            (None, Some(wait)) => (Status::Scheduled, wait, true),
            (None, None) => (Status::Started, spec.shown_for(), false),
        };
        let resources = spec.resources.iter();
        self.pending.push(PendingEvent {
            id,
            resources: resources.map(|name| self.vm.resource(name)).collect(),
            scenario: run.scenario.name.clone(),
            not_before: spec.notice.map(|notice| announced.wall.after(notice)),
            status,
            is_approved: false,
            changes_at: announced.monotonic + wait,
            will_start,
            spec,
        });
    }
}

impl ScenarioRun {
    fn fault_window(&self, spec: &FaultSpec) -> Range<MonotonicTime> {
        let planned = self.started.monotonic + spec.at;
        let start = match spec.fault {
            Fault::Enabling => self
                .first_request
                .map_or(MonotonicTime::MAX, |first| first.max(planned)),
            _ => planned,
        };
        start..start + spec.duration
    }

    /// The next change and its time. The run ends or restarts after all other changes.
    fn next_change(&self) -> (MonotonicTime, Change) {
        let announcement = self.scenario.events.get(self.announced);
        let announcement = announcement.map(|event| (event.at, Change::Announcement));
        let faults = self.scenario.faults.iter();
        let is_reset = |spec: &&FaultSpec| spec.fault == Fault::IncarnationReset;
        let reset = faults.clone().filter(is_reset).nth(self.resets);
        let reset = reset.map(|spec| (spec.at, Change::Reset));
        let first = announcement.into_iter().chain(reset);
        let first = first.min_by_key(|(at, _)| *at);
        let restart = self.scenario.repeat_every;
        let restart = restart.map(|period| (period, Change::Restart));
        if let Some((at, change)) = first.or(restart) {
            return (self.started.monotonic + at, change);
        }
        let ends = faults.map(|spec| self.fault_window(spec).end);
        let end = ends.max().unwrap_or(self.started.monotonic);
        (end, Change::End)
    }

    /// Starts the next cycle; skips those that have been missed.
    fn restart(&mut self, now: Moment) {
        let period = self.scenario.repeat_every.unwrap_or(Duration::MAX);
        let elapsed = now.monotonic - self.started.monotonic;
        let periods = u32::try_from(elapsed.as_nanos() / period.as_nanos()).unwrap_or(u32::MAX);
        self.started = self.started.after(period.saturating_mul(periods.max(1)));
        self.cycle += 1;
        self.announced = 0;
        self.resets = 0;
        self.first_request = None;
    }
}

/// A GUID of version 4 in upper case, as the service writes it. Equal parts give the same id.
fn event_id(parts: [u64; 4]) -> EventId {
    let parts = parts.map(u64::to_be_bytes);
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, parts.as_flattened());
    let id = Builder::from_random_bytes(hash.into_bytes()).into_uuid();
    EventId::new(&format!("{:X}", id.hyphenated()))
}
