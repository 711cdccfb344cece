//! The log lines of the start.

use std::{net::TcpListener, path::Path};

use tracing::{info, warn};

use crate::{
    azure::api_version::RequestedVersion,
    base::{log_id, time::format_duration},
    core::{engine::SavedState, snapshot::SeriesScope},
    http::{client::proxy, web_config::WebConfig},
    program::config::Config,
};

pub(super) fn starting(config: &Config) {
    let imds = &config.imds;
    info!(
        name: log_id::STARTING,
        version = env!("CARGO_PKG_VERSION"),
        revision = env!("BUILD_REVISION"),
        imds_url = imds.endpoint.base(),
        api_version = &*imds.api_version.name,
        poll_interval = format_duration(config.interval),
        vm_name = imds.vm_name.as_deref().unwrap_or("(from instance metadata)"),
        events_scope = match config.web.exposed.scope {
            SeriesScope::Own => "self",
            SeriesScope::All => "all",
        },
        approvals = %config.approvals,
        alertmanagers = config.alertmanagers.len(),
        "starting"
    );
    log_api_version(&imds.api_version);
    for ignored in config.otlp.iter().flat_map(|settings| &settings.ignored) {
        warn!("{ignored}");
    }
    if config.otlp.is_some() || !config.alertmanagers.is_empty() {
        for (variable, proxy) in proxy::variables() {
            if let Some(proxy) = proxy {
                info!(variable, proxy, "proxy variable is set");
            } else {
                warn!(variable, "variable is not the URL of an HTTP proxy");
            }
        }
    }
    for note in config.web_config.iter().flat_map(WebConfig::notes) {
        warn!("{note}");
    }
}

fn log_api_version(version: &RequestedVersion) {
    if !version.is_documented() {
        warn!(
            api_version = &*version.name,
            treated_as = version.documented.name,
            "api-version not documented: event types and fields assumed as in a documented version"
        );
    }
    let missing = version.documented.missing();
    if !missing.is_empty() {
        warn!(
            api_version = &*version.name,
            missing, "old api-version: event types and fields are missing"
        );
    }
}

pub(super) fn listening(
    listeners: &[TcpListener],
    telemetry_path: &str,
    web_config: Option<&WebConfig>,
) {
    for listener in listeners {
        info!(
            address = address(listener),
            telemetry_path,
            tls = web_config.is_some_and(WebConfig::is_tls),
            password = web_config.is_some_and(WebConfig::has_users),
            "listening"
        );
    }
}

fn address(listener: &TcpListener) -> String {
    let address = listener.local_addr();
    address.map_or_else(|_| String::new(), |it| it.to_string())
}

pub(super) fn simulating(listener: &TcpListener) {
    let address = address(listener);
    info!(
        page = format!("http://{address}/"),
        imds_url = format!("http://{address}"),
        "simulator started"
    );
}

pub(super) fn memory_only() {
    warn!(
        "no state directory (--state.directory or $STATE_DIRECTORY): tracked events are lost when this process ends, so the \
         interruption by a reboot is not measured, and an event that ends meanwhile is not reported as ended"
    );
}

pub(super) fn restored(path: &Path, saved: &SavedState, rebooted: bool) {
    info!(
        path = %path.display(),
        events = saved.events.len(),
        heartbeat = saved.heartbeat_at.rfc3339(),
        rebooted,
        "restored state"
    );
}

pub(super) fn unreadable_state(path: &Path, why: &str) {
    warn!(path = %path.display(), why, "state file unreadable: starting without it");
}

pub(super) fn demo(listeners: &[TcpListener], config: &Config, azure_url: &str) {
    let is_tls = config.web_config.as_ref().is_some_and(WebConfig::is_tls);
    let scheme = if is_tls { "https" } else { "http" };
    for address in listeners.iter().map(address) {
        info!(
            page = format!("{scheme}://{address}/"),
            metrics = format!("{scheme}://{address}/metrics"),
            simulated_azure = format!("{azure_url}/"),
            "demo started: open the page, stop with Ctrl-C"
        );
    }
}
