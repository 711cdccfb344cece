//! Arguments → settings → runtime → what was asked for → exit code: 0, 64 for a command line that cannot work, 1 for
//! everything else.

use std::process::ExitCode;

use azure_scheduled_events_exporter::{
    cli::{self, Asked, EXIT_USAGE},
    command,
};

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(Asked::Tell(text)) => say(&text, ExitCode::SUCCESS),
        Ok(Asked::Run(cli)) => match command::carry_out(*cli) {
            Ok(text) => say(&text, ExitCode::SUCCESS),
            Err(error) => fail(
                &format!("{:#}", error.cause),
                ExitCode::from(error.exit_code),
            ),
        },
        Err(line) => fail(&line, ExitCode::from(EXIT_USAGE)),
    }
}

/// A reader that is gone (`list | head -1`) is no failure.
#[expect(
    clippy::let_underscore_must_use,
    reason = "a closed stdout has nobody to tell"
)]
fn say(text: &str, code: ExitCode) -> ExitCode {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
    code
}

#[expect(
    clippy::let_underscore_must_use,
    reason = "a closed stderr has nobody to tell"
)]
fn fail(line: &str, code: ExitCode) -> ExitCode {
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("error: {line}\n").as_bytes(),
    );
    code
}
