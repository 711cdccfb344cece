//! The form in which scenarios are written: JSON, documented in `docs/simulator.md`. Every member that is not known is
//! refused, so that a misspelt one is not lost in silence.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    catalog,
    scenario::{Fault, Planned, PlannedFault, Resource, Scenario},
};
use crate::time::parse_duration;

/// Longer than anything that Azure announces; it keeps all sums within the calendar.
const LONGEST: Duration = Duration::from_hours(366 * 24);
/// Azure removes an event about ten minutes after its start.
const USUALLY_STARTED_FOR: Duration = Duration::from_mins(10);
/// Larger ones are mistakes.
const MAX_EVENTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    description: String,
    #[serde(default)]
    repeat_every: Option<Span>,
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
    at: Span,
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
    notice: Option<Span>,
    #[serde(default)]
    started_for: Option<Span>,
    #[serde(default)]
    canceled_after: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultEntry {
    #[serde(default)]
    at: Span,
    #[serde(default, rename = "for")]
    lasts: Option<Span>,
    fault: FaultKind,
    #[serde(default)]
    retry_after: Option<Span>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FaultKind {
    Gone,
    Throttled,
    ServerError,
    Hang,
    Reset,
    Garbage,
    EmptyBody,
    Slow,
    RateLimit,
    IncarnationReset,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    #[serde(default)]
    at: Span,
    scenario: String,
    #[serde(default = "unstretched")]
    stretch: f64,
}

fn unstretched() -> f64 {
    1.0
}

/// A duration with its unit, such as `"15m"`.
#[derive(Clone, Copy, Default)]
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let span = parse_duration(&text).map_err(D::Error::custom)?;
        if span > LONGEST {
            return Err(D::Error::custom(format!(
                "{text:?} is longer than 366 days"
            )));
        }
        Ok(Self(span))
    }
}

/// From text to a scenario, or to where and what is wrong.
pub(super) fn read(name: &str, text: &[u8]) -> Result<Scenario, String> {
    // Read as a list, it would be taken for the members without their names.
    if text.trim_ascii_start().starts_with(b"[") {
        return Err("a list is no scenario: it is an object, {…}".to_owned());
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
            .push(planned(event).map_err(|why| format!("events[{index}].{why}"))?);
    }
    for (index, entry) in file.faults.iter().enumerate() {
        add_fault(&mut scenario, entry).map_err(|why| format!("faults[{index}].{why}"))?;
    }
    for (index, play) in file.play.iter().enumerate() {
        add_played(&mut scenario, play).map_err(|why| format!("play[{index}].{why}"))?;
    }
    check(&mut scenario)?;
    Ok(scenario)
}

fn check(scenario: &mut Scenario) -> Result<(), String> {
    if scenario.events.is_empty() && scenario.faults.is_empty() && scenario.resets.is_empty() {
        return Err("nothing happens in it: it needs events, faults or play".to_owned());
    }
    if scenario.events.len() > MAX_EVENTS {
        return Err(format!(
            "events: {} are too many, at most {MAX_EVENTS} are played",
            scenario.events.len()
        ));
    }
    scenario.events.sort_by_key(|event| event.at);
    scenario.resets.sort_unstable();
    let length = scenario.length();
    match scenario.repeat_every {
        Some(every) if every < Duration::from_secs(1) || every < length => Err(format!(
            "repeat_every: {every:?} is too short, it takes {length:?} until everything has been announced; at least 1s"
        )),
        _ => Ok(()),
    }
}

fn planned(event: Event) -> Result<Planned, String> {
    if event.kind.trim().is_empty() {
        return Err(
            "event_type: is empty, use Freeze, Reboot, Redeploy, Preempt or Terminate".to_owned(),
        );
    }
    let duration_seconds = event.duration_seconds.unwrap_or(-1);
    if duration_seconds < -1 {
        return Err(format!(
            "duration_seconds: {duration_seconds} is negative, use -1 for unknown"
        ));
    }
    let notice = event.notice.map(|span| span.0);
    let canceled_after = event.canceled_after.map(|span| span.0);
    if canceled_after.is_some_and(|canceled| notice.is_none_or(|notice| canceled >= notice)) {
        return Err("canceled_after: it must be shorter than notice, since an event can only be canceled before it starts".to_owned());
    }
    Ok(Planned {
        at: event.at.0,
        event_type: event.kind.into(),
        event_source: event.source.unwrap_or_else(|| "Platform".to_owned()).into(),
        description: event.description.into(),
        duration_seconds,
        resources: resources(event.resources)?,
        notice,
        started_for: event.started_for.map_or(USUALLY_STARTED_FOR, |span| span.0),
        canceled_after,
    })
}

fn resources(names: Option<Vec<String>>) -> Result<Vec<Resource>, String> {
    let Some(names) = names else {
        return Ok(vec![Resource::Instance(0)]);
    };
    if names.is_empty() {
        return Err("resources: is empty, name at least one VM, such as \"{vm}\"".to_owned());
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
    let after = match inner {
        "vm" => Some(0),
        _ => inner
            .strip_prefix("vm+")
            .and_then(|number| number.parse().ok()),
    };
    let unknown =
        || format!("resources: {name:?} is no VM, use \"{{vm}}\", \"{{vm+1}}\" or a name");
    after.map(Resource::Instance).ok_or_else(unknown)
}

fn add_fault(scenario: &mut Scenario, entry: &FaultEntry) -> Result<(), String> {
    if entry.retry_after.is_some() && entry.fault != FaultKind::Throttled {
        return Err("retry_after: only a throttled answer has one".to_owned());
    }
    let fault = match entry.fault {
        FaultKind::IncarnationReset if entry.lasts.is_some() => {
            return Err(
                "for: a reset of the incarnation is a point in time, leave it out".to_owned(),
            );
        }
        FaultKind::IncarnationReset => {
            scenario.resets.push(entry.at.0);
            return Ok(());
        }
        FaultKind::Gone => Fault::Gone,
        FaultKind::Throttled => Fault::Throttled(entry.retry_after.map(|span| span.0.as_secs())),
        FaultKind::ServerError => Fault::ServerError,
        FaultKind::Hang => Fault::Hang,
        FaultKind::Reset => Fault::Reset,
        FaultKind::Garbage => Fault::Garbage,
        FaultKind::EmptyBody => Fault::EmptyBody,
        FaultKind::Slow => Fault::Slow,
        FaultKind::RateLimit => Fault::RateLimit,
    };
    let lasts = entry
        .lasts
        .ok_or("for: is missing, say how long the fault lasts, such as \"1m\"")?
        .0;
    if lasts.is_zero() {
        return Err("for: it must be longer than 0".to_owned());
    }
    scenario.faults.push(PlannedFault {
        at: entry.at.0,
        lasts,
        fault,
    });
    Ok(())
}

/// Puts a built-in scenario into this one, later and perhaps slower.
fn add_played(scenario: &mut Scenario, play: &Play) -> Result<(), String> {
    let name = &play.scenario;
    let text = catalog::text(name)
        .ok_or_else(|| format!("scenario: no built-in scenario is called {name:?}"))?;
    if catalog::is_playlist(name) {
        return Err(format!(
            "scenario: {name:?} is a playlist itself, name the scenarios that it plays"
        ));
    }
    if !(0.01..=1_000.0).contains(&play.stretch) {
        return Err(format!(
            "stretch: {} cannot work, use a factor from 0.01 to 1000",
            play.stretch
        ));
    }
    let played = read(name, text.as_bytes()).map_err(|why| format!("scenario: {name}: {why}"))?;
    let stretched = |span: Duration| span.mul_f64(play.stretch).min(LONGEST);
    let later = |span: Duration| play.at.0 + stretched(span);
    scenario
        .events
        .extend(played.events.into_iter().map(|event| Planned {
            at: later(event.at),
            notice: event.notice.map(stretched),
            started_for: stretched(event.started_for),
            canceled_after: event.canceled_after.map(stretched),
            ..event
        }));
    scenario
        .faults
        .extend(played.faults.into_iter().map(|planned| PlannedFault {
            at: later(planned.at),
            lasts: stretched(planned.lasts),
            ..planned
        }));
    scenario.resets.extend(played.resets.into_iter().map(later));
    Ok(())
}
