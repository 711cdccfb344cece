//! The base URL of IMDS, validated once, and the URLs derived from it.

use std::io;

use hyper::{Uri, http::uri::Scheme};

use crate::{
    azure::api_version::ApiVersion,
    http::client::url::{self, BaseRemedies},
};

/// The first api-version of instance metadata that is requested. They are versioned apart from scheduled events.
const INSTANCE_VERSION: &str = "2021-02-01";

/// Why a client cannot be created. The caller adds the name of the flag.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("{0}")]
    Address(String),
    /// The thread that resolves host names.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    base: String,
    pub(super) events: Uri,
    pub(super) compute: Uri,
    /// The api-version in `compute`.
    pub(super) instance_version: String,
    /// An approval names the `DocumentIncarnation`, as in all samples for the preview version
    /// (Microsoft's documentation of api-version 2017-03-01).
    pub(super) approvals_name_incarnation: bool,
}

impl Endpoint {
    /// `base` is `http://169.254.169.254` or similar, with an optional port and an optional path before `/metadata`.
    pub fn new(base: &str, api_version: &ApiVersion) -> Result<Self, EndpointError> {
        let shown = url::shown(base);
        let invalid = |why: &str| EndpointError::Address(format!("{shown:?} {why}"));
        let remedies = BaseRemedies {
            form: "write it as http://HOST or http://HOST:PORT",
            credentials: "IMDS uses none, give the base only",
            query: "give the base only, --imds.api-version sets the api-version",
        };
        let url = url::base(base, &remedies).map_err(EndpointError::Address)?;
        let path = url.path().trim_end_matches('/');
        if format!("{}/", path.to_ascii_lowercase()).contains("/metadata/") {
            return Err(invalid(
                "contains a path of IMDS: give the part before /metadata, such as http://169.254.169.254",
            ));
        }
        let join = |tail: &str, query: &[(&str, &str)]| {
            let mut url = url::under(&url, tail);
            url.query_pairs_mut().extend_pairs(query);
            let uri = url.as_str().parse::<Uri>();
            uri.map_err(|error| invalid(&format!("is not a valid address ({error})")))
        };
        Ok(Self {
            base: shown.clone(),
            events: join(
                "/metadata/scheduledevents",
                &[("api-version", api_version.name())],
            )?,
            compute: join(
                "/metadata/instance/compute",
                &[("api-version", INSTANCE_VERSION), ("format", "json")],
            )?,
            instance_version: INSTANCE_VERSION.to_owned(),
            approvals_name_incarnation: api_version.is_preview(),
        })
    }

    /// Requests another version of instance metadata. Returns whether it is another one.
    pub(super) fn set_instance_version(&mut self, version: String) -> bool {
        let parameter = |version: &str| format!("?api-version={version}&");
        let old = parameter(&self.instance_version);
        let compute = self.compute.to_string().replace(&old, &parameter(&version));
        match compute.parse() {
            Ok(compute) if compute != self.compute => {
                self.compute = compute;
                self.instance_version = version;
                true
            }
            _ => false,
        }
    }

    /// For messages: without secrets.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn is_https(&self) -> bool {
        self.events.scheme() == Some(&Scheme::HTTPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base: &str, version: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::new(base, &ApiVersion::parse(version).unwrap())
    }

    #[test]
    fn urls_are_those_documented_by_microsoft() {
        let endpoint = endpoint("http://169.254.169.254", "2020-07-01").unwrap();
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
        let endpoint = endpoint("http://127.0.0.1:8080/vm/7/", "2017-08-01").unwrap();
        assert_eq!(
            endpoint.events.to_string(),
            "http://127.0.0.1:8080/vm/7/metadata/scheduledevents?api-version=2017-08-01"
        );
        assert_eq!(endpoint.base(), "http://127.0.0.1:8080");
    }

    #[test]
    fn an_invalid_base_is_rejected_with_a_hint() {
        for (base, expected) in [
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
            let error = endpoint(base, "2020-07-01").unwrap_err().to_string();
            assert!(error.contains(expected), "{base}: {error}");
        }
    }
}
