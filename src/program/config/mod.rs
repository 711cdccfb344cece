//! Resolves flags and environment variables to settings.
//!
//! All invalid values are found here, before the first poll. Each error is one line that names the flag, the value and
//! a valid alternative.

mod output_settings;

use std::{
    ffi::{OsStr, OsString},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{CommandError, flag_error};
use crate::{
    azure::{
        api_version::{ApiVersion, LATEST_API_VERSION},
        imds::{Endpoint, identity::PARTIAL_INTERVAL, poll_timing::MIN_REQUEST_INTERVAL},
    },
    base::time::{format_duration, parse_duration},
    core::approval,
    http::{listen::ListenAddress, web_config::WebConfig},
    outputs::{alertmanager::Target, due_alerts::OWNER_LABEL, metrics::MetricsOptions, otlp, web},
    program::cli::{DemoFlags, ImdsFlags, RunFlags, SimulatorFlags},
    simulator::{Scenario, Vm},
};

pub(crate) const POLL_INTERVALS: Durations = MIN_REQUEST_INTERVAL..=Duration::from_hours(1);
/// Azure announces nothing further ahead than a week.
pub(crate) const LEAD_TIMES: Durations = Duration::ZERO..=Duration::from_hours(7 * 24);
pub(crate) const TIMEOUTS: Durations = Duration::from_millis(1)..=Duration::from_mins(10);
/// A freeze usually takes seconds; longer ones need a decision by an operator.
pub(crate) const FREEZES: Durations = Duration::from_millis(1)..=Duration::from_mins(10);
/// Events that can be approved have a notice of 10 to 15 minutes: an approval after that has no effect.
pub(crate) const DELAYS: Durations = Duration::ZERO..=Duration::from_mins(15);
/// Up to the shortest of these notices: a longer drain would never end before `NotBefore`.
pub(crate) const DRAINS: Durations = Duration::ZERO..=Duration::from_mins(10);
/// The first response after Scheduled Events was enabled may take two minutes.
const MIN_FIRST_TIMEOUT: Duration = Duration::from_secs(130);

type Durations = RangeInclusive<Duration>;

#[derive(Debug, Clone)]
pub struct Config {
    /// Empty without a server.
    pub listen: Vec<ListenAddress>,
    pub web: web::WebSettings,
    /// `None` for plain HTTP without passwords.
    pub web_config: Option<WebConfig>,
    pub imds: ImdsSettings,
    pub interval: Duration,
    pub approvals: approval::ApprovalPolicy,
    /// The state directory; `None` keeps the state in memory.
    pub state: Option<PathBuf>,
    /// `None` if neither spans nor log records are exported.
    pub otlp: Option<otlp::settings::OtlpSettings>,
    pub alertmanagers: Vec<Target>,
    pub textfile: Option<PathBuf>,
    pub owner_tag: Option<Arc<str>>,
    /// In place of where the operating system has it.
    pub kvp_pool_file: Option<PathBuf>,
}

impl Config {
    pub(crate) fn new(flags: &RunFlags) -> Result<Self, CommandError> {
        let listen = listen_addresses(&flags.web.listen_addresses)?;
        let web = &flags.web;
        for (flag, is_set) in [
            ("web.config.file", web.config_file.is_some()),
            ("web.telemetry-path", web.telemetry_path != "/metrics"),
            (
                "serving.lead-time",
                web.serving_lead_time != Duration::from_mins(5),
            ),
        ] {
            if is_set && listen.is_empty() {
                let problem = "has no effect with --web.listen-address=none: omit one of them";
                return Err(flag_error(flag, problem));
            }
        }
        let imds = ImdsSettings::new(&flags.imds)?;
        let web_config = flags.web.config_file.as_deref().map(WebConfig::open);
        let config = Self {
            web: web::WebSettings {
                telemetry_path: flags.web.telemetry_path.clone(),
                simulator: None,
                exposed: MetricsOptions {
                    scope: flags.events.scope,
                    resources: flags.events.resources,
                    process: true,
                },
                serving_lead_time: flags.web.serving_lead_time,
            },
            listen,
            web_config: web_config
                .transpose()
                .map_err(|problem| flag_error("web.config.file", problem))?,
            approvals: output_settings::approvals(flags.approve, &imds.api_version)?,
            imds,
            interval: flags.poll_interval,
            state: state_directory(
                flags.state_directory.as_deref(),
                state_directories().as_deref(),
            )?,
            otlp: output_settings::otlp()?,
            alertmanagers: output_settings::alertmanagers(&flags.alertmanager)?,
            textfile: flags.textfile_path.as_deref().map(textfile).transpose()?,
            owner_tag: flags.owner_tag.clone(),
            kvp_pool_file: flags.kvp_pool_file.clone(),
        };
        if config.listen.is_empty() && !config.has_output() {
            let problem = "none needs another output: add --textfile.path or --alertmanager.url, or set \
                           OTEL_EXPORTER_OTLP_ENDPOINT (without OTEL_SDK_DISABLED=true)";
            return Err(flag_error("web.listen-address", problem));
        }
        let mut targets = config.alertmanagers.iter();
        if config.owner_tag.is_some() && targets.any(|it| it.labels.contains_key(OWNER_LABEL)) {
            let problem = "owner is the label of --vm.owner-tag: omit one of them";
            return Err(flag_error("alertmanager.external-label", problem));
        }
        Ok(config)
    }

    fn has_output(&self) -> bool {
        let mut otlp = self.otlp.iter();
        otlp.any(|settings| !settings.exporters.is_empty())
            || self.textfile.is_some()
            || !self.alertmanagers.is_empty()
    }
}

#[expect(clippy::disallowed_methods, reason = "config reads the environment")]
fn state_directories() -> Option<OsString> {
    std::env::var_os("STATE_DIRECTORY")
}

/// `given` is the flag, or else the variable. In the variable, systemd separates several directories with colons; the
/// first one is used. The value of the flag is one path, which may have a colon.
fn state_directory(
    given: Option<&OsStr>,
    variable: Option<&OsStr>,
) -> Result<Option<PathBuf>, CommandError> {
    let Some(given) = given else {
        return Ok(None);
    };
    let first = match given.to_str() {
        Some(list) if cfg!(unix) && Some(given) == variable => {
            OsStr::new(list.split(':').next().unwrap_or_default())
        }
        _ => given,
    };
    if first.is_empty() {
        let problem = "is empty: use a directory that this process can write to, or omit the flag and $STATE_DIRECTORY";
        return Err(flag_error("state.directory", problem));
    }
    Ok(Some(PathBuf::from(first)))
}

/// `none` stands for no address.
fn listen_addresses(given: &[String]) -> Result<Vec<ListenAddress>, CommandError> {
    let is_none = |text: &String| text.eq_ignore_ascii_case("none");
    if given.iter().any(is_none) {
        if given.len() > 1 {
            let problem = "none excludes all addresses: omit it, or give it alone";
            return Err(flag_error("web.listen-address", problem));
        }
        return Ok(Vec::new());
    }
    let parse = |text: &String| {
        text.parse()
            .map_err(|problem: String| flag_error("web.listen-address", problem))
    };
    given.iter().map(parse).collect()
}

fn textfile(path: &Path) -> Result<PathBuf, CommandError> {
    if path.extension().is_none_or(|extension| extension != "prom") {
        let problem = format!(
            "node_exporter does not read {}: use a name that ends in .prom",
            path.display()
        );
        return Err(flag_error("textfile.path", problem));
    }
    Ok(path.to_owned())
}

pub(crate) fn duration_in(
    range: Durations,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let duration = parse_duration(text)?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (min, max) = (
            format_duration(*range.start()),
            format_duration(*range.end()),
        );
        Err(format!("out of range: use a duration from {min} to {max}"))
    }
}

pub(crate) fn telemetry_path(path: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !path.starts_with('/') || !path.chars().all(is_plain) {
        return Err("it must start with / and contain only letters, digits and /-_.~");
    }
    let mut roots = ["/-/", "/api/", "/assets/"].into_iter();
    if ["/", "/healthz", "/readyz"].contains(&path) || roots.any(|root| path.starts_with(root)) {
        return Err("it is reserved for another page: use another path, such as /metrics");
    }
    Ok(path.to_owned())
}

pub(crate) fn api_version(date: &str) -> Result<ApiVersion, String> {
    ApiVersion::parse(date).ok_or_else(|| {
        format!(
            "it is not a date as YYYY-MM-DD: use a version of the Scheduled Events API, such as {LATEST_API_VERSION}"
        )
    })
}

pub(crate) fn vm_name(name: &str) -> Result<Arc<str>, &'static str> {
    match name.trim() {
        "" => Err("it is empty: use the name of this VM in Resources, or omit the flag"),
        name => Ok(Arc::from(name)),
    }
}

/// By Azure's limits:
/// <https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations>.
pub(crate) fn owner_tag(name: &str) -> Result<Arc<str>, &'static str> {
    if name.is_empty()
        || name.chars().count() > 512
        || name.contains(['<', '>', '%', '&', '\\', '?', '/'])
    {
        return Err(r"no tag has this name: use 1 to 512 characters without <>%&\?/");
    }
    Ok(Arc::from(name))
}

pub(crate) fn speed(factor: &str) -> Result<f64, &'static str> {
    let speed = factor.parse().ok();
    speed
        .filter(|speed| (0.01..=100_000.0).contains(speed))
        .ok_or("use a factor from 0.01 to 100000")
}

/// Settings of all commands that read IMDS.
#[derive(Debug, Clone)]
pub struct ImdsSettings {
    pub endpoint: Endpoint,
    pub api_version: ApiVersion,
    /// Per request.
    pub timeout: Duration,
    /// Per poll that follows timeouts (`imds::poll_timing::PollTimeouts`).
    pub first_timeout: Duration,
    pub partial_identity_interval: Duration,
    pub vm_name: Option<Arc<str>>,
}

impl ImdsSettings {
    pub(crate) fn new(flags: &ImdsFlags) -> Result<Self, CommandError> {
        let endpoint = Endpoint::new(&flags.url, &flags.api_version)
            .map_err(|error| flag_error("imds.url", error.to_string()))?;
        Ok(Self {
            endpoint,
            api_version: flags.api_version.clone(),
            timeout: flags.timeout,
            first_timeout: flags.timeout.max(MIN_FIRST_TIMEOUT),
            partial_identity_interval: PARTIAL_INTERVAL,
            vm_name: flags.vm_name.clone(),
        })
    }
}

#[derive(Debug)]
pub struct Simulation {
    pub(crate) listen: ListenAddress,
    pub(crate) vm: Vm,
    pub(crate) speed: f64,
    pub(crate) scenarios: Vec<Scenario>,
}

/// The simulator of `demo`, with the address of the exporter.
pub(crate) fn demo(flags: &DemoFlags) -> Result<Simulation, CommandError> {
    let simulation = simulate(&flags.listen_address, &flags.simulator)?;
    if !simulation.listen.is_loopback() {
        let problem = format!(
            "\"{}\" is not a loopback address: the demo serves on loopback only, such as 127.0.0.1:10169",
            simulation.listen
        );
        return Err(flag_error("web.listen-address", problem));
    }
    Ok(simulation)
}

/// The exporter of `demo`, which polls the simulator at `imds_url`. What has no flag of `demo` is as in `exporter`.
pub(crate) fn demo_exporter(
    flags: DemoFlags,
    mut exporter: RunFlags,
    imds_url: String,
) -> Result<Config, CommandError> {
    exporter.web.listen_addresses = vec![flags.listen_address.to_string()];
    exporter.web.config_file = flags.web_config_file;
    let simulator_url = format!("{imds_url}/").into_boxed_str();
    exporter.imds.url = imds_url;
    exporter.imds.api_version = flags.api_version;
    exporter.events = flags.events;
    exporter.alertmanager = flags.alertmanager;
    exporter.state_directory = None;
    let mut config = Config::new(&exporter)?;
    config.state = None;
    config.web.simulator = Some((simulator_url, flags.simulator.speed));
    Ok(config)
}

pub(crate) fn simulate(
    listen: &ListenAddress,
    flags: &SimulatorFlags,
) -> Result<Simulation, CommandError> {
    let load = |scenario: &String| {
        let loaded = if scenario.contains(['/', '\\', '.']) {
            Scenario::load(Path::new(scenario))
        } else {
            Scenario::named(scenario)
        };
        loaded.map_err(|problem| flag_error("scenario", problem))
    };
    let (name, scale_set) = (flags.vm_name.as_deref(), flags.scale_set.as_deref());
    Ok(Simulation {
        listen: listen.clone(),
        vm: Vm::new(name, scale_set, flags.os_type),
        speed: flags.speed,
        scenarios: flags.scenarios.iter().map(load).collect::<Result<_, _>>()?,
    })
}

/// Refuses relative paths in the flags of the Windows service: a service starts in the system directory, and not where it was installed from.
#[cfg(any(windows, test))]
pub(crate) fn check_service_paths(flags: &RunFlags) -> Result<(), CommandError> {
    let alertmanager = &flags.alertmanager;
    let state_directory = flags.state_directory.clone().map(PathBuf::from);
    let paths = [
        ("web.config.file", &flags.web.config_file),
        (
            "alertmanager.basic-auth-file",
            &alertmanager.basic_auth_file,
        ),
        (
            "alertmanager.bearer-token-file",
            &alertmanager.bearer_token_file,
        ),
        ("alertmanager.ca-file", &alertmanager.ca_file),
        ("alertmanager.cert-file", &alertmanager.cert_file),
        ("alertmanager.key-file", &alertmanager.key_file),
        ("state.directory", &state_directory),
        ("textfile.path", &flags.textfile_path),
        ("vm.kvp-pool-file", &flags.kvp_pool_file),
    ];
    for (flag, path) in paths {
        if let Some(path) = path.as_ref().filter(|path| !path.is_absolute()) {
            let problem = format!(
                "\"{}\" is relative, and a service starts in the system directory: use an absolute path",
                path.display()
            );
            return Err(flag_error(flag, problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::program::cli::Cli;

    const ROOT: &str = if cfg!(windows) { r"C:\" } else { "/" };

    fn check(flag: &str, value: &str) -> Result<(), String> {
        // The two are given together.
        let mut files = vec!["alertmanager.cert-file", "alertmanager.key-file"];
        files.retain(|file| *file != flag);
        let arguments = files.iter().map(|file| format!("--{file}={ROOT}etc"));
        let given = ["exporter", "--alertmanager.url=https://h"].map(str::to_owned);
        let arguments = given.into_iter().chain(arguments);
        let cli = Cli::try_parse_from(arguments.chain([format!("--{flag}={value}")])).unwrap();
        check_service_paths(&cli.run).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_needs_absolute_paths() {
        for flag in [
            "web.config.file",
            "state.directory",
            "alertmanager.basic-auth-file",
            "alertmanager.bearer-token-file",
            "alertmanager.ca-file",
            "alertmanager.cert-file",
            "alertmanager.key-file",
            "textfile.path",
            "vm.kvp-pool-file",
        ] {
            assert_eq!(check(flag, &format!("{ROOT}etc")), Ok(()));
            let error = check(flag, "etc/file").unwrap_err();
            assert!(
                error.starts_with(&format!("--{flag}: \"etc/file\" is relative")),
                "{error}"
            );
        }
        assert_eq!(check("log.level", "info"), Ok(()));
    }

    #[test]
    #[cfg(unix)]
    fn colon_divides_the_variable_of_systemd_and_not_the_flag() {
        for (flag, variable, expected) in [
            ("/x/a:b", None, "/x/a:b"),
            ("/x/a:b", Some("/var/lib/x"), "/x/a:b"),
            (
                "/var/lib/x:/var/lib/y",
                Some("/var/lib/x:/var/lib/y"),
                "/var/lib/x",
            ),
            ("/var/lib/x", Some("/var/lib/x"), "/var/lib/x"),
        ] {
            let directory = state_directory(Some(flag.as_ref()), variable.map(OsStr::new));
            assert_eq!(directory.unwrap(), Some(expected.into()));
        }
        assert!(state_directory(Some(":/x".as_ref()), Some(":/x".as_ref())).is_err());
    }
}
