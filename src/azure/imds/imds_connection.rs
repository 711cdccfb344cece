//! The connection to IMDS: reused for every request, and reopened when IMDS has closed it.
//!
//! It is a plain hyper connection. A general HTTP client adds a pool, redirects, retries and proxies, none of which may
//! be used here, and every poll on every VM would pay for them (`docs/internals/performance.md`).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full, LengthLimitError, Limited};
use hyper::{
    Request, Response, Uri,
    body::{Body as _, Incoming},
    client::conn::http1::{SendRequest, handshake},
    header::{self, HeaderMap, HeaderValue},
    http::uri::Scheme,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use tower_service::Service as _;

use super::{
    endpoint::{Endpoint, EndpointError},
    request_error::{self, FailureReason, RequestError},
};
use crate::http::client::{USER_AGENT, causes, resolver::Resolver, root_cause};

pub(super) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// IMDS runs on the host, so connecting takes milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) type OutgoingRequest = Request<Full<Bytes>>;

type RequestSender = SendRequest<Full<Bytes>>;

#[derive(Debug)]
pub(super) struct ImdsConnection {
    connector: HttpsConnector<HttpConnector<Resolver>>,
    uri: Uri,
    base: String,
    headers: HeaderMap,
    idle: Option<RequestSender>,
    /// While [`ImdsConnection::send`] opens a connection; if it was dropped then, nothing was sent.
    pub(super) is_opening: bool,
    /// IMDS closed the kept connection without an answer to the last request.
    pub(super) was_outdated: bool,
}

impl ImdsConnection {
    /// The first request opens the connection. A rustls crypto provider must be installed in the process.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        let builder = HttpsConnectorBuilder::new();
        // Plain HTTP needs no certificate authorities, and a container image may have none.
        let builder = if endpoint.is_https() {
            builder
                .try_with_platform_verifier()
                .map_err(|error| {
                    EndpointError::Address(format!(
                        "cannot create a client for {}: {}; an https address needs the system's certificate \
                         authorities (package ca-certificates, or SSL_CERT_FILE)",
                        endpoint.base(),
                        root_cause(&error)
                    ))
                })?
        } else {
            let tls = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            builder.with_tls_config(tls.with_no_client_auth())
        };
        let uri = endpoint.events.clone();
        // The URL of an endpoint has a host.
        let resolver = Resolver::for_host(uri.host().unwrap_or_default())?;
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let mut headers = HeaderMap::new();
        headers.insert("Metadata", HeaderValue::from_static("true"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if let Some(host) = uri
            .authority()
            .and_then(|host| HeaderValue::from_str(host.as_str()).ok())
        {
            headers.insert(header::HOST, host);
        }
        Ok(Self {
            connector: builder.https_or_http().enable_http1().wrap_connector(tcp),
            uri,
            base: endpoint.base().to_owned(),
            headers,
            idle: None,
            is_opening: false,
            was_outdated: false,
        })
    }

    /// A GET without a body. The request target is in origin form (RFC 9112, section 3.2.1).
    pub(super) fn request(&self, uri: &Uri) -> OutgoingRequest {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = uri
            .path_and_query()
            .cloned()
            .map(Uri::from)
            .unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Sends one request and returns once the response headers have arrived. If the future is dropped before, the
    /// connection is closed, so that a late response is never matched with a later request.
    pub(super) async fn send(
        &mut self,
        request: OutgoingRequest,
    ) -> Result<Response<Incoming>, RequestError> {
        self.is_opening = false;
        self.was_outdated = false;
        let (mut sender, is_reused) = match self.take_idle().await {
            Some(sender) => (sender, true),
            None => (Box::pin(self.open()).await?, false),
        };
        let response = match sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut failed) => match failed.take_message() {
                // IMDS closed the idle connection before the request was sent.
                Some(unsent) if is_reused => {
                    sender = Box::pin(self.open()).await?;
                    let sent = sender.send_request(unsent).await;
                    sent.map_err(|error| request_error::exchange(&error, &self.base))?
                }
                _ => {
                    self.was_outdated = is_reused && is_closed(failed.error());
                    return Err(request_error::exchange(failed.error(), &self.base));
                }
            },
        };
        self.idle = Some(sender);
        Ok(response)
    }

    pub(super) fn close(&mut self) {
        self.idle = None;
    }

    async fn take_idle(&mut self) -> Option<RequestSender> {
        let mut sender = self.idle.take()?;
        sender.ready().await.ok()?;
        Some(sender)
    }

    /// The future is large (TLS) and rarely needed: callers box it.
    async fn open(&mut self) -> Result<RequestSender, RequestError> {
        let base = &self.base;
        let is_https = self.uri.scheme() == Some(&Scheme::HTTPS);
        self.is_opening = true;
        let opened = timeout(CONNECT_TIMEOUT, self.connector.call(self.uri.clone())).await;
        let stream = opened
            .map_err(|_elapsed| request_error::connect_timeout(base))?
            .map_err(|error| request_error::connect(&*error, is_https, base))?;
        let (sender, connection) = handshake(stream)
            .await
            .map_err(|error| request_error::exchange(&error, base))?;
        self.is_opening = false;
        // The task ends with its sender or when IMDS closes the connection; the request reports the error.
        drop(tokio::spawn(connection));
        Ok(sender)
    }
}

/// Whether the peer closed the connection before a whole response head.
fn is_closed(error: &hyper::Error) -> bool {
    error.is_incomplete_message()
        || error.is_closed()
        || causes(error).any(request_error::is_closed)
}

pub(super) async fn read_body(body: Incoming, max_bytes: usize) -> Result<Bytes, RequestError> {
    let too_large = format!("the body has more than {max_bytes} bytes, the limit for IMDS");
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(RequestError::new(FailureReason::Body, too_large));
    }
    let read = Limited::new(body, max_bytes).collect().await;
    read.map(Collected::to_bytes).map_err(|cause| {
        let message = if cause.is::<LengthLimitError>() {
            too_large
        } else {
            format!("the body was truncated: {}", root_cause(&*cause))
        };
        RequestError::new(FailureReason::Body, message)
    })
}

/// The body of a response that is classified by its status; empty if it does not arrive in time.
pub(super) async fn error_body(body: Incoming, limit: Duration) -> Bytes {
    let read = read_body(body, MAX_ERROR_BYTES);
    match timeout(limit.min(ERROR_BODY_TIMEOUT), read).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) | Err(_) => Bytes::new(),
    }
}
