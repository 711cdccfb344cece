//! The HTTP/1.1 server of the exporter and of the simulator. It handles sockets and time limits, not requests.
//!
//! - At most [`ServerLimits::max_connections`] connections are served at once.
//! - Every phase of a connection has a time limit, so that no client can occupy a slot indefinitely.
//! - When all slots are taken and a client waits, the connection that has been idle longest is closed. A connection that
//!   has not sent anything counts as idle.
//! - A failed accept (no more file descriptors) is retried.
//! - A stop lets responses in flight finish, up to a deadline.

mod activity;
#[cfg(test)]
mod tests;

use std::{
    future::{Future, ready},
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use activity::{ActivityStream, ConnectionPhase};

const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// A connection that has not sent anything after this time counts as idle.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(500);

/// What clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections served at once. One more is accepted and waits; the others wait in the system's queue.
    pub max_connections: usize,
    /// From the first byte of a request to the end of its head; also from the connect to that first byte.
    pub header_timeout: Duration,
    /// From the end of a request's head to the response of the handler.
    pub handler_timeout: Duration,
    /// From one response to the first byte of the next request. It also ends a client that does not read the response.
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
            max_connections: 64,
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
    fn timeout(&self, phase: ConnectionPhase) -> Duration {
        match phase {
            ConnectionPhase::Fresh => FIRST_BYTE_TIMEOUT.min(self.header_timeout),
            ConnectionPhase::Silent => self.header_timeout.saturating_sub(FIRST_BYTE_TIMEOUT),
            ConnectionPhase::ReadingHead => self.header_timeout,
            ConnectionPhase::Handling => self.handler_timeout,
            ConnectionPhase::Idle | ConnectionPhase::Aborted => self.idle_timeout,
        }
    }
}

/// Closes the connection without a response, with a reset where the transport supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection closed without a response")]
pub struct Abort;

pub type HandlerResponse = Response<Full<Bytes>>;

/// Used as a trait object, so that the binary contains the HTTP code once and not once per handler.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// # Errors
    /// To close the connection without a response.
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort>;
}

/// A byte stream under HTTP: TCP, or TLS over TCP.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the transport close with a reset, if it can.
    fn reset_on_close(&self) {}
}

impl Transport for TcpStream {
    fn reset_on_close(&self) {
        if let Err(error) = self.set_zero_linger() {
            debug!(%error, "connection is closed without a reset");
        }
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
    let wrap = |stream| ready(Ok(stream));
    serve_over(listener, wrap, Arc::new(handler), limits, Box::pin(stop)).await
}

/// Like [`serve`], over what `wrap` makes of each TCP stream within [`ServerLimits::header_timeout`].
///
/// # Errors
/// When the listener cannot be used at all.
pub(crate) async fn serve_over<W, F, T>(
    listener: std::net::TcpListener,
    wrap: W,
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    mut stop: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
) -> io::Result<()>
where
    W: Fn(TcpStream) -> F,
    F: Future<Output = io::Result<T>> + Send + 'static,
    T: Transport,
{
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let slots = ConnectionSlots::new(limits.max_connections);
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        let (stream, slot) = tokio::select! {
            accepted = accept(&listener, &slots) => accepted?,
            () = &mut stop => break,
        };
        // Without this, the set would keep the results of all tasks.
        while connections.try_join_next().is_some() {}
        let task = ConnectionTask {
            handler: Arc::clone(&handler),
            limits,
            slot_needed: Arc::clone(&slots.needed),
            stopping: stopping.clone(),
        };
        connections.spawn(task.run(wrap(stream), slot));
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
async fn accept(
    listener: &TcpListener,
    slots: &ConnectionSlots,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let mut has_failed = false;
    let (stream, _peer) = loop {
        match listener.accept().await {
            Ok(accepted) => break accepted,
            Err(error) if has_failed => debug!(%error, "cannot accept connections"),
            Err(error) => warn!(%error, "cannot accept connections; retrying"),
        }
        has_failed = true;
        sleep(ACCEPT_RETRY_INTERVAL).await;
    };
    Ok((stream, slots.acquire().await?))
}

/// Limits the number of open connections.
struct ConnectionSlots {
    free: Arc<Semaphore>,
    /// Notifies the connection that has been idle longest that a slot is needed.
    needed: Arc<Notify>,
}

impl ConnectionSlots {
    fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS))),
            needed: Arc::default(),
        }
    }

    async fn acquire(&self) -> io::Result<OwnedSemaphorePermit> {
        if self.free.available_permits() == 0 {
            self.needed.notify_one();
        }
        let slot = Arc::clone(&self.free).acquire_owned().await;
        // A notification that no idle connection has taken would close the next one without need.
        pin!(self.needed.notified()).enable();
        slot.map_err(io::Error::other)
    }
}

/// What one connection needs.
struct ConnectionTask {
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    slot_needed: Arc<Notify>,
    stopping: CancellationToken,
}

impl ConnectionTask {
    async fn run<T: Transport>(
        self,
        stream: impl Future<Output = io::Result<T>>,
        _slot: OwnedSemaphorePermit,
    ) {
        match timeout(self.limits.header_timeout, stream).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => debug!(%error, "connection setup failed"),
            Err(_) => debug!("connection setup timed out"),
        }
    }

    async fn serve<T: Transport>(self, stream: T) {
        let phase = watch::Sender::new(ConnectionPhase::Fresh);
        let mut observed = phase.subscribe();
        let io = TokioIo::new(ActivityStream::new(stream, phase.clone()));
        let handler = Arc::clone(&self.handler);
        let service = service_fn(|request| {
            let (handler, phase) = (Arc::clone(&handler), phase.clone());
            async move {
                phase.send_replace(ConnectionPhase::Handling);
                let response = handler.handle(request).await;
                phase.send_replace(match response {
                    Ok(_) => ConnectionPhase::Idle,
                    Err(Abort) => ConnectionPhase::Aborted,
                });
                response
            }
        });
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                // hyper's timer cannot tell a slow request head from an idle connection; the phases can.
                .header_read_timeout(None)
                .max_headers(self.limits.max_headers)
                .max_buf_size(self.limits.max_header_bytes.max(8 * 1024))
                .serve_connection(io, service)
        );
        let mut is_closing = false;
        loop {
            let now = *observed.borrow_and_update();
            let is_idle = matches!(now, ConnectionPhase::Silent | ConnectionPhase::Idle);
            tokio::select! {
                // The stop comes first, so that a response sent after it has `Connection: close`.
                biased;
                () = self.stopping.cancelled(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                result = &mut connection => {
                    if let Err(error) = result {
                        debug!(%error, "connection failed");
                    }
                    return;
                }
                _ = observed.changed() => {}
                () = sleep(self.limits.timeout(now)) => if !activity::mark_silent(&phase) {
                    debug!(phase = ?now, "connection timed out");
                    return;
                },
                () = self.slot_needed.notified(), if is_idle && !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
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
