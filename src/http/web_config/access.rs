//! Decides about each request before the web service sees it: names and passwords. Adds the headers of the settings to
//! each response.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
};

use super::{
    files::ConfigSource,
    passwords::{self, Passwords},
    settings::Settings,
};
use crate::http::server::{Abort, Anonymous, CheckTurn, Handler, HandlerResponse};

pub(super) struct Access {
    pub(super) source: Arc<ConfigSource>,
    pub(super) passwords: Passwords,
    /// Paths that need no password: probes, which a kubelet or a load balancer sends.
    pub(super) open_paths: &'static [&'static str],
    pub(super) handler: Arc<dyn Handler>,
}

impl Access {
    /// The status of the refusal of a request.
    async fn refused(
        &self,
        settings: &Settings,
        request: &Request<Incoming>,
    ) -> Option<StatusCode> {
        if settings.users.is_empty() {
            return None;
        }
        let header = request.headers().get(AUTHORIZATION);
        let credentials = header.and_then(|header| passwords::credentials(header.as_bytes()));
        let Some((user, password)) = credentials else {
            return Some(StatusCode::UNAUTHORIZED);
        };
        let turn = request.extensions().get::<CheckTurn>();
        let users = &settings.users;
        let accepted = self.passwords.accepts(users, &user, password, turn);
        match accepted.await {
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
            return None;
        }
        let Some(settings) = self.source.settings().await else {
            return Some(refusal(StatusCode::INTERNAL_SERVER_ERROR));
        };
        let status = self.refused(&settings, request).await?;
        Some(with_headers(&settings, refusal(status)))
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        let response = self.handler.handle(request).await?;
        Ok(with_headers(&self.source.last_valid(), response))
    }

    fn has_large_body(&self, request: &Request<Incoming>) -> bool {
        self.handler.has_large_body(request)
    }
}

/// With the texts of Go's `http.Error`.
fn refusal(status: StatusCode) -> HandlerResponse {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(format!("{reason}\n"))));
    *response.status_mut() = status;
    let mut set = |name, value| {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value)
    };
    set(CONTENT_TYPE, "text/plain; charset=utf-8");
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    if status == StatusCode::UNAUTHORIZED {
        set(WWW_AUTHENTICATE, "Basic");
    }
    response
}

/// Those of the settings replace our own.
fn with_headers(settings: &Settings, mut response: HandlerResponse) -> HandlerResponse {
    for (name, value) in &settings.headers {
        response.headers_mut().insert(name, value.clone());
    }
    response
}
