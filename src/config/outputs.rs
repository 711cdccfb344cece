//! What leaves this process beside answers: spans, approvals, alerts.

use std::time::Duration;

use super::{ConfigError, Imds, bounded, wrong};
use crate::{
    alertmanager::{Credentials, Target},
    approval,
    cli::{AlertmanagerFlags, ApproveFlags},
    otlp,
};

/// A freeze takes seconds; what is announced to last longer is none to be waved through.
const MAX_FREEZE: Duration = Duration::from_mins(10);
/// The shortest notice of what can be approved is 10 minutes, an order's at most 15: a later backup would never act.
const MAX_DELAY: Duration = Duration::from_mins(15);

/// OpenTelemetry is configured by its own variables alone.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that reads the environment"
)]
pub(super) fn traces() -> Result<Option<otlp::settings::OtlpSettings>, ConfigError> {
    Ok(otlp::settings::OtlpSettings::from_env(|name| {
        std::env::var(name).ok()
    })?)
}

/// What may be approved. A flag that would never do anything is refused: whoever gives it believes that it does.
pub(super) fn approvals(
    flags: ApproveFlags,
    imds: &Imds,
) -> Result<approval::ApprovalPolicy, ConfigError> {
    let hides = |field: &str| imds.hidden.contains(field);
    let too_old = |field: &str| {
        format!(
            "cannot work with --imds.api-version={}, which hides {field}: use 2020-07-01",
            imds.api_version
        )
    };
    let is_on = flags.user_events || flags.freeze_below.is_some();
    let idle = "does nothing by itself: give --approve.user-events or --approve.freeze-below too, or leave it out";
    if !is_on && flags.delay.is_some() {
        return Err(wrong("approve.delay", idle));
    }
    if !is_on && flags.dry_run {
        return Err(wrong("approve.dry-run", idle));
    }
    if flags.user_events && hides("EventSource") {
        return Err(wrong("approve.user-events", too_old("EventSource")));
    }
    if flags.freeze_below.is_some() && hides("DurationInSeconds") {
        return Err(wrong("approve.freeze-below", too_old("DurationInSeconds")));
    }
    let freeze_below = flags.freeze_below.map(|below| {
        let least = Duration::from_millis(1);
        bounded("approve.freeze-below", below, least, MAX_FREEZE)
    });
    let delay = flags.delay.unwrap_or(approval::DELAY);
    Ok(approval::ApprovalPolicy {
        user_events: flags.user_events,
        freeze_below: freeze_below.transpose()?,
        delay: bounded("approve.delay", delay, Duration::ZERO, MAX_DELAY)?,
        dry_run: flags.dry_run,
    })
}

pub(super) fn alertmanagers(flags: &AlertmanagerFlags) -> Result<Vec<Target>, ConfigError> {
    let files = [
        ("alertmanager.basic-auth-file", &flags.basic_auth_file),
        ("alertmanager.bearer-token-file", &flags.bearer_token_file),
        ("alertmanager.ca-file", &flags.ca_file),
    ];
    if flags.urls.is_empty()
        && let Some((flag, _)) = files.into_iter().find(|(_, file)| file.is_some())
    {
        let why = "does nothing by itself: give --alertmanager.url too, or leave it out";
        return Err(wrong(flag, why));
    }
    let credentials = flags
        .basic_auth_file
        .clone()
        .map(Credentials::Basic)
        .or(flags.bearer_token_file.clone().map(Credentials::Bearer));
    let target = |url: &String| {
        let target = Target::new(url).map_err(|why| wrong("alertmanager.url", why.to_string()))?;
        Ok(target
            .with_credentials(credentials.clone())
            .with_authorities(flags.ca_file.clone()))
    };
    flags.urls.iter().map(target).collect()
}
