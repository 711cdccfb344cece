//! The settings of the exporter.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    super::error::{CommandError, flag_error},
    imds::ImdsSettings,
    in_range, outputs,
};
use crate::{
    azure::imds::backoff::MIN_REQUEST_INTERVAL,
    core::approval,
    http::{listen::ListenAddress, web_config::WebConfig},
    outputs::{alertmanager::Target, metrics::MetricsOptions, otlp, web},
    program::cli::RunFlags,
};

const MAX_INTERVAL: Duration = Duration::from_hours(1);
/// Azure announces nothing further ahead.
const MAX_LEAD_TIME: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, Clone)]
pub struct Config {
    /// Empty without a server.
    pub listen: Vec<ListenAddress>,
    pub web: web::WebSettings,
    /// `None` for plain HTTP without passwords.
    pub web_config: Option<WebConfig>,
    pub imds: ImdsSettings,
    /// Between two polls.
    pub interval: Duration,
    pub approvals: approval::ApprovalPolicy,
    pub state: StateStorage,
    /// `None` if neither spans nor log records are exported.
    pub otlp: Option<otlp::settings::OtlpSettings>,
    pub alertmanagers: Vec<Target>,
    /// `--textfile.path`.
    pub textfile: Option<PathBuf>,
}

/// Where the state is kept over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateStorage {
    Directory(PathBuf),
    /// Not kept; a warning at start-up names the consequences.
    InMemory,
    /// Not kept, without a warning; used by the demo.
    Disabled,
}

impl Config {
    pub(crate) fn new(flags: &RunFlags) -> Result<Self, CommandError> {
        let listen = listen_addresses(&flags.web.listen_addresses)?;
        if flags.web.config_file.is_some() && listen.is_empty() {
            let problem = "has no effect with --web.listen-address=none: omit one of them";
            return Err(flag_error("web.config.file", problem));
        }
        let imds = ImdsSettings::new(&flags.imds)?;
        let web_config = flags.web.config_file.as_deref().map(WebConfig::open);
        let config = Self {
            web: web_settings(flags)?,
            listen,
            web_config: web_config
                .transpose()
                .map_err(|problem| flag_error("web.config.file", problem))?,
            approvals: outputs::approvals(flags.approve, &imds.api_version)?,
            imds,
            interval: in_range(
                "imds.poll-interval",
                flags.poll_interval,
                MIN_REQUEST_INTERVAL,
                MAX_INTERVAL,
            )?,
            state: state_storage(
                flags.state_directory.as_deref(),
                state_directories().as_deref(),
            )?,
            otlp: outputs::otlp()?,
            alertmanagers: outputs::alertmanagers(&flags.alertmanager)?,
            textfile: flags.textfile_path.as_deref().map(textfile).transpose()?,
        };
        let has_output = config.has_output();
        if config.listen.is_empty() && !has_output {
            let problem = "none needs another output: add --textfile.path or --alertmanager.url, or set \
                           OTEL_EXPORTER_OTLP_ENDPOINT";
            return Err(flag_error("web.listen-address", problem));
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

/// The value of `$STATE_DIRECTORY`.
#[expect(clippy::disallowed_methods, reason = "config reads the environment")]
fn state_directories() -> Option<OsString> {
    std::env::var_os("STATE_DIRECTORY")
}

/// `given` is the flag, or else the variable. In the variable, systemd separates several directories with colons; the
/// first one is used. The value of the flag is one path, which may have a colon.
fn state_storage(
    given: Option<&OsStr>,
    variable: Option<&OsStr>,
) -> Result<StateStorage, CommandError> {
    let Some(given) = given else {
        return Ok(StateStorage::InMemory);
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
    Ok(StateStorage::Directory(PathBuf::from(first)))
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
    given.iter().map(|text| listen_address(text)).collect()
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

pub(super) fn listen_address(text: &str) -> Result<ListenAddress, CommandError> {
    text.parse()
        .map_err(|problem: String| flag_error("web.listen-address", problem))
}

fn web_settings(flags: &RunFlags) -> Result<web::WebSettings, CommandError> {
    let path = flags.web.telemetry_path.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !path.starts_with('/') || !path.chars().all(is_plain) {
        let problem = format!(
            "{path:?} is not a path: it must start with / and contain only letters, digits and /-_.~"
        );
        return Err(flag_error("web.telemetry-path", problem));
    }
    let is_reserved = ["/", "/healthz", "/readyz"].contains(&path)
        || ["/-/", "/api/", "/assets/"]
            .iter()
            .any(|root| path.starts_with(root));
    if is_reserved {
        let problem =
            format!("{path:?} is reserved for another page: use another path, such as /metrics");
        return Err(flag_error("web.telemetry-path", problem));
    }
    Ok(web::WebSettings {
        telemetry_path: path.to_owned(),
        simulator_url: None,
        exposed: MetricsOptions {
            scope: flags.events.scope,
            resources: flags.events.resources,
            process: true,
        },
        serving_lead_time: in_range(
            "serving.lead-time",
            flags.web.serving_lead_time,
            Duration::ZERO,
            MAX_LEAD_TIME,
        )?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let storage = state_storage(Some(flag.as_ref()), variable.map(OsStr::new));
            assert_eq!(storage.unwrap(), StateStorage::Directory(expected.into()));
        }
        assert!(state_storage(Some(":/x".as_ref()), Some(":/x".as_ref())).is_err());
    }
}
