//! What the response of an Alertmanager means.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, StatusCode};

use crate::{
    base::time::Timestamp,
    http::client::{
        causes, describe, is_tls, is_web_page, read_up_to, redirect, retry_after, root_cause,
        url::Secrets,
    },
};

/// Bytes that are read of a response that explains an error.
const MAX_ERROR_BODY: usize = 4 << 10;
/// Characters of it that are logged.
const MAX_MESSAGE: usize = 300;

/// Why a request failed.
#[derive(Debug)]
pub(super) struct RequestFailure {
    /// The cause and the remedy, without secrets.
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
}

impl From<String> for RequestFailure {
    fn from(message: String) -> Self {
        Self {
            message,
            retry_after: None,
        }
    }
}

/// The beginning of the body. Any status but 2xx is an error, and so is a web page.
pub(super) async fn read(
    sent: Result<Response, reqwest::Error>,
    secrets: &Secrets,
    now: Timestamp,
) -> Result<Bytes, RequestFailure> {
    let mut response = sent.map_err(|error| {
        let is_refused = !error.is_connect() && causes(&error).any(is_tls);
        let remedy = "; if it asks for a client certificate, set --alertmanager.cert-file";
        root_cause(&error.without_url()) + if is_refused { remedy } else { "" }
    })?;
    let body = read_up_to(&mut response, MAX_ERROR_BODY).await;
    let status = response.status();
    let is_web_page = is_web_page(response.headers(), &body);
    if status.is_success() && !is_web_page {
        return Ok(body);
    }
    let remedy = if is_web_page {
        "a web page is no answer of an Alertmanager, but that of a proxy or another server: check --alertmanager.url"
    } else {
        remedy(status)
    };
    let message = match redirect(response.url(), status, response.headers()) {
        Some(target) => format!("HTTP {status} to {target}"),
        None => describe(status, &body, MAX_MESSAGE, secrets),
    };
    let separator = if remedy.is_empty() { "" } else { "; " };
    Err(RequestFailure {
        message: format!("{message}{separator}{remedy}"),
        retry_after: retry_after(response.headers(), now),
    })
}

fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => {
            "redirects are not followed: give --alertmanager.url as it is behind the redirect"
        }
        401 | 403 => {
            "check --alertmanager.basic-auth-file, --alertmanager.bearer-token-file or --alertmanager.header"
        }
        404 | 405 => "--alertmanager.url must have the path that stands before /api/v2",
        _ => "",
    }
}
