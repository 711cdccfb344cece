//! What was typed, and nothing looked up: flags as the Prometheus exporters have them, with dotted names.
//!
//! The values are strings that only their form was checked of; [`config`](crate::config) resolves them.

mod flags;

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};

pub use flags::{
    AlertmanagerFlags, ApproveCommand, ApproveFlags, DemoFlags, EventsFlags, ImdsFlags, LogFlags,
    LogFormat, LogLevel, OnceFlags, Output, PollFlags, RunFlags, ScopeArg, SimulateFlags,
    StateFlags, WebFlags,
};

/// The exit code of a command line that cannot work (`EX_USAGE` of BSD's sysexits).
pub const EXIT_USAGE: u8 = 64;

/// Exposes Azure Scheduled Events of this VM to Prometheus.
///
/// Mind: polling switches Scheduled Events on for the whole availability set or placement group, and from then on a
/// restart that an operator orders waits for an approval or for NotBefore, up to 15 minutes.
#[derive(Debug, Parser)]
#[command(
    name = "azure-scheduled-events-exporter",
    version = VERSION,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do; without one, run the exporter.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The exporter's flags.
    #[command(flatten)]
    pub run: RunFlags,
}

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (revision ",
    env!("BUILD_REVISION"),
    ", rustc ",
    env!("BUILD_RUSTC"),
    ")"
);

/// What else the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the exporter at work: a simulated Azure and the exporter in one process, on loopback, no configuration.
    Demo(DemoFlags),
    /// Run the simulated Azure alone.
    Simulate(SimulateFlags),
    /// Ask Azure once and print the pending events.
    List(OnceFlags),
    /// Approve one event: it may then start before its NotBefore, on every VM that it names.
    Approve(ApproveCommand),
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// To do something.
    Run(Box<Cli>),
    /// To be told something: the help, the version.
    Tell(String),
}

/// Reads the command line.
///
/// # Errors
/// One line that names the flag, the value and the mend.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, String> {
    use clap::error::ErrorKind;
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(Asked::Run(Box::new(cli))),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            Ok(Asked::Tell(error.to_string()))
        }
        Err(error) => Err(one_line(&error)),
    }
}

/// The parser says it in a paragraph; a log wants one line.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<_> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(|line| {
            line.trim_start_matches("error: ")
                .trim_start_matches("tip: ")
        })
        .collect();
    let line = said.join("; ").replace(":; ", ": ");
    format!("{line} (--help lists the flags)")
}

/// Whether a scenario is meant as a file rather than by its name.
pub fn is_file(scenario: &str) -> Option<PathBuf> {
    let is_path = scenario.contains(['/', '\\', '.']);
    is_path.then(|| PathBuf::from(scenario))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Asked, String> {
        parse(["exporter"].iter().chain(arguments).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_flag_is_one_line_that_names_flag_value_and_mend() {
        for (arguments, expected) in [
            (
                &["--imds.poll-interval=5"][..],
                "'5' for '--imds.poll-interval <DURATION>': \"5\" is no duration",
            ),
            (
                &["--log.level=loud"],
                "'loud' for '--log.level <LEVEL>'; [possible values: error, warn, info",
            ),
            (
                &["--imds.pol-interval=5s"],
                "a similar argument exists: '--imds.poll-interval'",
            ),
            (&["simulat"], "a similar subcommand exists: 'simulate'"),
            (&["--web.listen-address"], "--web.listen-address"),
            (&["approve"], "were not provided: <EVENT_ID>"),
            (&["list", "--output=xml"], "'xml' for '--output <OUTPUT>'"),
        ] {
            let error = parsed(arguments).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains('\n'),
                "{arguments:?}: {error}"
            );
        }
    }

    #[test]
    fn flags_of_the_exporter_before_a_command_are_refused_rather_than_ignored() {
        let error = parsed(&["--imds.url=http://localhost", "list"]).unwrap_err();
        assert!(error.contains("list"), "{error}");
    }

    #[test]
    fn help_groups_the_flags_and_version_names_the_revision() {
        let Ok(Asked::Tell(help)) = parsed(&["--help"]) else {
            panic!("help is told")
        };
        for heading in [
            "Web:",
            "Azure Instance Metadata Service (IMDS):",
            "Events:",
            "Log:",
        ] {
            assert!(help.contains(heading), "{heading} in {help}");
        }
        let Ok(Asked::Tell(version)) = parsed(&["--version"]) else {
            panic!("version is told")
        };
        assert!(
            version.contains(env!("CARGO_PKG_VERSION")) && version.contains("revision"),
            "{version}"
        );
    }
}
