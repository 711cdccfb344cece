//! The settings in the file of `--web.config.file`, in the format of exporter-toolkit 0.20
//! (<https://github.com/prometheus/exporter-toolkit/blob/v0.20.0/docs/web-configuration.md>).
//!
//! `docs/internals/exporter-toolkit.md` lists what differs.

use std::{collections::BTreeMap, path::Path};

use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS, X_XSS_PROTECTION,
};
use serde::{Deserialize, de::IgnoredAny};
use yaml_serde::Value;

use super::{
    passwords,
    tls_settings::{TlsSection, TlsSettings},
};
use crate::base::text::excerpt;

/// The headers that can be set, and their values where only some are allowed.
const HEADERS: [(&str, HeaderName, &[&str]); 5] = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY, &[]),
    ("Strict-Transport-Security", STRICT_TRANSPORT_SECURITY, &[]),
    (
        "X-Content-Type-Options",
        X_CONTENT_TYPE_OPTIONS,
        &["nosniff"],
    ),
    ("X-Frame-Options", X_FRAME_OPTIONS, &["deny", "sameorigin"]),
    ("X-XSS-Protection", X_XSS_PROTECTION, &[]),
];
/// Longer messages are cut off.
const MAX_ERROR_CHARS: usize = 500;

#[derive(Default)]
pub(super) struct Settings {
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsSettings>,
    /// For all responses.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Names with hashes of bcrypt. If it is empty, nobody needs a password.
    pub(super) users: BTreeMap<String, String>,
    /// Settings that are accepted without the effect that they have elsewhere; a line for each.
    pub(super) notes: Vec<&'static str>,
}

/// As in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct WebConfigFile {
    tls_server_config: Option<TlsSection>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, String>>,
    rate_limit: Option<RateLimitSection>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct HttpSection {
    /// A flag in any form of YAML 1.1, such as `no`.
    http2: Option<String>,
    headers: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct RateLimitSection {
    #[serde(rename = "interval")]
    _interval: IgnoredAny,
    #[serde(rename = "burst")]
    _burst: IgnoredAny,
}

impl Settings {
    /// Paths in the text are relative to `directory`.
    ///
    /// # Errors
    /// The first setting that is not valid, in one line without passwords and hashes.
    pub(super) fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        let file = read(text).and_then(|file| Self::check(file, directory));
        file.map_err(|problem| excerpt(&problem, MAX_ERROR_CHARS))
    }

    fn check(file: WebConfigFile, directory: &Path) -> Result<Self, String> {
        let tls = file.tls_server_config.unwrap_or_default();
        let http = file.http_server_config.unwrap_or_default();
        let users = file.basic_auth_users.unwrap_or_default();
        for (name, hash) in &users {
            passwords::check_hash(hash)
                .map_err(|problem| format!("basic_auth_users.{name}: {problem}"))?;
        }
        let mut notes = Vec::new();
        let is_on = |flag: String| !["false", "no", "off", "n"].contains(&&*flag.to_lowercase());
        if http.http2.is_some_and(is_on) {
            notes.push("http_server_config.http2 has no effect: only HTTP/1.1 is spoken");
        }
        if file.rate_limit.is_some() {
            notes.push("rate_limit has no effect: requests are not counted");
        }
        Ok(Self {
            tls: tls
                .check(directory)
                .map_err(|problem| format!("tls_server_config.{problem}"))?,
            headers: headers(http.headers.unwrap_or_default())
                .map_err(|problem| format!("http_server_config.headers.{problem}"))?,
            users,
            notes,
        })
    }
}

fn read(text: &str) -> Result<WebConfigFile, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // A `Value` has no key twice; the last of two users with one name would be taken otherwise.
    let file = yaml_serde::from_str::<Value>(text).and_then(|_| yaml_serde::from_str(text));
    file.map(Option::unwrap_or_default).map_err(|error| {
        let problem = error.to_string();
        // serde quotes the value that has another type than expected. It may be a password.
        let quoted = problem.split_once("invalid type: ");
        match quoted.zip(problem.rsplit_once(", expected ")) {
            Some(((path, _), (_, expected))) => format!("{path}not {expected}"),
            None => problem,
        }
    })
}

fn headers(
    given: BTreeMap<String, Option<String>>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for (name, value) in given {
        let value = value.unwrap_or_default();
        let known = HEADERS.into_iter().find(|(known, ..)| *known == name);
        let Some((_, header, allowed)) = known else {
            let known = HEADERS.map(|(known, ..)| known).join(", ");
            return Err(format!("{name} is not known: use {known}"));
        };
        if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
            let allowed = allowed.join(" or ");
            return Err(format!("{name} is {value:?}: use {allowed}"));
        }
        let text = HeaderValue::from_str(&value)
            .map_err(|_| format!("{name} has a character that is not visible ASCII"))?;
        if !value.is_empty() {
            headers.push((header, text));
        }
    }
    Ok(headers)
}
