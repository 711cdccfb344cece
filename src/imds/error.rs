//! What can go wrong between us and IMDS, each with its reason and with what a person can do.

use std::{io, time::Duration};

pub(super) use crate::outbound::error::root_cause;
use crate::{
    document::ParseError,
    outbound::error::{causes, is_tls},
    snapshot::{FailureReason, RequestError},
    text,
};

/// Why a request got no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody listens, or there is no way there.
    #[error(
        "no connection to {base}: {cause}; on an Azure VM check the route to the address and that no firewall rule stops it, \
         in Kubernetes that the pod may reach link-local addresses (hostNetwork)"
    )]
    Connect {
        /// The base address.
        base: String,
        /// What the system said.
        cause: String,
    },
    /// The connection was cut before the answer.
    #[error("{base} closed the connection without an answer: {cause}")]
    Closed {
        /// The base address.
        base: String,
        /// What the system said.
        cause: String,
    },
    /// What answers there does not speak HTTP.
    #[error("{base} answers, but not in HTTP ({cause}): something other than IMDS listens there")]
    NotHttp {
        /// The base address.
        base: String,
        /// What the HTTP library said.
        cause: String,
    },
    /// Not even a connection in time.
    #[error(
        "no connection to {base} in time; is this an Azure VM? If so, check the route to the address, in Kubernetes that the \
         pod may reach link-local addresses (hostNetwork)"
    )]
    ConnectTimeout {
        /// The base address.
        base: String,
    },
    /// No whole answer in time.
    #[error("{base} gave no whole answer within {}", crate::time::in_words(*.after))]
    Timeout {
        /// The base address.
        base: String,
        /// The time it had.
        after: Duration,
    },
    /// No TLS connection.
    #[error("TLS with {base} failed: {cause}; IMDS itself speaks plain http")]
    Tls {
        /// The base address.
        base: String,
        /// What the TLS library said.
        cause: String,
    },
    /// A redirect. It is not followed: whoever sends one is not IMDS, and the header that opens IMDS must not leave.
    #[error(
        "HTTP {status}, a redirect to {location}, is not followed: IMDS sends none, so a proxy or a captive portal answers \
         in its place"
    )]
    Redirect {
        /// The status code.
        status: u16,
        /// Where it points, shortened.
        location: String,
    },
    /// 304, although nothing was said that could be unchanged.
    #[error(
        "HTTP 304, but no document was asked about: a cache between us and IMDS answers in its place"
    )]
    UnaskedNotModified,
    /// 400, 403, 404, 405 and so on.
    #[error("HTTP {status}{said}{}", client_error_mend(*.status))]
    ClientError {
        /// The status code.
        status: u16,
        /// What the body said, as a part of a sentence; may be empty.
        said: String,
    },
    /// 410.
    #[error("HTTP 410: IMDS is being updated, which takes 70 seconds at most")]
    Gone,
    /// 429.
    #[error(
        "HTTP 429: more than five requests a second by all readers on this VM together; raise the poll interval of one of them"
    )]
    Throttled {
        /// The pause that was asked for.
        retry_after: Option<Duration>,
    },
    /// 500 and so on.
    #[error("HTTP {status}{said}: a fault of IMDS, which usually passes")]
    ServerError {
        /// The status code.
        status: u16,
        /// What the body said, as a part of a sentence; may be empty.
        said: String,
    },
    /// A status that IMDS never sends, such as 204.
    #[error("HTTP {status}{said} is no answer of IMDS: something else listens there")]
    ForeignStatus {
        /// The status code.
        status: u16,
        /// What the body said, as a part of a sentence; may be empty.
        said: String,
    },
    /// The body stopped before its end.
    #[error("the body was cut off after {received} bytes: {cause}")]
    Truncated {
        /// How much came.
        received: usize,
        /// What the system said.
        cause: String,
    },
    /// The body is too large to be one of IMDS.
    #[error("the body has more than {cap} bytes, which no document of IMDS has")]
    TooLarge {
        /// The most that is read.
        cap: usize,
    },
    /// A 200 with nothing in it, which changes nothing yet.
    #[error("HTTP 200 with an empty body; what was known stays as it is")]
    EmptyBody,
    /// The body of a 200 is no JSON.
    #[error("the answer of HTTP 200 is no JSON: {detail}")]
    Json {
        /// What is wrong.
        detail: String,
    },
    /// The body of a 200 is JSON of another kind.
    #[error("the answer of HTTP 200 is JSON, but not what was asked for: {detail}")]
    Shape {
        /// What is wrong.
        detail: String,
    },
}

impl Error {
    /// The class that is counted.
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::Connect { .. } | Self::Closed { .. } | Self::NotHttp { .. } => {
                FailureReason::Connect
            }
            Self::ConnectTimeout { .. } | Self::Timeout { .. } => FailureReason::Timeout,
            Self::Tls { .. } => FailureReason::Tls,
            Self::Redirect { .. } | Self::UnaskedNotModified => FailureReason::Redirect,
            Self::ClientError { .. } => FailureReason::Status4xx,
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
            | Self::ServerError { status, .. }
            | Self::ForeignStatus { status, .. } => Some(*status),
            Self::UnaskedNotModified => Some(304),
            Self::Gone => Some(410),
            Self::Throttled { .. } => Some(429),
            Self::Connect { .. }
            | Self::Closed { .. }
            | Self::NotHttp { .. }
            | Self::ConnectTimeout { .. }
            | Self::Timeout { .. }
            | Self::Tls { .. }
            | Self::Truncated { .. }
            | Self::TooLarge { .. }
            | Self::EmptyBody
            | Self::Json { .. }
            | Self::Shape { .. } => None,
        }
    }

    /// The pause that IMDS asked for, where it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            _ => None,
        }
    }

    pub(super) fn refused(refusal: ParseError, body: &[u8]) -> Self {
        match refusal {
            ParseError::Json(why) => Self::no_json("a scheduled-events document", &why, body),
            ParseError::Shape(why) => Self::Shape {
                detail: format!("{why}{}", origin(body)),
            },
        }
    }

    pub(super) fn no_json(wanted: &str, why: &str, body: &[u8]) -> Self {
        Self::Json {
            detail: format!("{wanted} was asked for; {why}{}", origin(body)),
        }
    }

    pub(super) fn shape(wanted: &str, why: &str, body: &[u8]) -> Self {
        Self::Shape {
            detail: format!(
                "{wanted} were asked for; {why}; it begins {}{}",
                excerpt(&String::from_utf8_lossy(body)),
                origin(body)
            ),
        }
    }

    /// Why there is no connection.
    pub(super) fn from_connect(
        error: &(dyn std::error::Error + 'static),
        is_https: bool,
        base: String,
    ) -> Self {
        let cause = root_cause(error);
        if causes(error).any(|inner| is_tls(inner) || is_https && is_cut(inner)) {
            Self::Tls { base, cause }
        } else {
            Self::Connect { base, cause }
        }
    }

    /// What became of a request that got no head of an answer.
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
        }
    }
}

/// What to do about a 4xx.
fn client_error_mend(status: u16) -> &'static str {
    match status {
        400 => "; check --imds.api-version",
        401 => "; IMDS asks for no credentials, so something else listens there",
        403 => {
            "; does the Metadata Security Protocol (proxyAgentSettings of the VM) keep this process out, or is this another \
             cloud?"
        }
        404 => "; is this an Azure VM, and --imds.url the address of its IMDS?",
        _ => "",
    }
}

/// Whom the body betrays, as a part of a sentence.
fn origin(body: &[u8]) -> &'static str {
    let is_markup = body.trim_ascii_start().starts_with(b"<");
    if is_markup {
        "; it looks like a web page: a proxy or a captive portal answers in place of IMDS"
    } else {
        ""
    }
}

/// A connection that is cut in mid-handshake; one that is refused or unreachable says so with another kind.
fn is_cut(error: &(dyn std::error::Error + 'static)) -> bool {
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

/// The beginning of something foreign, fit for a log line.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 160;
    text::excerpt(text, LONGEST)
}
