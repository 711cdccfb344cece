//! The flags, grouped as `--help` shows them.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use clap::{
    ArgGroup, Args, ValueEnum,
    builder::{
        NonEmptyStringValueParser, OsStringValueParser, PossibleValuesParser, TypedValueParser as _,
    },
};
use tracing::level_filters::LevelFilter;

use crate::{
    azure::api_version::{ApiVersion, LATEST_API_VERSION},
    core::snapshot::SeriesScope,
    http::listen::ListenAddress,
    program::config,
    simulator::OsType,
};

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) web: WebFlags,
    #[command(flatten)]
    pub(crate) imds: ImdsFlags,
    /// Interval between polls, 200ms to 1h. IMDS allows five requests per second and VM for all clients.
    #[arg(
        long = "imds.poll-interval",
        value_name = "DURATION",
        default_value = "1s",
        value_parser = config::duration_in(config::POLL_INTERVALS),
        help_heading = "Azure Instance Metadata Service (IMDS)"
    )]
    pub(crate) poll_interval: Duration,
    #[command(flatten)]
    pub(crate) events: EventsFlags,
    #[command(flatten)]
    pub(crate) approve: ApproveFlags,
    /// Directory that keeps events, unsent spans and log records over a restart; without it they are in memory only.
    #[arg(
        long = "state.directory",
        value_name = "DIRECTORY",
        env = "STATE_DIRECTORY",
        help_heading = "State",
        // Accepts an empty value: config reports it, from the flag or from the environment.
        value_parser = OsStringValueParser::new()
    )]
    pub(crate) state_directory: Option<OsString>,
    /// File for the textfile collector of `node_exporter`, with the metrics of events and of polling; its name ends in
    /// .prom.
    #[arg(long = "textfile.path", value_name = "FILE", help_heading = "Textfile")]
    pub(crate) textfile_path: Option<PathBuf>,
    /// Azure tag of this VM, such as team: its value is the label owner of alerts, of the VM's metrics, and of what OTLP
    /// sends. Changes are seen within an hour.
    #[arg(
        long = "vm.owner-tag",
        value_name = "TAG",
        value_parser = config::owner_tag,
        help_heading = "Azure Instance Metadata Service (IMDS)"
    )]
    pub(crate) owner_tag: Option<Arc<str>>,
    /// File of `hv_kvp_daemon` with the name of the physical host. For rehearsals with `simulate`, which writes one.
    #[arg(long = "vm.kvp-pool-file", value_name = "FILE", hide = true)]
    pub(crate) kvp_pool_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) alertmanager: AlertmanagerFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

/// The defaults are those of `simulate`; [`Command`](super::Command) has those of `demo`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Simulator")]
pub(crate) struct SimulatorFlags {
    /// Name of a scenario, or path of a scenario file (repeatable). Without it, scenarios are started on the page or
    /// through the API.
    #[arg(long = "scenario", value_name = "NAME|FILE")]
    pub(crate) scenarios: Vec<String>,
    /// Factor by which simulated waiting is faster than real time.
    #[arg(long = "speed", value_name = "FACTOR", default_value = "1", value_parser = config::speed)]
    pub(crate) speed: f64,
    /// Name of the simulated VM.
    #[arg(long = "vm.name", value_name = "NAME", value_parser = config::vm_name)]
    pub(crate) vm_name: Option<Arc<str>>,
    /// Scale set of the simulated VM: flexible unless the name is `NAME_NUMBER`; empty for a VM in none. Default: from
    /// the name.
    #[arg(long = "vm.scale-set", value_name = "NAME")]
    pub(crate) scale_set: Option<String>,
    /// Operating system of the simulated VM.
    #[arg(long = "vm.os-type", value_enum, default_value_t = OsType::Linux)]
    pub(crate) os_type: OsType,
}

#[derive(Debug, Args)]
pub(crate) struct DemoFlags {
    /// Loopback address to serve on.
    #[arg(
        long = "web.listen-address",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:10169",
        help_heading = "Web"
    )]
    pub(crate) listen_address: ListenAddress,
    /// File with TLS, users and headers, in the format of Prometheus exporter-toolkit; read for each request.
    #[arg(long = "web.config.file", value_name = "FILE", help_heading = "Web")]
    pub(crate) web_config_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) simulator: SimulatorFlags,
    /// Version of the Scheduled Events API that the exporter asks for. Advisories need one newer than the default.
    #[arg(
        long = "imds.api-version",
        value_name = "DATE",
        default_value = LATEST_API_VERSION,
        value_parser = config::api_version,
        help_heading = "Azure Instance Metadata Service (IMDS)"
    )]
    pub(crate) api_version: ApiVersion,
    #[command(flatten)]
    pub(crate) events: EventsFlags,
    #[command(flatten)]
    pub(crate) alertmanager: AlertmanagerFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateFlags {
    /// Address to serve on.
    #[arg(
        long = "web.listen-address",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:10170",
        help_heading = "Web"
    )]
    pub(crate) listen_address: ListenAddress,
    #[command(flatten)]
    pub(crate) simulator: SimulatorFlags,
    /// File to write the name of the simulated physical host to, as `hv_kvp_daemon` does.
    #[arg(
        long = "kvp-pool-file",
        value_name = "FILE",
        help_heading = "Simulator"
    )]
    pub(crate) kvp_pool_file: Option<PathBuf>,
    /// Print the built-in scenarios and exit.
    #[arg(long = "list", help_heading = "Simulator")]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

/// Flags of the commands that query IMDS once.
#[derive(Debug, Args)]
pub(crate) struct QueryFlags {
    /// Output format.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Output::Table, help_heading = "Output")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) imds: ImdsFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveCommand {
    /// EventId as printed by `list`, one or several; case-insensitive.
    #[arg(
        value_name = "EVENT_ID",
        value_parser = NonEmptyStringValueParser::new(),
        required_unless_present = "all_mine"
    )]
    pub(crate) event_ids: Vec<String>,
    /// Approve all scheduled events that name this VM, of any type.
    #[arg(long = "all-mine", conflicts_with = "event_ids")]
    pub(crate) all_mine: bool,
    /// Print what would be approved, but send nothing.
    #[arg(long = "dry-run")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) query: QueryFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Exporter")]
pub(crate) struct WatchFlags {
    /// Base URL of the exporter.
    #[arg(
        long = "url",
        value_name = "URL",
        default_value = "http://127.0.0.1:10169"
    )]
    pub(crate) url: String,
    /// File with CA certificates (PEM) for an https URL [default: those of the system].
    #[arg(long = "ca-file", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// File with USER:PASSWORD; read for each request.
    #[arg(long = "user-file", value_name = "FILE")]
    pub(crate) user_file: Option<PathBuf>,
    /// File that remembers what was printed: a later run prints what has changed since.
    #[arg(long = "since", value_name = "FILE", help_heading = "Events")]
    pub(crate) since: Option<PathBuf>,
    /// Print the events of all VMs.
    #[arg(long = "all", help_heading = "Events")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Web")]
pub(crate) struct WebFlags {
    /// Address to serve on; an empty host means all addresses (repeatable). `none`: no server, but OTLP, Alertmanager or
    /// --textfile.path.
    #[arg(
        long = "web.listen-address",
        value_name = "HOST:PORT",
        default_value = ":10169"
    )]
    pub(crate) listen_addresses: Vec<String>,
    /// Path under which metrics are served.
    #[arg(
        long = "web.telemetry-path",
        value_name = "PATH",
        default_value = "/metrics",
        value_parser = config::telemetry_path
    )]
    pub(crate) telemetry_path: String,
    /// File with TLS, users and headers, in the format of Prometheus exporter-toolkit; read for each request.
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// How long before NotBefore /-/serving starts to return 503.
    #[arg(long = "serving.lead-time", value_name = "DURATION", default_value = "5m", value_parser = config::duration_in(config::LEAD_TIMES))]
    pub(crate) serving_lead_time: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Azure Instance Metadata Service (IMDS)")]
pub(crate) struct ImdsFlags {
    /// Base URL of IMDS; on a classic VM, the discovered address.
    #[arg(
        long = "imds.url",
        value_name = "URL",
        default_value = "http://169.254.169.254"
    )]
    pub(crate) url: String,
    /// Version of the Scheduled Events API: any date. Older ones lack event types and fields, which the log lists;
    /// undocumented ones are accepted with a warning.
    #[arg(
        long = "imds.api-version",
        value_name = "YYYY-MM-DD",
        default_value = LATEST_API_VERSION,
        value_parser = config::api_version
    )]
    pub(crate) api_version: ApiVersion,
    /// Timeout of one request; at least 130s for a repeated one after timeouts, since Azure takes up to two minutes to
    /// enable Scheduled Events.
    #[arg(long = "imds.timeout", value_name = "DURATION", default_value = "10s", value_parser = config::duration_in(config::TIMEOUTS))]
    pub(crate) timeout: Duration,
    /// Name of this VM in Resources. If instance metadata have another one, events with either are this VM's, and
    /// nothing is approved [default: the name in instance metadata].
    #[arg(long = "vm.name", value_name = "NAME", value_parser = config::vm_name)]
    pub(crate) vm_name: Option<Arc<str>>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Events")]
pub(crate) struct EventsFlags {
    /// Events with their own series: those that name this VM, or all.
    #[arg(
        long = "events.scope",
        default_value = SeriesScope::Own.as_str(),
        value_parser = PossibleValuesParser::new(SeriesScope::ALL.map(SeriesScope::as_str))
            .map(|it| if it == "all" { SeriesScope::All } else { SeriesScope::Own })
    )]
    pub(crate) scope: SeriesScope,
    /// Add one series per event and VM in its Resources.
    #[arg(long = "metrics.resources")]
    pub(crate) resources: bool,
}

/// Nothing is approved without one of the first two.
#[derive(Debug, Clone, Copy, Args)]
#[command(
    next_help_heading = "Approvals",
    group(ArgGroup::new("approved").args(["user_events", "freeze_below"]).multiple(true))
)]
pub(crate) struct ApproveFlags {
    /// Approve events requested by a user, so that a restart or redeploy does not wait for NotBefore.
    #[arg(long = "approve.user-events")]
    pub(crate) user_events: bool,
    /// Approve freezes with an announced duration shorter than this; never those of unknown duration.
    #[arg(long = "approve.freeze-below", value_name = "DURATION", value_parser = config::duration_in(config::FREEZES))]
    pub(crate) freeze_below: Option<Duration>,
    /// VMs whose events --approve.user-events approves. Those of other VMs, which may hang, are approved after
    /// --approve.delay.
    #[arg(
        long = "approve.for",
        value_name = "VMS",
        value_enum,
        default_value_t = ApproveFor::Own,
        requires_if("group", "user_events")
    )]
    pub(crate) approve_for: ApproveFor,
    /// How long after the announcement a VM that is not first in Resources, or not among them, approves, if the event
    /// is still Scheduled [default: 60s].
    #[arg(
        long = "approve.delay",
        value_name = "DURATION",
        value_parser = config::duration_in(config::DELAYS),
        requires = "approved"
    )]
    pub(crate) delay: Option<Duration>,
    /// How long /-/serving returns 503, so that a load balancer drains this VM, before an approval is sent; at most 10m
    /// [default: 0s].
    #[arg(
        long = "approve.drain",
        value_name = "DURATION",
        value_parser = config::duration_in(config::DRAINS),
        requires = "approved"
    )]
    pub(crate) drain: Option<Duration>,
    /// Decide, log and count approvals, but send nothing and drain nothing.
    #[arg(long = "approve.dry-run", requires = "approved")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Alertmanager")]
#[group(requires = "urls")]
pub(crate) struct AlertmanagerFlags {
    /// Push alerts for events of this VM to this Alertmanager, such as `http://alertmanager:9093` (repeatable).
    #[arg(long = "alertmanager.url", value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// File with USER:PASSWORD for all Alertmanagers; read for each push.
    #[arg(
        long = "alertmanager.basic-auth-file",
        value_name = "FILE",
        conflicts_with = "bearer_token_file"
    )]
    pub(crate) basic_auth_file: Option<PathBuf>,
    /// File with a bearer token for all Alertmanagers; read for each push.
    #[arg(long = "alertmanager.bearer-token-file", value_name = "FILE")]
    pub(crate) bearer_token_file: Option<PathBuf>,
    /// File with CA certificates (PEM) for all Alertmanagers [default: those of the system].
    #[arg(long = "alertmanager.ca-file", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// File with the certificate (PEM) that all Alertmanagers ask for, and those of its issuers.
    #[arg(
        long = "alertmanager.cert-file",
        value_name = "FILE",
        requires = "key_file"
    )]
    pub(crate) cert_file: Option<PathBuf>,
    /// File with the private key (PEM) of --alertmanager.cert-file.
    #[arg(
        long = "alertmanager.key-file",
        value_name = "FILE",
        requires = "cert_file"
    )]
    pub(crate) key_file: Option<PathBuf>,
    /// Header for each request to an Alertmanager, such as `X-Scope-OrgID: team-1` (repeatable).
    #[arg(long = "alertmanager.header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Label for each pushed alert, such as `cluster=eu-1`: an external label of Prometheus (repeatable).
    #[arg(long = "alertmanager.external-label", value_name = "NAME=VALUE")]
    pub(crate) external_labels: Vec<String>,
}

#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogFlags {
    /// Minimum level of log messages.
    #[arg(
        long = "log.level",
        default_value = "info",
        value_parser = PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"])
            .try_map(|level| level.parse::<LevelFilter>())
    )]
    pub(crate) level: LevelFilter,
    /// Format of log lines, on stderr.
    #[arg(long = "log.format", value_enum, default_value_t = LogFormat::Logfmt)]
    pub(crate) format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned columns
    Table,
    /// JSON; events have Azure's members
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApproveFor {
    /// This VM
    #[value(name = "self")]
    Own,
    /// All VMs whose events are visible: those of the availability set or placement group
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// key=value
    Logfmt,
    /// One JSON object per line
    Json,
}
