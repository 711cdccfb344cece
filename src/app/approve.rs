//! `approve`: one event, by the will of the person who types its id.

use std::time::Duration;

use super::{Error, logging};
use crate::{
    approval::by_hand::{self, ApproveOutcome},
    cli::Output,
    config::Imds,
    document::{Answer, Document},
    event::{Event, EventId, Status},
    imds::Client,
    time::{Clock, Timestamp},
};

/// Which event, and how.
#[derive(Debug)]
pub struct Approve {
    /// Its id, in any case.
    pub id: EventId,
    /// Send nothing.
    pub dry_run: bool,
    /// The form of the output.
    pub output: Output,
}

/// Asks IMDS for the event, has `announce` say what will be done to whom, and then approves it.
///
/// # Errors
/// When IMDS does not answer, has no such event, or does not take the approval.
pub async fn approve(
    settings: &Imds,
    wanted: &Approve,
    announce: impl FnOnce(&str),
    clock: Clock,
) -> Result<String, Error> {
    let mut client = Client::new(&settings.endpoint)?;
    let vm_name = match settings.vm_name.as_deref() {
        Some(name) => Some(name.to_owned()),
        None => client.identify(clock).await.ok().map(|vm| vm.name),
    };
    let document = read(&mut client, settings.first_timeout, clock).await?;
    let event = find(&document, &wanted.id).ok_or_else(|| Error::NoSuchEvent {
        id: wanted.id.as_str().to_owned(),
        pending: document.events.len(),
    })?;
    announce(&by_hand::announcement(
        event,
        vm_name.as_deref(),
        clock.now().wall,
    ));
    let outcome = if event.status == Status::Started {
        ApproveOutcome::AlreadyStarted
    } else if wanted.dry_run {
        ApproveOutcome::DryRun
    } else {
        // As Azure wrote it, not as it was typed.
        match client.approve(&event.id, settings.timeout, clock).await {
            Ok(()) => ApproveOutcome::Approved,
            Err(cause) => {
                let now = read(&mut client, settings.timeout, clock).await.ok();
                let now = now.map(|document| state(&document, &event.id));
                return Err(Error::NotApproved { cause, now });
            }
        }
    };
    match wanted.output {
        Output::Table => Ok(by_hand::sentence(event, outcome)),
        Output::Json => {
            by_hand::json(event, outcome).map_err(|error| Error::Task(error.to_string()))
        }
    }
}

/// One reading of the document, with a line for each of its oddities.
pub(super) async fn read(
    client: &mut Client,
    patience: Duration,
    clock: Clock,
) -> Result<Document, Error> {
    match client.poll(patience, clock).await? {
        Answer::Document {
            document,
            anomalies,
        } => {
            for anomaly in &anomalies {
                logging::log_anomaly(anomaly);
            }
            Ok(document)
        }
        // Only a second reading has an ETag, and what it confirms was read before.
        Answer::Unchanged => Err(Error::Unchanged),
    }
}

fn find<'a>(document: &'a Document, id: &EventId) -> Option<&'a Event> {
    document.events.iter().find(|event| event.id == *id)
}

/// What the document says after an approval that failed.
fn state(document: &Document, id: &EventId) -> String {
    match find(document, id) {
        None => "it is gone from the document now".to_owned(),
        Some(event) => {
            let not_before = event.not_before.map(Timestamp::rfc3339);
            let due = not_before.map_or_else(String::new, |at| format!(", not before {at}"));
            format!("it is {} now{due}", event.status.as_str())
        }
    }
}
