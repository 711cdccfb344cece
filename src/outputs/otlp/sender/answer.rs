//! What a collector says in the body of a response, in protobuf or in JSON. Pure.
//!
//! The responses for spans, log records and metrics have the same fields by other names
//! (<https://github.com/open-telemetry/opentelemetry-proto>). An error has a `google.rpc.Status`
//! (<https://opentelemetry.io/docs/specs/otlp/#failures>).

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use prost::Message;
use serde_json::Value;

/// `ExportTraceServiceResponse` and its like.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// The collector did not take all, or has a warning.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

/// `google.rpc.Status`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
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
    pub(super) fn read(body: &[u8]) -> Option<Self> {
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

/// The message of an error.
pub(super) fn error_message(body: &[u8]) -> Option<String> {
    let message = match json(body) {
        Some(json) => member(&json, &["message"])?.as_str()?.to_owned(),
        None => Status::decode(body).ok()?.message,
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

/// What a collector has compressed unasked, up to this size; the body itself if it is no gzip.
pub(super) fn gunzip(body: &Bytes, max: usize) -> Bytes {
    let mut content = Vec::new();
    let read = GzDecoder::new(&body[..])
        .take(max as u64)
        .read_to_end(&mut content);
    read.map_or_else(|_| body.clone(), |_| content.into())
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::{
        ExportLogsPartialSuccess, ExportLogsServiceResponse,
    };

    use super::*;

    fn partial(rejected: i64, message: &str) -> PartialSuccess {
        PartialSuccess {
            rejected,
            error_message: message.to_owned(),
        }
    }

    #[test]
    fn a_partial_success_is_read_in_protobuf_and_json() {
        let protobuf = ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                rejected_log_records: 2,
                error_message: "no".to_owned(),
            }),
        };
        let read = PartialSuccess::read;
        assert_eq!(read(&protobuf.encode_to_vec()), Some(partial(2, "no")));
        for (json, expected) in [
            (
                r#"{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "no"}}"#,
                Some(partial(1, "no")),
            ),
            (
                r#"{"partialSuccess": {"rejectedLogRecords": 3}}"#,
                Some(partial(3, "")),
            ),
            (
                "\n{\"partial_success\": {\"rejected_data_points\": \"4\"}}",
                Some(partial(4, "")),
            ),
            (
                r#"{"partialSuccess": {"rejectedSpans": {}, "errorMessage": 1}}"#,
                Some(partial(0, "")),
            ),
            (r#"{"partialSuccess": {}}"#, Some(partial(0, ""))),
            ("{}", None),
            (r#"{"partialSuccess": "#, None),
        ] {
            assert_eq!(read(json.as_bytes()), expected, "{json}");
        }
        assert_eq!(read(b""), None);
        assert_eq!(read(b"\xff\xff\xff"), None);
    }

    /// The length of a message may be the code of a brace.
    #[test]
    fn a_partial_success_in_protobuf_of_any_length_is_read() {
        for length in 0..300 {
            let expected = partial(1, &"x".repeat(length));
            let response = ExportResponse {
                partial_success: Some(expected.clone()),
            };
            let read = PartialSuccess::read(&response.encode_to_vec());
            assert_eq!(read, Some(expected), "{length}");
        }
    }

    #[test]
    fn the_message_of_an_error_is_read_in_protobuf_and_json() {
        let status = Status {
            code: 14,
            message: "the exporter is not ready".to_owned(),
        };
        let read = |body: &[u8]| error_message(body);
        assert_eq!(read(&status.encode_to_vec()), Some(status.message));
        let json = br#"{"code":14,"message":"not ready","details":[]}"#;
        assert_eq!(read(json).as_deref(), Some("not ready"));
        for text in ["", "{}", "{", "Bad Gateway", "<html>"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn gzip_is_unpacked_and_all_else_is_as_it_was() {
        let text = Bytes::from_static(b"not compressed");
        assert_eq!(gunzip(&text, 64), text);
        let packed = crate::outputs::metrics::exposition::gzip(&text).unwrap();
        assert_eq!(gunzip(&packed.into(), 64), text);
    }
}
