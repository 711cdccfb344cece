//! What Azure's words mean, for a person who is paged and has never read the documentation.

use crate::{
    event::{Event, EventType, Impact, Source},
    lifecycle::{Outcome, Phase, TrackedEvent},
    snapshot::FailureReason,
    time::in_words,
};

/// The CSS class of an event.
pub(super) fn class(event_type: &EventType) -> &'static str {
    match event_type.effect().impact {
        Impact::Pause => "pause",
        Impact::Restart => "restart",
        Impact::Removal => "gone",
        Impact::Unknown => "unknown",
    }
}

/// What the event does to the VM.
pub(super) fn meaning(event: &Event) -> String {
    if event.event_type == EventType::Freeze && event.duration_seconds == Some(0) {
        return "Azure maintains the host. No interruption of the VM is expected.".to_owned();
    }
    let mut chars = event.event_type.effect().summary.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    let sentence: String = first.into_iter().chain(chars).collect();
    match event.event_type.effect().impact {
        Impact::Unknown => sentence + ". Be prepared for an interruption.",
        Impact::Pause | Impact::Restart | Impact::Removal => sentence + ".",
    }
}

/// The announced length of the interruption.
pub(super) fn announced(event: &Event) -> String {
    match event.duration_seconds {
        None => "not known".to_owned(),
        Some(0) => "none expected".to_owned(),
        Some(seconds) => in_words(std::time::Duration::from_secs(seconds)),
    }
}

/// Who wants it.
pub(super) fn source(source: &Source) -> &str {
    match source {
        Source::Platform => "Azure (Platform)",
        Source::User => "a person or tool with rights on the VM (User)",
        Source::Other(word) => word,
    }
}

/// How far it is; Azure's own word where we do not know it.
pub(super) fn status(tracked: &TrackedEvent) -> &str {
    match tracked.phase() {
        Phase::Ended => "Ended",
        Phase::Started => "Started",
        Phase::Scheduled => tracked.event.status.as_str(),
    }
}

/// What became of it.
pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "Completed",
        Outcome::Cancelled => "Cancelled before it began",
        Outcome::Unknown => "Ended, outcome not known",
    }
}

/// Why a poll failed.
pub(super) fn failure(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Body => "The answer was cut off or too large.",
        FailureReason::Connect => "The metadata service cannot be reached.",
        FailureReason::Gone => "The metadata service is being updated.",
        FailureReason::Json => "The answer is no JSON.",
        FailureReason::Redirect => {
            "The answer is a redirect, which the metadata service never sends."
        }
        FailureReason::Shape => "The answer is JSON, but no scheduled-events document.",
        FailureReason::Status4xx => "The metadata service refuses the request.",
        FailureReason::Status5xx => "The metadata service has an error.",
        FailureReason::Throttled => "The metadata service is asked too often, by all on this VM.",
        FailureReason::Timeout => "The metadata service does not answer in time.",
        FailureReason::Tls => "The TLS handshake failed.",
    }
}
