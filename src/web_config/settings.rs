//! The settings in the file of `--web.config.file`, in the format of exporter-toolkit 0.20
//! (<https://github.com/prometheus/exporter-toolkit/blob/v0.20.0/docs/web-configuration.md>).
//!
//! `docs/http.md` lists what differs.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{
    fields::{Fields, SettingError, shown},
    password::PasswordHash,
    rate_limit::RateLimit,
    tls_settings::TlsSettings,
    yaml,
};

/// The headers that can be set, and their values where only some are allowed.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
];

#[derive(Debug, Default)]
pub struct Settings {
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsSettings>,
    /// For all responses. The values consist of visible ASCII characters, spaces and tabs.
    pub(super) headers: Vec<(&'static str, String)>,
    /// If it is empty, nobody needs a password.
    pub(super) users: BTreeMap<String, PasswordHash>,
    pub(super) rate_limit: Option<RateLimit>,
    /// Settings that are accepted without the effect that they have elsewhere; a line for each.
    pub(super) notes: Vec<String>,
}

impl Settings {
    /// Paths in the text are relative to `directory`.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, SettingError> {
        let root = yaml::parse(text)?;
        let known = [
            "tls_server_config",
            "http_server_config",
            "basic_auth_users",
            "rate_limit",
        ];
        let file = Fields::of(root.as_ref(), "", &known)?;
        let mut notes = Vec::new();
        let tls = file.node("tls_server_config");
        let tls = TlsSettings::parse(tls, directory, &mut notes)?;
        let http = Fields::of(
            file.node("http_server_config"),
            "http_server_config",
            &["http2", "headers"],
        )?;
        if http.flag("http2")? == Some(true) {
            notes
                .push("http_server_config.http2 has no effect: only HTTP/1.1 is spoken".to_owned());
        }
        Ok(Self {
            tls,
            headers: headers(&http)?,
            users: users(&file)?,
            rate_limit: rate_limit(&file)?,
            notes,
        })
    }
}

fn headers(http: &Fields<'_>) -> Result<Vec<(&'static str, String)>, SettingError> {
    let names = HEADERS.map(|(name, _)| name);
    let given = Fields::of(http.node("headers"), "http_server_config.headers", &names)?;
    let mut headers = Vec::new();
    for (name, allowed) in HEADERS {
        if !given.keys().any(|key| key == name) {
            continue;
        }
        let value = given.scalar(name)?.unwrap_or_default();
        if !allowed.is_empty() && !allowed.contains(&value) {
            let problem = format!("is {:?}: use {}", shown(value), allowed.join(" or "));
            return Err(given.error(name, problem));
        }
        let is_allowed = |c: char| matches!(c, '\t' | ' '..='~');
        if !value.chars().all(is_allowed) {
            let problem = "has a character that no header can have: use visible ASCII characters";
            return Err(given.error(name, problem));
        }
        if !value.is_empty() {
            headers.push((name, value.to_owned()));
        }
    }
    Ok(headers)
}

fn users(file: &Fields<'_>) -> Result<BTreeMap<String, PasswordHash>, SettingError> {
    let given = Fields::any(file.node("basic_auth_users"), "basic_auth_users")?;
    let mut users = BTreeMap::new();
    for name in given.keys() {
        let hash = given.scalar(name)?.unwrap_or_default();
        let hash = PasswordHash::parse(hash).map_err(|problem| given.error(name, problem))?;
        users.insert(name.to_owned(), hash);
    }
    Ok(users)
}

fn rate_limit(file: &Fields<'_>) -> Result<Option<RateLimit>, SettingError> {
    let limit = Fields::of(
        file.node("rate_limit"),
        "rate_limit",
        &["interval", "burst"],
    )?;
    let interval = match limit.scalar("interval")? {
        None => Duration::ZERO,
        Some(text) => duration(text).ok_or_else(|| {
            let problem = format!("is {:?}: use a duration such as 500ms or 1s", shown(text));
            limit.error("interval", problem)
        })?,
    };
    let burst = match limit.scalar("burst")? {
        None => 0,
        Some(text) => text.parse::<u32>().map_err(|_| {
            let problem = format!("is {:?}: use a whole number from 0 up", shown(text));
            limit.error("burst", problem)
        })?,
    };
    if interval.is_zero() {
        return Ok(None);
    }
    if burst == 0 {
        let problem = "is 0, so that every request would be refused: use 1 or more";
        return Err(limit.error("burst", problem));
    }
    Ok(Some(RateLimit { interval, burst }))
}

/// As Go writes them: decimal numbers, each with a unit.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(unit_end.unwrap_or(tail.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = number.parse::<f64>().ok()? * seconds;
        total = total.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = tail;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let millis = Duration::from_millis;
        for (text, expected) in [
            ("0", Some(millis(0))),
            ("0s", Some(millis(0))),
            ("1s", Some(millis(1_000))),
            ("1.5s", Some(millis(1_500))),
            (".5s", Some(millis(500))),
            ("1m30s", Some(millis(90_000))),
            ("2h", Some(millis(7_200_000))),
            ("250ms", Some(millis(250))),
            ("1000us", Some(millis(1))),
            ("1000µs", Some(millis(1))),
            ("5ns", Some(Duration::from_nanos(5))),
            ("", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("1d", None),
            ("1s2", None),
            ("1 s", None),
            ("99999999999999999999999h", None),
        ] {
            assert_eq!(duration(text), expected, "{text:?}");
        }
    }
}
