//! Scenarios as data: which events are announced, which faults are injected, and when.

use std::time::Duration;

use hyper::StatusCode;

use crate::event::EventType;

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSpec {
    /// Offset of the announcement.
    pub(super) at: Duration,
    pub(super) event_type: Box<str>,
    pub(super) event_source: Box<str>,
    pub(super) description: Box<str>,
    /// `DurationInSeconds`; -1 means unknown. Not scaled by the speed.
    pub(super) duration_seconds: i64,
    pub(super) resources: Vec<Resource>,
    /// From the announcement to `NotBefore`; `None` if the event is already Started in the first document.
    pub(super) notice: Option<Duration>,
    /// How long the event is Started, or an advisory is shown, before it leaves the document.
    pub(super) started_for: Duration,
    /// The event leaves the document after this time without having started.
    pub(super) canceled_after: Option<Duration>,
    /// From the approval to Started; an event starts at `NotBefore` at the latest.
    pub(super) starts_after_approval: Duration,
    /// `EventStatus` is Advisory, and the event never starts.
    pub(super) is_advisory: bool,
}

impl EventSpec {
    /// Whether the api-versions up to 2020-07-01 leave the event out.
    pub(super) fn needs_newer_version(&self) -> bool {
        self.is_advisory
            || EventType::new(&self.event_type) == EventType::SpotRebalanceRecommendation
    }
}

/// An entry of `Resources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource {
    /// The simulated VM (0, `{vm}`), or the instance with that distance from it (`{vm+1}`).
    Instance(u32),
    /// A literal name.
    Name(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSpec {
    /// Offset of the start.
    pub(super) at: Duration,
    pub(super) duration: Duration,
    pub(super) fault: Fault,
}

/// A way in which the simulated service fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 410, as during an update of the service.
    Gone,
    /// 429, optionally with Retry-After in seconds.
    Throttled(Option<u64>),
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
    /// The Guest Proxy Agent of the Metadata Security Protocol answers with this status, without a body.
    MetadataProxy(StatusCode),
    /// Documents without events. Starts with the first request for events after the start of the scenario.
    Enabling,
}

impl Fault {
    /// The name in scenario files.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Throttled(_) => "throttled",
            Self::ServerError => "server-error",
            Self::Hang => "hang",
            Self::Reset => "reset",
            Self::Garbage => "garbage",
            Self::EmptyBody => "empty-body",
            Self::Slow => "slow",
            Self::RateLimit => "rate-limit",
            Self::MetadataProxy(_) => "metadata-proxy",
            Self::Enabling => "enabling",
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
