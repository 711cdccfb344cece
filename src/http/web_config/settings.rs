//! The settings in the file of `--web.config.file`, in the format of exporter-toolkit 0.20
//! (<https://github.com/prometheus/exporter-toolkit/blob/v0.20.0/docs/web-configuration.md>).
//!
//! `docs/internals/exporter-toolkit.md` lists what differs.

use std::{collections::BTreeMap, path::Path};

use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use super::{
    passwords::PasswordHash,
    rate_limit::RateLimit,
    tls_settings::{TlsSection, TlsSettings},
    yaml,
};
use crate::base::text::excerpt;

/// The headers that can be set, and their values where only some are allowed.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
];
/// Longer messages are cut off.
const MAX_ERROR_CHARS: usize = 500;

#[derive(Default)]
pub(super) struct Settings {
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsSettings>,
    /// For all responses.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// If it is empty, nobody needs a password.
    pub(super) users: BTreeMap<String, PasswordHash>,
    pub(super) rate_limit: RateLimit,
    /// Settings that are accepted without the effect that they have elsewhere; a line for each.
    pub(super) notes: Vec<String>,
}

/// As in the file.
#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a mapping of keys to values"
)]
struct WebConfigFile {
    tls_server_config: Option<TlsSection>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, PasswordHash>>,
    rate_limit: Option<RateLimit>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a mapping of keys to values"
)]
struct HttpSection {
    http2: Option<bool>,
    headers: Option<BTreeMap<String, Option<String>>>,
}

impl Settings {
    /// Paths in the text are relative to `directory`.
    ///
    /// # Errors
    /// The first setting that is not valid, in one line without passwords, hashes and keys.
    pub(super) fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        let file = read(text).and_then(|file| Self::check(file, directory));
        file.map_err(|problem| excerpt(&problem, MAX_ERROR_CHARS))
    }

    fn check(file: WebConfigFile, directory: &Path) -> Result<Self, String> {
        let mut notes = Vec::new();
        let tls = file.tls_server_config.unwrap_or_default();
        let tls = tls.check(directory, &mut notes);
        let tls = tls.map_err(|problem| format!("tls_server_config.{problem}"))?;
        let http = file.http_server_config.unwrap_or_default();
        if http.http2 == Some(true) {
            notes
                .push("http_server_config.http2 has no effect: only HTTP/1.1 is spoken".to_owned());
        }
        let rate_limit = file.rate_limit.unwrap_or_default();
        if rate_limit.burst == 0 && !rate_limit.interval.is_zero() {
            let problem =
                "rate_limit.burst is 0, so that every request would be refused: use 1 or more";
            return Err(problem.to_owned());
        }
        Ok(Self {
            tls,
            headers: headers(http.headers.unwrap_or_default())
                .map_err(|problem| format!("http_server_config.headers.{problem}"))?,
            users: file.basic_auth_users.unwrap_or_default(),
            rate_limit,
            notes,
        })
    }
}

fn read(text: &str) -> Result<WebConfigFile, String> {
    let value = yaml::parse(text)?;
    // serde would read a list as the members in their order.
    if value.is_array() {
        return Err("the file is a list, and not a mapping of keys to values".to_owned());
    }
    for section in ["tls_server_config", "http_server_config", "rate_limit"] {
        if value.get(section).is_some_and(Value::is_array) {
            let problem = "is a list, and not a mapping of keys to values";
            return Err(format!("{section} {problem}"));
        }
    }
    let file: Result<Option<_>, _> = serde_path_to_error::deserialize(value);
    file.map(Option::unwrap_or_default).map_err(|error| {
        let problem = error.inner().to_string();
        // serde quotes a text where it expects something else. It may be a password.
        let expected = problem.strip_prefix("invalid type: string ");
        let expected = expected.and_then(|text| text.rsplit_once(", expected "));
        let problem = match expected {
            Some((_, expected)) => format!("a text where {expected} is expected"),
            None if problem.starts_with("invalid type: boolean")
                && problem.ends_with("a string") =>
            {
                format!("{problem}: put it in quotes")
            }
            None => problem,
        };
        match error.path().to_string().as_str() {
            "." => format!("the file: {problem}"),
            path => format!("{path}: {problem}"),
        }
    })
}

fn headers(
    given: BTreeMap<String, Option<String>>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for (name, value) in given {
        let value = value.unwrap_or_default();
        let Some((_, allowed)) = HEADERS.iter().find(|(known, _)| *known == name) else {
            let known = HEADERS.map(|(known, _)| known).join(", ");
            return Err(format!("{name} is not known: use {known}"));
        };
        if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
            let allowed = allowed.join(" or ");
            return Err(format!("{name} is {value:?}: use {allowed}"));
        }
        let (Ok(header), Ok(text)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(&value),
        ) else {
            return Err(format!(
                "{name} has a character that no header can have: use visible ASCII characters"
            ));
        };
        if !value.is_empty() {
            headers.push((header, text));
        }
    }
    Ok(headers)
}
