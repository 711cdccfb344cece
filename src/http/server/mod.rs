//! The HTTP/1.1 server of the exporter and of the simulator. It handles sockets and time limits, not requests.
//!
//! - At most [`ServerLimits::max_connections`] connections are served at once.
//! - Every phase of a connection has a time limit, so that no client can occupy a slot indefinitely.
//! - When all slots are taken and a client waits, connections without a request in progress are evicted (`slots`): the
//!   oldest ones of an address with more than its share, or else the oldest ones. So a client that sends its request
//!   at once is served, no matter how many others do not.
//! - The bodies in flight have a limit in bytes. While it is reached, a request for another large body waits, and
//!   responses that are not read within a second are cut off. Small responses do not wait.
//! - A failed accept is retried. Without a free file descriptor, connections are evicted first.
//! - A stop lets responses in flight finish, up to a deadline.
//! - TLS is an `Acceptor`; a handshake that hangs is a connection that has sent no request. Passwords are checked in
//!   [`Handler::refusal`]; a client that waits for the result can be evicted.

mod activity;
mod connection;
mod host;
mod slots;
#[cfg(test)]
mod tests;

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinSet, yield_now},
    time::{sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{either::Either, sync::CancellationToken};
use tracing::{debug, warn};

pub(crate) use self::host::{is_host_allowed, normalized};
use crate::base::system;
use activity::ConnectionPhase;
use connection::ConnectionTask;
use slots::{ConnectionSlots, Slot};

const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Slots that are left when the process may open few files.
const MIN_CONNECTIONS: usize = 4;

/// What clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections served at once. One more is accepted and waits; the others wait in the system's queue.
    pub max_connections: usize,
    /// All bodies that are being sent, in bytes. A body that several connections share counts once. A response with
    /// another large body waits while they are more.
    pub max_response_bytes: usize,
    /// From the connect or the end of the TLS handshake, and from the first byte of each further request, to the end of
    /// the head.
    pub header_timeout: Duration,
    /// From the end of a request's head to the response of the handler.
    pub handler_timeout: Duration,
    /// From one response to the first byte of the next request. Also the time to send one response.
    pub idle_timeout: Duration,
    /// Header lines of a request.
    pub max_headers: usize,
    /// Bytes of a request's head; values below 8 KiB count as 8 KiB.
    pub max_header_bytes: usize,
    /// For responses in flight after a stop.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            // A new connection waits behind all clients that have none, so that more are served than anyone needs.
            max_connections: 1024,
            max_response_bytes: 8 * 1024 * 1024,
            header_timeout: Duration::from_secs(5),
            handler_timeout: Duration::from_secs(30),
            // Longer than the usual scrape interval of one minute.
            idle_timeout: Duration::from_secs(90),
            max_headers: 64,
            max_header_bytes: 16 * 1024,
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

    fn timeout(&self, phase: ConnectionPhase) -> Duration {
        match phase {
            ConnectionPhase::ReadingHead => self.header_timeout,
            ConnectionPhase::Admission | ConnectionPhase::Handling => self.handler_timeout,
            ConnectionPhase::Sending | ConnectionPhase::Idle | ConnectionPhase::Aborted => {
                self.idle_timeout
            }
        }
    }
}

/// Closes the connection without a response, with a reset where the transport supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection closed without a response")]
pub struct Abort;

pub type HandlerResponse = Response<Full<Bytes>>;

/// The byte stream under HTTP: TCP, or TLS over TCP.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Makes the stream under HTTP of an accepted connection, such as by a TLS handshake.
#[async_trait]
pub(crate) trait Acceptor: Send + Sync + 'static {
    /// Has to be done within [`ServerLimits::header_timeout`]. Meanwhile, the connection counts as one that has sent no
    /// request.
    async fn accept(&self, stream: TcpStream) -> io::Result<Stream>;
}

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

    /// The response to a client that may not have any other, such as 401. Decided before the request waits for the
    /// capacity for its response.
    async fn refusal(&self, _request: &mut Request<Incoming>) -> Option<HandlerResponse> {
        None
    }

    /// False if the body of the response is small, or already in memory. Such a response does not wait for others.
    fn makes_large_body(&self, _request: &Request<Incoming>) -> bool {
        true
    }
}

/// Serves until `stop` completes, then lets responses in flight finish.
///
/// # Errors
/// When the listener cannot be used at all.
pub async fn serve(
    listener: std::net::TcpListener,
    handler: impl Handler,
    limits: ServerLimits,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    serve_over(listener, None, Arc::new(handler), limits, Box::pin(stop)).await
}

/// Like [`serve`], over what `acceptor` makes of each TCP stream.
///
/// # Errors
/// When the listener cannot be used at all.
pub(crate) async fn serve_over(
    listener: std::net::TcpListener,
    acceptor: Option<Arc<dyn Acceptor>>,
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    mut stop: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let slots = Arc::new(ConnectionSlots::new(
        limits.max_connections,
        limits.max_response_bytes,
    ));
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        let (stream, slot) = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = &mut stop => break,
        };
        // Without this, the set would keep the results of all tasks.
        while connections.try_join_next().is_some() {}
        let task = ConnectionTask {
            acceptor: acceptor.clone(),
            handler: Arc::clone(&handler),
            limits,
            stopping: stopping.clone(),
        };
        connections.spawn(task.run(stream, slot));
        // The new connection reads its request before the next one can take its slot.
        yield_now().await;
    }
    drop(listener);
    stopping.cancel();
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain_timeout, all).await.is_err() {
        warn!(connections = connections.len(), after = ?limits.drain_timeout, "connections cut off at shutdown");
    }
    Ok(())
}

/// The next connection, once there is a slot for it. Retries for as long as the system refuses.
async fn accept(listener: &TcpListener, slots: &Arc<ConnectionSlots>) -> (TcpStream, Slot) {
    let mut has_failed = false;
    let (stream, peer) = loop {
        let error = match listener.accept().await {
            Ok(accepted) => break accepted,
            Err(error) => error,
        };
        if has_failed {
            debug!(%error, "cannot accept connections");
        } else {
            warn!(%error, "cannot accept connections; retrying");
        }
        has_failed = true;
        if system::is_out_of_descriptors(&error) {
            slots.evict_one().await;
        } else {
            sleep(ACCEPT_RETRY_INTERVAL).await;
        }
    };
    (stream, slots.acquire(peer).await)
}

#[async_trait]
impl<F, R> Handler for F
where
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<HandlerResponse, Abort>> + Send,
{
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        self(request).await
    }
}
