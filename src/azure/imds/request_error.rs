//! A failed request to IMDS: one of a closed set of reasons, and a message with a hint for the operator. `base` is the
//! base URL.

use std::{io, time::Duration};

use hyper::{
    header::{self, HeaderMap, HeaderValue},
    http::response::Parts,
};
use serde_json::Value;

use crate::{
    azure::document::ParseError,
    base::{
        label::label_values,
        text,
        time::{self, Timestamp, in_words},
    },
    http::client::{causes, is_tls, is_web_page, retry_after, root_cause, url},
};

label_values! {
    /// Why a request to IMDS failed: the closed set of values of the label `reason`.
    pub enum FailureReason {
        /// The body was truncated or too large.
        Body = "body",
        /// No connection, or a reset one.
        Connect = "connect",
        /// 410: IMDS is being updated.
        Gone = "gone",
        Json = "json",
        Redirect = "redirect",
        /// The body of a 200 is JSON but not a scheduled-events document.
        Shape = "shape",
        Status4xx = "status_4xx",
        Status5xx = "status_5xx",
        /// 429: more than five requests a second by all clients of this VM together.
        Throttled = "throttled",
        Timeout = "timeout",
        Tls = "tls",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub reason: FailureReason,
    pub status: Option<u16>,
    /// A sentence for the log and the status page.
    pub message: String,
    pub retry_after: Option<Duration>,
    /// No connection was opened, so the request was not sent.
    pub is_unsent: bool,
}

impl RequestError {
    pub(crate) fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            status: None,
            message: message.into(),
            retry_after: None,
            is_unsent: false,
        }
    }

    /// Equal for failures of one cause: a reason covers several statuses, which have different causes.
    pub(crate) fn cause(&self) -> (FailureReason, Option<u16>) {
        (self.reason, self.status)
    }

    /// Whether the request had no effect for certain: it was not sent, or a 3xx or 4xx refused it. IMDS may have acted
    /// on a request without an answer, and a 5xx may be that of a proxy in front of IMDS.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_unsent || matches!(self.status, Some(300..500))
    }

    /// Whether the same request may succeed within seconds. An unopened connection is not: IMDS is not there.
    pub(crate) fn is_temporary(&self) -> bool {
        match self.reason {
            FailureReason::Gone
            | FailureReason::Throttled
            | FailureReason::Status5xx
            | FailureReason::Body => true,
            FailureReason::Connect => !self.is_unsent,
            _ => self.status == Some(421),
        }
    }

    /// Whether the failure of a request for instance metadata is no failure of polling. Where the name of this VM is
    /// known, they only add labels; and the response is 400 or 404 in a classic cloud service, which has no `compute`.
    pub(crate) fn is_identity_unavailable(&self, is_name_known: bool) -> bool {
        is_name_known || matches!(self.status, Some(400 | 404))
    }
}

pub(super) fn connect_timeout(base: &str) -> RequestError {
    unconnected(FailureReason::Timeout, base, "no answer in time")
}

fn unconnected(reason: FailureReason, base: &str, cause: &str) -> RequestError {
    let message = format!(
        "no connection to {base}: {cause}; is this an Azure VM? If so, check the route to the address and the firewall \
         rules, in Kubernetes that the pod can reach link-local addresses (hostNetwork)"
    );
    RequestError {
        is_unsent: true,
        ..RequestError::new(reason, message)
    }
}

pub(super) fn timeout(base: &str, after: Duration) -> RequestError {
    let message = format!("no complete answer from {base} within {}", in_words(after));
    RequestError::new(FailureReason::Timeout, message)
}

pub(super) fn connect(
    error: &(dyn std::error::Error + 'static),
    is_https: bool,
    base: &str,
) -> RequestError {
    if causes(error).any(|inner| is_tls(inner) || is_https && is_closed(inner)) {
        return tls(base, error);
    }
    unconnected(FailureReason::Connect, base, &root_cause(error))
}

/// The error of a request that failed before the response headers arrived.
pub(super) fn exchange(error: &hyper::Error, base: &str) -> RequestError {
    if causes(error).any(is_tls) {
        return tls(base, error);
    }
    let cause = root_cause(error);
    let message = if error.is_parse() {
        format!(
            "{base} answers, but not in HTTP ({cause}): something other than IMDS listens there"
        )
    } else {
        format!("{base} closed the connection without an answer: {cause}")
    };
    RequestError::new(FailureReason::Connect, message)
}

fn tls(base: &str, error: &(dyn std::error::Error + 'static)) -> RequestError {
    let cause = root_cause(error);
    let message = format!("TLS with {base} failed: {cause}; IMDS itself speaks plain http");
    RequestError::new(FailureReason::Tls, message)
}

/// The request that IMDS answered: the same status means different things.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestKind<'a> {
    Events,
    Approval,
    InstanceMetadata { version: &'a str },
}

/// The error of a response with an unexpected status. `has_succeeded`: an earlier request of this kind did.
pub(super) fn status(
    response: &Parts,
    body: &[u8],
    request: RequestKind<'_>,
    has_succeeded: bool,
    now: Timestamp,
) -> RequestError {
    let status = response.status.as_u16();
    let body = ErrorBody::new(response, body);
    let hint = client_error_hint(status, &body, request, has_succeeded);
    let reason = reason(status);
    RequestError {
        status: Some(status),
        retry_after: retry_after(&response.headers, now),
        ..RequestError::new(reason, message(reason, response, &body, &hint))
    }
}

fn reason(status: u16) -> FailureReason {
    match status {
        300..=399 => FailureReason::Redirect,
        410 => FailureReason::Gone,
        429 => FailureReason::Throttled,
        400..=499 => FailureReason::Status4xx,
        500..=599 => FailureReason::Status5xx,
        _ => FailureReason::Shape,
    }
}

fn message(reason: FailureReason, response: &Parts, body: &ErrorBody, hint: &str) -> String {
    let status = response.status.as_u16();
    let shown = format!("HTTP {status}{}", body.shown);
    if let Some(cloud) = other_cloud(&response.headers) {
        return format!("HTTP {status}: this is {cloud}");
    }
    match reason {
        FailureReason::Redirect if status == 304 => {
            "HTTP 304 to an unconditional request: a cache answers in place of IMDS".to_owned()
        }
        FailureReason::Redirect => {
            let location = response.headers.get(header::LOCATION);
            let location = location.map_or("nowhere".into(), |location| {
                url::shown(&String::from_utf8_lossy(location.as_bytes()))
            });
            format!(
                "HTTP {status}, a redirect to {location}, is not followed: IMDS sends none, so a proxy or a captive portal \
                 answers in its place"
            )
        }
        _ if body.is_page => {
            format!("{shown}: a proxy or a captive portal answers in place of IMDS")
        }
        FailureReason::Gone => {
            "HTTP 410: IMDS is being updated, which takes 70 seconds at most".to_owned()
        }
        FailureReason::Throttled => {
            "HTTP 429: more than five requests a second by all readers on this VM together; raise the poll interval of one \
             of them"
                .to_owned()
        }
        FailureReason::Status4xx => shown + hint,
        FailureReason::Status5xx if matches!(status, 502 | 503) => {
            shown
                + ": an IMDS fault, usually temporary; with the Metadata Security Protocol, GuestProxyAgent cannot reach IMDS \
                   on the host: check its log if this lasts"
        }
        FailureReason::Status5xx => shown + ": an IMDS fault, usually temporary",
        _ => format!("{shown} is not a status of IMDS: something else listens there"),
    }
}

/// The error of a 200 whose body is not what was `expected`.
pub(super) fn parse(error: &ParseError, expected: &str, body: &[u8]) -> RequestError {
    let (reason, problem) = match error {
        ParseError::Json(detail) => (
            FailureReason::Json,
            format!("not JSON: expected {expected}; {detail}"),
        ),
        ParseError::Shape(detail) => (
            FailureReason::Shape,
            format!("JSON, but not as expected: {detail}"),
        ),
    };
    let hint = if is_web_page(&HeaderMap::new(), body) {
        "; it looks like a web page: a proxy or a captive portal answers in place of IMDS"
    } else {
        ""
    };
    RequestError::new(reason, format!("the body of HTTP 200 is {problem}{hint}"))
}

/// What a refusal means. The Metadata Security Protocol puts `GuestProxyAgent` in front of IMDS. Its statuses are those
/// of <https://github.com/Azure/GuestProxyAgent> (`proxy_server.rs`), usually with an empty body and `Connection: close`.
fn client_error_hint(
    status: u16,
    body: &ErrorBody,
    request: RequestKind<'_>,
    has_succeeded: bool,
) -> String {
    let hint = match (status, request) {
        (401, _) => "IMDS asks for no credentials, so something else listens there",
        (403, _) if has_succeeded => GUEST_PROXY_AGENT_REFUSES,
        (403, _) => {
            return format!("; {GUEST_PROXY_AGENT_REFUSES}; without it, is this another cloud?");
        }
        (421, _) => {
            "GuestProxyAgent of the Metadata Security Protocol cannot identify the process behind this connection: the next \
             request uses a new one; if it fails too, restart GuestProxyAgent"
        }
        _ if body.lacks_header => "a proxy removes the header \"Metadata: true\"",
        (400, RequestKind::InstanceMetadata { version }) if body.is_about_version => {
            return format!("; api-version {version} of instance metadata is refused");
        }
        (400, _) if body.is_about_version => "set --imds.api-version to a version that it has",
        (_, RequestKind::Approval) => "it refuses the approval: the event may be over",
        (400 | 404, _) if has_succeeded => {
            "the same request succeeded before, so this is usually temporary"
        }
        (400 | 404, RequestKind::InstanceMetadata { version }) => {
            return format!(
                ": no instance metadata of api-version {version} for this VM, as in a classic cloud service; --vm.name sets \
                 the name that Resources contain, such as Role_IN_0"
            );
        }
        (400, _) => "check --imds.api-version",
        (404, _) => "is this an Azure VM, and --imds.url the address of its IMDS?",
        _ => return String::new(),
    };
    format!("; {hint}")
}

const GUEST_PROXY_AGENT_REFUSES: &str = "with the Metadata Security Protocol (proxyAgentSettings of the VM), \
    GuestProxyAgent refuses this process: allow its user or its executable in the access control rules of IMDS";

pub(super) fn is_closed(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|io| {
        matches!(
            io.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
        )
    })
}

/// The beginning of untrusted text, safe for a log line.
pub(super) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    text::excerpt(text, MAX_CHARS)
}

/// Other clouds serve their metadata at the same address and identify themselves.
fn other_cloud(headers: &HeaderMap) -> Option<&'static str> {
    let server = headers.get(header::SERVER).map(HeaderValue::as_bytes);
    if headers.contains_key("Metadata-Flavor") {
        Some("the metadata server of Google Cloud")
    } else if server.is_some_and(|server| server.starts_with(b"EC2ws")) {
        Some("the metadata service of Amazon EC2")
    } else {
        None
    }
}

/// What the body of an error says. IMDS sends `{"error": TEXT}`, with `newest-versions` if the requested api-version is
/// unknown.
#[derive(Debug, Default)]
struct ErrorBody {
    /// To follow `HTTP 400`.
    shown: String,
    is_page: bool,
    is_about_version: bool,
    /// IMDS did not get the header `Metadata: true`.
    lacks_header: bool,
}

impl ErrorBody {
    fn new(response: &Parts, body: &[u8]) -> Self {
        if is_web_page(&response.headers, body) {
            return Self {
                shown: " with a web page".to_owned(),
                is_page: true,
                ..Self::default()
            };
        }
        let json = serde_json::from_slice::<Value>(body).ok();
        let text = match &json {
            Some(json) => json
                .get("error")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
            None => String::from_utf8_lossy(body),
        };
        let text = text.trim();
        let mut shown = match text {
            "" => String::new(),
            text => format!(" {:?}", excerpt(text)),
        };
        let versions = json.as_ref().and_then(|json| json.get("newest-versions"));
        if let Some(versions) = versions.filter(|versions| versions.is_array()) {
            let versions = excerpt(&versions.to_string());
            shown = format!("{shown} (newest versions: {versions})");
        }
        let text = text.to_ascii_lowercase();
        Self {
            is_about_version: versions.is_some() || text.contains("api-version"),
            lacks_header: text.contains("metadata header"),
            shown,
            is_page: false,
        }
    }
}

/// The newest version that IMDS offers in place of a refused one.
pub(super) fn offered_version(body: &[u8]) -> Option<String> {
    let json = serde_json::from_slice::<Value>(body).ok()?;
    let versions = json.get("newest-versions")?.as_array()?.iter();
    let dates = versions
        .filter_map(Value::as_str)
        .filter(|it| time::is_date(it));
    dates.max().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_offered_version_is_found_in_any_order() {
        let newest = |versions: &str| {
            offered_version(format!(r#"{{"newest-versions":{versions}}}"#).as_bytes())
        };
        let offered = r#"["2024-07-17","latest",7,"2025-04-07","2024-03-15"]"#;
        assert_eq!(newest(offered).as_deref(), Some("2025-04-07"));
        for none in ["[]", "null", r#""2025-04-07""#, r#"["../x"]"#] {
            assert_eq!(newest(none), None, "{none}");
        }
        assert_eq!(offered_version(b"<html>"), None);
    }
}
