//! `approve`: prints the event and the effect of its approval, sends the approval, prints the result.

use std::fmt::Write as _;

use serde::Serialize;

use super::query;
use crate::{
    app::Error,
    azure_json::{self, AzureForm},
    cli::Output,
    config::ImdsSettings,
    document::Document,
    event::{Event, EventId, EventScope, Source, Status, resource_name},
    imds::Client,
    text::sanitize,
    time::{Clock, Timestamp, in_words},
};

#[derive(Debug)]
pub(super) struct Approve {
    /// Compared without case.
    pub id: EventId,
    pub dry_run: bool,
    pub output: Output,
}

/// Reads the event from IMDS, gives its description to `announce`, and then approves it.
///
/// # Errors
/// When IMDS does not answer, has no such event, or refuses the approval.
pub(super) async fn run(
    settings: &ImdsSettings,
    request: &Approve,
    announce: impl FnOnce(&str),
    clock: Clock,
) -> Result<String, Error> {
    let mut client = Client::new(&settings.endpoint)?;
    let vm_name = query::vm_name(&mut client, settings, clock).await;
    let document = query::read(&mut client, settings.first_timeout, clock).await?;
    let event = find(&document, &request.id).ok_or_else(|| missing(&document, &request.id))?;
    if document.contradictory.contains(&event.id) {
        return Err(Error::Contradictory {
            id: request.id.as_str().to_owned(),
        });
    }
    announce(&announcement(event, vm_name.as_deref(), clock.now().wall));
    let outcome = if event.is_advisory() {
        ApproveOutcome::Advisory
    } else if event.status == Status::Started {
        ApproveOutcome::AlreadyStarted
    } else if request.dry_run {
        ApproveOutcome::DryRun
    } else {
        // The id in Azure's spelling, which may differ in case from the one on the command line.
        match client.approve(&event.id, settings.timeout, clock).await {
            Ok(()) => ApproveOutcome::Approved,
            Err(cause) => {
                client.forget_document();
                let now = query::read(&mut client, settings.timeout, clock).await.ok();
                let now = now.map(|document| state(&document, &event.id));
                return Err(Error::NotApproved { cause, now });
            }
        }
    };
    match request.output {
        Output::Table => Ok(sentence(event, outcome)),
        Output::Json => json(event, outcome).map_err(|error| Error::Task(error.to_string())),
    }
}

fn find<'a>(document: &'a Document, id: &EventId) -> Option<&'a Event> {
    document.events.iter().find(|event| event.id == *id)
}

fn missing(document: &Document, id: &EventId) -> Error {
    let unreadable = &document.unreadable;
    let is_unreadable = !unreadable.mentioned([id].into_iter()).is_empty();
    let id = id.as_str().to_owned();
    if is_unreadable {
        Error::UnreadableEvent { id }
    } else {
        Error::NoSuchEvent {
            id,
            pending: document.events.len(),
            unreadable: unreadable.entries,
        }
    }
}

/// The event in the document after a failed approval.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApproveOutcome {
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
fn announcement(event: &Event, vm_name: Option<&str>, now: Timestamp) -> String {
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
fn sentence(event: &Event, outcome: ApproveOutcome) -> String {
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
fn json(event: &Event, outcome: ApproveOutcome) -> serde_json::Result<String> {
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
