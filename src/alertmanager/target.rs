//! Where an Alertmanager is, how it is convinced that we may push, and whom we trust to be it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Url;

use crate::outbound::{
    error::root_cause,
    http,
    url::{self, UrlError},
};

/// An Alertmanager that takes longer to be reached gets another try.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Why no Alertmanager could be pushed to, ever: one line that names flag, value and mend.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The address cannot be one of an Alertmanager.
    #[error("{0}")]
    Address(String),
    /// A file that is needed cannot be used.
    #[error("--{flag}: {} {why}", path.display())]
    File {
        /// Which flag names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The HTTP client could not be made: for `https`, where the system has no certificate authorities.
    #[error(
        "--alertmanager.url: no client for {address} could be made: {cause}; an https address needs the system's certificate \
         authorities (package ca-certificates, or SSL_CERT_FILE) or --alertmanager.ca-file"
    )]
    Client {
        /// The address as it was given.
        address: String,
        /// What the HTTP library said.
        cause: String,
    },
}

/// The file that says who we are. Read again for each push, so that a secret can be changed under a running exporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// `user:password`.
    Basic(PathBuf),
    /// A token.
    Bearer(PathBuf),
}

/// One Alertmanager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As it was given, without what may be secret.
    pub(super) base: String,
    /// Where alerts are posted.
    pub(super) alerts: Url,
    /// Who we are.
    pub(super) credentials: Option<Credentials>,
    /// Whom we trust in place of the system's authorities.
    ca_file: Option<PathBuf>,
}

impl Target {
    /// From a base such as `http://alertmanager:9093`, also with a path before `/api`.
    pub fn new(base: &str) -> Result<Self, SetupError> {
        let wrong = |why: String| SetupError::Address(format!("{base:?} {why}"));
        let url = url::base(base).map_err(|error| match error {
            UrlError::Credentials => SetupError::Address(format!(
                "{error}, which every user of this VM could read: use --alertmanager.basic-auth-file"
            )),
            UrlError::Query => wrong(format!("{error}: give the base alone")),
            _ => wrong(format!("{error}: write it as http://HOST:9093")),
        })?;
        let alerts = url::under(&url, "/api/v2/alerts");
        if url.path().contains("/api/") {
            return Err(wrong(
                "ends in a path of the API: give what stands before /api, such as http://HOST:9093"
                    .to_owned(),
            ));
        }
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            alerts,
            credentials: None,
            ca_file: None,
        })
    }

    /// The same, convinced by `credentials`.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Option<Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// The same, trusted for the authorities in this file alone.
    #[must_use]
    pub fn with_authorities(mut self, ca_file: Option<PathBuf>) -> Self {
        self.ca_file = ca_file;
        self
    }

    /// A client for it. Proxies are used as the environment says (`HTTPS_PROXY`, `NO_PROXY`): an Alertmanager, unlike
    /// IMDS, may well be behind one.
    pub(super) fn client(&self) -> Result<reqwest::Client, SetupError> {
        if let Some(credentials) = &self.credentials {
            credentials.read().map_err(|why| SetupError::File {
                flag: credentials.flag(),
                path: credentials.path().to_owned(),
                why,
            })?;
        }
        let builder = http::client(&self.alerts, self.ca_file.as_deref()).map_err(|cause| {
            SetupError::File {
                flag: "alertmanager.ca-file",
                path: self.ca_file.clone().unwrap_or_default(),
                why: cause.to_string(),
            }
        })?;
        let builder = builder.connect_timeout(CONNECT_TIMEOUT);
        builder.build().map_err(|error| SetupError::Client {
            address: self.base.clone(),
            cause: root_cause(&error),
        })
    }
}

impl Credentials {
    fn flag(&self) -> &'static str {
        match self {
            Self::Basic(_) => "alertmanager.basic-auth-file",
            Self::Bearer(_) => "alertmanager.bearer-token-file",
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Basic(path) | Self::Bearer(path) => path,
        }
    }

    /// What is in the file, without the end of the line. Never part of an error.
    pub(super) fn read(&self) -> Result<Secret, String> {
        let text = fs::read_to_string(self.path())
            .map_err(|error: io::Error| format!("cannot be read: {error}"))?;
        let text = text.trim();
        match self {
            Self::Basic(_) => {
                let (user, password) = text
                    .split_once(':')
                    .ok_or("does not hold USER:PASSWORD in one line")?;
                Ok(Secret::Basic(user.to_owned(), password.to_owned()))
            }
            Self::Bearer(_) if text.is_empty() => {
                Err("is empty: write the token into it".to_owned())
            }
            Self::Bearer(_) => Ok(Secret::Bearer(text.to_owned())),
        }
    }
}

/// What is not to be printed; hence no `Debug` that shows it.
pub(super) enum Secret {
    Basic(String, String),
    Bearer(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_posted_under_the_base_also_with_a_path() {
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
    fn an_address_that_cannot_work_is_refused_with_its_mend() {
        for (base, said) in [
            ("alertmanager:9093", "neither http nor https"),
            ("http://", "is no URL"),
            ("http://127.0.0.1:9093/api/v2/alerts", "before /api"),
            ("http://127.0.0.1:9093/?x=1", "a query"),
            ("http://me:secret@127.0.0.1:9093", "basic-auth-file"),
        ] {
            let refused = Target::new(base).unwrap_err().to_string();
            assert!(refused.contains(said), "{base}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_flag() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let target = Target::new("https://127.0.0.1:9093").unwrap();
        for (target, said) in [
            (
                target.clone().with_authorities(Some(absent.clone())),
                "--alertmanager.ca-file",
            ),
            (
                target
                    .clone()
                    .with_credentials(Some(Credentials::Basic(absent.clone()))),
                "--alertmanager.basic-auth-file",
            ),
            (
                target.with_credentials(Some(Credentials::Bearer(absent))),
                "--alertmanager.bearer-token-file",
            ),
        ] {
            let refused = target.client().unwrap_err().to_string();
            assert!(
                refused.starts_with(said) && refused.contains("absent cannot be read"),
                "{refused}"
            );
        }
    }
}
