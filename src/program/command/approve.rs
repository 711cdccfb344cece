//! `approve`: prints the events and the effect of their approval, sends the approval, prints the results.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use serde::Serialize;

use super::{CommandError, query};
use crate::{
    azure::{
        azure_json::{self, AzureForm},
        document::Document,
        event::{Event, EventId, EventScope, Source, Status, resource_name},
        imds::Client,
    },
    base::{
        text::sanitize,
        time::{Clock, Timestamp, in_words},
        worker::Worker,
    },
    program::{
        app::Error,
        cli::{ApproveCommand, Output},
        config::ImdsSettings,
    },
};

/// Reads the events from IMDS, prints their description on stderr, so that stdout contains only the results, and then
/// approves them in one request.
///
/// # Errors
/// When IMDS does not answer, lacks one of the events, or refuses the approval.
pub(super) async fn run(
    settings: &ImdsSettings,
    flags: &ApproveCommand,
    clock: Clock,
) -> Result<String, CommandError> {
    let mut client = Client::new(&settings.endpoint).map_err(Error::from)?;
    let vm_name = query::vm_name(&mut client, settings, clock).await;
    let vm_name = vm_name.as_deref();
    let document = query::read(&mut client, settings.first_timeout, clock).await?;
    let mut results = Vec::new();
    for event in chosen(&document, flags, vm_name)? {
        let announcement = announcement(event, vm_name, clock.now().wall);
        // The approval does not depend on who reads it.
        io::stderr().write_all(announcement.as_bytes()).ok();
        let result = if event.is_advisory() {
            ApproveOutcome::Advisory
        } else if event.status == Status::Started {
            ApproveOutcome::AlreadyStarted
        } else if flags.dry_run {
            ApproveOutcome::DryRun
        } else if flags.confirm && !is_confirmed(event).await? {
            ApproveOutcome::Declined
        } else {
            ApproveOutcome::Approved
        };
        results.push((event, result));
    }
    let approved = results
        .iter()
        .filter(|(_, it)| *it == ApproveOutcome::Approved);
    // In Azure's spelling, which may differ in case from that on the command line.
    let ids: Vec<_> = approved.map(|(event, _)| &event.id).collect();
    if !ids.is_empty()
        && let Err(cause) = client.approve(&ids, settings.timeout, clock).await
    {
        client.forget_document();
        let now = query::read(&mut client, settings.timeout, clock).await.ok();
        let now = now.map_or_else(
            || "the state of the events is unknown: run `list`".to_owned(),
            |document| states(&document, &ids),
        );
        return Err(CommandError::new(format!("not approved: {cause}; {now}")));
    }
    match flags.query.output {
        Output::Table if results.is_empty() => Ok(nothing_to_approve(&document, clock.now().wall)),
        Output::Table => Ok(results
            .iter()
            .map(|(event, it)| sentence(event, *it))
            .collect()),
        Output::Json => {
            let report = |&(event, result)| {
                let event = AzureForm(event);
                azure_json::to_text(&Report { result, event })
            };
            let reports: Result<String, _> = results.iter().map(report).collect();
            reports.map_err(|error| CommandError::new(error.to_string()))
        }
    }
}

/// The events that the flags name, each once. Nothing is approved if one of them cannot be.
fn chosen<'a>(
    document: &'a Document,
    flags: &ApproveCommand,
    vm_name: Option<&str>,
) -> Result<Vec<&'a Event>, CommandError> {
    let mut events = Vec::new();
    if flags.all_mine {
        let unknown = "the name of this VM is unknown: set --vm.name";
        let name = vm_name.ok_or_else(|| CommandError::new(unknown.to_owned()))?;
        let is_mine = |event: &&Event| event.scope(Some(name)) == EventScope::Own;
        let is_waiting = |event: &&Event| event.status == Status::Scheduled && !event.is_advisory();
        events.extend(document.events.iter().filter(is_waiting).filter(is_mine));
    }
    for id in &flags.event_ids {
        let id = EventId::new(id.trim());
        let event = find(document, &id).ok_or_else(|| missing(document, &id))?;
        if !events.contains(&event) {
            events.push(event);
        }
    }
    for event in &events {
        if document.contradictory.contains(&event.id) {
            let id = event.id.as_str();
            return Err(CommandError::new(format!(
                "event {id:?} is not approved: the document contradicts itself about it (see the log lines above)"
            )));
        }
    }
    Ok(events)
}

fn nothing_to_approve(document: &Document, now: Timestamp) -> String {
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

/// The end of input, and an answer that is no text, is no.
async fn is_confirmed(event: &Event) -> Result<bool, CommandError> {
    // A thread of its own: meanwhile IMDS may close the connection.
    let stdin = Worker::start("stdin")
        .map_err(|cause| CommandError::system("cannot start a thread", &cause))?;
    let question = format!("Approve {} {}? [y/N] ", event.event_type.as_str(), event.id);
    io::stderr().write_all(sanitize(&question).as_bytes()).ok();
    let mut answer = String::new();
    let read = move || io::stdin().read_line(&mut answer).map(|_length| answer);
    let answer = stdin.run(read).await.and_then(Result::ok);
    let answer = answer.unwrap_or_default().trim().to_ascii_lowercase();
    Ok(["y", "yes"].contains(&answer.as_str()))
}

fn find<'a>(document: &'a Document, id: &EventId) -> Option<&'a Event> {
    document.events.iter().find(|event| event.id == *id)
}

fn missing(document: &Document, id: &EventId) -> CommandError {
    let unreadable = &document.unreadable;
    let is_unreadable = !unreadable.mentioned([id].into_iter()).is_empty();
    let (id, pending) = (id.as_str(), document.events.len());
    CommandError::new(if is_unreadable {
        format!("the entry of event {id:?} cannot be read (see the log lines above)")
    } else {
        let others = match unreadable.entries {
            0 => String::new(),
            count => format!(", unreadable entries: {count}"),
        };
        format!(
            "no event {id:?} is pending; pending events: {pending}{others} (`list` prints them with their ids)"
        )
    })
}

/// The events in the document after a failed approval.
fn states(document: &Document, ids: &[&EventId]) -> String {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApproveOutcome {
    /// IMDS accepted it.
    Approved,
    /// A dry run sent nothing.
    DryRun,
    /// The answer to `--confirm` was no; nothing was sent.
    Declined,
    /// The event has started; nothing was sent.
    AlreadyStarted,
    /// An advisory has nothing to approve; nothing was sent.
    Advisory,
}

#[derive(Serialize)]
struct Report<'a> {
    result: ApproveOutcome,
    event: AzureForm<'a>,
}

/// Several lines that describe the event and the effect of its approval.
fn announcement(event: &Event, vm_name: Option<&str>, now: Timestamp) -> String {
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
        lines.push(format!("  {}", affected(event, vm_name)));
        lines.push(format!("  {result}"));
    }
    // Text of Azure must not control the terminal.
    let lines = lines.iter().map(|line| sanitize(line) + "\n");
    lines.collect()
}

/// The result as a line of text.
fn sentence(event: &Event, outcome: ApproveOutcome) -> String {
    let (kind, id) = (event.event_type.as_str(), &event.id);
    let result = match outcome {
        ApproveOutcome::Approved => format!("Approved: {kind} {id} may start at any moment now."),
        ApproveOutcome::DryRun => format!("Dry run: {kind} {id} was not approved."),
        ApproveOutcome::Declined => format!("{kind} {id} was not approved."),
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
