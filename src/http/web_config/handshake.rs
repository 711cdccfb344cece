//! TLS handshakes, with the certificates as they are on disk.

use std::{io, sync::Arc};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsAcceptor;

use super::files::ConfigSource;
use crate::http::server::{Acceptor, Stream};

/// The most bytes that are read of a request without TLS on a port with TLS.
const MAX_PLAIN_BYTES: u64 = 64 * 1024;
/// With the sentence of Go's `net/http`.
const PLAIN_RESPONSE: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
     Content-Length: 48\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

pub(super) struct Handshakes {
    pub(super) source: Arc<ConfigSource>,
}

#[async_trait]
impl Acceptor for Handshakes {
    async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
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
