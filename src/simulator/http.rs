//! HTTP requests and responses as plain values.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Serialize;
use serde_json::json;

use crate::server::HandlerResponse;

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    /// Without the question mark.
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatorResponse {
    pub status: StatusCode,
    pub headers: Vec<(HeaderName, String)>,
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

    pub(super) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// A body that is JSON already.
    pub(super) fn raw_json(status: StatusCode, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "application/json; charset=utf-8", body)
    }

    pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        Self::raw_json(status, serde_json::to_vec(value).unwrap_or_default())
    }

    pub(super) fn error(status: StatusCode, message: &str) -> Self {
        Self::json(status, &json!({ "error": message }))
    }

    pub(super) fn method_not_allowed(message: &str, allowed: &str) -> Self {
        Self::error(StatusCode::METHOD_NOT_ALLOWED, message).with(ALLOW, allowed)
    }

    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl From<SimulatorResponse> for HandlerResponse {
    fn from(response: SimulatorResponse) -> Self {
        let mut answer = Response::new(Full::new(Bytes::from(response.body)));
        *answer.status_mut() = response.status;
        for (name, value) in response.headers {
            // All values are valid; an invalid one would be left out.
            if let Ok(value) = HeaderValue::try_from(value) {
                answer.headers_mut().append(name, value);
            }
        }
        answer
    }
}
