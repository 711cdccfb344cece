//! The program: flags, configuration, commands, log output, wiring; and why it fails.

pub mod app;
pub mod cli;
pub mod command;
pub mod config;
pub mod logs;

use std::{
    fmt,
    io::{self, ErrorKind},
};

use crate::{azure::imds::EndpointError, outputs::state, program::cli::EXIT_USAGE};

/// Names the flag or the cause.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// One line.
    pub message: String,
    pub exit_code: u8,
}

impl CommandError {
    fn new(message: String) -> Self {
        Self {
            message,
            exit_code: 1,
        }
    }

    fn usage(message: String) -> Self {
        Self {
            message,
            exit_code: EXIT_USAGE,
        }
    }

    fn system(context: &str, cause: &impl fmt::Display) -> Self {
        Self::new(format!("{context}: {cause}"))
    }

    fn listen(address: &str) -> impl FnOnce(io::Error) -> Self {
        let problem = format!("--web.listen-address: cannot listen on {address}");
        move |cause| {
            let remedy = match cause.kind() {
                ErrorKind::AddrInUse => {
                    "choose another port, or stop the process that uses this one"
                }
                ErrorKind::PermissionDenied => "choose a port from 1024 up",
                _ => "choose an address that this machine has, such as :10169 for all addresses",
            };
            Self::new(format!("{problem}: {cause}; {remedy}"))
        }
    }

    fn thread(purpose: &str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::system(&format!("cannot start the thread that {purpose}"), &cause)
    }
}

/// An invalid value of a flag. The problem names the value and a valid alternative.
fn flag_error(flag: &str, problem: impl fmt::Display) -> CommandError {
    CommandError::usage(format!("--{flag}: {problem}"))
}

impl From<EndpointError> for CommandError {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::Thread(cause) => Self::thread("resolves host names")(cause),
            EndpointError::Address(problem) => flag_error("imds.url", problem),
        }
    }
}

impl From<state::Error> for CommandError {
    fn from(error: state::Error) -> Self {
        let message = format!("--state.directory: {error}");
        match error {
            state::Error::Locked { .. } => Self::new(message),
            state::Error::Unusable { .. } => Self::usage(message),
        }
    }
}
