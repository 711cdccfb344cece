//! What a collector's response means for a batch. Pure.
//!
//! OTLP/HTTP (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>): 2xx is success or partial success; 429,
//! 502, 503, 504 and a missing response are retried; all else must not be retried. This exporter differs where the
//! cause is usually the configuration of the collector or its proxy, such as a rotated token: after 401, 403, 404, 407,
//! 408 and the other 5xx the batch is retried too, after other batches. A batch that is too large (413) is dropped.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use reqwest::StatusCode;

use crate::{
    core::snapshot::ExportFailure,
    http::client::{
        http::{describe, excerpt},
        url::Secrets,
    },
    outputs::otlp::signal::Signal,
};

/// A longer `Retry-After` is shortened.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);
/// Characters of a collector's message that are logged.
const MAX_MESSAGE: usize = 200;

/// What becomes of the content of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Except for the given number of records, which must not be sent again.
    Accepted {
        rejected: u64,
        message: String,
    },
    /// It must not be sent again.
    Refused {
        reason: ExportFailure,
        message: String,
    },
    Retry(Retry),
}

/// The request is to be sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) reason: ExportFailure,
    pub(super) message: String,
    /// The collector's `Retry-After`.
    pub(super) after: Option<Duration>,
    /// Another batch may be accepted.
    pub(super) may_be_the_batch: bool,
}

impl Retry {
    /// Without a response.
    pub(super) fn new(reason: ExportFailure, message: String) -> Self {
        Self {
            reason,
            message,
            after: None,
            may_be_the_batch: false,
        }
    }
}

impl Disposition {
    /// The messages do not contain the secrets.
    pub(super) fn of(
        status: StatusCode,
        retry_after: Option<Duration>,
        body: Bytes,
        signal: Signal,
        secrets: &Secrets,
    ) -> Self {
        let mut message = describe(status, &body, MAX_MESSAGE, secrets);
        if status == StatusCode::NOT_FOUND {
            let (name, exporter) = (signal.as_str(), signal.exporter_variable());
            let hint = format!("; set {exporter}=none if the collector has no {name} pipeline");
            message.push_str(&hint);
        }
        let refused = |reason, message| Self::Refused { reason, message };
        let (reason, may_be_the_batch) = match status.as_u16() {
            200..=299 => return Self::accepted(body, secrets),
            401 | 403 | 404 | 407 | 408 => (ExportFailure::Status4xx, true),
            413 => return refused(ExportFailure::TooLarge, message),
            429 => (ExportFailure::Throttled, false),
            502..=504 => (ExportFailure::Status5xx, false),
            500..=599 => (ExportFailure::Status5xx, true),
            _ => return refused(ExportFailure::Rejected, message),
        };
        Self::Retry(Retry {
            reason,
            message,
            after: retry_after.map(|delay| delay.min(MAX_RETRY_AFTER)),
            may_be_the_batch,
        })
    }

    /// A body that cannot be decoded does not make a success a failure. The responses for log records and metrics have
    /// the same fields by other names (<https://github.com/open-telemetry/opentelemetry-proto>).
    fn accepted(body: Bytes, secrets: &Secrets) -> Self {
        let partial = ExportTraceServiceResponse::decode(body)
            .ok()
            .and_then(|response| response.partial_success)
            .unwrap_or_default();
        Self::Accepted {
            rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
            message: excerpt(partial.error_message.as_bytes(), MAX_MESSAGE, secrets),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    fn disposition(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Disposition {
        let status = StatusCode::from_u16(status).unwrap();
        let secrets = Secrets::of(&"http://collector".parse().unwrap());
        let body = Bytes::copy_from_slice(body);
        Disposition::of(status, retry_after, body, Signal::Traces, &secrets)
    }

    #[test]
    fn statuses_whose_cause_may_be_the_batch_are_known() {
        for status in 100..=599 {
            let disposition = disposition(status, None, b"");
            match status {
                200..=299 => assert!(matches!(
                    disposition,
                    Disposition::Accepted { rejected: 0, .. }
                )),
                401 | 403 | 404 | 407 | 408 | 429 | 500..=599 => {
                    let Disposition::Retry(retry) = disposition else {
                        panic!("{status} is not retried");
                    };
                    let is_temporary = [429, 502, 503, 504].contains(&status);
                    assert_eq!(retry.may_be_the_batch, !is_temporary, "{status}");
                }
                _ => {
                    let Disposition::Refused { reason, .. } = disposition else {
                        panic!("{status} is retried");
                    };
                    assert_eq!(reason == ExportFailure::TooLarge, status == 413, "{status}");
                }
            }
        }
    }

    #[test]
    fn retry_after_is_limited() {
        for (requested, expected) in [(7, 7), (86_400, 300)] {
            let requested = Duration::from_secs(requested);
            let Disposition::Retry(retry) = disposition(503, Some(requested), b"") else {
                panic!("503 is not retried");
            };
            assert_eq!(retry.after, Some(Duration::from_secs(expected)));
        }
    }

    #[test]
    fn success_may_be_partial() {
        let response = |rejected_spans, error_message: &str| {
            ExportTraceServiceResponse {
                partial_success: Some(ExportTracePartialSuccess {
                    rejected_spans,
                    error_message: error_message.to_owned(),
                }),
            }
            .encode_to_vec()
        };
        let accepted = |rejected, message: &str| Disposition::Accepted {
            rejected,
            message: message.to_owned(),
        };
        assert_eq!(
            disposition(200, None, &response(2, "no")),
            accepted(2, "no")
        );
        assert_eq!(
            disposition(200, None, &response(0, "hm")),
            accepted(0, "hm")
        );
        assert_eq!(disposition(200, None, &response(-1, "")), accepted(0, ""));
        assert_eq!(disposition(200, None, b"{}"), accepted(0, ""));
        assert_eq!(disposition(202, None, b"\xff\xff\xff"), accepted(0, ""));
    }
}
