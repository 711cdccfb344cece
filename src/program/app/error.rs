//! Why the exporter, or a command, failed.

use std::{io, path::PathBuf};

use crate::{
    azure::{RequestError, imds},
    http::listen,
    outputs::{alertmanager, state},
    program::config::ConfigError,
};

/// A start-up failure or a failed command; each names its flag or its cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "--web.listen-address: cannot listen on {address}: {cause}; {}",
        listen::bind_hint(cause)
    )]
    Listen { address: String, cause: io::Error },
    /// A flag of the exporter that `demo` runs has no usable value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("--imds.url: {0}")]
    Client(imds::EndpointError),
    #[error("{0}")]
    Imds(#[from] RequestError),
    #[error("--state.directory: {0}")]
    State(#[from] state::Error),
    #[error(
        "--textfile.path: {} cannot be written: {cause}; use a file in a directory that this process can write to",
        path.display()
    )]
    Textfile { path: PathBuf, cause: io::Error },
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
