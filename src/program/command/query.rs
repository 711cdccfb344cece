//! What `list` and `approve` ask IMDS.

use std::time::Duration;

use super::CommandError;
use crate::{
    azure::{
        document::{Answer, Document},
        imds::Client,
    },
    base::time::{Clock, Timestamp},
    core::lifecycle::WarmUp,
    program::{
        app::{Error, log_anomaly},
        config::ImdsSettings,
    },
};

/// The value of `--vm.name`, else the name in instance metadata, if IMDS returns it.
pub(super) async fn vm_name(
    client: &mut Client,
    settings: &ImdsSettings,
    clock: Clock,
) -> Option<String> {
    match &settings.vm_name {
        Some(name) => Some(name.to_string()),
        None => client.identify(clock).await.ok().map(|vm| vm.name),
    }
}

/// Reads the document once, and logs its anomalies.
pub(super) async fn read(
    client: &mut Client,
    timeout: Duration,
    clock: Clock,
) -> Result<Document, CommandError> {
    match client.poll(timeout, clock).await.map_err(Error::from)? {
        Answer::Document {
            document,
            anomalies,
        } => {
            for anomaly in &anomalies.described {
                log_anomaly(anomaly);
            }
            Ok(document)
        }
        // Only for a client that knows a document.
        Answer::Unchanged => Err(CommandError::new("the document is unchanged".to_owned())),
    }
}

/// Until when events may be missing from a document without any, since the request for it may have enabled the feature.
pub(super) fn warming_up_until(document: &Document, now: Timestamp) -> Option<Timestamp> {
    document.has_no_events().then(|| now.after(WarmUp::TIME))
}

/// What a document without events means.
pub(super) fn no_events_yet(document: &Document, now: Timestamp) -> Option<String> {
    let until = warming_up_until(document, now)?.time_of_day();
    Some(format!(
        "No events yet; they may take until {until} to appear if no client has polled Scheduled Events here for a day.\n"
    ))
}
