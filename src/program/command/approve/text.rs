//! The words of `approve`.

use std::time::Duration;

use super::{ApproveOutcome, find};
use crate::{
    azure::{
        document::Document,
        event::{Event, EventId, EventScope, Source, Status, resource_name},
    },
    base::{
        text::sanitize,
        time::{Timestamp, in_words},
    },
    program::command::query::{self, OwnVm},
};

/// Several lines that describe the event and the effect of its approval.
pub(super) fn announcement(event: &Event, vm: &OwnVm, now: Timestamp) -> String {
    let requested_by = match &event.source {
        Some(Source::User) => "requested by a user (User)".to_owned(),
        Some(Source::Platform) => "requested by Azure (Platform)".to_owned(),
        Some(Source::Other(word)) => format!("source {word}"),
        None => format!("source {}", Source::NOT_GIVEN),
    };
    let wait = match event.deadline() {
        Some(at) => format!(
            "not before {} (in {})",
            at.rfc3339(),
            in_words(at.saturating_since(now))
        ),
        None if event.is_advisory() => "no deadline".to_owned(),
        None => "no NotBefore".to_owned(),
    };
    let (kind, status) = (event.event_type.as_str(), event.status.as_str());
    let mut lines = vec![format!(
        "{kind} {}, {requested_by}, {status}, {wait}",
        event.id
    )];
    let description = event.description_text();
    lines.extend(description.map(|text| format!("  Description: {text}")));
    lines.push(format!("  Effect on each VM: {}.", effect(event)));
    if !event.is_advisory() {
        let result = if event.status == Status::Started {
            "It has started: there is nothing to approve."
        } else {
            "Once approved it may start at any moment, and cannot be stopped or postponed."
        };
        lines.push(format!("  {}", affected(event, vm)));
        lines.push(format!("  {result}"));
    }
    // Text of Azure must not control the terminal.
    let lines = lines.iter().map(|line| sanitize(line) + "\n");
    lines.collect()
}

/// The result as a line of text.
pub(super) fn sentence(event: &Event, outcome: ApproveOutcome) -> String {
    let (kind, id) = (event.event_type.as_str(), &event.id);
    let result = match outcome {
        ApproveOutcome::Approved => format!("Approved: {kind} {id} may start at any moment now."),
        ApproveOutcome::DryRun => format!("Dry run: {kind} {id} was not approved."),
        ApproveOutcome::AlreadyStarted => {
            format!("{kind} {id} has already started; nothing was sent.")
        }
        ApproveOutcome::Advisory => format!("{kind} {id} is an advisory: nothing to approve."),
    };
    format!("{}\n", sanitize(&result))
}

fn effect(event: &Event) -> String {
    let meaning = event.meaning();
    match event.duration_seconds {
        Some(seconds) if !event.is_without_interruption() => {
            let length = in_words(Duration::from_secs(seconds));
            format!("{meaning}; announced interruption: {length}")
        }
        Some(_) | None => meaning.to_owned(),
    }
}

fn affected(event: &Event, vm: &OwnVm) -> String {
    let Some(names) = &event.resources else {
        return "Its resources are missing: it acts on all VMs that it affects.".to_owned();
    };
    let listed: Vec<_> = names.iter().map(|name| resource_name(name)).collect();
    let host = vm
        .host()
        .map(|host| format!(", host {host},"))
        .unwrap_or_default();
    let own = match event.scope(vm.names()) {
        EventScope::Own => format!("this VM{host} is one of them"),
        EventScope::Other => format!("this VM{host} is NOT one of them"),
        EventScope::Unknown => {
            let why = vm.unknown().map(|why| format!(": {why}"));
            format!(
                "it is not known whether this VM is one of them{}",
                why.unwrap_or_default()
            )
        }
    };
    let all = match names.len() {
        1 => "the only VM".to_owned(),
        count => format!("all {count} VMs"),
    };
    format!(
        "It acts on {all} that it names ({own}): {}",
        listed.join(", ")
    )
}

pub(super) fn nothing_to_approve(document: &Document, now: Timestamp) -> String {
    if let Some(text) = query::no_events_yet(document, now) {
        return text;
    }
    let unread = document.unreadable.entries
        + document
            .events
            .iter()
            .filter(|event| event.resources.is_none())
            .count();
    match unread {
        0 => "No event that names this VM waits for an approval.\n".to_owned(),
        _ => format!(
            "No event that is known to name this VM waits for an approval. {unread} may name it: see the log lines above.\n"
        ),
    }
}

/// The events in the document after a failed approval.
pub(super) fn states(document: &Document, ids: &[EventId]) -> String {
    let states: Vec<_> = match ids {
        [id] => vec![state(document, id)],
        ids => ids
            .iter()
            .map(|id| format!("{}: {}", sanitize(id.as_str()), state(document, id)))
            .collect(),
    };
    states.join("; ")
}

fn state(document: &Document, id: &EventId) -> String {
    match find(document, id) {
        None => "it is gone from the document now".to_owned(),
        Some(event) => {
            let not_before = event.not_before.map(Timestamp::rfc3339);
            let due = not_before.map_or_else(String::new, |at| format!(", not before {at}"));
            format!("it is {} now{due}", sanitize(event.status.as_str()))
        }
    }
}
