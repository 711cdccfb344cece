//! An Alertmanager: its URL, credentials and certificate authorities.

use std::time::Duration;

use reqwest::{Url, header::HeaderMap};

use crate::{
    base::backoff::backoff,
    http::client::{
        ClientOptions, Credentials, build_client, proxy,
        resolver::Resolver,
        tls::TlsFiles,
        url::{self, BaseRemedies},
    },
    outputs::due_alerts::Labels,
};

/// How long a connection may take: less than the push timeout, so that an unreachable address is reported as such.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

const FILE_FLAGS: [&str; 3] = [
    "--alertmanager.ca-file",
    "--alertmanager.cert-file",
    "--alertmanager.key-file",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its URL for messages and metrics, without secrets; with a number if another one has the same.
    pub(crate) name: String,
    /// Where alerts are posted.
    pub(super) alerts: Url,
    /// What is asked at the start.
    pub(super) status: Url,
    pub credentials: Option<Credentials>,
    pub(crate) labels: Labels,
    pub timing: PushTiming,
    pub files: TlsFiles,
    /// Sent with each request; the values are secrets.
    pub headers: HeaderMap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushTiming {
    /// The time between two pushes of all alerts.
    pub resend_interval: Duration,
    /// The time to the next attempt after a failed push; each further failure doubles it.
    pub retry_interval: Duration,
    /// The longest time to the next attempt, also if `Retry-After` asks for a longer one.
    pub max_retry_interval: Duration,
    pub push_timeout: Duration,
}

impl Default for PushTiming {
    fn default() -> Self {
        Self {
            resend_interval: Duration::from_secs(30),
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
    /// Makes the Alertmanager of a base URL such as `http://alertmanager:9093`, with or without a path before `/api`.
    ///
    /// # Errors
    /// When it is not such a URL: one line that names flag, value and remedy.
    pub fn new(base: &str) -> Result<Self, String> {
        let error = |why: String| format!("--alertmanager.url: {why}");
        let remedies = BaseRemedies {
            form: "write it as http://HOST:9093",
            credentials: "every user of this VM could read them, use --alertmanager.basic-auth-file",
            query: "give the base alone",
        };
        let shown = url::shown(base);
        let url = url::base(base, &remedies).map_err(error)?;
        let path = url.path().trim_end_matches('/');
        let names = ["/alerts", "/status"].into_iter();
        let api = names.fold(path, |path, name| path.strip_suffix(name).unwrap_or(path));
        if ["/api", "/api/v1", "/api/v2"]
            .iter()
            .any(|end| api.ends_with(end))
        {
            return Err(error(format!(
                "{shown:?} ends in a path of the API: give what stands before /api, such as http://HOST:9093"
            )));
        }
        Ok(Self {
            alerts: url::under(&url, "/api/v2/alerts"),
            status: url::under(&url, "/api/v2/status"),
            credentials: None,
            labels: Labels::new(),
            timing: PushTiming::default(),
            files: TlsFiles::default(),
            headers: HeaderMap::new(),
            name: shown,
        })
    }

    /// The proxy for messages, without secrets.
    pub(super) fn shown_proxy(&self) -> Option<String> {
        proxy::of(&self.alerts).as_ref().map(proxy::shown)
    }

    /// Unlike IMDS, an Alertmanager may be behind a proxy: proxies of the environment are used.
    pub(super) fn client(&self, resolver: Resolver) -> Result<reqwest::Client, String> {
        if let Some(credentials) = &self.credentials {
            let flag = match credentials {
                Credentials::Basic(_) => "--alertmanager.basic-auth-file",
                Credentials::Bearer(_) => "--alertmanager.bearer-token-file",
            };
            let header = credentials.header();
            header.map_err(|why| format!("{flag}: {why}"))?;
        }
        let options = ClientOptions {
            url: &self.alerts,
            files: &self.files,
            file_settings: FILE_FLAGS,
            proxy: proxy::of(&self.alerts),
            resolver,
            is_http2: false,
            connect_timeout: CONNECT_TIMEOUT,
        };
        build_client(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("http://127.0.0.1:9093", "http://127.0.0.1:9093"),
            ("http://127.0.0.1:9093/", "http://127.0.0.1:9093"),
            ("https://example.com/am/", "https://example.com/am"),
            ("https://h/api/prom/am", "https://h/api/prom/am"),
            ("https://h/api/v1/am/", "https://h/api/v1/am"),
        ] {
            let expected = format!("{expected}/api/v2/alerts");
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
            ("http://127.0.0.1:9093/s3cr3ts3cr3t/api/v2", "before /api"),
            ("http://127.0.0.1:9093/api/v2/status/", "before /api"),
            ("http://127.0.0.1:9093/api/", "before /api"),
        ] {
            let error = Target::new(base).unwrap_err();
            assert!(error.contains(expected), "{base}: {error}");
            assert!(
                !error.contains("secret") && !error.contains("s3cr3t"),
                "{error}"
            );
        }
    }
}
