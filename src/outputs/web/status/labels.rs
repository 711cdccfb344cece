//! Explanations of Azure's terms, for an on-call engineer who has not read Azure's documentation.

use crate::{
    azure::{
        FailureReason,
        event::{Event, Impact, Source},
    },
    base::time::in_words,
    core::lifecycle::{End, Outcome, Phase, TrackedEvent},
};

/// The CSS class of an event.
pub(super) fn class(event: &Event) -> &'static str {
    match event.impact() {
        Impact::None => "advice",
        Impact::Pause => "pause",
        Impact::Restart => "restart",
        Impact::Removal => "gone",
        Impact::Unknown => "unknown",
    }
}

/// What the event does to the VM.
pub(super) fn meaning(event: &Event) -> String {
    let mut chars = event.meaning().chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    let sentence: String = first.into_iter().chain(chars).collect();
    match event.impact() {
        Impact::Unknown => sentence + ". Be prepared for an interruption.",
        Impact::None | Impact::Pause | Impact::Restart | Impact::Removal => sentence + ".",
    }
}

pub(super) fn announced_duration(event: &Event) -> String {
    match event.duration_seconds {
        None => "unknown".to_owned(),
        Some(_) if event.is_without_interruption() => "none expected".to_owned(),
        Some(seconds) => in_words(std::time::Duration::from_secs(seconds)),
    }
}

pub(super) fn source(source: Option<&Source>) -> &str {
    match source {
        None => Source::NOT_GIVEN,
        Some(Source::Platform) => "Azure (Platform)",
        Some(Source::User) => "a user or tool with access to the VM (User)",
        Some(Source::Other(source)) => source,
    }
}

/// Azure's text for a status that this version does not know.
pub(super) fn status(tracked: &TrackedEvent) -> &str {
    match tracked.phase() {
        Phase::Ended => "Ended",
        Phase::Started => "Started",
        Phase::Advisory | Phase::Scheduled => tracked.event.status.as_str(),
    }
}

pub(super) fn end(tracked: &TrackedEvent, end: End) -> &'static str {
    match end.outcome {
        _ if tracked.event.is_advisory() => "Advisory no longer listed",
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
