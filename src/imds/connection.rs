//! The one connection to IMDS, kept open from request to request and opened anew where IMDS has closed it.
//!
//! It is a bare connection of hyper's: a client for the whole web brings a pool, redirects, retries and proxies, of which
//! none may serve here, and a poll a second on every VM would pay for each layer (`docs/performance.md`).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, Uri,
    body::Incoming,
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
    endpoint::{Endpoint, SetupError},
    error::{self, Error},
};
use crate::outbound::http::USER_AGENT;

/// IMDS is on the host: a connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is sent: small, and known in whole.
pub(super) type Outgoing = Request<Full<Bytes>>;

type Sender = SendRequest<Full<Bytes>>;

/// Opens, keeps and uses it.
#[derive(Debug)]
pub(super) struct ImdsConnection {
    connector: HttpsConnector<HttpConnector>,
    to: Uri,
    base: String,
    /// Those of every request.
    headers: HeaderMap,
    kept: Option<Sender>,
}

impl ImdsConnection {
    /// To one endpoint; opened by the first request. A provider of cryptography must have been installed in the process
    /// before.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, SetupError> {
        let builder = HttpsConnectorBuilder::new();
        // Without TLS no certificate authority is needed, and none need be there: a container may have none at all.
        let builder = if endpoint.is_https() {
            builder
                .try_with_platform_verifier()
                .map_err(|error| SetupError::Client {
                    address: endpoint.base().to_owned(),
                    cause: error::root_cause(&error),
                })?
        } else {
            let nobody = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            builder.with_tls_config(nobody.with_no_client_auth())
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let to = endpoint.events.clone();
        let mut headers = HeaderMap::new();
        headers.insert("Metadata", HeaderValue::from_static("true"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if let Some(host) = to
            .authority()
            .and_then(|host| HeaderValue::from_str(host.as_str()).ok())
        {
            headers.insert(header::HOST, host);
        }
        Ok(Self {
            connector: builder.https_or_http().enable_http1().wrap_connector(tcp),
            to,
            base: endpoint.base().to_owned(),
            headers,
            kept: None,
        })
    }

    /// A request to be sent here, without a body: its address is a path, as HTTP/1.1 has it for an origin server.
    pub(super) fn request(&self, to: &Uri) -> Outgoing {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = to
            .path_and_query()
            .cloned()
            .map(Uri::from)
            .unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Sends one request; done when the head of the answer is there. Dropped before, it takes the connection with it, so
    /// that no late answer is ever taken for that of another request.
    pub(super) async fn send(&mut self, request: Outgoing) -> Result<Response<Incoming>, Error> {
        let (mut sender, is_kept) = match self.kept().await {
            Some(sender) => (sender, true),
            None => (self.open().await?, false),
        };
        let answer = match sender.try_send_request(request).await {
            Ok(answer) => answer,
            Err(mut failed) => match failed.take_message() {
                // IMDS closed the connection before the request had left: it has seen nothing of it.
                Some(unsent) if is_kept => {
                    sender = self.open().await?;
                    let sent = sender.send_request(unsent).await;
                    sent.map_err(|error| self.failed(&error))?
                }
                _ => return Err(self.failed(failed.error())),
            },
        };
        self.kept = Some(sender);
        Ok(answer)
    }

    /// The connection of the request before, if another one can go by it.
    async fn kept(&mut self) -> Option<Sender> {
        let mut sender = self.kept.take()?;
        sender.ready().await.ok()?;
        Some(sender)
    }

    async fn open(&mut self) -> Result<Sender, Error> {
        let base = || self.base.clone();
        let opened = timeout(CONNECT_TIMEOUT, self.connector.call(self.to.clone())).await;
        let stream = opened
            .map_err(|_elapsed| Error::ConnectTimeout { base: base() })?
            .map_err(|error| Error::from_connect(&*error, self.is_https(), base()))?;
        let (sender, connection) = handshake(stream)
            .await
            .map_err(|error| Error::from_exchange(&error, base()))?;
        // It ends with its sender, or when IMDS closes it; what went wrong the request has been told.
        drop(tokio::spawn(connection));
        Ok(sender)
    }

    fn is_https(&self) -> bool {
        self.to.scheme() == Some(&Scheme::HTTPS)
    }

    fn failed(&self, error: &hyper::Error) -> Error {
        Error::from_exchange(error, self.base.clone())
    }
}
