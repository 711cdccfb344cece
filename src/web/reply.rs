//! Responses: media types, headers and gzip.

use std::borrow::Cow;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
        HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};

use super::{ProbeResult, status};
use crate::{
    metrics::{exposition::Format, negotiation},
    server::HandlerResponse,
};

/// Allows our own style, script and icon, and the reload of the page.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Smaller bodies are not compressed.
const MIN_COMPRESSED: usize = 1_024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Html,
    Json,
    PlainText,
    Style,
    Script,
    Icon,
    Metrics(Format),
}

impl Media {
    fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::PlainText => "text/plain; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Icon => "image/svg+xml",
            Self::Metrics(format) => format.content_type(),
        }
    }

    /// The URLs of assets contain the version, so they can be cached.
    fn cache_control(self) -> &'static str {
        match self {
            Self::Style | Self::Script | Self::Icon => "public, max-age=86400",
            Self::Html | Self::Json | Self::PlainText | Self::Metrics(_) => "no-store",
        }
    }
}

/// A response without the common headers.
#[derive(Debug, Clone)]
pub(super) struct WebResponse {
    status: StatusCode,
    media: Media,
    body: Bytes,
    is_compressed: bool,
    extra: Option<(HeaderName, &'static str)>,
}

impl WebResponse {
    pub(super) fn new(media: Media, body: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::OK,
            media,
            body: match body.into() {
                Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
                Cow::Owned(text) => Bytes::from(text),
            },
            is_compressed: false,
            extra: None,
        }
    }

    pub(super) fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.extra = Some((name, value));
        self
    }

    fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Compresses a large body that is not compressed yet.
    pub(super) fn compress_if(mut self, accepts_gzip: bool) -> Self {
        let is_useful = !self.is_compressed && self.body.len() >= MIN_COMPRESSED;
        if accepts_gzip
            && is_useful
            && let Ok(compressed) = negotiation::gzip(&self.body)
        {
            self.body = Bytes::from(compressed);
            self.is_compressed = true;
        }
        self
    }

    pub(super) fn into_response(self) -> HandlerResponse {
        let Self {
            status,
            media,
            body,
            is_compressed,
            extra,
        } = self;
        let mut fixed = vec![
            (CONTENT_TYPE, media.content_type()),
            (CACHE_CONTROL, media.cache_control()),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
            (REFERRER_POLICY, "no-referrer"),
            (VARY, "accept-encoding"),
        ];
        fixed.extend(is_compressed.then_some((CONTENT_ENCODING, "gzip")));
        fixed.extend(extra);
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        for (name, value) in fixed {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

pub(super) fn probe(result: ProbeResult) -> WebResponse {
    let status = result.status();
    WebResponse::new(Media::PlainText, result.reason + "\n").with_status(status)
}

pub(super) fn asset(path: &str) -> Option<WebResponse> {
    let (media, body) = match path {
        "/assets/status.css" => (Media::Style, include_str!("status/status.css")),
        "/assets/status.js" => (Media::Script, include_str!("status/status.js")),
        "/assets/icon.svg" => (Media::Icon, include_str!("status/icon.svg")),
        _ => return None,
    };
    Some(WebResponse::new(media, body))
}

pub(super) fn not_found() -> WebResponse {
    WebResponse::new(Media::Html, status::not_found()).with_status(StatusCode::NOT_FOUND)
}

pub(super) fn host_not_allowed() -> WebResponse {
    let body = "403: this host name is not allowed. Use an IP address or the name of the VM, or start the exporter \
                with --web.allowed-hosts=NAME\n";
    WebResponse::new(Media::PlainText, body).with_status(StatusCode::FORBIDDEN)
}

pub(super) fn method_not_allowed() -> WebResponse {
    WebResponse::new(Media::PlainText, "405: only GET and HEAD are allowed\n")
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
        .with(ALLOW, "GET, HEAD")
}

pub(super) fn internal_error() -> WebResponse {
    WebResponse::new(Media::PlainText, "500: internal error\n")
        .with_status(StatusCode::INTERNAL_SERVER_ERROR)
}
