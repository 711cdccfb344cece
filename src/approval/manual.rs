//! The output of `approve`: the event and the effect of the approval before it is sent, and the result.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    azure_json::{self, AzureForm},
    event::{Event, EventScope, Source, Status, resource_name},
    text::sanitize,
    time::{Timestamp, in_words},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApproveOutcome {
    /// IMDS accepted it.
    Approved,
    /// A dry run sent nothing.
    DryRun,
    /// The event has started; nothing was sent.
    AlreadyStarted,
    /// An advisory has nothing to approve; nothing was sent.
    Advisory,
}

/// Several lines that describe the event and the effect of its approval.
pub(crate) fn announcement(event: &Event, vm_name: Option<&str>, now: Timestamp) -> String {
    let mut text = String::new();
    let kind = event.event_type.as_str();
    let requested_by = match &event.source {
        Some(Source::User) => "requested by a user (User)".to_owned(),
        Some(Source::Platform) => "requested by Azure (Platform)".to_owned(),
        Some(Source::Other(word)) => format!("source {word}"),
        None => format!("source {}", Source::NOT_GIVEN),
    };
    let without = if event.is_advisory() {
        "no deadline"
    } else {
        "no NotBefore"
    };
    let wait = event.deadline().map_or_else(
        || without.to_owned(),
        |at| {
            let left = in_words(at.saturating_since(now));
            format!("not before {} (in {left})", at.rfc3339())
        },
    );
    let line = format!(
        "{kind} {}, {requested_by}, {}, {wait}",
        event.id,
        event.status.as_str()
    );
    push(&mut text, &line);
    if let Some(description) = event.description_text() {
        push(&mut text, &format!("  Description: {description}"));
    }
    push(
        &mut text,
        &format!("  Effect on each VM: {}.", effect(event)),
    );
    if event.is_advisory() {
        return text;
    }
    push(&mut text, &format!("  {}", affected(event, vm_name)));
    let result = if event.status == Status::Started {
        "It has started: there is nothing to approve."
    } else {
        "Once approved it may start at any moment, and cannot be stopped or postponed."
    };
    push(&mut text, &format!("  {result}"));
    text
}

/// The result as a line of text.
pub(crate) fn sentence(event: &Event, outcome: ApproveOutcome) -> String {
    let kind = event.event_type.as_str();
    let result = match outcome {
        ApproveOutcome::Approved => {
            format!("Approved: {kind} {} may start at any moment now.", event.id)
        }
        ApproveOutcome::DryRun => format!("Dry run: {kind} {} was not approved.", event.id),
        ApproveOutcome::AlreadyStarted => {
            format!("{kind} {} has already started; nothing was sent.", event.id)
        }
        ApproveOutcome::Advisory => {
            format!("{kind} {} is an advisory: nothing to approve.", event.id)
        }
    };
    let mut text = String::new();
    push(&mut text, &result);
    text
}

/// The result as JSON.
///
/// # Errors
/// None in practice: every value can be serialised.
pub(crate) fn json(event: &Event, outcome: ApproveOutcome) -> serde_json::Result<String> {
    let report = Report {
        result: outcome,
        event: AzureForm(event),
    };
    azure_json::to_text(&report)
}

#[derive(Serialize)]
struct Report<'a> {
    result: ApproveOutcome,
    event: AzureForm<'a>,
}

fn effect(event: &Event) -> String {
    let meaning = event.meaning();
    match event.duration_seconds {
        Some(seconds) if !event.is_without_interruption() => {
            let length = in_words(std::time::Duration::from_secs(seconds));
            format!("{meaning}; announced interruption: {length}")
        }
        Some(_) | None => meaning.to_owned(),
    }
}

fn affected(event: &Event, vm_name: Option<&str>) -> String {
    let Some(names) = &event.resources else {
        return "Its resources are missing: it acts on all VMs that it affects.".to_owned();
    };
    let listed: Vec<_> = names.iter().map(|name| resource_name(name)).collect();
    let own = match event.scope(vm_name) {
        EventScope::Own => "this VM is one of them",
        EventScope::Other => "this VM is NOT one of them",
        EventScope::Unknown => "it is not known whether this VM is one of them",
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

/// One line; text of Azure must not control the terminal.
fn push(text: &mut String, line: &str) {
    let _infallible = writeln!(text, "{}", sanitize(line));
}
