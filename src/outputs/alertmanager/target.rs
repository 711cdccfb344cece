//! An Alertmanager: its URL, credentials and certificate authorities.

use std::{path::PathBuf, time::Duration};

use reqwest::Url;

use super::alert::Labels;
use crate::{
    base::backoff::backoff,
    http::client::{
        credentials::Credentials,
        error::root_cause,
        http,
        resolver::Resolver,
        url::{self, UrlError},
    },
};

/// Less than the push timeout, so that an unreachable address is reported as such.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Why an Alertmanager can never be reached: one line that names flag, value and remedy.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{0}")]
    Address(String),
    #[error("--{flag}: {} {why}", path.display())]
    File {
        flag: &'static str,
        path: PathBuf,
        why: String,
    },
    /// For `https`, where the system has no certificate authorities.
    #[error(
        "--alertmanager.url: no client for {address} could be made: {cause}; an https address needs the system's certificate \
         authorities (package ca-certificates, or SSL_CERT_FILE) or --alertmanager.ca-file"
    )]
    Client { address: String, cause: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// For messages: without secrets.
    pub(super) base: String,
    /// Where alerts are posted.
    pub(super) alerts: Url,
    pub credentials: Option<Credentials>,
    /// Added to each alert.
    pub(crate) labels: Labels,
    pub timing: PushTiming,
    /// Replaces the system's authorities.
    pub ca_file: Option<PathBuf>,
}

/// When alerts are pushed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushTiming {
    /// Between two pushes of an alert that fires.
    pub resend_interval: Duration,
    /// Polls that have failed for this long may hide the end of an event.
    pub blind_after: Duration,
    /// From the end of an event to the push that resolves its alert. Until then Alertmanager shows how it ended. Longer
    /// than Prometheus can send the alert: 150 s after the last evaluation before the scrape that sees the end, for
    /// scrapes once a minute and evaluations every 30 s (150 + 60 + 30 s). A later message of Prometheus would fire the
    /// alert again.
    pub resolve_after: Duration,
    /// After a failed push; each further one doubles it.
    pub retry_interval: Duration,
    /// Upper bound of that, and of a `Retry-After`.
    pub max_retry_interval: Duration,
    pub push_timeout: Duration,
}

impl Default for PushTiming {
    fn default() -> Self {
        Self {
            resend_interval: Duration::from_secs(30),
            blind_after: Duration::from_mins(1),
            resolve_after: Duration::from_mins(4),
            retry_interval: Duration::from_secs(1),
            max_retry_interval: Duration::from_secs(30),
            push_timeout: Duration::from_secs(4),
        }
    }
}

impl PushTiming {
    /// The time until the next push, after this number of consecutive failures.
    pub(super) fn retry_delay(&self, retry_after: Option<Duration>, failures: u32) -> Duration {
        let (first, max) = (self.retry_interval, self.max_retry_interval);
        match retry_after {
            Some(delay) => delay.min(max),
            None => backoff(first, max, failures, fastrand::f64()),
        }
    }
}

impl Target {
    /// From a base such as `http://alertmanager:9093`, optionally with a path before `/api`.
    pub fn new(base: &str) -> Result<Self, TargetError> {
        let shown = url::redacted(base);
        let error = |why: String| TargetError::Address(format!("{shown:?} {why}"));
        let url = url::base(base).map_err(|cause| match cause {
            UrlError::Credentials => TargetError::Address(format!(
                "{cause}, which every user of this VM could read: use --alertmanager.basic-auth-file"
            )),
            UrlError::Query => error(format!("{cause}: give the base alone")),
            UrlError::Syntax(_) | UrlError::Scheme => {
                error(format!("{cause}: write it as http://HOST:9093"))
            }
        })?;
        let alerts = url::under(&url, "/api/v2/alerts");
        if url.path().contains("/api/") {
            let why =
                "ends in a path of the API: give what stands before /api, such as http://HOST:9093";
            return Err(error(why.to_owned()));
        }
        Ok(Self {
            base: shown,
            alerts,
            credentials: None,
            labels: Labels::new(),
            timing: PushTiming::default(),
            ca_file: None,
        })
    }

    /// Unlike IMDS, an Alertmanager may be behind a proxy: proxies of the environment are used.
    pub(super) fn client(&self, resolver: Resolver) -> Result<reqwest::Client, TargetError> {
        if let Some(credentials) = &self.credentials {
            credentials.header().map_err(|why| TargetError::File {
                flag: flag(credentials),
                path: credentials.path().to_owned(),
                why,
            })?;
        }
        let builder = http::client(&self.alerts, self.ca_file.as_deref(), resolver);
        let builder = builder.map_err(|why| TargetError::File {
            flag: "alertmanager.ca-file",
            path: self.ca_file.clone().unwrap_or_default(),
            why,
        })?;
        let built = builder.connect_timeout(CONNECT_TIMEOUT).build();
        built.map_err(|error| TargetError::Client {
            address: self.base.clone(),
            cause: root_cause(&error),
        })
    }
}

fn flag(credentials: &Credentials) -> &'static str {
    match credentials {
        Credentials::Basic(_) => "alertmanager.basic-auth-file",
        Credentials::Bearer(_) => "alertmanager.bearer-token-file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::worker::Worker;

    #[test]
    fn failed_pushes_are_retried_within_a_second_at_first_and_within_30_seconds_later() {
        let timing = PushTiming::default();
        for (failures, max) in [(1, 1), (2, 2), (5, 16), (6, 30), (u32::MAX, 30)] {
            let (delay, max) = (timing.retry_delay(None, failures), Duration::from_secs(max));
            assert!((max / 2..=max).contains(&delay), "{failures}: {delay:?}");
        }
        for (requested, expected) in [(1, 1), (20, 20), (86_400, 30)] {
            let delay = timing.retry_delay(Some(Duration::from_secs(requested)), 1);
            assert_eq!(delay, Duration::from_secs(expected));
        }
    }

    #[test]
    fn alerts_are_posted_below_the_base_path() {
        for (base, expected) in [
            (
                "http://127.0.0.1:9093",
                "http://127.0.0.1:9093/api/v2/alerts",
            ),
            (
                "http://127.0.0.1:9093/",
                "http://127.0.0.1:9093/api/v2/alerts",
            ),
            (
                "https://example.com/am/",
                "https://example.com/am/api/v2/alerts",
            ),
        ] {
            assert_eq!(Target::new(base).unwrap().alerts.as_str(), expected);
        }
    }

    #[test]
    fn invalid_address_is_rejected_with_a_remedy() {
        for (base, expected) in [
            ("alertmanager:9093", "neither http nor https"),
            ("http://", "is not a URL"),
            ("http://127.0.0.1:9093/api/v2/alerts", "before /api"),
            ("http://127.0.0.1:9093/?x=1", "a query"),
            ("http://me:secret@127.0.0.1:9093", "basic-auth-file"),
            ("me:secret@127.0.0.1:9093", "is neither http nor https"),
            ("http://me:secret@127.0.0.1:port", "is not a URL"),
            ("http://127.0.0.1:9093/secret/api/v2", "before /api"),
        ] {
            let error = Target::new(base).unwrap_err().to_string();
            assert!(error.contains(expected), "{base}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn unusable_file_is_named_with_its_flag() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let target = Target::new("https://127.0.0.1:9093").unwrap();
        let mut with_authorities = target.clone();
        with_authorities.ca_file = Some(absent.clone());
        let mut with_password = target.clone();
        with_password.credentials = Some(Credentials::Basic(absent.clone()));
        let mut with_token = target;
        with_token.credentials = Some(Credentials::Bearer(absent));
        for (target, expected) in [
            (with_authorities, "--alertmanager.ca-file"),
            (with_password, "--alertmanager.basic-auth-file"),
            (with_token, "--alertmanager.bearer-token-file"),
        ] {
            let resolver = Resolver::new(Worker::start("test").unwrap());
            let error = target.client(resolver).unwrap_err().to_string();
            assert!(
                error.starts_with(expected) && error.contains("absent cannot be read"),
                "{error}"
            );
        }
    }
}
