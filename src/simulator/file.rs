//! Parses scenario files (JSON, documented in `docs/simulator.md`).

use std::time::Duration;

use serde::Deserialize;

use super::{
    builtin,
    scenario::{EventSpec, Fault, FaultSpec, Scenario},
    scenario_duration::{MAX_DURATION, duration, optional_duration},
};
use crate::time::format_duration;

const MAX_EVENTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    description: Box<str>,
    #[serde(default, deserialize_with = "optional_duration")]
    repeat_every: Option<Duration>,
    #[serde(default)]
    events: Vec<EventSpec>,
    #[serde(default)]
    faults: Vec<FaultSpec>,
    #[serde(default)]
    play: Vec<Play>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    #[serde(default, deserialize_with = "duration")]
    at: Duration,
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
    for (index, event) in file.events.iter().enumerate() {
        check_event(event).map_err(|problem| format!("events[{index}].{problem}"))?;
    }
    for (index, fault) in file.faults.iter().enumerate() {
        check_fault(fault).map_err(|problem| format!("faults[{index}].{problem}"))?;
    }
    let (resets, faults): (Vec<_>, Vec<_>) = file
        .faults
        .into_iter()
        .partition(|spec| spec.fault == Fault::IncarnationReset);
    let mut scenario = Scenario {
        name: name.into(),
        description: file.description,
        repeat_every: file.repeat_every,
        events: file.events,
        faults,
        resets: resets.iter().map(|spec| spec.at).collect(),
    };
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

fn check_event(event: &EventSpec) -> Result<(), &'static str> {
    let EventSpec {
        notice,
        started_for,
        canceled_after,
        starts_after_approval,
        advisory_for,
        ..
    } = event;
    let starts = started_for.or(*canceled_after).or(*starts_after_approval);
    Err(if event.event_type.trim().is_empty() {
        "event_type: is empty: use Freeze, Reboot, Redeploy, Preempt or Terminate"
    } else if event.duration_seconds < -1 {
        "duration_seconds: is negative: use -1 for unknown"
    } else if event.resources.is_empty() {
        "resources: is empty: name at least one VM, such as \"{vm}\""
    } else if canceled_after.is_some_and(|canceled| notice.is_none_or(|notice| canceled >= notice))
    {
        "canceled_after: must be shorter than notice, because only an event that has not started can be canceled"
    } else if starts_after_approval.is_some() && notice.is_none() {
        "starts_after_approval: needs notice, because only an event that has not started can be approved"
    } else if advisory_for.is_some() && starts.is_some() {
        "advisory_for: cannot be combined with started_for, canceled_after or starts_after_approval, because an advisory never starts"
    } else {
        return Ok(());
    })
}

fn check_fault(spec: &FaultSpec) -> Result<(), &'static str> {
    let is_reset = spec.fault == Fault::IncarnationReset;
    Err(if is_reset && !spec.duration.is_zero() {
        "for: an incarnation-reset has no duration: leave it out"
    } else if !is_reset && spec.duration.is_zero() {
        "for: is missing or zero: set the duration of the fault, such as \"1m\""
    } else if spec.retry_after.is_some() && spec.fault != Fault::Throttled {
        "retry_after: is valid for throttled only"
    } else if spec.status.is_some() && spec.fault != Fault::MetadataProxy {
        "status: is valid for metadata-proxy only"
    } else if spec.status.is_none() && spec.fault == Fault::MetadataProxy {
        "status: set it to 403, 421, 502 or 503"
    } else {
        return Ok(());
    })
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
    let later = |span: Duration| play.at + stretched(span);
    scenario
        .events
        .extend(played.events.into_iter().map(|event| EventSpec {
            at: later(event.at),
            notice: event.notice.map(stretched),
            started_for: Some(stretched(event.shown_for())),
            canceled_after: event.canceled_after.map(stretched),
            starts_after_approval: event.starts_after_approval.map(stretched),
            advisory_for: event.advisory_for.map(stretched),
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
