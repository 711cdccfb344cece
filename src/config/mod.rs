//! From what was typed to settings that work: everything that can be wrong with a flag is found here, before the first
//! poll, and said in one line that names the flag, the value and the mend.

mod outputs;
mod simulation;

use std::{ffi::OsStr, path::PathBuf, sync::Arc, time::Duration};

pub use simulation::{demo, demo_exporter, simulate};

use crate::{
    alertmanager::Target,
    approval,
    cli::{EventsFlags, ImdsFlags, PollFlags, RunFlags, ScopeArg, WebFlags},
    imds::{Endpoint, cadence::IdentityTiming},
    listen::ListenAddress,
    metrics::MetricsOptions,
    otlp, simulator,
    snapshot::SeriesScope,
    time::in_words,
    web,
};

/// IMDS allows five requests a second per VM, for all its readers together.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Azure switches the feature off after a day without a request.
const MAX_INTERVAL: Duration = Duration::from_hours(1);
/// The first answer may take two minutes.
const FIRST_TIMEOUT: Duration = Duration::from_secs(130);
const MAX_TIMEOUT: Duration = Duration::from_mins(10);
/// Nothing is announced further ahead.
const MAX_LEAD_TIME: Duration = Duration::from_hours(7 * 24);

/// The versions of the Scheduled Events API, and what each hides:
/// <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#version-and-region-availability>.
pub const API_VERSIONS: [(&str, &str); 7] = [
    (
        "2017-03-01",
        "Preempt and Terminate events, Description, EventSource, DurationInSeconds",
    ),
    (
        "2017-08-01",
        "Preempt and Terminate events, Description, EventSource, DurationInSeconds",
    ),
    (
        "2017-11-01",
        "Terminate events, Description, EventSource, DurationInSeconds",
    ),
    ("2019-01-01", "Description, EventSource, DurationInSeconds"),
    ("2019-04-01", "EventSource, DurationInSeconds"),
    ("2019-08-01", "DurationInSeconds"),
    ("2020-07-01", ""),
];

/// A flag or a variable that cannot work: one line for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A flag.
    #[error("--{flag}: {why}")]
    Flag {
        /// Its name.
        flag: &'static str,
        /// What is wrong with it, and the mend.
        why: String,
    },
    /// A variable of the environment.
    #[error(transparent)]
    Variable(#[from] otlp::settings::OtlpConfigError),
}

fn wrong(flag: &'static str, why: impl Into<String>) -> ConfigError {
    ConfigError::Flag {
        flag,
        why: why.into(),
    }
}

/// How IMDS is read.
#[derive(Debug, Clone)]
pub struct Imds {
    /// Where it is.
    pub endpoint: Endpoint,
    /// The version that is asked for.
    pub api_version: &'static str,
    /// What that version hides; empty for the newest.
    pub hidden: &'static str,
    /// Time for one request.
    pub timeout: Duration,
    /// Time for one request until the first success.
    pub first_timeout: Duration,
    pub identity_timing: IdentityTiming,
    /// The name that was given.
    pub vm_name: Option<Arc<str>>,
}

/// The exporter's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it serves.
    pub listen: Vec<ListenAddress>,
    /// What it serves.
    pub web: web::WebSettings,
    /// What it reads.
    pub imds: Imds,
    /// How often.
    pub interval: Duration,
    /// What it approves.
    pub approvals: approval::ApprovalPolicy,
    /// What survives a restart, and where.
    pub state: State,
    /// Where spans are sent, if anywhere.
    pub traces: Option<otlp::settings::OtlpSettings>,
    /// Who is told of events at once.
    pub alertmanagers: Vec<Target>,
}

/// Where what is known survives a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// In this directory.
    Directory(PathBuf),
    /// Nowhere, and the operator is told what that costs.
    Memory,
    /// Nowhere, and nobody minds: in the demo.
    Forgotten,
}

/// The settings of the simulated Azure.
#[derive(Debug)]
pub struct Simulation {
    /// Where it serves.
    pub listen: ListenAddress,
    /// What it plays.
    pub simulator: simulator::SimulatorSettings,
}

impl Config {
    /// Of the exporter.
    pub fn new(flags: &RunFlags) -> Result<Self, ConfigError> {
        let listen = flags
            .web
            .listen_addresses
            .iter()
            .map(|text| listen_address(text))
            .collect::<Result<_, _>>()?;
        let imds = Imds::new(&flags.imds)?;
        Ok(Self {
            listen,
            web: web_settings(&flags.web, &flags.events)?,
            approvals: outputs::approvals(flags.approve, &imds)?,
            imds,
            interval: interval(&flags.poll)?,
            state: state(flags.state.directory.as_deref())?,
            traces: outputs::traces()?,
            alertmanagers: outputs::alertmanagers(&flags.alertmanager)?,
        })
    }
}

impl Imds {
    /// Of the flags that all readers of IMDS share.
    pub fn new(flags: &ImdsFlags) -> Result<Self, ConfigError> {
        let known = API_VERSIONS
            .into_iter()
            .find(|(version, _)| *version == flags.api_version);
        let (api_version, hidden) = known.ok_or_else(|| {
            let all = API_VERSIONS.map(|(version, _)| version).join(", ");
            wrong(
                "imds.api-version",
                format!(
                    "{:?} is no version of the Scheduled Events API: use one of {all}",
                    flags.api_version
                ),
            )
        })?;
        let endpoint = Endpoint::new(&flags.url, api_version)
            .map_err(|error| wrong("imds.url", error.to_string()))?;
        let timeout = bounded(
            "imds.timeout",
            flags.timeout,
            Duration::from_millis(1),
            MAX_TIMEOUT,
        )?;
        let vm_name = vm_name(flags.vm_name.as_deref())?;
        Ok(Self {
            endpoint,
            api_version,
            hidden,
            timeout,
            first_timeout: timeout.max(FIRST_TIMEOUT),
            identity_timing: IdentityTiming::default(),
            vm_name: vm_name.map(Arc::from),
        })
    }
}

fn vm_name(given: Option<&str>) -> Result<Option<&str>, ConfigError> {
    let name = given.map(str::trim);
    if name.is_some_and(str::is_empty) {
        let why = "is empty: give the name that Resources has for this VM, or leave the flag out";
        return Err(wrong("vm.name", why));
    }
    Ok(name)
}

/// What is exposed.
pub fn exposed(flags: &EventsFlags) -> MetricsOptions {
    let scope = match flags.scope {
        ScopeArg::Own => SeriesScope::Own,
        ScopeArg::All => SeriesScope::All,
    };
    MetricsOptions {
        scope,
        resources: flags.resources,
        process: true,
    }
}

/// systemd gives several directories separated by colons where a unit asks for several; the first is ours.
fn state(given: Option<&OsStr>) -> Result<State, ConfigError> {
    let Some(given) = given else {
        return Ok(State::Memory);
    };
    let first = match given.to_str() {
        Some(list) if cfg!(unix) => OsStr::new(list.split(':').next().unwrap_or_default()),
        _ => given,
    };
    if first.is_empty() {
        let why = "is empty: give a directory that this process may write to, or leave the flag and $STATE_DIRECTORY out";
        return Err(wrong("state.directory", why));
    }
    Ok(State::Directory(PathBuf::from(first)))
}

fn listen_address(text: &str) -> Result<ListenAddress, ConfigError> {
    text.parse()
        .map_err(|why: String| wrong("web.listen-address", why))
}

fn interval(flags: &PollFlags) -> Result<Duration, ConfigError> {
    bounded(
        "imds.poll-interval",
        flags.interval,
        MIN_INTERVAL,
        MAX_INTERVAL,
    )
}

fn bounded(
    flag: &'static str,
    given: Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration, ConfigError> {
    if given < least || given > most {
        return Err(wrong(
            flag,
            format!(
                "{} cannot work: use a duration from {} to {}",
                written(given),
                written(least),
                written(most)
            ),
        ));
    }
    Ok(given)
}

/// A duration as it could be typed.
fn written(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        in_words(duration).replace(' ', "")
    } else {
        format!("{duration:?}")
    }
}

fn web_settings(flags: &WebFlags, events: &EventsFlags) -> Result<web::WebSettings, ConfigError> {
    let path = flags.telemetry_path.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !path.starts_with('/') || !path.chars().all(is_plain) {
        return Err(wrong(
            "web.telemetry-path",
            format!("{path:?} is no path: it begins with / and has letters, digits and -_.~ only"),
        ));
    }
    let is_taken = ["/", "/healthz", "/readyz"].contains(&path)
        || ["/-/", "/api/", "/assets/"]
            .iter()
            .any(|root| path.starts_with(root));
    if is_taken {
        return Err(wrong(
            "web.telemetry-path",
            format!("{path:?} is taken by another page: use another path, such as /metrics"),
        ));
    }
    let lead_time = bounded(
        "serving.lead-time",
        flags.serving_lead_time,
        Duration::ZERO,
        MAX_LEAD_TIME,
    )?;
    Ok(web::WebSettings {
        telemetry_path: path.to_owned(),
        exposed: exposed(events),
        serving_lead_time: lead_time,
    })
}
