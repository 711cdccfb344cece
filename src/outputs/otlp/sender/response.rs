//! What a collector's response, or the lack of one, means for what was sent. Pure.
//!
//! OTLP/HTTP (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>): 2xx is success or partial success; 429,
//! 502, 503, 504 and a missing response are retried; all else must not be retried. This exporter differs where the
//! cause is usually the configuration of the collector or its proxy, such as a rotated token: after 401, 403, 404, 405,
//! 407, 408, a redirect, the other 5xx and a success that is a web page it is retried too, after what never failed. An
//! entry that is too large alone (413) is dropped.

use std::time::Duration;

use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};

use super::answer::{self, PartialSuccess};
use crate::{
    http::client::{
        error::{causes, is_tls, root_cause},
        http::{describe, excerpt, is_web_page, redirect},
        url::Secrets,
    },
    outputs::otlp::settings::{ExporterSettings, Protocol},
    outputs::output_counters::ExportFailure,
};

/// A longer `Retry-After` is shortened.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);
/// Characters of a collector's message that are logged.
pub(super) const MAX_MESSAGE: usize = 200;

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
    /// Another request may be accepted.
    pub(super) may_be_content: bool,
}

impl Retry {
    /// Without a response.
    pub(super) fn new(reason: ExportFailure, message: String) -> Self {
        Self {
            reason,
            message,
            after: None,
            may_be_content: false,
        }
    }

    /// A request without a response, with what to change if that is typical of a port that speaks another protocol.
    pub(super) fn unanswered(
        error: reqwest::Error,
        settings: &ExporterSettings,
        secrets: &Secrets,
    ) -> Self {
        // The URL may hold a secret.
        let error = error.without_url();
        let reason = if error.is_timeout() {
            ExportFailure::Timeout
        } else if causes(&error).any(is_tls) {
            ExportFailure::Tls
        } else {
            ExportFailure::Connect
        };
        let mut message = secrets.mask(&root_cause(&error));
        if !error.is_timeout() && !error.is_connect() {
            // A peer that ends a TLS session speaks TLS, so what it speaks inside is not known to be wrong.
            message.push_str(match settings.protocol {
                _ if reason == ExportFailure::Tls => "",
                Protocol::Http => {
                    "; if this is a gRPC receiver, set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
                }
                Protocol::Grpc => {
                    "; if this is no gRPC receiver, set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
                }
            });
            message.push_str(match settings.endpoint.scheme() {
                "https" => {
                    "; if it asks for a client certificate, set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
                }
                _ => "; if it expects TLS, write https://",
            });
        }
        Self::new(reason, message)
    }
}

impl Disposition {
    /// By a response of HTTP that is not one of gRPC. The messages do not contain the secrets.
    pub(super) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        retry_after: Option<Duration>,
        body: &[u8],
        settings: &ExporterSettings,
        secrets: &Secrets,
    ) -> Self {
        let said = answer::error_message(body);
        let said = said.as_deref().map_or(body, str::as_bytes);
        let mut message = describe(status, said, MAX_MESSAGE, secrets);
        if let Some(target) = redirect(&settings.endpoint, status, headers) {
            message = format!("HTTP {status} to {target}");
        }
        let is_https_expected = status == StatusCode::BAD_REQUEST
            && settings.endpoint.scheme() == "http"
            && message.contains("HTTPS");
        message.push_str(&settings.hint(status, is_https_expected));
        let is_grpc = settings.protocol == Protocol::Grpc;
        let refused = |reason, message| Self::Refused { reason, message };
        let (reason, may_be_content) = match status.as_u16() {
            200..=299 if is_grpc || is_page(headers, body) => (ExportFailure::NotOtlp, true),
            200..=299 => return Self::accepted(body, secrets),
            300..=399 => (ExportFailure::Redirect, true),
            400 if is_https_expected => (ExportFailure::Status4xx, true),
            401 | 403..=405 | 407 | 408 => (ExportFailure::Status4xx, true),
            400..=499 if is_grpc && status != 429 => (ExportFailure::NotOtlp, true),
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
            may_be_content,
        })
    }

    /// A body that cannot be read does not make a success a failure.
    pub(super) fn accepted(body: &[u8], secrets: &Secrets) -> Self {
        let partial = PartialSuccess::read(body).unwrap_or_default();
        Self::Accepted {
            rejected: u64::try_from(partial.rejected).unwrap_or(0),
            message: excerpt(partial.error_message.as_bytes(), MAX_MESSAGE, secrets),
        }
    }
}

/// Whether the body is text or HTML. Receivers answer with protobuf, JSON or nothing.
fn is_page(headers: &HeaderMap, body: &[u8]) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_text = content_type.is_some_and(|it| it.to_ascii_lowercase().starts_with(b"text/"));
    // Go guesses `text/plain` for the protobuf of a warning, and for JSON.
    let is_page = is_text && !body.is_empty() || is_web_page(headers, body);
    is_page && body.trim_ascii() != b"{}" && PartialSuccess::read(body).is_none()
}

impl ExporterSettings {
    /// What to change, by the status of a response; empty where the status has no typical cause. The text continues the
    /// description of the response.
    fn hint(&self, status: StatusCode, is_https_expected: bool) -> String {
        let signal = self.signal;
        let (path, variable) = (signal.path(), signal.endpoint_variable());
        let found = self.endpoint.path().trim_end_matches('/');
        match status.as_u16() {
            _ if is_https_expected => "; the port expects TLS: write https:// in the endpoint".to_owned(),
            200..=299 | 400 | 415 | 505 if self.protocol == Protocol::Grpc => {
                "; this is no gRPC receiver: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or use the port for gRPC, usually 4317".to_owned()
            }
            200..=299 => "; this is no OTLP receiver: check host, port and path of the endpoint".to_owned(),
            300..=399 => "; redirects are not followed: set the endpoint to where it leads".to_owned(),
            404 | 405 if self.protocol == Protocol::Grpc => {
                "; check the port, usually 4317, and that the endpoint has no path".to_owned()
            }
            404 | 405 if found.matches("/v1/").count() > 1 => {
                format!("; the path has /v1/ twice: OTEL_EXPORTER_OTLP_ENDPOINT is used without it, {path} is appended")
            }
            404 | 405 if !found.ends_with(&path) => {
                format!("; {variable} is used as it is: append {path} to it")
            }
            404 | 405 => self.pipeline_hint(),
            _ => String::new(),
        }
    }

    pub(super) fn pipeline_hint(&self) -> String {
        let (name, exporter) = (self.signal.as_str(), self.signal.exporter_variable());
        format!("; set {exporter}=none if the collector has no {name} pipeline")
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use prost::Message as _;
    use reqwest::header::HeaderName;

    use super::*;
    use crate::outputs::otlp::fixtures::exporter_settings;

    fn disposition(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Disposition {
        let status = StatusCode::from_u16(status).unwrap();
        let settings = exporter_settings(&[]);
        let (headers, secrets) = (HeaderMap::new(), Secrets::of(&settings.endpoint));
        Disposition::of(status, &headers, retry_after, body, &settings, &secrets)
    }

    #[test]
    fn statuses_whose_cause_may_be_the_content_are_known() {
        for status in 100..=599 {
            let disposition = disposition(status, None, b"");
            match status {
                200..=299 => assert!(matches!(
                    disposition,
                    Disposition::Accepted { rejected: 0, .. }
                )),
                300..=399 | 401 | 403..=405 | 407 | 408 | 429 | 500..=599 => {
                    let Disposition::Retry(retry) = disposition else {
                        panic!("{status} is not retried");
                    };
                    let is_temporary = [429, 502, 503, 504].contains(&status);
                    assert_eq!(retry.may_be_content, !is_temporary, "{status}");
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
    fn the_message_of_an_error_is_shown() {
        let json = br#"{"code":14,"message":"the exporter is not ready","details":[]}"#;
        let protobuf = b"\x08\x0e\x12\x19the exporter is not ready";
        for body in [&json[..], protobuf] {
            let Disposition::Retry(retry) = disposition(503, None, body) else {
                panic!("503 is not retried");
            };
            let expected = "HTTP 503 Service Unavailable: the exporter is not ready";
            assert_eq!(retry.message, expected);
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
        let json = br#"{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "no"}}"#;
        assert_eq!(disposition(200, None, json), accepted(1, "no"));
        assert_eq!(disposition(202, None, b"\xff\xff\xff"), accepted(0, ""));
    }

    fn received(
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
        environment: &[(&str, &str)],
    ) -> Disposition {
        let header = |(name, value): &(&str, &str)| {
            let name = name.parse::<HeaderName>().unwrap();
            (name, value.parse().unwrap())
        };
        let settings = exporter_settings(environment);
        let headers = headers.iter().map(header).collect();
        let status = StatusCode::from_u16(status).unwrap();
        let secrets = Secrets::of(&settings.endpoint);
        Disposition::of(status, &headers, None, body, &settings, &secrets)
    }

    #[test]
    fn a_success_that_is_a_page_or_a_text_is_none() {
        let html = ("content-type", "Text/HTML; charset=utf-8");
        let plain = ("content-type", "text/plain");
        let json = ("content-type", "application/json");
        for (headers, body, is_accepted) in [
            (&[html][..], &b"<html>sign in</html>"[..], false),
            (&[], b"\xef\xbb\xbf <!DOCTYPE html>", false),
            (&[json], b"<?xml version='1.0'?>", false),
            (&[plain], b"It works!", false),
            (&[html], b"", true),
            (&[plain], b"", true),
            (&[json], b"{\"partialSuccess\":{}}", true),
            // Go guesses this type for a partial success without rejected records.
            (&[plain], b"\x0a\x04\x12\x02hm", true),
        ] {
            for status in [200, 201, 202, 204] {
                let disposition = received(status, headers, body, &[]);
                match disposition {
                    Disposition::Accepted { .. } => assert!(is_accepted, "{headers:?} {body:?}"),
                    Disposition::Retry(retry) => {
                        assert!(!is_accepted, "{headers:?} {body:?}");
                        assert_eq!(retry.reason, ExportFailure::NotOtlp);
                        assert!(
                            retry.message.contains("no OTLP receiver"),
                            "{}",
                            retry.message
                        );
                    }
                    Disposition::Refused { .. } => panic!("dropped"),
                }
            }
        }
    }

    const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const OWN: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

    type Pairs = &'static [(&'static str, &'static str)];

    /// Status, headers, body, environment, and a part of the message.
    #[rustfmt::skip]
    const HINTS: &[(u16, Pairs, &str, Pairs, &str)] = &[
        (404, &[], "", &[], "set OTEL_TRACES_EXPORTER=none"),
        (404, &[], "", &[(BASE, "http://c/v1/traces")], "the path has /v1/ twice"),
        (405, &[], "", &[(BASE, "http://c/otlp/v1/logs/")], "the path has /v1/ twice"),
        (404, &[], "", &[(OWN, "http://c:4318")], "append /v1/traces to it"),
        (405, &[], "", &[(OWN, "http://c:4318/otlp/")], "append /v1/traces to it"),
        (400, &[], "Client sent an HTTP request to an HTTPS server.", &[], "write https://"),
        (302, &[("location", "https://me:secret@c/v1/traces")], "", &[],
            "to https://c; redirects are not followed"),
        (308, &[("location", "/login")], "", &[], "HTTP 308 Permanent Redirect to http://"),
        (200, &[], "", &[GRPC], "no gRPC receiver: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"),
        (415, &[], "", &[GRPC], "no gRPC receiver"),
        (404, &[], "", &[GRPC], "the endpoint has no path"),
    ];

    #[test]
    fn a_response_that_is_typical_of_a_wrong_endpoint_says_what_to_change() {
        for (status, headers, body, environment, expected) in HINTS {
            let disposition = received(*status, headers, body.as_bytes(), environment);
            let Disposition::Retry(retry) = disposition else {
                panic!("{status} {environment:?} is not retried");
            };
            assert!(retry.message.contains(expected), "{}", retry.message);
            assert!(!retry.message.contains("secret"), "{}", retry.message);
        }
    }
}
