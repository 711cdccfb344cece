//! Errors of requests to IMDS, each with its reason and a hint for the operator.

use std::{io, time::Duration};

pub(super) use crate::outbound::error::root_cause;
use crate::{
    document::ParseError,
    outbound::error::{causes, is_tls},
    snapshot::{FailureReason, RequestError},
    text,
};

/// Why a request failed. `base` is the base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "no connection to {base}: {cause}; on an Azure VM check the route to the address and the firewall rules, in \
         Kubernetes that the pod can reach link-local addresses (hostNetwork)"
    )]
    Connect { base: String, cause: String },
    #[error("{base} closed the connection without an answer: {cause}")]
    Closed { base: String, cause: String },
    #[error("{base} answers, but not in HTTP ({cause}): something other than IMDS listens there")]
    NotHttp { base: String, cause: String },
    #[error(
        "no connection to {base} in time; is this an Azure VM? If so, check the route to the address, in Kubernetes that \
         the pod can reach link-local addresses (hostNetwork)"
    )]
    ConnectTimeout { base: String },
    #[error("no complete answer from {base} within {}", crate::time::in_words(*.after))]
    Timeout { base: String, after: Duration },
    #[error("TLS with {base} failed: {cause}; IMDS itself speaks plain http")]
    Tls { base: String, cause: String },
    /// Not followed: IMDS sends no redirects, and the `Metadata` header must not be sent elsewhere.
    #[error(
        "HTTP {status}, a redirect to {location}, is not followed: IMDS sends none, so a proxy or a captive portal answers \
         in its place"
    )]
    Redirect { status: u16, location: String },
    /// 304 to a request without `If-None-Match`.
    #[error("HTTP 304 to an unconditional request: a cache answers in place of IMDS")]
    UnexpectedNotModified,
    #[error("HTTP {status}{message}{}", client_error_hint(*.status))]
    ClientError {
        status: u16,
        /// From the body, with a leading space; may be empty.
        message: String,
    },
    /// 400 or 404 to a request for `compute`, which a classic cloud service does not have.
    #[error(
        "HTTP {status}{message}: no instance metadata for this VM, as in a classic cloud service; --vm.name sets the name \
         that Resources contain, such as Role_IN_0"
    )]
    NoInstanceMetadata {
        status: u16,
        /// From the body, with a leading space; may be empty.
        message: String,
    },
    #[error("HTTP 410: IMDS is being updated, which takes 70 seconds at most")]
    Gone,
    #[error(
        "HTTP 429: more than five requests a second by all readers on this VM together; raise the poll interval of one of them"
    )]
    Throttled { retry_after: Option<Duration> },
    #[error("HTTP {status}{message}: an IMDS fault, usually temporary{}", server_error_hint(*.status))]
    ServerError {
        status: u16,
        /// From the body, with a leading space; may be empty.
        message: String,
    },
    /// A status that IMDS never sends, such as 204.
    #[error("HTTP {status}{message} is not a status of IMDS: something else listens there")]
    ForeignStatus {
        status: u16,
        /// From the body, with a leading space; may be empty.
        message: String,
    },
    #[error("the body was truncated after {received} bytes: {cause}")]
    Truncated { received: usize, cause: String },
    #[error("the body has more than {max_bytes} bytes, the limit for IMDS")]
    TooLarge { max_bytes: usize },
    #[error("HTTP 200 with an empty body; known events are kept")]
    EmptyBody,
    #[error("the body of HTTP 200 is not JSON: {detail}")]
    Json { detail: String },
    /// JSON, but not the expected document.
    #[error("the body of HTTP 200 is JSON, but not as expected: {detail}")]
    Shape { detail: String },
}

impl Error {
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::Connect { .. } | Self::Closed { .. } | Self::NotHttp { .. } => {
                FailureReason::Connect
            }
            Self::ConnectTimeout { .. } | Self::Timeout { .. } => FailureReason::Timeout,
            Self::Tls { .. } => FailureReason::Tls,
            Self::Redirect { .. } | Self::UnexpectedNotModified => FailureReason::Redirect,
            Self::ClientError { .. } | Self::NoInstanceMetadata { .. } => FailureReason::Status4xx,
            Self::Gone => FailureReason::Gone,
            Self::Throttled { .. } => FailureReason::Throttled,
            Self::ServerError { .. } => FailureReason::Status5xx,
            Self::Truncated { .. } | Self::TooLarge { .. } | Self::EmptyBody => FailureReason::Body,
            Self::Json { .. } => FailureReason::Json,
            Self::ForeignStatus { .. } | Self::Shape { .. } => FailureReason::Shape,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Redirect { status, .. }
            | Self::ClientError { status, .. }
            | Self::NoInstanceMetadata { status, .. }
            | Self::ServerError { status, .. }
            | Self::ForeignStatus { status, .. } => Some(*status),
            Self::UnexpectedNotModified => Some(304),
            Self::Gone => Some(410),
            Self::Throttled { .. } => Some(429),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            _ => None,
        }
    }

    pub(super) fn from_parse_error(error: ParseError, body: &[u8]) -> Self {
        match error {
            ParseError::Json(detail) => Self::json("a scheduled-events document", &detail, body),
            ParseError::Shape(detail) => Self::Shape {
                detail: format!("{detail}{}", markup_hint(body)),
            },
        }
    }

    pub(super) fn json(expected: &str, detail: &str, body: &[u8]) -> Self {
        Self::Json {
            detail: format!("expected {expected}; {detail}{}", markup_hint(body)),
        }
    }

    pub(super) fn shape(expected: &str, detail: &str, body: &[u8]) -> Self {
        Self::Shape {
            detail: format!(
                "expected {expected}; {detail}; it begins {}{}",
                excerpt(&String::from_utf8_lossy(body)),
                markup_hint(body)
            ),
        }
    }

    /// Classifies a failure to open a connection.
    pub(super) fn from_connect(
        error: &(dyn std::error::Error + 'static),
        is_https: bool,
        base: String,
    ) -> Self {
        let cause = root_cause(error);
        if causes(error).any(|inner| is_tls(inner) || is_https && is_closed(inner)) {
            Self::Tls { base, cause }
        } else {
            Self::Connect { base, cause }
        }
    }

    /// Classifies a request that failed before the response headers arrived.
    pub(super) fn from_exchange(error: &hyper::Error, base: String) -> Self {
        let cause = root_cause(error);
        if causes(error).any(is_tls) {
            Self::Tls { base, cause }
        } else if error.is_parse() {
            Self::NotHttp { base, cause }
        } else {
            Self::Closed { base, cause }
        }
    }
}

impl From<&Error> for RequestError {
    fn from(error: &Error) -> Self {
        Self {
            reason: error.reason(),
            status: error.status(),
            message: error.to_string(),
            retry_after: error.retry_after(),
            is_unsent: matches!(error, Error::Connect { .. } | Error::ConnectTimeout { .. }),
        }
    }
}

/// The Metadata Security Protocol puts `GuestProxyAgent` in front of IMDS. Its statuses are those of
/// <https://github.com/Azure/GuestProxyAgent> (`proxy_server.rs`), usually with an empty body and `Connection: close`.
fn client_error_hint(status: u16) -> &'static str {
    match status {
        400 => "; check --imds.api-version",
        401 => "; IMDS asks for no credentials, so something else listens there",
        403 => {
            "; with the Metadata Security Protocol (proxyAgentSettings of the VM), GuestProxyAgent refuses this process: \
             allow its user or its executable in the access control rules of IMDS; without it, is this another cloud?"
        }
        421 => {
            "; GuestProxyAgent of the Metadata Security Protocol cannot identify the process behind this connection: the next \
             request uses a new one; if it fails too, restart GuestProxyAgent"
        }
        404 => "; is this an Azure VM, and --imds.url the address of its IMDS?",
        _ => "",
    }
}

fn server_error_hint(status: u16) -> &'static str {
    match status {
        502 | 503 => {
            "; with the Metadata Security Protocol, GuestProxyAgent cannot reach IMDS on the host: check its log if this lasts"
        }
        _ => "",
    }
}

fn markup_hint(body: &[u8]) -> &'static str {
    let is_markup = body.trim_ascii_start().starts_with(b"<");
    if is_markup {
        "; it looks like a web page: a proxy or a captive portal answers in place of IMDS"
    } else {
        ""
    }
}

/// True if the connection was closed during the handshake.
fn is_closed(error: &(dyn std::error::Error + 'static)) -> bool {
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
