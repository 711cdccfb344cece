//! Decides about each connection and each request before the web service sees it: TLS handshakes, with the certificates as
//! they are on disk, names and passwords. Adds the headers of the settings to each response.

use std::{io, sync::Arc};

use async_trait::async_trait;
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;

use super::{
    ConfigSource,
    passwords::{self, Passwords},
    web_settings::Settings,
};
use crate::http::server::{Abort, Anonymous, Handler, HandlerResponse, Stream, text_response};

/// The most bytes that are read of a request without TLS on a port with TLS.
const MAX_PLAIN_BYTES: u64 = 64 * 1024;
/// With the sentence of Go's `net/http`.
const PLAIN_RESPONSE: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
     Content-Length: 48\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

pub(super) struct Access {
    pub(super) source: ConfigSource,
    /// Until the end of the process.
    pub(super) is_tls: bool,
    pub(super) passwords: Passwords,
    /// Paths that need no password: probes, which a kubelet or a load balancer sends.
    pub(super) open_paths: &'static [&'static str],
    pub(super) handler: Arc<dyn Handler>,
}

impl Access {
    async fn refused(
        &self,
        settings: &Settings,
        request: &Request<Incoming>,
        check_turn: &Semaphore,
    ) -> Option<StatusCode> {
        if settings.users.is_empty() {
            return None;
        }
        let header = request.headers().get(AUTHORIZATION);
        let credentials = header.and_then(|header| passwords::credentials(header.as_bytes()));
        let Some((user, password)) = credentials else {
            return Some(StatusCode::UNAUTHORIZED);
        };
        let users = &settings.users;
        let accepted = self.passwords.accepts(users, &user, password, check_turn);
        match accepted.await {
            Some(true) => None,
            Some(false) => Some(StatusCode::UNAUTHORIZED),
            None => Some(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

#[async_trait]
impl Handler for Access {
    async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
        if !self.is_tls {
            return Ok(Stream::Left(stream));
        }
        let mut first = [0];
        let received = stream.peek(&mut first).await?;
        // A handshake begins with 0x16, a request of HTTP with the name of a method.
        if received == 1 && first[0].is_ascii_uppercase() {
            return refuse_plain(stream).await;
        }
        let config = self.source.tls().await;
        let config =
            config.ok_or_else(|| io::Error::other("the web configuration is not valid"))?;
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        Ok(Stream::Right(Box::new(stream)))
    }

    async fn refusal(
        &self,
        request: &mut Request<Incoming>,
        check_turn: &Semaphore,
    ) -> Option<HandlerResponse> {
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
        let status = self.refused(&settings, request, check_turn).await?;
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
    let mut response = text_response(status, status.canonical_reason().unwrap_or_default());
    if status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic");
        response.headers_mut().insert(WWW_AUTHENTICATE, basic);
    }
    response
}

/// The headers of the settings replace our own.
fn with_headers(settings: &Settings, mut response: HandlerResponse) -> HandlerResponse {
    for (name, value) in &settings.headers {
        response.headers_mut().insert(name, value.clone());
    }
    response
}

async fn refuse_plain(mut stream: TcpStream) -> io::Result<Stream> {
    stream.write_all(PLAIN_RESPONSE.as_bytes()).await?;
    stream.shutdown().await?;
    // The system would reset the connection if a part of the request was not read, and the client might not see the
    // response.
    let mut rest = stream.take(MAX_PLAIN_BYTES);
    let mut buffer = [0; 1024];
    while rest.read(&mut buffer).await? > 0 {}
    let problem = "an HTTP request on a port for HTTPS";
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}
