//! The HTTP/1.1 server of the exporter and of the simulator. It handles sockets and limits, not requests.
//!
//! No client keeps the clients of another address out, and the memory for all of them is bounded:
//!
//! - An address (IPv6: a /64 network) has at most a quarter of the connections, and less while others have many
//!   (`clients`). A connection beyond the limit is closed at once.
//! - One large response for each address is made and sent at a time, eight in all. The next one waits, at most
//!   [`ServerLimits::response_timeout`]; then it gets 503. Small responses of a handler do not wait.
//! - Every phase of a connection has a time limit.
//! - A failed accept is retried.
//! - A stop lets responses in flight finish, up to a deadline.
//!
//! TLS is made in [`Handler::accept`]; passwords are checked in [`Handler::refusal`].

mod clients;
mod http_connection;
#[cfg(test)]
mod tests;

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::{JoinSet, unconstrained, yield_now},
    time::{sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{either::Either, sync::CancellationToken};
use tracing::{debug, warn};

use clients::{Client, Clients};
use http_connection::Connection;

const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Connections that are refused before other tasks get their turn.
const MAX_REFUSED_IN_A_ROW: usize = 4096;

/// Connections that are left when the process may open few files.
const MIN_CONNECTIONS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    pub max_connections: usize,
    /// From the connect, the end of the TLS handshake or the last response to the end of a request's head. So it ends
    /// idle connections too.
    pub header_timeout: Duration,
    /// From the end of a request's head to the response, with the wait for its turn.
    pub response_timeout: Duration,
    pub send_timeout: Duration,
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 512,
            // Longer than the usual scrape interval of one minute.
            header_timeout: Duration::from_secs(90),
            // Several times `send_timeout`, so that a few clients that do not read only delay those of their address.
            response_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl ServerLimits {
    /// Limits the connections of each of `servers` servers by the number of files that the process may have open, of
    /// which `reserved` are for other uses.
    #[must_use]
    pub(crate) fn within(mut self, open_files: usize, reserved: usize, servers: usize) -> Self {
        let share = open_files.saturating_sub(reserved) / servers.max(1);
        self.max_connections = self.max_connections.min(share.max(MIN_CONNECTIONS));
        self
    }
}

/// Closes the connection without a response, with a reset where the transport supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection closed without a response")]
pub struct Abort;

pub type HandlerResponse = Response<Full<Bytes>>;

/// A response that consists of this line.
pub(crate) fn text_response(status: StatusCode, line: &str) -> HandlerResponse {
    let mut response = Response::new(Full::from(format!("{line}\n")));
    *response.status_mut() = status;
    let mut set = |name, value| {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    };
    set(CONTENT_TYPE, "text/plain; charset=utf-8");
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// The byte stream under HTTP: TCP, or TLS over TCP.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Extension of a request whose client has not shown the credentials that other paths require: its response must not
/// contain what they protect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anonymous;

/// Used as a trait object, so that the binary contains the HTTP code once and not once per handler.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// # Errors
    /// To close the connection without a response.
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort>;

    /// Makes the stream under HTTP of a connection, such as by a TLS handshake, within five seconds. An error closes the
    /// connection.
    async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
        Ok(Stream::Left(stream))
    }

    /// The response to a client that may not have any other, such as 401. Decided before the request waits for its
    /// turn. Of the requests of one address, one at a time does what takes long, with `_check_turn`.
    async fn refusal(
        &self,
        _request: &mut Request<Incoming>,
        _check_turn: &Semaphore,
    ) -> Option<HandlerResponse> {
        None
    }

    /// True if the body of the response can be large. The request waits until the other ones of its address have been
    /// sent.
    fn has_large_body(&self, _request: &Request<Incoming>) -> bool {
        false
    }
}

/// Serves until `stop` is cancelled, then lets responses in flight finish.
pub async fn serve(
    listener: std::net::TcpListener,
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    stop: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let clients = Arc::new(Clients::new(limits.max_connections));
    let mut connections = JoinSet::new();
    // A client may open more connections than tokio lets one task accept in its turn.
    let next = || stop.run_until_cancelled(unconstrained(accept(&listener, &clients)));
    while let Some((stream, client)) = next().await {
        // Without this, the set would keep the results of all tasks.
        while connections.try_join_next().is_some() {}
        let connection = Connection {
            client,
            handler: Arc::clone(&handler),
            limits,
            stop: stop.clone(),
        };
        connections.spawn(connection.run(stream));
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain_timeout, all).await.is_err() {
        warn!(connections = connections.len(), after = ?limits.drain_timeout, "connections cut off at shutdown");
    }
    Ok(())
}

/// The next connection within the limits. Retries for as long as the system refuses.
async fn accept(listener: &TcpListener, clients: &Arc<Clients>) -> (TcpStream, Client) {
    let mut has_failed = false;
    let mut refused = 0_usize;
    loop {
        let error = match listener.accept().await {
            Ok((stream, peer)) => {
                if let Some(client) = clients.admit(peer.ip()) {
                    return (stream, client);
                }
                // A reset leaves nothing behind in the system's table of connections. Without it, the connection is
                // closed too.
                stream.set_zero_linger().ok();
                refused = refused.wrapping_add(1);
                if refused.is_multiple_of(MAX_REFUSED_IN_A_ROW) {
                    yield_now().await;
                }
                continue;
            }
            Err(error) => error,
        };
        if has_failed {
            debug!(%error, "cannot accept connections");
        } else {
            warn!(%error, "cannot accept connections; retrying");
        }
        has_failed = true;
        sleep(ACCEPT_RETRY_INTERVAL).await;
    }
}
