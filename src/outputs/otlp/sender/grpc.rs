//! One unary gRPC call in an HTTP/2 request (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>), and what
//! its status means for a request (<https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response>).
//!
//! The codes that the specification retries are retried, and `RESOURCE_EXHAUSTED` also without `RetryInfo`, as 429 is over
//! HTTP: a collector that is short of memory answers so. As over HTTP, this exporter also keeps the content where the cause
//! is usually the configuration or a fault of the collector.

use std::{error::Error, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Limited};
use percent_encoding::percent_decode_str;
use prost::Message;
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};

use super::collector_response::{
    ExportResult, FailedRequest, MAX_RETRY_AFTER, PartialSuccess, RpcStatus, gunzip,
};
use crate::{
    http::client::{excerpt, url::Secrets},
    outputs::{
        otlp::{
            cursor::RequestResult::{self, Accepted, MayBeContent, Refused, Unavailable},
            settings::ExporterSettings,
        },
        output_counters::{
            DropReason,
            ExportFailure::{self, NotOtlp, Rejected, Status4xx, Status5xx, Throttled, Timeout},
        },
    },
};

/// The prefix of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Bytes of a response, as gRPC's own clients limit them.
const MAX_MESSAGE: usize = 4 << 20;
const REFUSED: RequestResult = Refused(DropReason::Rejected);
/// Name of each status code from 0 on, and what it means.
const CODES: [(&str, ExportFailure, RequestResult); 17] = [
    ("OK", Rejected, Accepted),
    ("CANCELLED", Status5xx, Unavailable),
    ("UNKNOWN", Status5xx, MayBeContent),
    ("INVALID_ARGUMENT", Rejected, REFUSED),
    ("DEADLINE_EXCEEDED", Timeout, Unavailable),
    ("NOT_FOUND", Status4xx, REFUSED),
    ("ALREADY_EXISTS", Status4xx, REFUSED),
    ("PERMISSION_DENIED", Status4xx, MayBeContent),
    ("RESOURCE_EXHAUSTED", Throttled, Unavailable),
    ("FAILED_PRECONDITION", Status4xx, REFUSED),
    ("ABORTED", Status5xx, Unavailable),
    ("OUT_OF_RANGE", Status5xx, Unavailable),
    ("UNIMPLEMENTED", Status4xx, MayBeContent),
    ("INTERNAL", Status5xx, MayBeContent),
    ("UNAVAILABLE", Status5xx, Unavailable),
    ("DATA_LOSS", Status5xx, Unavailable),
    ("UNAUTHENTICATED", Status4xx, MayBeContent),
];

/// What Go and C++, Java, and .NET say of a message that is too large. They have no code for it.
const TOO_LARGE: [&str; 3] = ["larger than", "exceeds maximum size", "exceeds the maximum"];

/// `google.rpc.RetryInfo`
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<RetryDelay>,
}

/// `google.protobuf.Duration`
#[derive(Clone, PartialEq, Message)]
struct RetryDelay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The body of a request with this message.
pub(super) fn frame(message: &Bytes, is_compressed: bool) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(is_compressed.into());
    // A message is far smaller than 4 GiB.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Whether a response with the status 200 is one to a gRPC call.
pub(super) fn is_grpc(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    response.status() == StatusCode::OK
        && content_type.is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"))
}

/// The message of a response, and the headers with the status of the call: trailers, where it has some. An error is one of
/// reqwest, or that the message is too long.
pub(super) async fn read(
    response: Response,
) -> Result<(HeaderMap, Bytes), Box<dyn Error + Send + Sync>> {
    let (head, body) = hyper::Response::<reqwest::Body>::from(response).into_parts();
    let body = Limited::new(body, MAX_MESSAGE).collect().await?;
    let mut headers = head.headers;
    headers.extend(body.trailers().cloned().unwrap_or_default());
    let mut read = body.to_bytes();
    let message = read.split_off(read.len().min(PREFIX_BYTES));
    Ok((headers, gunzip(message, MAX_MESSAGE)))
}

/// How a request ended, by the end of its call.
pub(super) fn export_result(
    headers: &HeaderMap,
    message: &[u8],
    settings: &ExporterSettings,
    secrets: &Secrets,
) -> ExportResult {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse::<usize>().ok());
    let Some(&(name, mut reason, mut result)) = code.and_then(|code| CODES.get(code)) else {
        let problem = "the response has no gRPC status";
        return Err(FailedRequest::new(NotOtlp, problem));
    };
    if result == Accepted {
        return Ok(PartialSuccess::of(message, secrets));
    }
    let said = text("grpc-message").unwrap_or_default();
    let said: Vec<u8> = percent_decode_str(said).collect();
    let said = excerpt(&said, secrets);
    if reason == Throttled && TOO_LARGE.iter().any(|text| said.contains(text)) {
        (reason, result) = (ExportFailure::TooLarge, Refused(DropReason::TooLarge));
    }
    let hint = match name {
        "UNIMPLEMENTED" if said.contains("gzip") => format!(
            "; the receiver does not take gzip: set OTEL_EXPORTER_OTLP_{}_COMPRESSION=none",
            settings.signal.variable()
        ),
        "UNIMPLEMENTED" => settings.pipeline_hint(),
        _ => String::new(),
    };
    let message = format!("gRPC {name}: {said}{hint}");
    let after = text("grpc-status-details-bin").and_then(retry_delay);
    Err(FailedRequest {
        reason,
        message,
        after: after.map(|delay| delay.min(MAX_RETRY_AFTER)),
        result,
    })
}

/// The delay in `RetryInfo` of the details of a status, which are base64 with or without padding.
fn retry_delay(details: &str) -> Option<Duration> {
    let details = BASE64_STANDARD_NO_PAD.decode(details.trim_end_matches('='));
    let status = RpcStatus::decode(&details.ok()?[..]).ok()?;
    let mut details = status.details.into_iter();
    let info = details.find(|it| it.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(info.value).ok()?.retry_delay?;
    let nanos = u32::try_from(delay.nanos).ok()?;
    let seconds = Duration::from_secs(u64::try_from(delay.seconds).ok()?);
    Some(seconds.saturating_add(Duration::from_nanos(nanos.into())))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::{super::collector_response::RpcDetail, *};
    use crate::outputs::otlp::fixtures::exporter_settings;

    fn details(seconds: i64, nanos: i32) -> String {
        let retry_delay = Some(RetryDelay { seconds, nanos });
        let detail = |name: &str, value: Vec<u8>| RpcDetail {
            type_url: format!("type.googleapis.com/google.rpc.{name}"),
            value: value.into(),
        };
        let details = vec![
            detail("DebugInfo", vec![0xff]),
            detail("RetryInfo", RetryInfo { retry_delay }.encode_to_vec()),
        ];
        let status = RpcStatus {
            details,
            ..RpcStatus::default()
        };
        BASE64_STANDARD_NO_PAD.encode(status.encode_to_vec())
    }

    fn of(code: usize, more: &[(&'static str, &str)]) -> ExportResult {
        let code = code.to_string();
        let headers = more.iter().copied().chain([("grpc-status", &*code)]);
        let headers =
            headers.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let settings = exporter_settings(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        let secrets = Secrets::of(&settings.endpoint);
        export_result(&headers.collect(), b"", &settings, &secrets)
    }

    #[test]
    fn codes_are_accepted_retried_or_refused() {
        for code in 0..=17 {
            let expected = match code {
                0 => "accepted",
                3 | 5 | 6 | 9 => "refused",
                1 | 4 | 8 | 10 | 11 | 14 | 15 | 17 => "in order",
                _ => "after others",
            };
            let found = match of(code, &[]).map_err(|failed| failed.result) {
                Ok(_) => "accepted",
                Err(Refused(_)) => "refused",
                Err(MayBeContent) => "after others",
                Err(_) => "in order",
            };
            assert_eq!(found, expected, "{code}");
        }
        for code in 1..17 {
            let is_rejected = of(code, &[]).unwrap_err().reason == Rejected;
            assert_eq!(is_rejected, code == 3, "{code}");
        }
    }

    #[test]
    fn resource_exhausted_is_retried_after_the_delay_in_its_details() {
        for (seconds, nanos, expected) in [
            (7, 500_000_000, Some(Duration::from_millis(7_500))),
            (86_400, 0, Some(MAX_RETRY_AFTER)),
            (0, 1, Some(Duration::from_nanos(1))),
        ] {
            for padding in ["", "=", "=="] {
                let details = format!("{}{padding}", details(seconds, nanos));
                let failed = of(8, &[("grpc-status-details-bin", &details)]).unwrap_err();
                assert_eq!((failed.reason, failed.after), (Throttled, expected));
                assert_eq!(failed.result, Unavailable);
            }
        }
        for unreadable in ["", "?", "AAAA", &details(-1, 0), &details(1, -1)] {
            let failed = of(8, &[("grpc-status-details-bin", unreadable)]).unwrap_err();
            assert_eq!((failed.reason, failed.after), (Throttled, None));
            assert_eq!(failed.result, Unavailable);
        }
    }

    #[test]
    fn the_remedy_for_unimplemented_is_that_of_its_cause() {
        let gzip = "grpc: Decompressor is not installed for grpc-encoding \"gzip\"";
        for (said, remedy) in [
            (
                gzip,
                "; the receiver does not take gzip: set OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=none",
            ),
            (
                "unknown service",
                "; set OTEL_TRACES_EXPORTER=none if the collector has no trace pipeline",
            ),
        ] {
            let failed = of(12, &[("grpc-message", said)]).unwrap_err();
            assert!(failed.message.ends_with(remedy), "{}", failed.message);
        }
    }

    #[test]
    fn the_message_is_decoded_and_tells_a_request_that_is_too_large() {
        // Go and C++, Java, .NET.
        for (said, decoded) in [
            (
                "grpc: received message larger than max%3A 7 %E2%82%AC",
                "grpc: received message larger than max: 7 €",
            ),
            (
                "gRPC message exceeds maximum size 4194304: 5000000",
                "gRPC message exceeds maximum size 4194304: 5000000",
            ),
            (
                "Received message exceeds the maximum configured message size.",
                "Received message exceeds the maximum configured message size.",
            ),
        ] {
            let failed = of(8, &[("grpc-message", said)]).unwrap_err();
            let message = format!("gRPC RESOURCE_EXHAUSTED: {decoded}");
            assert_eq!(
                (failed.message, failed.reason),
                (message, ExportFailure::TooLarge)
            );
            assert_eq!(failed.result, Refused(DropReason::TooLarge));
        }
    }
}
