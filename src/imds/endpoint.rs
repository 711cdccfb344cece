//! Where IMDS is: the base address as it was given, checked once, and the addresses that are asked.

use hyper::{Uri, http::uri::Scheme};

use crate::outbound::url::{self, UrlError};

/// The api-version of instance metadata; its versions are not those of scheduled events.
const INSTANCE_VERSION: &str = "2021-02-01";

/// Why no client could be made. The flag that is at fault is the caller's to name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The address cannot be one of IMDS.
    #[error("{0}")]
    Address(String),
    /// The HTTP client could not be made: for `https`, where the system has no certificate authorities.
    #[error(
        "no client for {address} could be made: {cause}; an https address needs the system's certificate authorities \
         (package ca-certificates, or SSL_CERT_FILE)"
    )]
    Client {
        /// The base address.
        address: String,
        /// What the HTTP library said.
        cause: String,
    },
}

/// The addresses of one IMDS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    base: String,
    pub(super) events: Uri,
    pub(super) compute: Uri,
}

impl Endpoint {
    /// From a base such as `http://169.254.169.254`, also with a port or a path before `/metadata`.
    pub fn new(base: &str, api_version: &str) -> Result<Self, SetupError> {
        let wrong = |why: &str| SetupError::Address(format!("{base:?} {why}"));
        let url = url::base(base).map_err(|error| {
            let hint = match error {
                UrlError::Syntax(_) | UrlError::Scheme => {
                    "write it as http://HOST or http://HOST:PORT"
                }
                UrlError::Query => "give the base alone, the api-version has a flag of its own",
                UrlError::Credentials => "IMDS knows none, give the base alone",
            };
            wrong(&format!("{error}: {hint}"))
        })?;
        let path = url.path().trim_end_matches('/');
        if format!("{}/", path.to_ascii_lowercase()).contains("/metadata/") {
            return Err(wrong(
                "ends in a path of IMDS: give what stands before /metadata, such as http://169.254.169.254",
            ));
        }
        let under = |tail: &str, query: &[(&str, &str)]| {
            let mut asked = url::under(&url, tail);
            asked.query_pairs_mut().extend_pairs(query);
            let asked = asked.as_str().parse::<Uri>();
            asked.map_err(|error| wrong(&format!("is no address that can be asked ({error})")))
        };
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            events: under("/metadata/scheduledevents", &[("api-version", api_version)])?,
            compute: under(
                "/metadata/instance/compute",
                &[("api-version", INSTANCE_VERSION), ("format", "json")],
            )?,
        })
    }

    /// The base as it was given.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether a TLS handshake comes before the first byte.
    pub fn is_https(&self) -> bool {
        self.events.scheme() == Some(&Scheme::HTTPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_those_that_microsoft_documents() {
        let endpoint = Endpoint::new("http://169.254.169.254", "2020-07-01").unwrap();
        assert_eq!(
            endpoint.events.to_string(),
            "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
        );
        assert_eq!(
            endpoint.compute.to_string(),
            "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01&format=json"
        );
    }

    #[test]
    fn a_base_may_have_a_port_and_a_path() {
        let endpoint = Endpoint::new("http://127.0.0.1:8080/vm/7/", "2017-08-01").unwrap();
        assert_eq!(
            endpoint.events.to_string(),
            "http://127.0.0.1:8080/vm/7/metadata/scheduledevents?api-version=2017-08-01"
        );
        assert_eq!(endpoint.base(), "http://127.0.0.1:8080/vm/7");
    }

    #[test]
    fn a_base_that_cannot_work_is_refused_with_its_mend() {
        for (base, said) in [
            ("169.254.169.254", "http://HOST"),
            ("localhost:80", "neither http nor https"),
            ("ftp://127.0.0.1", "neither http nor https"),
            ("http://", "is not a URL"),
            ("http://127.0.0.1/?api-version=x", "has a query"),
            ("http://me:secret@127.0.0.1", "user name"),
            (
                "http://169.254.169.254/metadata/scheduledevents",
                "before /metadata",
            ),
            ("http://169.254.169.254/metadata", "before /metadata"),
            ("http://169.254.169.254/Metadata/", "before /metadata"),
        ] {
            let refused = Endpoint::new(base, "2020-07-01").unwrap_err().to_string();
            assert!(refused.contains(said), "{base}: {refused}");
        }
    }
}
