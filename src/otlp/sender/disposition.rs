//! What an answer of a collector means, and when to try again. Pure.
//!
//! The rules are those of OTLP/HTTP (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>): 2xx is success,
//! perhaps of a part; 429, 502, 503 and 504 are to be retried, and so is what never arrived; all else is final.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

use crate::{outbound::http::excerpt, snapshot::ExportFailure};

/// A collector may ask for this pause at the most.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);
/// Of what a collector says, this much is logged.
const MAX_CHARACTERS: usize = 200;

/// What a request met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExportAttempt {
    /// An answer.
    Answer {
        status: u16,
        retry_after: Option<Duration>,
        body: Bytes,
    },
    /// None.
    Nothing {
        reason: ExportFailure,
        message: String,
    },
}

/// What it means for the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The collector has it, but for so many spans that it never wants to see again.
    Taken { rejected: u64, message: String },
    /// The collector never wants to see it again.
    Refused { message: String },
    /// It is to be sent again, not before the pause where one is asked for.
    Again {
        reason: ExportFailure,
        message: String,
        retry_after: Option<Duration>,
    },
}

impl Disposition {
    pub(super) fn of(met: ExportAttempt) -> Self {
        let (status, retry_after, body) = match met {
            ExportAttempt::Nothing { reason, message } => {
                return Self::Again {
                    reason,
                    message,
                    retry_after: None,
                };
            }
            ExportAttempt::Answer {
                status,
                retry_after,
                body,
            } => (status, retry_after, body),
        };
        let reason = match status {
            200..=299 => return Self::taken(body),
            429 => ExportFailure::Throttled,
            502..=504 => ExportFailure::Status5xx,
            _ => {
                return Self::Refused {
                    message: format!("status {status}{}", said(&body)),
                };
            }
        };
        Self::Again {
            reason,
            message: format!("status {status}{}", said(&body)),
            retry_after: retry_after.map(|delay| delay.min(MAX_RETRY_AFTER)),
        }
    }

    /// A body that cannot be read says nothing against a success.
    fn taken(body: Bytes) -> Self {
        let partial = ExportTraceServiceResponse::decode(body)
            .ok()
            .and_then(|response| response.partial_success)
            .unwrap_or_default();
        Self::Taken {
            rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
            message: partial.error_message.chars().take(MAX_CHARACTERS).collect(),
        }
    }
}

/// The readable part of an answer.
fn said(body: &[u8]) -> String {
    let text = excerpt(body, MAX_CHARACTERS);
    if text.is_empty() {
        text
    } else {
        format!(": {text}")
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    fn verdict(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Disposition {
        Disposition::of(ExportAttempt::Answer {
            status,
            retry_after,
            body: Bytes::copy_from_slice(body),
        })
    }

    #[test]
    fn only_the_statuses_of_the_specification_are_retried() {
        for status in 100..=599 {
            let verdict = verdict(status, None, b"");
            match status {
                200..=299 => assert!(matches!(verdict, Disposition::Taken { rejected: 0, .. })),
                429 | 502 | 503 | 504 => {
                    assert!(matches!(verdict, Disposition::Again { .. }), "{status}");
                }
                _ => assert!(matches!(verdict, Disposition::Refused { .. }), "{status}"),
            }
        }
    }

    #[test]
    fn retry_after_is_limited() {
        for (asked, expected) in [(7, 7), (86_400, 300)] {
            let asked = Duration::from_secs(asked);
            let Disposition::Again { retry_after, .. } = verdict(503, Some(asked), b"") else {
                panic!("503 is retried");
            };
            assert_eq!(retry_after, Some(Duration::from_secs(expected)));
        }
    }

    #[test]
    fn a_success_may_be_one_of_a_part() {
        let response = |rejected_spans, error_message: &str| {
            ExportTraceServiceResponse {
                partial_success: Some(ExportTracePartialSuccess {
                    rejected_spans,
                    error_message: error_message.to_owned(),
                }),
            }
            .encode_to_vec()
        };
        let taken = |rejected, message: &str| Disposition::Taken {
            rejected,
            message: message.to_owned(),
        };
        assert_eq!(verdict(200, None, &response(2, "no")), taken(2, "no"));
        assert_eq!(verdict(200, None, &response(0, "hm")), taken(0, "hm"));
        assert_eq!(verdict(200, None, &response(-1, "")), taken(0, ""));
        assert_eq!(verdict(200, None, b"{}"), taken(0, ""));
        assert_eq!(verdict(202, None, b"\xff\xff\xff"), taken(0, ""));
    }
}
