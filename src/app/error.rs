//! Why the exporter, or a command, failed.

use std::io;

use crate::{alertmanager, config::ConfigError, imds, listen, state};

/// A start-up failure or a failed command; each names its flag or its cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "--web.listen-address: cannot listen on {address}: {cause}; {}",
        listen::bind_hint(cause)
    )]
    Listen { address: String, cause: io::Error },
    /// Of the exporter of `demo`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("--imds.url: {0}")]
    Client(imds::EndpointError),
    #[error("{0}")]
    Imds(#[from] imds::Error),
    /// The document does not have the event of `approve`.
    #[error(
        "no event {id:?} is pending; pending events: {pending}{} (`list` prints them with their ids)",
        unreadable_entries(*.unreadable)
    )]
    NoSuchEvent {
        id: String,
        pending: usize,
        /// Entries of the document; each may be an event.
        unreadable: usize,
    },
    /// An entry of the document has the id of the event of `approve`.
    #[error("the entry of event {id:?} cannot be read (see the log lines above)")]
    UnreadableEvent { id: String },
    /// The document contradicts itself about the event of `approve`.
    #[error(
        "event {id:?} is not approved: the document contradicts itself about it (see the log lines above)"
    )]
    Contradictory { id: String },
    /// IMDS refused the approval, or did not answer.
    #[error("not approved: {cause}; {}", .now.as_deref().unwrap_or("the state of the event is unknown: run `list`"))]
    NotApproved {
        cause: imds::Error,
        /// The event after the failed approval.
        now: Option<String>,
    },
    /// A 304 without an `ETag` in the request.
    #[error("the document is unchanged")]
    Unchanged,
    #[error("--state.directory: {0}")]
    State(#[from] state::Error),
    #[error(transparent)]
    Alertmanager(#[from] alertmanager::TargetError),
    /// The system has no thread left.
    #[error("cannot start the thread that {purpose}: {cause}")]
    Thread {
        purpose: &'static str,
        cause: io::Error,
    },
    /// A task that must run until the end of the process has ended or failed.
    #[error("{0}")]
    Task(String),
}

impl Error {
    pub(super) fn listen(address: &str) -> impl FnOnce(io::Error) -> Self {
        let address = address.to_owned();
        |cause| Self::Listen { address, cause }
    }

    pub(super) fn thread(purpose: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Thread { purpose, cause }
    }
}

fn unreadable_entries(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(", unreadable entries: {count}")
    }
}

impl From<imds::EndpointError> for Error {
    fn from(error: imds::EndpointError) -> Self {
        match error {
            imds::EndpointError::Thread(cause) => Self::thread("resolves host names")(cause),
            error => Self::Client(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_be_started_is_not_caused_by_a_flag() {
        let no_thread = io::Error::from(io::ErrorKind::WouldBlock);
        let error = Error::from(imds::EndpointError::from(no_thread));
        assert!(matches!(error, Error::Thread { .. }));
        assert!(!error.to_string().contains("--"), "{error}");
    }
}
