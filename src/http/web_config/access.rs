//! Decides about each request before the web service sees it: the rate limit, and names and passwords. Adds the
//! headers of the settings to each response.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
};
use tokio::time::Instant;

use super::{
    config_source::ConfigSource,
    passwords::{Credentials, Passwords},
    rate_limit::TokenBucket,
    settings::Settings,
};
use crate::http::server::{Abort, Anonymous, Handler, HandlerResponse};

pub(super) struct Access {
    source: Arc<ConfigSource>,
    passwords: Passwords,
    bucket: Mutex<TokenBucket>,
    started_at: Instant,
    /// Paths that need no password and do not count for the rate limit: probes, which a kubelet or a load balancer
    /// sends.
    open_paths: &'static [&'static str],
    handler: Arc<dyn Handler>,
}

/// The settings that a request was decided by.
#[derive(Clone)]
struct Decided(Arc<Settings>);

impl Access {
    pub(super) fn new(
        source: Arc<ConfigSource>,
        passwords: Passwords,
        open_paths: &'static [&'static str],
        handler: Arc<dyn Handler>,
    ) -> Self {
        Self {
            source,
            passwords,
            bucket: Mutex::default(),
            started_at: Instant::now(),
            open_paths,
            handler,
        }
    }

    fn is_within_rate_limit(&self, settings: &Settings) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.allow(settings.rate_limit, self.started_at.elapsed())
    }

    /// The status of the refusal of a request.
    async fn refused(
        &self,
        settings: &Settings,
        request: &Request<Incoming>,
    ) -> Option<StatusCode> {
        if !self.is_within_rate_limit(settings) {
            return Some(StatusCode::TOO_MANY_REQUESTS);
        }
        if settings.users.is_empty() {
            return None;
        }
        let header = request.headers().get(AUTHORIZATION);
        let credentials = header.and_then(|header| Credentials::parse(header.as_bytes()));
        let Some(credentials) = credentials else {
            return Some(StatusCode::UNAUTHORIZED);
        };
        match self.passwords.accepts(&settings.users, &credentials).await {
            Some(true) => None,
            Some(false) => Some(StatusCode::UNAUTHORIZED),
            None => Some(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

#[async_trait]
impl Handler for Access {
    async fn refusal(&self, request: &mut Request<Incoming>) -> Option<HandlerResponse> {
        if self.open_paths.contains(&request.uri().path()) {
            // A probe must not depend on a file: a kubelet would restart the exporter.
            let settings = self.source.last_valid();
            if !settings.users.is_empty() {
                request.extensions_mut().insert(Anonymous);
            }
            request.extensions_mut().insert(Decided(settings));
            return None;
        }
        let Some(settings) = self.source.settings().await else {
            return Some(refusal(StatusCode::INTERNAL_SERVER_ERROR));
        };
        if let Some(status) = self.refused(&settings, request).await {
            let mut response = refusal(status);
            add_headers(&settings, &mut response);
            return Some(response);
        }
        request.extensions_mut().insert(Decided(settings));
        None
    }

    async fn handle(&self, mut request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        let decided = request.extensions_mut().remove::<Decided>();
        let mut response = self.handler.handle(request).await?;
        if let Some(Decided(settings)) = decided {
            add_headers(&settings, &mut response);
        }
        Ok(response)
    }

    fn makes_large_body(&self, request: &Request<Incoming>) -> bool {
        self.handler.makes_large_body(request)
    }
}

/// With the texts of Go's `http.Error`.
fn refusal(status: StatusCode) -> HandlerResponse {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(format!("{reason}\n"))));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    if status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic");
        response.headers_mut().insert(WWW_AUTHENTICATE, basic);
    }
    response
}

/// They replace our own.
fn add_headers(settings: &Settings, response: &mut HandlerResponse) {
    for (name, value) in &settings.headers {
        response.headers_mut().insert(name, value.clone());
    }
}
