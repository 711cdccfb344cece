//! Scenarios as data: which events are announced, which faults are injected, and when. The members are those of
//! scenario files, which `docs/simulator.md` describes. Unknown members are errors, so that a misspelt one is not
//! ignored.

use std::time::Duration;

use hyper::StatusCode;
use serde::{Deserialize, Deserializer, de::Error as _};

use super::scenario_duration::{duration, optional_duration};
use crate::event::EventType;

/// Azure removes an event about ten minutes after its start.
const DEFAULT_STARTED_FOR: Duration = Duration::from_mins(10);
/// The statuses of the Guest Proxy Agent: request refused, caller not identified, host not reachable. Source:
/// <https://github.com/Azure/GuestProxyAgent>.
const PROXY_STATUSES: [u16; 4] = [403, 421, 502, 503];

/// Maintenance events and faults of one scenario. Times are offsets from its start; events and resets are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The built-in name, or the file name without its extension.
    pub name: Box<str>,
    /// One line of text.
    pub description: Box<str>,
    /// The period after which the scenario restarts.
    pub repeat_every: Option<Duration>,
    pub events: Vec<EventSpec>,
    pub faults: Vec<FaultSpec>,
    /// Offsets at which `DocumentIncarnation` is set back to 1.
    pub resets: Vec<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// Offset of the announcement.
    #[serde(default, deserialize_with = "duration")]
    pub(super) at: Duration,
    pub(super) event_type: Box<str>,
    #[serde(default = "platform", deserialize_with = "source")]
    pub(super) event_source: Box<str>,
    #[serde(default)]
    pub(super) description: Box<str>,
    /// `DurationInSeconds`; -1 means unknown. Not scaled by the speed.
    #[serde(default = "unknown_length", deserialize_with = "length")]
    pub(super) duration_seconds: i64,
    #[serde(default = "this_vm", deserialize_with = "resources")]
    pub(super) resources: Vec<Resource>,
    /// From the announcement to `NotBefore`; `None` if the event is already Started in the first document.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) notice: Option<Duration>,
    /// How long the event is Started before it leaves the document.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) started_for: Option<Duration>,
    /// The event leaves the document after this time without having started.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) canceled_after: Option<Duration>,
    /// From the approval to Started, at once by default; an event starts at `NotBefore` at the latest.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) starts_after_approval: Option<Duration>,
    /// `EventStatus` is Advisory for this time, and the event never starts.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) advisory_for: Option<Duration>,
}

fn platform() -> Box<str> {
    "Platform".into()
}

fn unknown_length() -> i64 {
    -1
}

fn this_vm() -> Vec<Resource> {
    vec![Resource::Instance(0)]
}

// `null` is the default too.
fn source<'de, D: Deserializer<'de>>(value: D) -> Result<Box<str>, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(platform))
}

fn length<'de, D: Deserializer<'de>>(value: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(unknown_length))
}

fn resources<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<Resource>, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_else(this_vm))
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
        self.is_advisory()
            || EventType::new(&self.event_type) == EventType::SpotRebalanceRecommendation
    }
}

/// An entry of `Resources`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Resource {
    /// The simulated VM (0, `{vm}`), or the instance with that distance from it (`{vm+1}`).
    Instance(u32),
    /// A literal name.
    Name(Box<str>),
}

impl TryFrom<String> for Resource {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// Offset of the start.
    #[serde(default, deserialize_with = "duration")]
    pub(super) at: Duration,
    #[serde(default, rename = "for", deserialize_with = "duration")]
    pub(super) duration: Duration,
    pub(super) fault: Fault,
    /// Of [`Fault::Throttled`].
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) retry_after: Option<Duration>,
    /// Of [`Fault::MetadataProxy`].
    #[serde(default, deserialize_with = "proxy_status")]
    pub(super) status: Option<StatusCode>,
}

fn proxy_status<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<StatusCode>, D::Error> {
    let Some(status) = Option::<u16>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let known = PROXY_STATUSES.contains(&status);
    let status = StatusCode::from_u16(status).ok().filter(|_| known);
    let unknown = || D::Error::custom("status: set it to 403, 421, 502 or 503");
    status.map(Some).ok_or_else(unknown)
}

/// A way in which the simulated service fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// 410, as during an update of the service.
    Gone,
    /// 429, optionally with Retry-After.
    Throttled,
    /// 500.
    ServerError,
    /// No response.
    Hang,
    /// The connection is closed without a response.
    Reset,
    /// 200 with a body that is not a document.
    Garbage,
    /// 200 with an empty body.
    EmptyBody,
    /// Requests for scheduled events are delayed until the fault ends.
    Slow,
    /// 429 for more than five requests within a second.
    RateLimit,
    /// The Guest Proxy Agent of the Metadata Security Protocol answers with a status, without a body.
    MetadataProxy,
    /// Documents without events. Starts with the first request for events after the start of the scenario.
    Enabling,
    /// `DocumentIncarnation` is set back to 1. Takes no time; such faults are the `resets` of a scenario.
    IncarnationReset,
}

impl Fault {
    /// The name in scenario files.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::ServerError => "server-error",
            Self::Hang => "hang",
            Self::Reset => "reset",
            Self::Garbage => "garbage",
            Self::EmptyBody => "empty-body",
            Self::Slow => "slow",
            Self::RateLimit => "rate-limit",
            Self::MetadataProxy => "metadata-proxy",
            Self::Enabling => "enabling",
            Self::IncarnationReset => "incarnation-reset",
        }
    }
}

impl Scenario {
    /// Offset of the last announcement, reset or end of a fault.
    pub(super) fn length(&self) -> Duration {
        let announced = self.events.iter().map(|event| event.at);
        let recovered = self
            .faults
            .iter()
            .map(|fault| fault.at.saturating_add(fault.duration));
        announced
            .chain(recovered)
            .chain(self.resets.iter().copied())
            .max()
            .unwrap_or_default()
    }
}
