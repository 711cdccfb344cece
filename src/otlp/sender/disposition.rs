//! What an answer of a collector means, and when to try again. Pure.
//!
//! The rules are those of OTLP/HTTP (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>): 2xx is success,
//! perhaps of a part; 429, 502, 503 and 504 are to be retried, and so is what never arrived; all else is final.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

use crate::{snapshot::ExportFailure, time::Timestamp};

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
        retry_after: Option<String>,
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
    pub(super) fn of(met: ExportAttempt, now: Timestamp) -> Self {
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
            retry_after: retry_after.and_then(|value| pause(&value, now)),
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

/// Seconds or a date (RFC 9110, section 10.2.3). A pause of nothing, as a date may be by a clock that differs, is no
/// pause that was asked for: our own backoff holds then.
fn pause(value: &str, now: Timestamp) -> Option<Duration> {
    let seconds = value.trim().parse().ok().map(Duration::from_secs);
    let pause = seconds.or_else(|| Some(Timestamp::parse(value)?.saturating_since(now)))?;
    (!pause.is_zero()).then(|| pause.min(MAX_RETRY_AFTER))
}

/// The readable part of an answer.
fn said(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body)
        .chars()
        .filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER)
        .take(MAX_CHARACTERS)
        .collect();
    if text.is_empty() {
        text
    } else {
        format!(": {text}")
    }
}

/// The pause after so many failures in a row: doubling, and between half and all of it, so that a fleet that lost its
/// collector does not come back as one.
pub(super) fn backoff(first: Duration, longest: Duration, failures: u32, random: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = first.saturating_mul(1 << doublings).min(longest);
    pause.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    fn verdict(status: u16, retry_after: Option<&str>, body: &[u8]) -> Disposition {
        let met = ExportAttempt::Answer {
            status,
            retry_after: retry_after.map(str::to_owned),
            body: Bytes::copy_from_slice(body),
        };
        Disposition::of(
            met,
            Timestamp::parse("Tue, 17 Nov 2026 09:15:42 GMT").unwrap(),
        )
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
    fn retry_after_is_seconds_or_a_date_and_has_a_limit() {
        let pause = |value: &str| match verdict(503, Some(value), b"") {
            Disposition::Again { retry_after, .. } => retry_after,
            other => panic!("{other:?}"),
        };
        assert_eq!(pause("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            pause("Tue, 17 Nov 2026 09:15:52 GMT"),
            Some(Duration::from_secs(10))
        );
        assert_eq!(pause("0"), None, "no leave to try without a pause");
        assert_eq!(pause("Tue, 17 Nov 2026 09:00:00 GMT"), None);
        assert_eq!(pause("86400"), Some(MAX_RETRY_AFTER));
        assert_eq!(pause("soon"), None);
        assert_eq!(pause("-1"), None);
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

    #[test]
    fn pauses_double_up_to_their_limit_and_are_never_all_equal() {
        let pause = |failures, random| {
            backoff(
                Duration::from_secs(1),
                Duration::from_mins(1),
                failures,
                random,
            )
            .as_millis()
        };
        assert_eq!(
            [1, 2, 3, 7, 60].map(|n| pause(n, 1.0)),
            [1_000, 2_000, 4_000, 60_000, 60_000]
        );
        assert_eq!(
            [1, 2, 3, 7, u32::MAX].map(|n| pause(n, 0.0)),
            [500, 1_000, 2_000, 30_000, 30_000]
        );
    }
}
