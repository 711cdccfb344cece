//! The byte stream under HTTP: TCP, or TLS over TCP.

use std::{fmt, io};

use async_trait::async_trait;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

/// Used as a trait object, so that the binary contains the HTTP code once.
pub(crate) trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Stream for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Makes the stream under HTTP of an accepted connection, such as by a TLS handshake.
#[async_trait]
pub(crate) trait Acceptor: Send + Sync + 'static {
    /// Has to be done within [`header_timeout`](super::ServerLimits::header_timeout). Meanwhile, the connection counts
    /// as one that has sent no request.
    async fn accept(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>>;
}
