//! The binary. Exit codes: 0, 64 for an invalid command line or environment, 2 for an approval with an unknown result, 1
//! for all other failures.

use std::{io::Write as _, process::ExitCode};

use azure_scheduled_events_exporter::{
    cli::{self, EXIT_USAGE, Parsed},
    command, logs,
};

fn main() -> ExitCode {
    let parsed = cli::parse(std::env::args_os());
    #[cfg(windows)]
    if command::run_as_service(&parsed) {
        return ExitCode::SUCCESS;
    }
    match parsed {
        Ok(Parsed::Info(text)) => print_stdout(&text),
        Ok(Parsed::Command(cli)) => match command::dispatch(*cli) {
            Ok(text) => print_stdout(&text),
            Err(error) => fail(&error.message, error.exit_code),
        },
        Err(message) => fail(&message, EXIT_USAGE),
    }
}

/// A closed pipe (`list | head -1`) is not a failure, any other write error is.
fn print_stdout(text: &str) -> ExitCode {
    if text.is_empty() {
        // A thread of `watch` may hold the lock of stdout.
        return ExitCode::SUCCESS;
    }
    let mut stdout = std::io::stdout();
    let result = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match result {
        Err(error) if !command::is_closed_pipe(&error) => {
            fail(&format!("cannot write to stdout: {error}"), 1)
        }
        _ => ExitCode::SUCCESS,
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    logs::print_stderr(&format!("error: {message}\n"));
    ExitCode::from(code)
}
