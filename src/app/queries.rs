//! The commands `list` and `approve`.

use std::time::Duration;

use super::{Error, logging};
use crate::{
    approval::manual::{self, ApproveOutcome},
    cli::Output,
    config::ImdsSettings,
    document::{Answer, Document},
    event::{Event, EventId, Status},
    imds::Client,
    list,
    snapshot::WARM_UP_TIME,
    text::sanitize,
    time::{Clock, Timestamp},
};

#[derive(Debug)]
pub(crate) struct Approve {
    /// Compared without case.
    pub id: EventId,
    pub dry_run: bool,
    pub output: Output,
}

/// Reads the event from IMDS, gives its description to `announce`, and then approves it.
///
/// # Errors
/// When IMDS does not answer, has no such event, or refuses the approval.
pub(crate) async fn approve(
    settings: &ImdsSettings,
    request: &Approve,
    announce: impl FnOnce(&str),
    clock: Clock,
) -> Result<String, Error> {
    let mut client = Client::new(&settings.endpoint)?;
    let vm_name = vm_name(&mut client, settings, clock).await;
    let document = read(&mut client, settings.first_timeout, clock).await?;
    let event = find(&document, &request.id).ok_or_else(|| missing(&document, &request.id))?;
    if document.contradictory.contains(&event.id) {
        return Err(Error::Contradictory {
            id: request.id.as_str().to_owned(),
        });
    }
    announce(&manual::announcement(
        event,
        vm_name.as_deref(),
        clock.now().wall,
    ));
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
                let now = read(&mut client, settings.timeout, clock).await.ok();
                let now = now.map(|document| state(&document, &event.id));
                return Err(Error::NotApproved { cause, now });
            }
        }
    };
    match request.output {
        Output::Table => Ok(manual::sentence(event, outcome)),
        Output::Json => {
            manual::json(event, outcome).map_err(|error| Error::Task(error.to_string()))
        }
    }
}

/// The value of `--vm.name`, else the name in instance metadata, if IMDS returns it.
async fn vm_name(client: &mut Client, settings: &ImdsSettings, clock: Clock) -> Option<String> {
    match &settings.vm_name {
        Some(name) => Some(name.to_string()),
        None => client.identify(clock).await.ok().map(|vm| vm.name),
    }
}

/// Reads the document once, and logs its anomalies.
async fn read(client: &mut Client, timeout: Duration, clock: Clock) -> Result<Document, Error> {
    match client.poll(timeout, clock).await? {
        Answer::Document {
            document,
            anomalies,
        } => {
            for anomaly in &anomalies {
                logging::log_anomaly(anomaly);
            }
            Ok(document)
        }
        // Only for a client that knows a document.
        Answer::Unchanged => Err(Error::Unchanged),
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

/// Reads the pending events once.
///
/// # Errors
/// When it does not answer with a document.
pub(crate) async fn list(
    settings: &ImdsSettings,
    output: Output,
    clock: Clock,
) -> Result<String, Error> {
    let mut client = Client::new(&settings.endpoint)?;
    let vm_name = match output {
        Output::Table => vm_name(&mut client, settings, clock).await,
        Output::Json => None,
    };
    let document = read(&mut client, settings.first_timeout, clock).await?;
    let now = clock.now().wall;
    if output == Output::Json && document.has_no_events() {
        logging::no_events_yet(now.after(WARM_UP_TIME));
    }
    Ok(match output {
        Output::Json => {
            list::json(&document, now).map_err(|error| Error::Task(error.to_string()))?
        }
        Output::Table => list::table(&document, vm_name.as_deref(), now),
    })
}
