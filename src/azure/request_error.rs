//! A failed request to IMDS, with one of a closed set of reasons.

use std::time::Duration;

use crate::base::label::label_values;

label_values! {
    /// Why a request to IMDS failed: the closed set of values of the label `reason`.
    pub enum FailureReason {
        /// The body was truncated or too large.
        Body = "body",
        /// No connection, or a reset one.
        Connect = "connect",
        /// 410: IMDS is being updated.
        Gone = "gone",
        /// The body of a 200 is not JSON.
        Json = "json",
        /// A redirect, which IMDS never sends.
        Redirect = "redirect",
        /// The body of a 200 is JSON but not a scheduled-events document.
        Shape = "shape",
        /// 400, 403, 404, 405 and so on.
        Status4xx = "status_4xx",
        /// 500 and so on.
        Status5xx = "status_5xx",
        /// 429: more than five requests a second by all clients of this VM together.
        Throttled = "throttled",
        /// No answer in time.
        Timeout = "timeout",
        /// The TLS handshake failed.
        Tls = "tls",
    }
}

/// A failed request to IMDS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub reason: FailureReason,
    /// HTTP status, where the failure is one.
    pub status: Option<u16>,
    /// A sentence for the log and the status page.
    pub message: String,
    /// `Retry-After` of the response.
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
