//! Settings of what the exporter sends: spans and log records, approvals and alerts.

use std::{collections::BTreeMap, env, time::Duration};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::{
    super::{CommandError, flag_error},
    DELAYS,
};
use crate::{
    azure::api_version::{ApiVersion, EventField, LATEST_API_VERSION},
    base::{
        text::{excerpt, label_value},
        time::format_duration,
    },
    core::approval,
    http::client::is_own_header,
    outputs::{
        alertmanager::{ClientCertificate, Credentials, Target, TlsFiles},
        due_alerts::ALERT_LABELS,
        otlp::settings::OtlpSettings,
    },
    program::cli::{AlertmanagerFlags, ApproveFlags, ApproveFor},
};

const MAX_SHOWN_NAME: usize = 80;

#[expect(
    clippy::disallowed_methods,
    reason = "config reads the environment for the modules below"
)]
pub(super) fn otlp() -> Result<Option<OtlpSettings>, CommandError> {
    let not_utf8 = env::vars_os()
        .filter(|(_, value)| value.to_str().is_none())
        .filter_map(|(name, _)| name.into_string().ok())
        .find(|name| name.to_ascii_uppercase().starts_with("OTEL_"));
    if let Some(variable) = not_utf8 {
        let problem = "the value is not valid UTF-8; set it to text or unset it";
        return Err(CommandError::usage(format!("{variable}: {problem}")));
    }
    // Only an unset variable is an error here.
    let settings = OtlpSettings::from_env(|name| env::var(name).ok());
    settings.map_err(CommandError::usage)
}

/// Refuses flags that have no effect with this version of the API.
pub(super) fn approvals(
    flags: ApproveFlags,
    api_version: &ApiVersion,
) -> Result<approval::ApprovalPolicy, CommandError> {
    let require = |flag, field: EventField| {
        if api_version.has_field(field) {
            return Ok(());
        }
        let problem = format!(
            "cannot be used with --imds.api-version={}, which has no {}: use {LATEST_API_VERSION}",
            api_version.name(),
            field.as_str()
        );
        Err(flag_error(flag, problem))
    };
    let for_group = flags.approve_for == ApproveFor::Group;
    if flags.user_events {
        require("approve.user-events", EventField::EventSource)?;
    }
    if flags.freeze_below.is_some() {
        require("approve.freeze-below", EventField::DurationInSeconds)?;
    }
    let (delay, drain) = delay_and_drain(flags)?;
    Ok(approval::ApprovalPolicy {
        user_events: flags.user_events,
        for_group,
        freeze_below: flags.freeze_below,
        delay,
        drain,
        dry_run: flags.dry_run,
    })
}

fn delay_and_drain(flags: ApproveFlags) -> Result<(Duration, Duration), CommandError> {
    let delay = flags.delay.unwrap_or(approval::DELAY);
    let drain = flags.drain.unwrap_or_default();
    let (delay_text, drain_text) = (format_duration(delay), format_duration(drain));
    let max = *DELAYS.end();
    if delay + drain > max {
        let problem = format!(
            "{drain_text} and --approve.delay={delay_text} are longer together than any notice: use at most {} for both",
            format_duration(max)
        );
        return Err(flag_error("approve.drain", problem));
    }
    if flags.approve_for == ApproveFor::Group && !drain.is_zero() && delay <= drain {
        let problem = format!(
            "{delay_text} is not longer than --approve.drain={drain_text}, so that with --approve.for=group this VM would \
             approve an event while the VM that it names is draining: use a longer delay"
        );
        return Err(flag_error("approve.delay", problem));
    }
    Ok((delay, drain))
}

pub(super) fn alertmanagers(flags: &AlertmanagerFlags) -> Result<Vec<Target>, CommandError> {
    let (labels, headers) = (external_labels(&flags.external_labels)?, headers(flags)?);
    let files = TlsFiles {
        ca: flags.ca_file.clone(),
        client: client_certificate(flags)?,
    };
    let credentials = flags
        .basic_auth_file
        .clone()
        .map(Credentials::Basic)
        .or(flags.bearer_token_file.clone().map(Credentials::Bearer));
    let mut named = BTreeMap::new();
    let target = |url: &String| {
        let mut target = Target::new(url).map_err(CommandError::usage)?;
        let number = named.entry(target.name.clone()).or_insert(0);
        *number += 1;
        if *number > 1 {
            target.name = format!("{} ({number})", target.name);
        }
        target.labels.clone_from(&labels);
        target.credentials.clone_from(&credentials);
        target.files.clone_from(&files);
        target.headers.clone_from(&headers);
        Ok(target)
    };
    flags.urls.iter().map(target).collect()
}

/// The flags name both files or neither.
fn client_certificate(
    flags: &AlertmanagerFlags,
) -> Result<Option<ClientCertificate>, CommandError> {
    let files = flags.cert_file.clone().zip(flags.key_file.clone());
    if files.is_some() && !flags.urls.iter().any(|url| url.starts_with("https:")) {
        let problem = "has no effect with http: write --alertmanager.url with https, or omit it";
        return Err(flag_error("alertmanager.cert-file", problem));
    }
    Ok(files.map(|(certificate, key)| ClientCertificate { certificate, key }))
}

/// The values of `--alertmanager.header` are secrets and in no message.
fn headers(flags: &AlertmanagerFlags) -> Result<HeaderMap, CommandError> {
    let mut headers = HeaderMap::new();
    for (index, flag) in flags.headers.iter().enumerate() {
        let error = |shown: &str, problem: &str| {
            let problem = format!("{shown} {problem}");
            Err(flag_error("alertmanager.header", problem))
        };
        let Some((name, value)) = flag.split_once(':') else {
            let shown = format!("number {}", index + 1);
            return error(
                &shown,
                "has no colon: write it as NAME: VALUE, such as X-Scope-OrgID: team-1",
            );
        };
        let shown = format!("{:?}", excerpt(name, MAX_SHOWN_NAME));
        let Ok(name) = HeaderName::try_from(name.trim()) else {
            return error(
                &shown,
                "is no name of a header: use letters, digits and hyphens",
            );
        };
        if name == AUTHORIZATION
            && (flags.basic_auth_file.is_some() || flags.bearer_token_file.is_some())
        {
            return error(
                &shown,
                "is set by the file with the credentials: give one of them",
            );
        }
        if is_own_header(&name) {
            return error(&shown, "cannot be set: it belongs to the transport");
        }
        let value = HeaderValue::try_from(value.trim())
            .ok()
            .filter(|value| !value.is_empty());
        let Some(mut value) = value else {
            return error(&shown, "has no value, or one with control characters");
        };
        value.set_sensitive(true);
        if headers.insert(name, value).is_some() {
            return error(&shown, "was given before: give each name once");
        }
    }
    Ok(headers)
}

fn external_labels(flags: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut labels = BTreeMap::new();
    for flag in flags {
        let error = |problem: &str| {
            let problem = format!("{flag:?} {problem}");
            Err(flag_error("alertmanager.external-label", problem))
        };
        let Some((name, value)) = flag.split_once('=') else {
            return error("has no value: write it as NAME=VALUE, such as cluster=eu-1");
        };
        let problem = if name.is_empty() {
            "has no name: write it as NAME=VALUE, such as cluster=eu-1"
        } else if name.starts_with("__") || ALERT_LABELS.contains(&name) {
            "has a reserved name: use another one"
        } else if value.is_empty() {
            "has an empty value: omit it, because an empty label is an absent one"
        } else if label_value(name) != name || label_value(value) != value {
            "has control characters, or more than 256 characters in its name or value"
        } else if labels.insert(name.to_owned(), value.to_owned()).is_some() {
            "has a name that was given before: give each name once"
        } else {
            continue;
        };
        return error(problem);
    }
    Ok(labels)
}
