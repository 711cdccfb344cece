//! Reads scenarios (JSON, documented in `scenarios/README.md`): built-in ones by name, others from a file or from text.

use std::{path::Path, time::Duration};

use serde_json::error::Category;

use super::scenario::{EventSpec, Fault, FaultSpec, MAX_DURATION, Play, Scenario};
use crate::base::{file, text::excerpt, time::format_duration};

macro_rules! scenarios {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("scenarios/", $name, ".json")))),*]
    };
}

/// Name and text of the built-in scenarios, in the order of `simulate --list`.
const SCENARIOS: &[(&str, &str)] = scenarios![
    "demo" "microsoft-example"
    "live-migration" "host-maintenance" "user-reboot" "user-redeploy"
    "platform-reboot" "platform-redeploy" "platform-redeploy-10m" "canceled-maintenance"
    "spot-preempt" "spot-preempt-started" "spot-rebalance" "spot-vm" "scale-in-terminate" "scale-in-terminate-5m"
    "hardware-failure" "hardware-failure-redeploy" "degraded-hardware" "degraded-hardware-2d" "degraded-hardware-freeze"
    "zero-impact" "back-to-back" "late-start" "enabling" "fault-410" "fault-429" "fault-429-retry-after" "fault-500"
    "fault-msp-403" "fault-msp-421" "fault-msp-502" "fault-msp-503" "fault-hang" "fault-reset" "fault-garbage"
    "fault-empty-body" "fault-incarnation-reset" "fault-first-answer" "fault-rate-limit"
];

/// In characters.
const MAX_PROBLEM: usize = 500;
/// In bytes.
const MAX_FILE_SIZE: u64 = 1024 * 1024;
const MAX_EVENTS: usize = 1_000;
/// The statuses of the Guest Proxy Agent: request refused, caller not identified, host not reachable. Source:
/// <https://github.com/Azure/GuestProxyAgent>.
const PROXY_STATUSES: [u16; 4] = [403, 421, 502, 503];

/// Errors are one line of text with the name or the file, the place in it and the problem.
impl Scenario {
    pub fn named(name: &str) -> Result<Self, String> {
        let Some(text) = built_in(name) else {
            let known: Vec<_> = SCENARIOS.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "unknown scenario {name:?}: use one of {}, or the path of a scenario file",
                known.join(", ")
            ));
        };
        Self::parse(name, name, text.as_bytes())
    }

    pub fn load(path: &Path) -> Result<Self, String> {
        let origin = format!("file {}", path.display());
        let text = file::read_given(path, MAX_FILE_SIZE)
            .map_err(|problem| format!("scenario {origin} {problem}"))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &origin, &text)
    }

    /// Parses the text of a scenario file. Errors name `origin` as the source of the text.
    pub fn parse(name: &str, origin: &str, text: &[u8]) -> Result<Self, String> {
        let checked = serde_json::from_slice(text)
            .map_err(|error: serde_json::Error| match error.classify() {
                Category::Data => error.to_string(),
                _ => format!("not valid JSON: {error}"),
            })
            .and_then(check);
        match checked {
            Ok(scenario) => Ok(Self {
                name: name.into(),
                ..scenario
            }),
            // It may quote a member name with control characters.
            Err(problem) => Err(format!(
                "scenario {origin}: {}",
                excerpt(&problem, MAX_PROBLEM)
            )),
        }
    }
}

fn built_in(name: &str) -> Option<&'static str> {
    let mut scenarios = SCENARIOS.iter();
    scenarios
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// Name and description of each built-in scenario.
pub fn catalog() -> impl Iterator<Item = (&'static str, Box<str>)> {
    let names = SCENARIOS.iter().map(|(name, _)| *name);
    names.filter_map(|name| Some((name, Scenario::named(name).ok()?.description)))
}

fn check(mut scenario: Scenario) -> Result<Scenario, String> {
    for (index, event) in scenario.events.iter().enumerate() {
        check_event(event).map_err(|problem| format!("events[{index}].{problem}"))?;
    }
    for (index, fault) in scenario.faults.iter().enumerate() {
        check_fault(fault).map_err(|problem| format!("faults[{index}].{problem}"))?;
    }
    for (index, play) in std::mem::take(&mut scenario.play).iter().enumerate() {
        let played = played(play).map_err(|problem| format!("play[{index}].{problem}"))?;
        scenario.events.extend(played.events);
        scenario.faults.extend(played.faults);
    }
    let is_empty = scenario.events.is_empty() && scenario.faults.is_empty();
    if is_empty && scenario.tags.is_empty() && scenario.zone.is_none() {
        return Err(
            "the scenario has no events, no faults, no tags, no zone and no play".to_owned(),
        );
    }
    if scenario.events.len() > MAX_EVENTS {
        let count = scenario.events.len();
        return Err(format!("events: {count} exceed the limit of {MAX_EVENTS}"));
    }
    scenario.events.sort_by_key(|event| event.at);
    scenario.faults.sort_by_key(|fault| fault.at);
    let length = scenario.length();
    match scenario.repeat_every {
        Some(every) if every < length.max(Duration::from_secs(1)) => Err(format!(
            "repeat_every: {} is too short: use at least 1s and the length of the scenario, which is {}",
            format_duration(every),
            format_duration(length)
        )),
        _ => Ok(scenario),
    }
}

fn check_event(event: &EventSpec) -> Result<(), &'static str> {
    let EventSpec {
        event_id,
        notice,
        started_for,
        canceled_after,
        starts_after_approval,
        advisory_for,
        ..
    } = event;
    let starts = started_for.or(*canceled_after).or(*starts_after_approval);
    Err(
        if event_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
            "event_id: is empty: leave it out for a generated one"
        } else if event.event_type.trim().is_empty() {
            "event_type: is empty: use Freeze, Reboot, Redeploy, Preempt or Terminate"
        } else if event.duration_seconds < -1 {
            "duration_seconds: is negative: use -1 for unknown"
        } else if event.resources.is_empty() {
            "resources: is empty: name at least one VM, such as \"{vm}\""
        } else if canceled_after
            .is_some_and(|canceled| notice.is_none_or(|notice| canceled >= notice))
        {
            "canceled_after: must be shorter than notice, because only an event that has not started can be canceled"
        } else if starts_after_approval.is_some() && notice.is_none() {
            "starts_after_approval: needs notice, because only an event that has not started can be approved"
        } else if advisory_for.is_some() && starts.is_some() {
            "advisory_for: cannot be combined with started_for, canceled_after or starts_after_approval, because an advisory never starts"
        } else {
            return Ok(());
        },
    )
}

fn check_fault(spec: &FaultSpec) -> Result<(), &'static str> {
    let is_reset = spec.fault == Fault::IncarnationReset;
    let is_proxy = spec.fault == Fault::MetadataProxy;
    Err(if is_reset && !spec.duration.is_zero() {
        "for: an incarnation-reset has no duration: leave it out"
    } else if !is_reset && spec.duration.is_zero() {
        "for: is missing or zero: set the duration of the fault, such as \"1m\""
    } else if spec.retry_after.is_some() && spec.fault != Fault::Throttled {
        "retry_after: is valid for throttled only"
    } else if spec.status.is_some() && !is_proxy {
        "status: is valid for metadata-proxy only"
    } else if is_proxy
        && !spec
            .status
            .is_some_and(|code| PROXY_STATUSES.contains(&code))
    {
        "status: set it to 403, 421, 502 or 503"
    } else {
        return Ok(());
    })
}

/// A built-in scenario, delayed by `at` and stretched.
fn played(play: &Play) -> Result<Scenario, String> {
    let Play {
        at,
        scenario: name,
        stretch,
    } = play;
    let text = built_in(name);
    let text = text.ok_or_else(|| format!("scenario: unknown built-in scenario {name:?}"))?;
    let played: Scenario = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !played.play.is_empty() {
        return Err(format!(
            "scenario: {name:?} is a playlist: name the scenarios that it plays"
        ));
    }
    if !(0.01..=1_000.0).contains(stretch) {
        return Err(format!(
            "stretch: {stretch} is out of range: use a factor from 0.01 to 1000"
        ));
    }
    let stretched = |span: Duration| span.mul_f64(*stretch).min(MAX_DURATION);
    Ok(played.with_times(|offset| *at + stretched(offset), stretched))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::scenario::ResourceSpec;

    /// Text => place => problem.
    const INVALID: &str = r#"
        {\n "events": [{"event_type": "Freeze", "notise": "1m"}]} => line 2 => unknown field `notise`
        {"events": [{"event_type": "Freeze", "notice": "1 minute"}]} => line 1 => "1 minute" is not a duration
        {"events": [{"event_type": "Freeze", "duration_seconds": -2}]} => events[0].duration_seconds => -1
        {"events": [{"event_type": ""}]} => events[0].event_type => empty
        {"events": [{"event_type": "Freeze", "event_id": " "}]} => events[0].event_id => empty
        {"events": [{"event_type": "Freeze", "resources": []}]} => events[0].resources => empty
        {"events": [{"event_type": "Freeze", "resources": ["{vmm}"]}]} => line 1 => {vm+1}
        {"events": [{"event_type": "Freeze", "notice": "1m", "canceled_after": "2m"}]} => events[0].canceled_after => notice
        {"events": [{"event_type": "Freeze", "canceled_after": "2m"}]} => events[0].canceled_after => notice
        {"events": [{"event_type": "Freeze", "starts_after_approval": "2m"}]} => events[0].starts_after_approval => notice
        {"events": [{"event_type": "Freeze", "advisory_for": "2m", "started_for": "2m"}]} => events[0].advisory_for => never starts
        {"faults": [{"fault": "metadata-proxy", "for": "1s", "status": 404}]} => faults[0].status => 403, 421, 502 or 503
        {"faults": [{"fault": "gone", "for": "1s", "status": 403}]} => faults[0].status => metadata-proxy
        {"faults": [{"fault": "gone"}]} => faults[0].for => missing
        {"faults": [{"fault": "gone", "for": "0s"}]} => faults[0].for => zero
        {"faults": [{"fault": "gone", "for": "1s", "retry_after": "1s"}]} => faults[0].retry_after => throttled
        {"faults": [{"fault": "incarnation-reset", "for": "1s"}]} => faults[0].for => no duration
        {"faults": [{"fault": "gon", "for": "1s"}]} => line 1 => unknown variant `gon`
        {"play": [{"scenario": "nothing"}]} => play[0].scenario => "nothing"
        {"play": [{"scenario": "demo"}]} => play[0].scenario => playlist
        {"play": [{"scenario": "live-migration", "stretch": 0}]} => play[0].stretch => 0.01
        {"repeat_every": "1s", "events": [{"at": "2s", "event_type": "Freeze"}]} => repeat_every => 2s
        {"events": [{"event_type": "Freeze", "at": "1000d"}]} => line 1 => 366 days
        {} => has no events => faults
    "#;

    fn parse_error(text: &str) -> String {
        let error = Scenario::parse("x", "file x.json", text.as_bytes()).unwrap_err();
        assert!(!error.contains('\n'), "{error:?}");
        error
    }

    #[test]
    fn every_built_in_scenario_is_valid_and_described() {
        for (name, _) in catalog() {
            let scenario = Scenario::named(name).unwrap();
            assert!(!scenario.description.is_empty(), "{name}");
            assert_eq!(&*scenario.name, name);
        }
    }

    #[test]
    fn unknown_name_is_refused_with_the_known_names() {
        let error = Scenario::named("live_migration").unwrap_err();
        assert!(
            error.contains("\"live_migration\"") && error.contains("live-migration, "),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_place_and_the_problem() {
        let rows = INVALID.lines().map(str::trim).filter(|row| !row.is_empty());
        for row in rows {
            let cells: Vec<_> = row.split(" => ").collect();
            let error = parse_error(&cells[0].replace("\\n", "\n"));
            assert!(error.starts_with("scenario file x.json: "), "{error}");
            for words in &cells[1..] {
                assert!(error.contains(words), "{row}\n{error}");
            }
        }
        assert!(parse_error("").contains("EOF"));
    }

    #[test]
    fn error_that_quotes_control_characters_is_one_line() {
        let error = parse_error("{\"eve\\nnts\u{9b}\": 1}");
        assert!(error.contains("eve nts\u{fffd}"), "{error}");
    }

    #[test]
    fn missing_members_have_defaults() {
        let text = br#"{"events": [{"event_type": "Hibernate"}]}"#;
        let scenario = Scenario::parse("x", "x", text).unwrap();
        let event = &scenario.events[0];
        assert_eq!(event.at, Duration::ZERO);
        assert_eq!(&*event.event_source, "Platform");
        assert_eq!(&*event.description, "");
        assert_eq!(event.duration_seconds, -1);
        assert_eq!(event.resources, [ResourceSpec::Instance(0)]);
        assert_eq!(event.notice, None);
        assert_eq!(event.shown_for(), Duration::from_mins(10));
    }

    #[test]
    fn error_for_a_missing_file_names_it() {
        let error = Scenario::load(Path::new("no/such.json")).unwrap_err();
        let expected = "scenario file no/such.json cannot be read: ";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn playlist_shifts_and_stretches_its_scenarios() {
        let text = br#"{"play": [{"at": "1h", "scenario": "spot-preempt", "stretch": 20}]}"#;
        let playlist = Scenario::parse("x", "x", text).unwrap();
        assert_eq!(playlist.events[0].at, Duration::from_hours(1));
        assert_eq!(playlist.events[0].notice, Some(Duration::from_mins(10)));
    }
}
