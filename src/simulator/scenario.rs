//! Scenarios as data: which events are announced, which faults are injected, and when. The members are those of
//! scenario files, which `scenarios/README.md` describes. Unknown members are errors, so that a misspelt one is not
//! ignored.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::vm::Tags;
use crate::{azure::event::EventType, base::time::parse_duration};

/// Azure removes an event about ten minutes after its start.
const DEFAULT_STARTED_FOR: Duration = Duration::from_mins(10);
/// The minimum length of a phase at any speed, so that a client that polls once a second sees each phase.
const MIN_PHASE: Duration = Duration::from_secs(2);
/// Longer than any notice of Azure; keeps sums of durations in range.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(366 * 24);

/// Times are offsets from the start of the scenario. Events are sorted by time, and so are faults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The built-in name, or the file name without its extension.
    #[serde(skip)]
    pub name: Box<str>,
    pub description: Box<str>,
    #[serde(deserialize_with = "duration")]
    pub repeat_every: Option<Duration>,
    pub events: Vec<EventSpec>,
    pub faults: Vec<FaultSpec>,
    /// Of the VMs from its start on, beside the tags that they have.
    pub(super) tags: Tags,
    pub(super) zone: Option<Box<str>>,
    /// Empty once `events` and `faults` have those of the built-in scenarios in it.
    pub(super) play: Vec<Play>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    #[serde(default, deserialize_with = "duration")]
    pub(super) at: Duration,
    /// `EventId`, unless a pending event has it already.
    #[serde(default)]
    pub(super) event_id: Option<Box<str>>,
    pub(super) event_type: Box<str>,
    #[serde(default = "platform")]
    pub(super) event_source: Box<str>,
    #[serde(default)]
    pub(super) description: Box<str>,
    /// `DurationInSeconds`; -1 means unknown. Not scaled by the speed.
    #[serde(default = "unknown_length")]
    pub(super) duration_seconds: i64,
    #[serde(default = "this_vm")]
    pub(super) resources: Vec<ResourceSpec>,
    /// From the announcement to `NotBefore`; `None` if the event is already Started in the first document.
    #[serde(default, deserialize_with = "duration")]
    pub(super) notice: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) started_for: Option<Duration>,
    /// The event leaves the document after this time without having started.
    #[serde(default, deserialize_with = "duration")]
    pub(super) canceled_after: Option<Duration>,
    /// From the approval to Started, at once by default; an event starts at `NotBefore` at the latest.
    #[serde(default, deserialize_with = "duration")]
    pub(super) starts_after_approval: Option<Duration>,
    /// The physical host of the simulated VM once the event has ended after its start.
    #[serde(default)]
    pub(super) moves_to: Option<Box<str>>,
    /// `EventStatus` is Advisory for this time, and the event never starts.
    #[serde(default, deserialize_with = "duration")]
    pub(super) advisory_for: Option<Duration>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Play {
    #[serde(default, deserialize_with = "duration")]
    pub(super) at: Duration,
    pub(super) scenario: Box<str>,
    #[serde(default = "unstretched")]
    pub(super) stretch: f64,
}

fn platform() -> Box<str> {
    "Platform".into()
}

fn unknown_length() -> i64 {
    -1
}

fn this_vm() -> Vec<ResourceSpec> {
    vec![ResourceSpec::Instance(0)]
}

fn unstretched() -> f64 {
    1.0
}

/// Such as `"15m"`, at most [`MAX_DURATION`].
fn duration<'de, D: Deserializer<'de>, T: From<Duration> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(T::default());
    };
    let span = parse_duration(&text).map_err(D::Error::custom)?;
    if span > MAX_DURATION {
        return Err(D::Error::custom(format!(
            "{text:?} is longer than 366 days"
        )));
    }
    Ok(span.into())
}

impl EventSpec {
    pub(super) fn is_advisory(&self) -> bool {
        self.advisory_for.is_some()
    }

    /// How long the event is Started, or an advisory is shown, before it leaves the document.
    pub(super) fn shown_for(&self) -> Duration {
        let shown_for = self.advisory_for.or(self.started_for);
        shown_for.unwrap_or(DEFAULT_STARTED_FOR)
    }

    /// Whether the api-versions up to 2020-07-01 leave the event out.
    pub(super) fn needs_newer_version(&self) -> bool {
        self.is_advisory() || EventType::ADVISORIES.contains(&EventType::new(&self.event_type))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum ResourceSpec {
    /// The simulated VM (0, `{vm}`), or the instance with that distance from it (`{vm+1}`).
    Instance(u32),
    Name(Box<str>),
}

impl TryFrom<String> for ResourceSpec {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let Some(inner) = name
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        else {
            return Ok(Self::Name(name.into()));
        };
        let offset = match inner {
            "vm" => Some(0),
            _ => inner
                .strip_prefix("vm+")
                .and_then(|number| number.parse().ok()),
        };
        offset.map(Self::Instance).ok_or_else(|| {
            format!("resources: {name:?} is not a VM: use \"{{vm}}\", \"{{vm+1}}\" or a name")
        })
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    #[serde(default, deserialize_with = "duration")]
    pub(super) at: Duration,
    #[serde(default, rename = "for", deserialize_with = "duration")]
    pub(super) duration: Duration,
    pub(super) fault: Fault,
    #[serde(default, deserialize_with = "duration")]
    pub(super) retry_after: Option<Duration>,
    pub(super) status: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// 410, as during an update of the service.
    Gone,
    /// 429, optionally with Retry-After.
    Throttled,
    ServerError,
    Hang,
    Reset,
    /// 200 with a body that is not a document.
    Garbage,
    EmptyBody,
    /// Requests for scheduled events are delayed until the fault ends.
    Slow,
    /// 429 for more than five requests within a second.
    RateLimit,
    /// The Guest Proxy Agent of the Metadata Security Protocol answers with a status, without a body.
    MetadataProxy,
    /// Documents without events. Starts with the first request for events after the start of the scenario.
    Enabling,
    /// `DocumentIncarnation` is set back to 1. Takes no time.
    IncarnationReset,
}

impl Scenario {
    /// Offset of the last announcement, reset or end of a fault.
    pub(super) fn length(&self) -> Duration {
        let announced = self.events.iter().map(|event| event.at);
        let recovered = self.faults.iter().map(|fault| fault.at + fault.duration);
        announced.chain(recovered).max().unwrap_or_default()
    }

    /// Divides all times by the speed, but makes no phase shorter than [`MIN_PHASE`].
    pub(super) fn at_speed(self, speed: f64) -> Self {
        self.with_times(
            |offset| offset.div_f64(speed),
            |length| length.div_f64(speed).max(length.min(MIN_PHASE)),
        )
    }

    /// Converts offsets from the start of the scenario, and lengths of phases.
    pub(super) fn with_times(
        self,
        offset: impl Fn(Duration) -> Duration,
        phase: impl Fn(Duration) -> Duration,
    ) -> Self {
        let event = |event: EventSpec| {
            // Converted separately, so that NotBefore stays after the cancellation.
            let canceled_after = event.canceled_after.map(&phase);
            let notice = event.notice.map(|notice| {
                let rest = notice.saturating_sub(event.canceled_after.unwrap_or_default());
                phase(rest) + canceled_after.unwrap_or_default()
            });
            EventSpec {
                at: offset(event.at),
                notice,
                started_for: Some(phase(event.shown_for())),
                canceled_after,
                starts_after_approval: event.starts_after_approval.map(&phase),
                advisory_for: event.advisory_for.map(&phase),
                ..event
            }
        };
        let fault = |fault: FaultSpec| FaultSpec {
            at: offset(fault.at),
            duration: phase(fault.duration),
            ..fault
        };
        Self {
            repeat_every: self.repeat_every.map(&phase),
            events: self.events.into_iter().map(event).collect(),
            faults: self.faults.into_iter().map(fault).collect(),
            ..self
        }
    }
}
