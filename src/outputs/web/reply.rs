//! Responses: headers and gzip.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
        HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};

use super::probe::ProbeResult;
use crate::{http::server::HandlerResponse, outputs::metrics::exposition};

/// Allows our own style, script and icon, and the reload of the page.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Smaller bodies are not compressed.
const MIN_COMPRESSED: usize = 1_024;

const PROBE_METHODS: &str = "GET, HEAD, OPTIONS";

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// A response with the headers that all of them have.
pub(super) fn ok(content_type: &'static str, body: impl Into<Bytes>) -> HandlerResponse {
    let mut response = Response::new(Full::new(body.into()));
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, "accept-encoding"),
    ] {
        set(&mut response, name, value);
    }
    response
}

pub(super) fn set(response: &mut HandlerResponse, name: HeaderName, value: &'static str) {
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
}

pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> HandlerResponse {
    let mut response = ok("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

pub(super) fn compressed(mut response: HandlerResponse) -> HandlerResponse {
    let body = response.body().clone().into_inner().unwrap_or_default();
    if body.len() >= MIN_COMPRESSED
        && let Ok(compressed) = exposition::gzip(&body)
    {
        *response.body_mut() = Full::from(compressed);
        set(&mut response, CONTENT_ENCODING, "gzip");
    }
    response
}

pub(super) fn probe(result: ProbeResult) -> HandlerResponse {
    match result {
        Ok(line) => text(StatusCode::OK, format!("{line}\n")),
        Err(line) => text(StatusCode::SERVICE_UNAVAILABLE, line + "\n"),
    }
}

/// The URLs of assets contain the version, so they can be cached.
pub(super) fn asset(path: &str) -> Option<HandlerResponse> {
    let mut response = match path {
        "/assets/status.css" => ok("text/css; charset=utf-8", include_str!("status/status.css")),
        "/assets/status.js" => ok(
            "text/javascript; charset=utf-8",
            include_str!("status/status.js"),
        ),
        "/assets/icon.svg" => ok("image/svg+xml", include_str!("status/icon.svg")),
        _ => return None,
    };
    set(&mut response, CACHE_CONTROL, "public, max-age=86400");
    Some(response)
}

pub(super) fn method_not_allowed(is_probe: bool) -> HandlerResponse {
    let body = "405: this method is not allowed\n";
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, body);
    let methods = if is_probe { PROBE_METHODS } else { "GET, HEAD" };
    set(&mut response, ALLOW, methods);
    response
}

pub(super) fn without_body(mut response: HandlerResponse) -> HandlerResponse {
    *response.body_mut() = Full::default();
    set(&mut response, ALLOW, PROBE_METHODS);
    response
}
