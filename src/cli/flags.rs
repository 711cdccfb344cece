//! The flags, grouped as `--help` shows them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, ValueEnum,
    builder::{NonEmptyStringValueParser, OsStringValueParser},
};

use crate::time::parse_duration;

/// Flags of the exporter.
#[derive(Debug, Args)]
pub struct RunFlags {
    /// Where it serves.
    #[command(flatten)]
    pub web: WebFlags,
    /// What it reads.
    #[command(flatten)]
    pub imds: ImdsFlags,
    /// How often it reads.
    #[command(flatten)]
    pub poll: PollFlags,
    /// What it shows.
    #[command(flatten)]
    pub events: EventsFlags,
    /// What it approves.
    #[command(flatten)]
    pub approve: ApproveFlags,
    /// What it keeps.
    #[command(flatten)]
    pub state: StateFlags,
    /// Whom it tells.
    #[command(flatten)]
    pub alertmanager: AlertmanagerFlags,
    /// What it logs.
    #[command(flatten)]
    pub log: LogFlags,
}

/// Flags of `demo`.
#[derive(Debug, Args)]
pub struct DemoFlags {
    /// Where it serves; an address of the loopback interface.
    #[arg(
        long = "web.listen-address",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:10169",
        help_heading = "Web"
    )]
    pub listen_address: String,
    /// What is simulated: a scenario's name, or a scenario file (repeatable).
    #[arg(
        long = "scenario",
        value_name = "NAME|FILE",
        default_value = "demo",
        help_heading = "Simulator"
    )]
    pub scenarios: Vec<String>,
    /// How much faster than real time waiting passes.
    #[arg(
        long = "speed",
        value_name = "FACTOR",
        default_value_t = 60.0,
        help_heading = "Simulator"
    )]
    pub speed: f64,
    /// What it shows.
    #[command(flatten)]
    pub events: EventsFlags,
    /// What it logs.
    #[command(flatten)]
    pub log: LogFlags,
}

/// Flags of `simulate`.
#[derive(Debug, Args)]
pub struct SimulateFlags {
    /// Where it serves.
    #[arg(
        long = "web.listen-address",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:10170",
        help_heading = "Web"
    )]
    pub listen_address: String,
    /// What is simulated: a scenario's name, or a scenario file (repeatable). Without one, nothing happens until
    /// somebody starts a scenario on the page or by the API.
    #[arg(
        long = "scenario",
        value_name = "NAME|FILE",
        help_heading = "Simulator"
    )]
    pub scenarios: Vec<String>,
    /// How much faster than real time waiting passes.
    #[arg(
        long = "speed",
        value_name = "FACTOR",
        default_value_t = 1.0,
        help_heading = "Simulator"
    )]
    pub speed: f64,
    /// List the scenarios and end.
    #[arg(long = "list", help_heading = "Simulator")]
    pub list: bool,
    /// The simulated VM's name.
    #[arg(long = "vm.name", value_name = "NAME", help_heading = "Simulator")]
    pub vm_name: Option<String>,
    /// What it logs.
    #[command(flatten)]
    pub log: LogFlags,
}

/// Flags of the commands that ask once and end.
#[derive(Debug, Args)]
pub struct OnceFlags {
    /// The form of the output.
    #[arg(long = "output", value_enum, default_value_t = Output::Table, help_heading = "Output")]
    pub output: Output,
    /// What it reads.
    #[command(flatten)]
    pub imds: ImdsFlags,
    /// What it logs.
    #[command(flatten)]
    pub log: LogFlags,
}

/// Flags of `approve`.
#[derive(Debug, Args)]
pub struct ApproveCommand {
    /// The event's id, in any case, as `list` prints it.
    #[arg(value_name = "EVENT_ID", value_parser = NonEmptyStringValueParser::new())]
    pub event_id: String,
    /// Say what would be done, and send nothing.
    #[arg(long = "dry-run")]
    pub dry_run: bool,
    /// What it reads, prints and logs.
    #[command(flatten)]
    pub once: OnceFlags,
}

/// Where and how the exporter serves.
#[derive(Debug, Args)]
#[command(next_help_heading = "Web")]
pub struct WebFlags {
    /// host:port to serve on; an empty host is every address (repeatable).
    #[arg(
        long = "web.listen-address",
        value_name = "HOST:PORT",
        default_value = ":10169"
    )]
    pub listen_addresses: Vec<String>,
    /// Path of the metrics.
    #[arg(
        long = "web.telemetry-path",
        value_name = "PATH",
        default_value = "/metrics"
    )]
    pub telemetry_path: String,
    /// How long before an event /-/serving takes this VM out of a load balancer.
    #[arg(long = "serving.lead-time", value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub serving_lead_time: Duration,
}

/// What is read, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Azure Instance Metadata Service (IMDS)")]
pub struct ImdsFlags {
    /// Base URL of IMDS; for a classic VM the address that it discovered.
    #[arg(
        long = "imds.url",
        value_name = "URL",
        default_value = "http://169.254.169.254"
    )]
    pub url: String,
    /// Version of the Scheduled Events API; an older one hides types and fields.
    #[arg(
        long = "imds.api-version",
        value_name = "VERSION",
        default_value = "2020-07-01"
    )]
    pub api_version: String,
    /// Time for one request. Until the first success it is at least 130s, since the first answer may take two minutes.
    #[arg(long = "imds.timeout", value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Which entry of Resources this VM is [default: the name that instance metadata give].
    #[arg(long = "vm.name", value_name = "NAME")]
    pub vm_name: Option<String>,
}

/// How often IMDS is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Azure Instance Metadata Service (IMDS)")]
pub struct PollFlags {
    /// Time from one poll to the next; at least 200ms, since IMDS allows five requests a second per VM.
    #[arg(long = "imds.poll-interval", value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
}

/// What is shown of the events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Events")]
pub struct EventsFlags {
    /// For which events there are series of their own: those that name this VM, or all.
    #[arg(long = "events.scope", value_enum, default_value_t = ScopeArg::Own)]
    pub scope: ScopeArg,
    /// Add one series for each event and VM that it names.
    #[arg(long = "metrics.resources")]
    pub resources: bool,
}

/// What is approved. Nothing is, unless one of the first two is given.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Approvals")]
pub struct ApproveFlags {
    /// Approve events that somebody with rights on the VM ordered: a restart or redeploy does not wait for NotBefore.
    #[arg(long = "approve.user-events")]
    pub user_events: bool,
    /// Approve freezes that are announced to be shorter than this; never one of unknown length.
    #[arg(long = "approve.freeze-below", value_name = "DURATION", value_parser = parse_duration)]
    pub freeze_below: Option<Duration>,
    /// How long after first sight a VM approves that is not the first in Resources, where nobody did before
    /// [default: 60s].
    #[arg(long = "approve.delay", value_name = "DURATION", value_parser = parse_duration)]
    pub delay: Option<Duration>,
    /// Decide, log and count, but send nothing.
    #[arg(long = "approve.dry-run")]
    pub dry_run: bool,
}

/// What survives a restart.
#[derive(Debug, Args)]
#[command(next_help_heading = "State")]
pub struct StateFlags {
    /// Where what is known of the events survives a restart; without one it is in memory only.
    #[arg(
        long = "state.directory",
        value_name = "DIRECTORY",
        env = "STATE_DIRECTORY",
        // An empty one is told about with the mend, wherever it is from.
        value_parser = OsStringValueParser::new()
    )]
    pub directory: Option<OsString>,
}

/// Which Alertmanagers are told of events by the exporter itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Alertmanager")]
pub struct AlertmanagerFlags {
    /// Alertmanager that events of this VM are pushed to, such as `http://alertmanager:9093` (repeatable).
    #[arg(long = "alertmanager.url", value_name = "URL")]
    pub urls: Vec<String>,
    /// File with USER:PASSWORD for all of them; read again for each push.
    #[arg(
        long = "alertmanager.basic-auth-file",
        value_name = "FILE",
        conflicts_with = "bearer_token_file"
    )]
    pub basic_auth_file: Option<PathBuf>,
    /// File with a bearer token for all of them; read again for each push.
    #[arg(long = "alertmanager.bearer-token-file", value_name = "FILE")]
    pub bearer_token_file: Option<PathBuf>,
    /// File with the certificate authorities (PEM) that they are trusted for [default: those of the system].
    #[arg(long = "alertmanager.ca-file", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// What is logged, on stderr.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Log")]
pub struct LogFlags {
    /// The least severe level that is logged.
    #[arg(long = "log.level", value_enum, default_value_t = LogLevel::Info)]
    pub level: LogLevel,
    /// The form of a line.
    #[arg(long = "log.format", value_enum, default_value_t = LogFormat::Logfmt)]
    pub format: LogFormat,
}

/// Values of `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Values of `--events.scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// Events that name this VM.
    #[value(name = "self")]
    Own,
    /// Every event that is seen.
    All,
}

/// Values of `--log.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the usual levels")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Values of `--log.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// key=value
    Logfmt,
    /// One JSON object a line.
    Json,
}
