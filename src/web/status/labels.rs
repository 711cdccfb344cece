//! Explanations of Azure's terms, for an on-call engineer who has not read Azure's documentation.

use crate::{
    event::{Event, EventType, Source},
    lifecycle::{Outcome, Phase, TrackedEvent},
    snapshot::FailureReason,
    time::in_words,
};

/// Selects the colour of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// The VM is paused and keeps its memory.
    Pause,
    /// The VM loses its memory.
    Restart,
    /// The VM is deleted or deallocated.
    Gone,
    /// An event type that this version does not know.
    Unknown,
}

impl Severity {
    pub(super) fn of(event_type: &EventType) -> Self {
        match event_type {
            EventType::Freeze => Self::Pause,
            EventType::Reboot | EventType::Redeploy => Self::Restart,
            EventType::Preempt | EventType::Terminate => Self::Gone,
            EventType::Other(_) => Self::Unknown,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Restart => "restart",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
        }
    }
}

pub(super) fn meaning(event: &Event) -> &'static str {
    if event.event_type == EventType::Freeze && event.duration_seconds == Some(0) {
        return "Host maintenance. No interruption of the VM is expected.";
    }
    match event.event_type {
        EventType::Freeze => {
            "The VM is paused for some seconds. Memory and open files are preserved; network connections may drop."
        }
        EventType::Reboot => "The VM restarts. Data in memory is lost.",
        EventType::Redeploy => {
            "The VM moves to another host. Data in memory and on the temporary disk is lost."
        }
        EventType::Preempt => {
            "Azure evicts this Spot VM. It is stopped or deleted; the temporary disk is lost."
        }
        EventType::Terminate => "The VM will be deleted.",
        EventType::Other(_) => {
            "This version does not know this event type. Prepare for an interruption."
        }
    }
}

pub(super) fn announced_duration(event: &Event) -> String {
    match event.duration_seconds {
        None => "unknown".to_owned(),
        Some(0) => "none expected".to_owned(),
        Some(seconds) => in_words(std::time::Duration::from_secs(seconds)),
    }
}

pub(super) fn source(source: &Source) -> &str {
    match source {
        Source::Platform => "Azure (Platform)",
        Source::User => "a user or tool with access to the VM (User)",
        Source::Other(source) => source,
    }
}

/// Azure's text for a status that this version does not know.
pub(super) fn status(tracked: &TrackedEvent) -> &str {
    match tracked.phase() {
        Phase::Ended => "Ended",
        Phase::Started => "Started",
        Phase::Scheduled => tracked.event.status.as_str(),
    }
}

pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "Completed",
        Outcome::Cancelled => "Cancelled before it started",
        Outcome::Unknown => "Ended, outcome unknown",
    }
}

pub(super) fn failure(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Body => "The response was incomplete or too large.",
        FailureReason::Connect => "The metadata service cannot be reached.",
        FailureReason::Gone => "The metadata service is being updated.",
        FailureReason::Json => "The response is not JSON.",
        FailureReason::Redirect => {
            "The response is a redirect, which the metadata service never sends."
        }
        FailureReason::Shape => "The response is JSON, but not a Scheduled Events document.",
        FailureReason::Status4xx => "The metadata service rejects the request.",
        FailureReason::Status5xx => "The metadata service reports an error.",
        FailureReason::Throttled => "The metadata service throttles the requests of this VM.",
        FailureReason::Timeout => "The metadata service does not respond in time.",
        FailureReason::Tls => "The TLS handshake failed.",
    }
}
