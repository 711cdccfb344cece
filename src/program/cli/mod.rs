//! The command line: flags with dotted names, as Prometheus exporters have them.
//!
//! [`config`](crate::program::config) says which values are valid, and resolves them.

mod flags;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::http::client::url;

pub(crate) use self::flags::{
    AlertmanagerFlags, ApproveCommand, ApproveFlags, ApproveFor, DemoFlags, ImdsFlags, LogFlags,
    LogFormat, Output, QueryFlags, RunFlags, SimulateFlags, SimulatorFlags, WatchFlags,
};

/// The exit code for an invalid command line or environment (`EX_USAGE` of BSD's sysexits).
pub const EXIT_USAGE: u8 = 64;

/// The exit code of `approve` where it is not known whether the events are approved.
pub(crate) const EXIT_MAY_BE_APPROVED: u8 = 2;

/// Prometheus exporter for the Azure Scheduled Events of this VM.
///
/// Warning: polling enables Scheduled Events for the whole availability set or placement group. A restart requested by
/// a user then waits for an approval or for NotBefore, up to 15 minutes.
#[derive(Debug, Parser)]
#[command(
    name = "azure-scheduled-events-exporter",
    version = VERSION,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Without a command, the exporter runs.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (revision ",
    env!("BUILD_REVISION"),
    ", rustc ",
    env!("BUILD_RUSTC"),
    ")"
);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the exporter with a simulated Azure in one process, on loopback. Needs no configuration.
    #[command(
        mut_arg("scenarios", |arg| arg
            .default_value("demo")
            .help("Name of a scenario, or path of a scenario file (repeatable)")),
        mut_arg("speed", |arg| arg.default_value("60"))
    )]
    Demo(Box<DemoFlags>),
    /// Run the simulated Azure without the exporter.
    Simulate(SimulateFlags),
    /// Query Azure once and print the pending events; `*` marks this VM.
    ///
    /// Warning: one request enables Scheduled Events for the whole availability set or placement group, for a day. A
    /// restart requested by a user then waits for an approval or for NotBefore, up to 15 minutes. Events may take five
    /// minutes to appear after the first request.
    List(QueryFlags),
    /// Approve events in one request: Azure may then start them before their NotBefore, on every VM in their Resources.
    ///
    /// The approval is sent at once, and this VM is not drained first. To drain it, let the exporter approve the event
    /// with --approve.drain. The exit code is 0 if the events are approved, 1 if not, and 2 if they may be: the
    /// request had no answer, or a 5xx.
    ///
    /// Warning: one request enables Scheduled Events for the whole availability set or placement group, for a day. A
    /// restart requested by a user then waits for an approval or for NotBefore, up to 15 minutes.
    Approve(ApproveCommand),
    /// Print each transition of an event that names this VM as one line of JSON, for scripts.
    ///
    /// Reads the exporter on this machine and sends no request to Azure. A line has the members `at`, `transition`
    /// (pending, announced, rescheduled, changed, started, advisory or ended) and `event`, which is that of
    /// /api/v1/events. A signal or a closed pipe ends the command with exit code 0.
    Watch(WatchFlags),
    /// Print the version.
    Version,
    /// Install or remove the exporter as a Windows service. Needs an elevated prompt.
    #[cfg(windows)]
    #[command(subcommand)]
    Service(ServiceCommand),
}

#[cfg(windows)]
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Install the service with these flags of the exporter, or change the flags of the installed one.
    ///
    /// The service starts with Windows and is restarted when it fails. It runs as LocalService, which must be able to
    /// read the files that the flags name. Changed flags take effect when the service is started again.
    Install(Box<RunFlags>),
    /// Stop and remove the service. The state directory stays.
    Uninstall,
}

pub(crate) fn version() -> String {
    Cli::command().render_version()
}

#[derive(Debug)]
pub enum Parsed {
    Command(Box<Cli>),
    /// The text of `--help` or `--version`.
    Info(String),
}

/// Parses the command line.
///
/// # Errors
/// One line that names the flag, the value and a valid alternative.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, String> {
    use clap::error::{ContextKind, ErrorKind};
    let arguments: Vec<_> = arguments.into_iter().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => Ok(Parsed::Command(Box::new(cli))),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            Ok(Parsed::Info(error.to_string()))
        }
        Err(error) => {
            let text = one_line(&without_secrets(error.to_string(), &arguments));
            Err(match error.get(ContextKind::InvalidSubcommand) {
                Some(command) if error.kind() == ErrorKind::ArgumentConflict => {
                    let advice = format!("; write the flags of '{command}' after it; Usage");
                    text.replacen("; Usage", &advice, 1)
                }
                _ => text,
            })
        }
    }
}

fn one_line(text: &str) -> String {
    let lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("; ").replace(":; ", ": ")
}

/// An error may repeat an argument, and a URL in it may hold a secret.
fn without_secrets(error: String, arguments: &[OsString]) -> String {
    let texts = arguments.iter().filter_map(|argument| argument.to_str());
    // An argument, the value of `--flag=VALUE`, and that of `-oVALUE`.
    let values = texts.flat_map(|text| {
        [
            Some(text),
            text.split_once('=').map(|(_, value)| value),
            text.get(2..),
        ]
    });
    values
        .flatten()
        .filter(|value| value.contains("://") || value.contains('@'))
        .fold(error, |error, value| {
            error.replace(value, &url::shown(value))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Parsed, String> {
        parse(["exporter"].iter().chain(arguments).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Arguments => words of the error.
    const REFUSED: &str = r#"
        --imds.poll-interval=5 => '5' for '--imds.poll-interval <DURATION>': "5" is not a duration
        --log.level=loud => 'loud' for '--log.level <LEVEL>'; [possible values: error, warn, info
        --imds.pol-interval=5s => a similar argument exists: '--imds.poll-interval'
        simulat => a similar subcommand exists: 'simulate'
        --web.listen-address => --web.listen-address
        approve => were not provided: <EVENT_ID>
        --imds.url=http://h list => with '--imds.url <URL>'; write the flags of 'list' after it; Usage
        list --output=xml => 'xml' for '--output <OUTPUT>'
        list -ohttp://me:hunter2@h => 'http://h' for '--output <OUTPUT>'
        -web.listen-address=:1 => unexpected argument '-w' found; Usage: exporter
        --alertmanager.ca-file=x => not provided: --alertmanager.url <URL>; Usage: exporter
        --approve.dry-run => not provided: <--approve.user-events|--approve.freeze-below <DURATION>>
    "#;

    #[test]
    fn error_for_an_invalid_flag_is_one_line_with_flag_value_and_alternative() {
        for row in REFUSED.lines().filter(|row| !row.trim().is_empty()) {
            let (arguments, words) = row.split_once(" => ").unwrap();
            let arguments: Vec<_> = arguments.split_whitespace().collect();
            let error = parsed(&arguments).unwrap_err();
            assert!(
                error.contains(words) && !error.contains(['\n', '@']),
                "{row}: {error}"
            );
        }
    }

    #[test]
    fn secret_of_a_url_with_a_line_break_is_not_in_the_error() {
        let error = parsed(&["list", "-ohttp://me:hunter2\n@h"]).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
