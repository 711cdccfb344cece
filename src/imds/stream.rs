//! TCP connections that bound what IMDS can send for one request.
//!
//! hyper skips informational responses (1xx) without a limit. A server that sends them without end would keep the
//! process busy until the timeout of the request.

use std::{
    error::Error,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tower_service::Service;

use crate::outbound::resolver::Resolver;

/// Upper bound of a body.
pub(super) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// For one request, with TLS and chunks.
pub(super) const MAX_RECEIVED: usize = 2 * MAX_BODY_BYTES;

/// The server sent more than [`MAX_RECEIVED`] bytes for one request.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("more than {MAX_RECEIVED} bytes for one request")]
pub(super) struct TooManyBytes;

/// Fails a read after [`MAX_RECEIVED`] bytes since the last write, which is the request.
///
/// TLS also writes control records, for example the answer to a key update. Each of them resets the count, so a TLS
/// server that requests them without end is bounded only by the timeout of the request.
#[derive(Debug)]
pub(super) struct BoundedStream {
    stream: TcpStream,
    received: usize,
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received > MAX_RECEIVED {
            return Poll::Ready(Err(io::Error::other(TooManyBytes)));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.received += buffer.filled().len() - before;
        read
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.received = 0;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.received = 0;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Connection for BoundedStream {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

/// Opens [`BoundedStream`]s.
#[derive(Debug, Clone)]
pub(super) struct BoundedConnector(HttpConnector<Resolver>);

impl BoundedConnector {
    /// Starts a thread unless `host` is an address.
    pub(super) fn new(host: &str) -> io::Result<Self> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::for_host(host)?);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Ok(Self(tcp))
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Service<Uri> for BoundedConnector {
    type Response = TokioIo<BoundedStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(BoundedStream {
                stream,
                received: 0,
            }))
        })
    }
}
