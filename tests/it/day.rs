//! The samples that the exporters of a scripted day expose: `alerts/tests/day/scenes.json` through the engine and `/metrics`
//! to `alerts/tests/day/series.yml`, in promtool's notation. `tests/rules/run` evaluates the rules over them and writes
//! `alerts/tests/notifications.md`. The day begins at the Unix time 0.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    Identity,
    metrics::{MetricsOptions, Scrape, exposition::Format},
    pause::PERIOD,
    snapshot::SeriesScope,
    time::{Moment, Timestamp},
};
use serde::Deserialize;
use serde_json::json;

use crate::support::{
    driven_engine::{DrivenEngine, config},
    golden,
};

/// Between two scrapes, in seconds.
const STEP: u64 = 10;
const END: u64 = 4 * 3_600 + 40 * 60;
/// The metrics that alerts read, without the prefix `azure_scheduled_`.
const FAMILIES: [&str; 6] = [
    "event_alert{",
    "event_message{",
    "event_open{",
    "events_last_success_timestamp_seconds ",
    "events_up ",
    "events_vm_info{",
];

#[derive(Deserialize)]
struct Day {
    vms: Vec<Vm>,
    scenes: Vec<Scene>,
}

#[derive(Deserialize)]
struct Vm {
    name: String,
    address: String,
    #[serde(default = "prod")]
    cluster: String,
    #[serde(default)]
    scale_set: String,
    #[serde(default)]
    node: String,
    /// Intervals in which the VM does not run. It stays in service discovery.
    #[serde(default)]
    down: Vec<(String, String)>,
    /// From then on it is not in service discovery.
    deleted: Option<String>,
}

fn prod() -> String {
    "prod".to_owned()
}

#[derive(Deserialize)]
struct Scene {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    id: String,
    /// Names, of another cluster than `prod` with the cluster and a slash.
    vms: Vec<String>,
    #[serde(rename = "type")]
    kind: String,
    seen: String,
    not_before: Option<String>,
    duration: Option<i64>,
    #[serde(default = "platform")]
    source: String,
    started: Option<String>,
    ended: Option<String>,
    /// Seconds for which the VM is paused from the start on.
    paused: Option<u64>,
    #[serde(default)]
    description: String,
    #[serde(default = "scheduled")]
    status: String,
}

fn platform() -> String {
    "Platform".to_owned()
}

fn scheduled() -> String {
    "Scheduled".to_owned()
}

/// `1:05` or `1:05:30`.
fn seconds(clock: &str) -> u64 {
    let parts = clock.split(':').map(|part| part.parse::<u64>().unwrap());
    let units = [3_600, 60, 1];
    parts.zip(units).map(|(part, unit)| part * unit).sum()
}

impl Event {
    fn is_listed(&self, at: u64) -> bool {
        let ended = self.ended.as_deref().map_or(u64::MAX, seconds);
        (seconds(&self.seen)..ended).contains(&at)
    }

    /// As Azure sends it.
    fn entry(&self, at: u64) -> serde_json::Value {
        let started = self.started.as_deref().map(seconds);
        let is_started = started.is_some_and(|started| started <= at);
        let not_before = self.not_before.as_deref().map(seconds);
        let not_before = not_before.filter(|_| !is_started).map(|at| {
            let at = Timestamp::from_unix_seconds(at.try_into().unwrap());
            at.unwrap().rfc1123()
        });
        let names = self.vms.iter().map(|vm| vm.rsplit('/').next().unwrap());
        json!({
            "EventId": self.id,
            "EventType": self.kind,
            "ResourceType": "VirtualMachine",
            "Resources": names.collect::<Vec<_>>(),
            "EventStatus": if is_started { "Started" } else { &self.status },
            "NotBefore": not_before.unwrap_or_default(),
            "Description": self.description,
            "EventSource": self.source,
            "DurationInSeconds": self.duration.unwrap_or(-1),
        })
    }

    fn changes(&self) -> BTreeSet<u64> {
        let others = [&self.started, &self.ended].into_iter().flatten();
        others
            .chain([&self.seen])
            .map(|clock| seconds(clock))
            .collect()
    }
}

/// The exporter of one VM.
struct Exporter<'a> {
    vm: &'a Vm,
    events: Vec<&'a Event>,
    driven: DrivenEngine,
    /// Seconds since midnight, half a second each.
    ticks: u32,
    boots: u32,
    paused_until: u64,
}

fn moment(ticks: u32) -> Moment {
    let elapsed = PERIOD * ticks;
    Moment::new(
        Timestamp::from_unix_seconds(0).unwrap().after(elapsed),
        Duration::from_secs(100) + elapsed,
    )
}

impl<'a> Exporter<'a> {
    fn new(vm: &'a Vm, day: &'a Day) -> Self {
        let key = match vm.cluster.as_str() {
            "prod" => vm.name.clone(),
            cluster => format!("{cluster}/{}", vm.name),
        };
        let events = day.scenes.iter().flat_map(|scene| &scene.events);
        let mut exporter = Self {
            vm,
            events: events.filter(|event| event.vms.contains(&key)).collect(),
            driven: DrivenEngine::new(config(Some(&vm.name), 0), None, moment(0)),
            ticks: 0,
            boots: 0,
            paused_until: 0,
        };
        exporter.identify();
        exporter
    }

    fn identify(&mut self) {
        let vm = self.vm;
        self.driven.identified(Identity {
            name: vm.name.clone(),
            vm_id: format!("id-{}-{}", vm.cluster, vm.name),
            scale_set: vm.scale_set.clone(),
            vm_size: "Standard_D4s_v5".to_owned(),
            location: "westeurope".to_owned(),
            resource_group: "shop".to_owned(),
            subscription_id: "3f9c5a1e-7d24-4b8a-9a60-0c1d2e3f4a5b".to_owned(),
            ..Identity::default()
        });
    }

    fn is_up(&self, at: u64) -> bool {
        let mut down = self.vm.down.iter();
        !down.any(|(from, to)| (seconds(from)..seconds(to)).contains(&at))
    }

    fn poll(&mut self, at: u64) {
        let listed = self.events.iter().filter(|event| event.is_listed(at));
        let changes = self.events.iter().flat_map(|event| event.changes());
        let body = json!({
            "DocumentIncarnation": changes.filter(|change| *change <= at).count(),
            "Events": listed.map(|event| event.entry(at)).collect::<Vec<_>>(),
        });
        self.driven.poll_body(body.to_string().as_bytes());
        for event in &self.events {
            let pause = event.started.as_deref().map(seconds).zip(event.paused);
            if let Some((started, length)) = pause.filter(|(started, _)| *started == at) {
                self.paused_until = started + length;
            }
        }
    }

    /// Half a second later.
    fn tick(&mut self) {
        self.ticks += 1;
        self.driven.now = moment(self.ticks);
        let at = u64::from(self.ticks) / 2;
        let is_paused = at < self.paused_until;
        if self.is_up(at) && !is_paused && self.driven.ticks() {
            self.driven.tick();
        }
    }

    /// The samples of a scrape, by series.
    fn scrape(&self) -> BTreeMap<String, String> {
        let options = MetricsOptions {
            scope: SeriesScope::Own,
            resources: false,
            process: false,
        };
        let now = moment(self.ticks);
        let text = Scrape {
            snapshot: Arc::clone(&self.driven.published),
            options,
            outputs: Arc::default(),
            now,
        }
        .text(Format::Text)
        .unwrap();
        let lines = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("azure_scheduled_")?;
            let is_read = FAMILIES.iter().any(|family| rest.starts_with(family));
            let (series, value) = line.rsplit_once(' ').unwrap();
            is_read.then(|| {
                let value = value.strip_suffix(".0").unwrap_or(value);
                (self.labelled(series), value.to_owned())
            })
        });
        lines.collect()
    }

    /// With the labels of the target.
    fn labelled(&self, series: &str) -> String {
        let vm = self.vm;
        let (name, rest) = series.split_once('{').unwrap_or((series, "}"));
        let node = match vm.node.as_str() {
            "" => String::new(),
            node => format!("node=\"{node}\","),
        };
        let (cluster, address) = (&vm.cluster, &vm.address);
        let target = format!(
            "cluster=\"{cluster}\",job=\"azure-scheduled-events\",instance=\"{address}:10169\",{node}"
        );
        format!("{name}{{{target}{rest}").replace(",}", "}")
    }

    /// Runs until the end of the day. The values of each series by scrape.
    fn run(mut self) -> BTreeMap<String, BTreeMap<u64, String>> {
        let mut samples: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
        let changes: BTreeSet<u64> = self
            .events
            .iter()
            .flat_map(|event| event.changes())
            .collect();
        let deleted = self.vm.deleted.as_deref().map_or(u64::MAX, seconds);
        let mut was_up = true;
        for at in 0..=END.min(deleted - 1) {
            let is_up = self.is_up(at);
            if is_up && !was_up {
                self.boots += 1;
                let config = config(Some(&self.vm.name), self.boots);
                self.driven.restart(config, self.driven.now);
                self.identify();
            }
            let has_returned = is_up && !was_up;
            was_up = is_up;
            let is_scraped = at % STEP == 0;
            let is_running = is_up && at >= self.paused_until;
            if is_running && (is_scraped || has_returned || changes.contains(&at)) {
                self.poll(at);
            }
            if is_scraped {
                let up = self.labelled("up");
                let value = u8::from(is_up).to_string();
                samples.entry(up).or_default().insert(at, value);
            }
            if is_scraped && is_up {
                for (series, value) in self.scrape() {
                    samples.entry(series).or_default().insert(at, value);
                }
            }
            self.tick();
            self.tick();
        }
        samples
    }
}

/// The samples of one series in promtool's notation: `_x3` for missing ones, `stale` where the series ends.
fn notation(samples: &BTreeMap<u64, String>) -> String {
    let mut text = String::new();
    let mut at = 0;
    let values: Vec<Option<f64>> = (0..=END / STEP)
        .map(|step| samples.get(&(step * STEP)))
        .map(|value| value.map(|value| value.parse().unwrap()))
        .collect();
    while let Some(first) = values.get(at) {
        let next = values.get(at + 1).copied().flatten();
        let delta = first.zip(next).map_or(0.0, |(first, next)| next - first);
        let delta = if (delta - STEP as f64).abs() < 0.5 {
            delta
        } else {
            0.0
        };
        let expected = |step: usize| first.map(|first| first + delta * step as f64);
        let rest = values.iter().skip(at).enumerate();
        let count = rest
            .take_while(|(step, value)| **value == expected(*step))
            .count();
        match first {
            None if at + count == values.len() && at > 0 => text += " stale",
            None if at == 0 => write!(text, " _x{count}").unwrap(),
            None if count == 1 => text += " stale",
            None => write!(text, " stale _x{}", count - 1).unwrap(),
            Some(first) if count == 1 => write!(text, " {first}").unwrap(),
            Some(first) => write!(text, " {first}+{delta}x{}", count - 1).unwrap(),
        }
        at += count;
    }
    text.trim_start().to_owned()
}

#[test]
fn series_of_the_scripted_day() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/tests/day");
    let script = std::fs::read(folder.join("scenes.json")).unwrap();
    let day: Day = serde_json::from_slice(&script).unwrap();
    let mut written = "# Written by tests/it/day.rs from scenes.json: UPDATE_GOLDENS=1 cargo test --test it -- day\n".to_owned();
    for vm in &day.vms {
        for (series, samples) in Exporter::new(vm, &day).run() {
            let (series, values) = (series.replace('\'', "''"), notation(&samples));
            writeln!(written, "- {{series: '{series}', values: '{values}'}}").unwrap();
        }
    }
    let difference = golden::difference(&folder.join("series.yml"), &written);
    assert_eq!(difference, None);
}
