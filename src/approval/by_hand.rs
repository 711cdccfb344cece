//! What `approve` says: what the event is and what approving does, before it is done, and what came of it.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    azure_json::AzureForm,
    event::{Event, EventScope, Source, resource_name},
    text::printable,
    time::{Timestamp, in_words},
};

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproveOutcome {
    /// IMDS took it.
    Approved,
    /// It would have been sent.
    DryRun,
    /// It is going on already; nothing was sent.
    AlreadyStarted,
}

/// What is going to be done to whom: several lines for a person, said before anything is sent.
pub fn announcement(event: &Event, vm_name: Option<&str>, now: Timestamp) -> String {
    let mut text = String::new();
    let kind = event.event_type.as_str();
    let wanted_by = match &event.source {
        Some(Source::User) => "ordered by somebody with rights on the VM (User)",
        Some(Source::Platform) => "wanted by Azure (Platform)",
        Some(Source::Other(word)) => word,
        None => "by whom is not said",
    };
    let wait = event.not_before.map_or_else(
        || "no NotBefore".to_owned(),
        |at| {
            let left = in_words(at.saturating_since(now));
            format!("not before {} (in {left})", at.rfc3339())
        },
    );
    let line = format!(
        "{kind} {}, {wanted_by}, {}, {wait}",
        event.id,
        event.status.as_str()
    );
    push(&mut text, &line);
    push(
        &mut text,
        &format!("  Effect on each VM: {}.", effect(event)),
    );
    push(&mut text, &format!("  {}", whom(event, vm_name)));
    push(
        &mut text,
        "  Once approved it may start at any moment, and cannot be stopped or postponed.",
    );
    text
}

/// What came of it, for a person.
pub fn sentence(event: &Event, outcome: ApproveOutcome) -> String {
    let kind = event.event_type.as_str();
    let said = match outcome {
        ApproveOutcome::Approved => {
            format!("Approved: {kind} {} may start at any moment now.", event.id)
        }
        ApproveOutcome::DryRun => format!("Dry run: {kind} {} was not approved.", event.id),
        ApproveOutcome::AlreadyStarted => {
            format!("{kind} {} has started already; nothing was sent.", event.id)
        }
    };
    let mut text = String::new();
    push(&mut text, &said);
    text
}

/// What came of it, for programs.
///
/// # Errors
/// None that can happen: every value has a form in JSON.
pub fn json(event: &Event, outcome: ApproveOutcome) -> serde_json::Result<String> {
    let report = Report {
        result: outcome,
        event: AzureForm(event),
    };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

#[derive(Serialize)]
struct Report<'a> {
    result: ApproveOutcome,
    event: AzureForm<'a>,
}

fn effect(event: &Event) -> String {
    let summary = event.event_type.effect().summary;
    match event.duration_seconds {
        Some(seconds) => {
            let length = in_words(std::time::Duration::from_secs(seconds));
            format!("{summary}; announced interruption: {length}")
        }
        None => summary.to_owned(),
    }
}

fn whom(event: &Event, vm_name: Option<&str>) -> String {
    let Some(names) = &event.resources else {
        return "It does not say which VMs it names: it acts on all of them.".to_owned();
    };
    let listed: Vec<_> = names.iter().map(|name| resource_name(name)).collect();
    let whether = match event.scope(vm_name) {
        EventScope::Own => "this VM is one of them",
        EventScope::Other => "this VM is NOT one of them",
        EventScope::Unknown => "whether this VM is one of them is not known",
    };
    let all = match names.len() {
        1 => "the only VM".to_owned(),
        count => format!("all {count} VMs"),
    };
    format!(
        "It acts on {all} that it names ({whether}): {}",
        listed.join(", ")
    )
}

/// Azure's texts are foreign: nothing of them may steer a terminal.
fn push(text: &mut String, line: &str) {
    let shown: String = line.chars().map(printable).collect();
    let _infallible = writeln!(text, "{shown}");
}
