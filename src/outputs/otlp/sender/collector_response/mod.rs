//! What a collector's response, or the lack of one, means for what was sent. Pure.
//!
//! OTLP/HTTP (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>): 2xx is success or partial success; 429,
//! 502, 503, 504 and a missing response are retried; all else must not be retried. This exporter differs where the
//! cause is usually the configuration of the collector or its proxy, such as a rotated token: after 401, 403, 404, 405,
//! 407, 408, a redirect, the other 5xx and a success, 400 or 422 that is a web page it is retried too, after what never
//! failed. An entry that is too large alone (413) is dropped.
//!
//! Bodies are protobuf or JSON. The responses for spans, log records and metrics have the same fields by other names
//! (<https://github.com/open-telemetry/opentelemetry-proto>).

use std::{io::Read as _, time::Duration};

use bytes::Bytes;
use flate2::read::GzDecoder;
use prost::Message;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;

use crate::{
    base::time::Timestamp,
    http::client::{
        causes, describe, excerpt, is_tls, is_web_page, retry_after, root_cause, url::Secrets,
    },
    outputs::{
        otlp::{
            Signal,
            cursor::RequestResult,
            settings::{ExporterSettings, Protocol},
        },
        output_counters::{DropReason, ExportFailure},
    },
};

/// A longer `Retry-After` is shortened.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);

pub(super) type ExportResult = Result<PartialSuccess, FailedRequest>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedRequest {
    pub(super) reason: ExportFailure,
    pub(super) message: String,
    /// The collector's `Retry-After`.
    pub(super) after: Option<Duration>,
    pub(super) result: RequestResult,
}

impl FailedRequest {
    /// Without a response.
    pub(super) fn new(reason: ExportFailure, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            after: None,
            result: RequestResult::Unavailable,
        }
    }

    /// The collector has read what was sent.
    pub(super) fn refuses_content(&self) -> bool {
        [ExportFailure::Rejected, ExportFailure::TooLarge].contains(&self.reason)
    }

    /// The collector did not take what was sent, and must not be sent it again.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.result, RequestResult::Refused(_))
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
        if error.is_timeout() {
            let (limit, variable) = (settings.timeout, &settings.timeout_variable);
            message = format!("{message} after {limit:?} ({variable}, in milliseconds)");
        }
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

/// By a response of HTTP that is not one of gRPC. The messages do not contain the secrets.
pub(super) fn of_http(
    response: &hyper::Response<Bytes>,
    now: Timestamp,
    settings: &ExporterSettings,
    secrets: &Secrets,
) -> ExportResult {
    use RequestResult::{MayBeContent, Refused, Unavailable};
    let (status, headers, body) = (response.status(), response.headers(), response.body());
    let said = error_message(body);
    let said = said.as_deref().map_or(&body[..], str::as_bytes);
    let mut message = describe(response, said, &settings.endpoint, secrets);
    let is_https_expected = status == StatusCode::BAD_REQUEST
        && settings.endpoint.scheme() == "http"
        && message.contains("HTTPS");
    message.push_str(&settings.hint(status, is_https_expected));
    let is_grpc = settings.protocol == Protocol::Grpc;
    let (reason, result) = match status.as_u16() {
        200..=299 if is_grpc || is_page(headers, body) => (ExportFailure::NotOtlp, MayBeContent),
        200..=299 => return Ok(PartialSuccess::of(body, secrets)),
        300..=399 => (ExportFailure::Redirect, MayBeContent),
        400 if is_https_expected => (ExportFailure::Status4xx, MayBeContent),
        401 | 403..=405 | 407 | 408 => (ExportFailure::Status4xx, MayBeContent),
        400..=499 if is_grpc && status != 429 => (ExportFailure::NotOtlp, MayBeContent),
        400 | 422 if is_web_page(headers, body) => (ExportFailure::NotOtlp, MayBeContent),
        400 | 422 => (ExportFailure::Rejected, Refused(DropReason::Rejected)),
        413 => (ExportFailure::TooLarge, Refused(DropReason::TooLarge)),
        429 => (ExportFailure::Throttled, Unavailable),
        502..=504 => (ExportFailure::Status5xx, Unavailable),
        500..=599 => (ExportFailure::Status5xx, MayBeContent),
        _ => (ExportFailure::Status4xx, Refused(DropReason::Rejected)),
    };
    Err(FailedRequest {
        reason,
        message,
        after: retry_after(headers, now).map(|delay| delay.min(MAX_RETRY_AFTER)),
        result,
    })
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
        let path = self.signal.path();
        let found = self.endpoint.path().trim_end_matches('/');
        let base = found.strip_suffix(&path).unwrap_or_default();
        let is_appended_twice = || {
            Signal::ALL
                .iter()
                .any(|signal| base.trim_end_matches('/').ends_with(&signal.path()))
        };
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
            404 | 405 if is_appended_twice() => {
                format!("; the path has /v1/ twice: OTEL_EXPORTER_OTLP_ENDPOINT is used without it, {path} is appended")
            }
            404 | 405 if !found.ends_with(&path) => {
                let variable = self.signal.variable();
                format!("; OTEL_EXPORTER_OTLP_{variable}_ENDPOINT is used as it is: append {path} to it")
            }
            404 | 405 => self.pipeline_hint(),
            _ => String::new(),
        }
    }

    pub(super) fn pipeline_hint(&self) -> String {
        let (name, exporter) = (self.signal.adjective(), self.signal.exporter_variable());
        format!("; set {exporter}=none if the collector has no {name} pipeline")
    }
}

/// `ExportTraceServiceResponse` and its like.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// What the collector says of a request that it accepted: it did not take all, or has a warning.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

/// `google.rpc.Status` (<https://opentelemetry.io/docs/specs/otlp/#failures>).
#[derive(Clone, PartialEq, Message)]
pub(super) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<RpcDetail>,
}

/// `google.protobuf.Any`
#[derive(Clone, PartialEq, Message)]
pub(super) struct RpcDetail {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

/// Names in the JSON of protobuf, which may also be those of the fields
/// (<https://protobuf.dev/programming-guides/json/>).
const REJECTED: [&str; 6] = [
    "rejectedSpans",
    "rejected_spans",
    "rejectedLogRecords",
    "rejected_log_records",
    "rejectedDataPoints",
    "rejected_data_points",
];

impl PartialSuccess {
    /// By the body of a success, which cannot make it a failure. The message does not contain the secrets.
    pub(super) fn of(body: &[u8], secrets: &Secrets) -> Self {
        let partial = Self::read(body).unwrap_or_default();
        Self {
            error_message: excerpt(partial.error_message.as_bytes(), secrets),
            ..partial
        }
    }

    /// How many of so many records must not be sent again.
    pub(super) fn rejected(&self, count: u64) -> u64 {
        u64::try_from(self.rejected).unwrap_or(0).min(count)
    }

    fn read(body: &[u8]) -> Option<Self> {
        let Some(json) = json(body) else {
            return ExportResponse::decode(body).ok()?.partial_success;
        };
        let partial = member(&json, &["partialSuccess", "partial_success"])?;
        let rejected = member(partial, &REJECTED);
        let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let message = member(partial, &["errorMessage", "error_message"]);
        Some(Self {
            rejected: rejected.and_then(number).unwrap_or_default(),
            error_message: message
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        })
    }
}

fn error_message(body: &[u8]) -> Option<String> {
    let message = match json(body) {
        Some(json) => member(&json, &["message"])?.as_str()?.to_owned(),
        None => RpcStatus::decode(body).ok()?.message,
    };
    Some(message).filter(|message| !message.is_empty())
}

/// A message of protobuf may begin as an object does, but is none.
fn json(body: &[u8]) -> Option<Value> {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    json.filter(Value::is_object)
}

fn member<'a>(object: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(name))
}

/// What a collector has compressed unasked, up to `max` bytes; the body itself if it is no gzip.
pub(super) fn gunzip(body: Bytes, max: usize) -> Bytes {
    let mut content = Vec::new();
    let decoder = GzDecoder::new(&body[..]);
    match decoder.take(max as u64).read_to_end(&mut content) {
        Ok(_) => content.into(),
        Err(_) => body,
    }
}

#[cfg(test)]
mod tests;
