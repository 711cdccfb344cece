//! HTTP requests and responses with their whole body.

use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
};
use serde::Serialize;
use serde_json::json;

pub type Request = hyper::Request<Bytes>;
pub type Response = hyper::Response<Bytes>;

pub(super) const JSON: &str = "application/json; charset=utf-8";

pub(super) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response {
    let mut response = empty(status);
    *response.body_mut() = body.into();
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

pub(super) fn json(value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).unwrap_or_default();
    response(StatusCode::OK, JSON, body)
}

pub(super) fn error(status: StatusCode, message: &str) -> Response {
    response(status, JSON, json!({ "error": message }).to_string())
}

pub(super) fn not_allowed(methods: &'static str) -> Response {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, methods);
    response
}
