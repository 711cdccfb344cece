//! Parses scenario files (JSON, documented in `docs/simulator.md`). Unknown members are errors, so that a misspelt one
//! is not ignored.

use std::time::Duration;

use serde::Deserialize;

use super::{
    builtin,
    fault_entry::FaultEntry,
    scenario::{EventSpec, FaultSpec, Resource, Scenario},
    scenario_duration::{MAX_DURATION, ScenarioDuration},
};
use crate::time::format_duration;

/// Azure removes an event about ten minutes after its start.
const DEFAULT_STARTED_FOR: Duration = Duration::from_mins(10);
const MAX_EVENTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    description: String,
    #[serde(default)]
    repeat_every: Option<ScenarioDuration>,
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    faults: Vec<FaultEntry>,
    #[serde(default)]
    play: Vec<Play>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    #[serde(default)]
    at: ScenarioDuration,
    #[serde(rename = "event_type")]
    kind: String,
    #[serde(default, rename = "event_source")]
    source: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    duration_seconds: Option<i64>,
    #[serde(default)]
    resources: Option<Vec<String>>,
    #[serde(default)]
    notice: Option<ScenarioDuration>,
    #[serde(default)]
    started_for: Option<ScenarioDuration>,
    #[serde(default)]
    canceled_after: Option<ScenarioDuration>,
    #[serde(default)]
    starts_after_approval: Option<ScenarioDuration>,
    #[serde(default)]
    advisory_for: Option<ScenarioDuration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    #[serde(default)]
    at: ScenarioDuration,
    scenario: String,
    #[serde(default = "default_stretch")]
    stretch: f64,
}

fn default_stretch() -> f64 {
    1.0
}

/// Parses the text of a scenario file. The error names the place and the problem.
pub(super) fn parse(name: &str, text: &[u8]) -> Result<Scenario, String> {
    // serde would accept an array as the members without their names.
    if text.trim_ascii_start().starts_with(b"[") {
        return Err("found a JSON array: a scenario is a JSON object, {…}".to_owned());
    }
    let file: File = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut scenario = Scenario {
        name: name.into(),
        description: file.description.into(),
        repeat_every: file.repeat_every.map(|span| span.0),
        events: Vec::new(),
        faults: Vec::new(),
        resets: Vec::new(),
    };
    for (index, event) in file.events.into_iter().enumerate() {
        scenario
            .events
            .push(event_spec(event).map_err(|problem| format!("events[{index}].{problem}"))?);
    }
    for (index, entry) in file.faults.iter().enumerate() {
        entry
            .add_to(&mut scenario)
            .map_err(|problem| format!("faults[{index}].{problem}"))?;
    }
    for (index, play) in file.play.iter().enumerate() {
        add_played(&mut scenario, play).map_err(|problem| format!("play[{index}].{problem}"))?;
    }
    check(&mut scenario)?;
    Ok(scenario)
}

fn check(scenario: &mut Scenario) -> Result<(), String> {
    if scenario.events.is_empty() && scenario.faults.is_empty() && scenario.resets.is_empty() {
        return Err("the scenario has no events, no faults and no play".to_owned());
    }
    if scenario.events.len() > MAX_EVENTS {
        return Err(format!(
            "events: {} exceed the limit of {MAX_EVENTS}",
            scenario.events.len()
        ));
    }
    scenario.events.sort_by_key(|event| event.at);
    scenario.resets.sort_unstable();
    let length = scenario.length();
    match scenario.repeat_every {
        Some(every) if every < Duration::from_secs(1) || every < length => Err(format!(
            "repeat_every: {} is too short: use at least 1s and the length of the scenario, which is {}",
            format_duration(every),
            format_duration(length)
        )),
        _ => Ok(()),
    }
}

fn event_spec(event: Event) -> Result<EventSpec, String> {
    if event.kind.trim().is_empty() {
        return Err(
            "event_type: is empty: use Freeze, Reboot, Redeploy, Preempt or Terminate".to_owned(),
        );
    }
    let duration_seconds = event.duration_seconds.unwrap_or(-1);
    if duration_seconds < -1 {
        return Err(format!(
            "duration_seconds: {duration_seconds} is negative: use -1 for unknown"
        ));
    }
    let notice = event.notice.map(|span| span.0);
    let canceled_after = event.canceled_after.map(|span| span.0);
    if canceled_after.is_some_and(|canceled| notice.is_none_or(|notice| canceled >= notice)) {
        return Err("canceled_after: must be shorter than notice, because only an event that has not started can be canceled".to_owned());
    }
    let starts_after_approval = event.starts_after_approval.map(|span| span.0);
    if starts_after_approval.is_some() && notice.is_none() {
        return Err(
            "starts_after_approval: needs notice, because only an event that has not started can be approved"
                .to_owned(),
        );
    }
    let starts = event.started_for.or(event.canceled_after);
    if event.advisory_for.is_some() && starts.or(event.starts_after_approval).is_some() {
        return Err(
            "advisory_for: cannot be combined with started_for, canceled_after or starts_after_approval, because an advisory never starts"
                .to_owned(),
        );
    }
    let shown_for = event.advisory_for.or(event.started_for);
    Ok(EventSpec {
        at: event.at.0,
        event_type: event.kind.into(),
        event_source: event.source.unwrap_or_else(|| "Platform".to_owned()).into(),
        description: event.description.into(),
        duration_seconds,
        resources: resources(event.resources)?,
        notice,
        started_for: shown_for.map_or(DEFAULT_STARTED_FOR, |span| span.0),
        canceled_after,
        starts_after_approval: starts_after_approval.unwrap_or_default(),
        is_advisory: event.advisory_for.is_some(),
    })
}

fn resources(names: Option<Vec<String>>) -> Result<Vec<Resource>, String> {
    let Some(names) = names else {
        return Ok(vec![Resource::Instance(0)]);
    };
    if names.is_empty() {
        return Err("resources: is empty: name at least one VM, such as \"{vm}\"".to_owned());
    }
    names.into_iter().map(resource).collect()
}

fn resource(name: String) -> Result<Resource, String> {
    let Some(inner) = name
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    else {
        return Ok(Resource::Name(name.into()));
    };
    let offset = match inner {
        "vm" => Some(0),
        _ => inner
            .strip_prefix("vm+")
            .and_then(|number| number.parse().ok()),
    };
    let unknown =
        || format!("resources: {name:?} is not a VM: use \"{{vm}}\", \"{{vm+1}}\" or a name");
    offset.map(Resource::Instance).ok_or_else(unknown)
}

/// Adds the events and faults of a built-in scenario, delayed by `at` and stretched.
fn add_played(scenario: &mut Scenario, play: &Play) -> Result<(), String> {
    let name = &play.scenario;
    let text = builtin::text(name)
        .ok_or_else(|| format!("scenario: unknown built-in scenario {name:?}"))?;
    if builtin::is_playlist(name) {
        return Err(format!(
            "scenario: {name:?} is a playlist: name the scenarios that it plays"
        ));
    }
    if !(0.01..=1_000.0).contains(&play.stretch) {
        return Err(format!(
            "stretch: {} is out of range: use a factor from 0.01 to 1000",
            play.stretch
        ));
    }
    let played =
        parse(name, text.as_bytes()).map_err(|problem| format!("scenario: {name}: {problem}"))?;
    let stretched = |span: Duration| span.mul_f64(play.stretch).min(MAX_DURATION);
    let later = |span: Duration| play.at.0 + stretched(span);
    scenario
        .events
        .extend(played.events.into_iter().map(|event| EventSpec {
            at: later(event.at),
            notice: event.notice.map(stretched),
            started_for: stretched(event.started_for),
            canceled_after: event.canceled_after.map(stretched),
            starts_after_approval: stretched(event.starts_after_approval),
            ..event
        }));
    scenario
        .faults
        .extend(played.faults.into_iter().map(|spec| FaultSpec {
            at: later(spec.at),
            duration: stretched(spec.duration),
            ..spec
        }));
    scenario.resets.extend(played.resets.into_iter().map(later));
    Ok(())
}
