//! `approve`: prints the events and the effect of their approval, sends the approval, prints the results.

use std::io::{self, Write as _};

use serde::Serialize;
use tokio::time::sleep;

use super::query::{self, Query};
use crate::{
    azure::{
        document::Document,
        event::{AzureForm, Event, EventId, EventScope, Status},
    },
    base::{
        json,
        text::sanitize,
        time::{Moment, Timestamp},
    },
    core::{assessment::judge, lifecycle::TrackedEvent, snapshot::Snapshot},
    program::{
        CommandError,
        cli::{ApproveCommand, EXIT_MAY_BE_APPROVED, Output},
        logs,
    },
};

/// Reads the events from IMDS, prints their description on stderr, so that stdout contains only the results, and then
/// approves them in one request.
pub(super) async fn run(flags: &ApproveCommand) -> Result<String, CommandError> {
    let mut query = Query::new(&flags.query.imds)?;
    let read = async |query: &mut Query| (query.read_vm().await, query.read_first().await);
    let (vm, document) = query.with_notice(query::FIRST_ANSWER, read).await;
    let document = document?;
    if let Some(contradiction) = query::contradiction(&vm) {
        if !flags.dry_run {
            return Err(CommandError::new(format!("not approved: {contradiction}")));
        }
        logs::print_stderr(&format!("Note: {}.\n", sanitize(&contradiction)));
    }
    let chosen = chosen(&document, flags, &vm)?;
    if chosen.is_empty() {
        let text = nothing_to_approve(&document);
        if flags.query.output == Output::Table {
            return Ok(text);
        }
        logs::print_stderr(&text);
    }
    let results = chosen
        .into_iter()
        .map(|event| (event, decide(event, flags)));
    let results: Vec<_> = results.collect();
    for (event, outcome) in &results {
        if matches!(outcome, ApproveOutcome::Approved | ApproveOutcome::DryRun) {
            let announcement = announcement(event, &vm, query.clock.now());
            // The approval does not depend on who reads it.
            io::stderr().write_all(announcement.as_bytes()).ok();
        }
    }
    let to_be_sent = results.iter();
    let to_be_sent = to_be_sent.filter(|(_, outcome)| *outcome == ApproveOutcome::Approved);
    let to_be_sent: Vec<_> = to_be_sent.map(|(event, _)| *event).collect();
    if !to_be_sent.is_empty() {
        let send = async |query: &mut Query| send(query, &to_be_sent, document.incarnation).await;
        query
            .with_notice("It has not accepted the approval yet.", send)
            .await?;
    }
    let report = report(&results, flags.query.output)?;
    if to_be_sent.is_empty() {
        return Ok(report);
    }
    // A failure of the command would say that nothing was approved.
    let mut stdout = io::stdout();
    let written = stdout.write_all(report.as_bytes());
    if let Err(error) = written.and_then(|()| stdout.flush()) {
        logs::print_stderr(&format!("{report}Note: cannot write to stdout: {error}.\n"));
    }
    Ok(String::new())
}

/// [`ApproveOutcome::Approved`] where the approval is to be sent.
fn decide(event: &Event, flags: &ApproveCommand) -> ApproveOutcome {
    if event.is_advisory() {
        ApproveOutcome::Advisory
    } else if event.status == Status::Started {
        ApproveOutcome::AlreadyStarted
    } else if flags.dry_run {
        ApproveOutcome::DryRun
    } else {
        ApproveOutcome::Approved
    }
}

/// Sends the approval. After anything but a 200 the document shows whether it has had an effect; a temporary failure is
/// repeated while the events are as before.
async fn send(
    query: &mut Query,
    events: &[&Event],
    incarnation: Option<i64>,
) -> Result<(), CommandError> {
    let (began, timeout) = (query.clock.now(), query.settings.timeout);
    // In Azure's spelling, which may differ in case from that on the command line.
    let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
    let mut may_be_approved = false;
    loop {
        let sent = query.client.approve(&ids, incarnation, timeout);
        let Err(cause) = sent.await else {
            return Ok(());
        };
        may_be_approved |= !cause.is_refusal();
        query.client.forget_document();
        let document = query.read(None).await.ok();
        let now = query.clock.now().wall;
        let are = |is: &dyn Fn(&Event, &Event) -> bool| {
            document.as_ref().is_some_and(|document| {
                let mut events = events.iter();
                events.all(|shown| find(document, &shown.id).is_some_and(|event| is(shown, event)))
            })
        };
        if are(&|shown, event| is_approved(shown, event, now)) {
            return Ok(());
        }
        let is_unchanged = are(&is_unchanged);
        if let Some(delay) = query.retry_delay(&cause, began).filter(|_| is_unchanged) {
            sleep(delay).await;
            continue;
        }
        let states = document.map_or_else(
            || "the state of the events is unknown: run `list`".to_owned(),
            |document| states(&document, &ids),
        );
        let (result, exit_code) = if may_be_approved {
            ("may have been approved", EXIT_MAY_BE_APPROVED)
        } else {
            ("not approved", 1)
        };
        return Err(CommandError {
            message: format!("{result}: {cause}; {states}"),
            exit_code,
        });
    }
}

/// Whether a later document shows that a scheduled event was approved: only then does it start before its `NotBefore`,
/// which is blanked at the start.
fn is_approved(shown: &Event, event: &Event, now: Timestamp) -> bool {
    let is_early = shown.not_before.is_some_and(|due| now < due);
    is_early && (event.status == Status::Started || event.not_before.is_none())
}

fn is_unchanged(shown: &Event, event: &Event) -> bool {
    shown.kind() == event.kind()
        && shown.status == event.status
        && shown.resources == event.resources
}

fn report(results: &[(&Event, ApproveOutcome)], output: Output) -> Result<String, CommandError> {
    let line = |&(event, result): &(&Event, ApproveOutcome)| match output {
        Output::Table => Ok(sentence(event, result)),
        Output::Json => json::to_text(&Report {
            result,
            event: AzureForm(event),
        }),
    };
    let lines: Result<String, _> = results.iter().map(line).collect();
    lines.map_err(|error| CommandError::new(error.to_string()))
}

/// The events that the flags name, each once. Nothing is approved if one of them cannot be.
fn chosen<'a>(
    document: &'a Document,
    flags: &ApproveCommand,
    vm: &Snapshot,
) -> Result<Vec<&'a Event>, CommandError> {
    let mut events = Vec::new();
    if flags.all_mine {
        if let Some(unknown) = query::unknown_name(vm) {
            return Err(CommandError::new(unknown));
        }
        let is_mine = |event: &&Event| event.scope(query::vm_names(vm)) == EventScope::Own;
        let is_waiting = |event: &&Event| event.status == Status::Scheduled && !event.is_advisory();
        events.extend(document.events.iter().filter(is_waiting).filter(is_mine));
        // The names do not contradict each other here.
        let name = vm.vm_name.as_deref();
        let derived = events
            .iter()
            .find(|event| event.scope(name) != EventScope::Own);
        if let (Some(event), Some(name)) = (derived, name) {
            let id = event.id.as_str();
            return Err(CommandError::new(format!(
                "not approved: {name:?} is the name of a host, and instance metadata do not name its VM: approve event \
                 {id:?} by its ID if it is about this VM"
            )));
        }
    }
    for id in &flags.event_ids {
        let id = EventId::new(id.trim());
        let event = find(document, &id).ok_or_else(|| missing(document, &id))?;
        if !events.contains(&event) {
            events.push(event);
        }
    }
    let is_contradicted = |event: &&&Event| document.contradicted.contains(&event.id);
    match events.iter().find(is_contradicted) {
        Some(event) => Err(CommandError::new(format!(
            "event {:?} is not approved: the document contradicts itself about it (see the log lines above)",
            event.id.as_str()
        ))),
        None => Ok(events),
    }
}

fn find<'a>(document: &'a Document, id: &EventId) -> Option<&'a Event> {
    document.events.iter().find(|event| event.id == *id)
}

fn missing(document: &Document, id: &EventId) -> CommandError {
    let unreadable = &document.unreadable;
    let is_unreadable = unreadable.ids.contains(id);
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApproveOutcome {
    Approved,
    DryRun,
    AlreadyStarted,
    Advisory,
}

#[derive(Serialize)]
struct Report<'a> {
    result: ApproveOutcome,
    event: AzureForm<'a>,
}

/// The words about the event, and what its approval does.
fn announcement(event: &Event, vm: &Snapshot, now: Moment) -> String {
    let scope = event.scope(query::vm_names(vm));
    let tracked = TrackedEvent::begin(event.clone(), scope, now);
    let words = judge(&tracked, now).words(vm);
    let description = words.description_without_advice();
    let named = named(event, scope, vm);
    let result = "Once approved it may start on all of its VMs at any moment, and cannot be stopped or postponed.";
    let lines = description.lines().chain([&*named, result]);
    let lines = lines.map(|line| format!("  {line}"));
    let lines = [words.summary].into_iter().chain(lines);
    // Text of Azure must not control the terminal.
    lines
        .map(|line| sanitize(&line).into_owned() + "\n")
        .collect()
}

/// Whether the event names this VM, as a sentence.
fn named(event: &Event, scope: EventScope, vm: &Snapshot) -> String {
    match scope {
        EventScope::Own => "It names this VM.".to_owned(),
        EventScope::Other => "It does NOT name this VM.".to_owned(),
        EventScope::Unknown if event.resources.is_none() => {
            "Its resources are missing: it acts on all VMs that it affects.".to_owned()
        }
        EventScope::Unknown => {
            let why = query::unknown_name(vm).map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            format!("It is not known whether it names this VM{why}.")
        }
    }
}

fn sentence(event: &Event, outcome: ApproveOutcome) -> String {
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

fn nothing_to_approve(document: &Document) -> String {
    if document.has_no_events() {
        return query::NO_EVENTS.to_owned();
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
fn states(document: &Document, ids: &[EventId]) -> String {
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
