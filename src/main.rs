//! Arguments → settings → runtime → what was asked for → exit code: 0, 64 for a command line that cannot work, 1 for
//! everything else.

use std::{
    io::{ErrorKind, Write as _},
    process::ExitCode,
};

use azure_scheduled_events_exporter::{
    cli::{self, Asked, EXIT_USAGE},
    command, logs,
};

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(Asked::Tell(text)) => say(&text),
        Ok(Asked::Run(cli)) => match command::carry_out(*cli) {
            Ok(text) => say(&text),
            Err(error) => fail(&error.line, error.exit_code),
        },
        Err(line) => fail(&line, EXIT_USAGE),
    }
}

/// A reader that is gone (`list | head -1`) is no failure; a full disk is.
fn say(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout();
    let said = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match said {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            fail(&format!("stdout cannot be written to: {error}"), 1)
        }
        _ => ExitCode::SUCCESS,
    }
}

fn fail(line: &str, code: u8) -> ExitCode {
    logs::print_stderr(&format!("error: {line}\n"));
    ExitCode::from(code)
}
