use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceResponse,
};
use reqwest::header::HeaderName;

use super::{
    RequestResult::{MayBeContent, Refused, Unavailable},
    *,
};
use crate::outputs::otlp::fixtures::exporter_settings;

fn received(
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
    environment: &[(&str, &str)],
) -> ExportResult {
    let header = |(name, value): &(&str, &str)| {
        let name = name.parse::<HeaderName>().unwrap();
        (name, value.parse().unwrap())
    };
    let settings = exporter_settings(environment);
    let mut response = hyper::Response::new(Bytes::copy_from_slice(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().extend(headers.iter().map(header));
    let secrets = Secrets::of(&settings.endpoint);
    of_http(&response, Timestamp::UNIX_EPOCH, &settings, &secrets)
}

fn failed(status: u16, body: &[u8]) -> FailedRequest {
    received(status, &[], body, &[]).unwrap_err()
}

fn partial(rejected: i64, message: &str) -> PartialSuccess {
    PartialSuccess {
        rejected,
        error_message: message.to_owned(),
    }
}

#[test]
fn statuses_whose_cause_may_be_the_content_are_known() {
    for status in 100..=599 {
        let result = received(status, &[], b"", &[]).map_err(|failed| failed.result);
        let expected = match status {
            200..=299 => Ok(partial(0, "")),
            429 | 502..=504 => Err(Unavailable),
            300..=399 | 401 | 403..=405 | 407 | 408 | 500..=599 => Err(MayBeContent),
            413 => Err(Refused(DropReason::TooLarge)),
            _ => Err(Refused(DropReason::Rejected)),
        };
        assert_eq!(result, expected, "{status}");
    }
}

#[test]
fn only_400_and_422_that_are_no_page_refuse_the_content() {
    let html = [("content-type", "text/html")];
    for status in 300..=499 {
        let found = received(status, &[], b"", &[]).unwrap_err();
        let refuses = found.reason == ExportFailure::Rejected;
        assert_eq!(refuses, status == 400 || status == 422, "{status}");
        let page = received(status, &html, b"<html>", &[]).unwrap_err();
        assert_ne!(page.reason, ExportFailure::Rejected, "{status}");
    }
}

#[test]
fn the_message_of_an_error_is_shown() {
    let status = RpcStatus {
        code: 14,
        message: "the exporter is not ready".to_owned(),
        details: Vec::new(),
    };
    let json = br#"{"code":14,"message":"the exporter is not ready","details":[]}"#;
    for body in [
        &json[..],
        &status.encode_to_vec(),
        b"the exporter is not ready",
    ] {
        let expected = "HTTP 503 Service Unavailable: the exporter is not ready";
        assert_eq!(failed(503, body).message, expected);
    }
    for text in ["{}", "{", "Bad Gateway", "<html>"] {
        let expected = format!("HTTP 503 Service Unavailable: {text}");
        assert_eq!(failed(503, text.as_bytes()).message, expected);
    }
    assert_eq!(failed(503, b"").message, "HTTP 503 Service Unavailable");
}

#[test]
fn retry_after_is_limited() {
    for (asked_for, expected) in [("7", 7), ("3600", 300)] {
        let failed = received(503, &[("retry-after", asked_for)], b"", &[]).unwrap_err();
        assert_eq!(failed.after, Some(Duration::from_secs(expected)));
    }
}

#[test]
fn a_partial_success_is_read_in_protobuf_and_json() {
    let logs = ExportLogsServiceResponse {
        partial_success: Some(ExportLogsPartialSuccess {
            rejected_log_records: 2,
            error_message: "no".to_owned(),
        }),
    };
    for (body, expected) in [
        (&logs.encode_to_vec()[..], partial(2, "no")),
        (
            br#"{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "no"}}"#,
            partial(1, "no"),
        ),
        (
            br#"{"partialSuccess": {"rejectedLogRecords": 3}}"#,
            partial(3, ""),
        ),
        (
            b"\n{\"partial_success\": {\"rejected_data_points\": \"4\"}}",
            partial(4, ""),
        ),
        (
            br#"{"partialSuccess": {"rejectedSpans": {}, "errorMessage": 1}}"#,
            partial(0, ""),
        ),
        (br#"{"partialSuccess": {}}"#, partial(0, "")),
        (b"{}", partial(0, "")),
        (br#"{"partialSuccess": "#, partial(0, "")),
        (b"", partial(0, "")),
        (b"\xff\xff\xff", partial(0, "")),
    ] {
        for status in [200, 202] {
            assert_eq!(received(status, &[], body, &[]), Ok(expected.clone()));
        }
    }
    for (rejected, expected) in [(-1, 0), (2, 2), (9, 3)] {
        assert_eq!(partial(rejected, "").rejected(3), expected);
    }
}

/// The length of a message may be the code of a brace.
#[test]
fn a_partial_success_in_protobuf_of_any_length_is_read() {
    for length in 0..300 {
        let expected = partial(1, &"x".repeat(length));
        let response = ExportResponse {
            partial_success: Some(expected.clone()),
        };
        let read = received(200, &[], &response.encode_to_vec(), &[]);
        assert_eq!(read, Ok(expected), "{length}");
    }
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
            let result = received(status, headers, body, &[]);
            assert_eq!(result.is_ok(), is_accepted, "{headers:?} {body:?}");
            if let Err(failed) = result {
                assert_eq!(
                    (failed.reason, failed.result),
                    (ExportFailure::NotOtlp, MayBeContent)
                );
                assert!(failed.message.contains("no OTLP receiver"), "{failed:?}");
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
    (404, &[], "", &[(BASE, "http://prometheus:9090/api/v1/otlp")], "set OTEL_TRACES_EXPORTER=none"),
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
        let failed = received(*status, headers, body.as_bytes(), environment).unwrap_err();
        assert_eq!(failed.result, MayBeContent, "{failed:?}");
        assert!(failed.message.contains(expected), "{failed:?}");
        assert!(!failed.message.contains("secret"), "{failed:?}");
    }
}

#[test]
fn gzip_is_unpacked_and_all_else_is_as_it_was() {
    let text = Bytes::from_static(b"not compressed");
    assert_eq!(gunzip(text.clone(), 1_000_000), text);
    let packed = crate::outputs::metrics::exposition::gzip(&text).unwrap();
    assert_eq!(gunzip(packed.into(), 1_000_000), text);
}
