//! What is sent back: status, headers and body as plain values, so that what decides on them is pure.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Serialize;
use serde_json::json;

use crate::server::HandlerResponse;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatorResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, but for those that the server adds.
    pub headers: Vec<(HeaderName, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl SimulatorResponse {
    pub(super) fn new(status: StatusCode, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![(CONTENT_TYPE, content_type.to_owned())],
            body: body.into(),
        }
    }

    pub(super) fn json(status: StatusCode, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "application/json; charset=utf-8", body)
    }

    pub(super) fn of(status: StatusCode, value: &impl Serialize) -> Self {
        Self::json(status, serde_json::to_vec(value).unwrap_or_default())
    }

    pub(super) fn too_large(most: usize) -> Self {
        let text = format!("the body is too large, at most {most} bytes are read");
        Self::of(StatusCode::PAYLOAD_TOO_LARGE, &json!({ "error": text }))
    }

    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl From<SimulatorResponse> for HandlerResponse {
    fn from(reply: SimulatorResponse) -> Self {
        let mut answer = Response::new(Full::new(Bytes::from(reply.body)));
        *answer.status_mut() = reply.status;
        for (name, value) in reply.headers {
            // A value that is no header value is left out; all of ours are.
            if let Ok(value) = HeaderValue::try_from(value) {
                answer.headers_mut().append(name, value);
            }
        }
        answer
    }
}
