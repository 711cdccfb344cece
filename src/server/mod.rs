//! The one HTTP/1.1 accept loop; the exporter's pages and the simulator are served by it.
//!
//! A base room of the edges: it knows sockets and time limits, and nothing of what is served. What it promises: at most
//! [`Limits::connections`] connections at once; every phase of a connection has an end, so that nobody holds a place for
//! ever, be it with half a request, with an answer that is not taken, or with nothing at all; where all places are taken,
//! the connection that has been idle longest makes room, be it after an answer or because it never said anything; an
//! accept that fails (no more file descriptors) is tried again after a pause; a stop lets answers that are under way go
//! out, until a deadline. What it must never do: look into a request, or panic for what a client sends.

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
use tracing::{debug, warn};

use activity::{ConnectionPhase, Paced};

/// Between two attempts to accept where the system refuses.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// For the first bytes of a connection to arrive before it counts as silent.
const GRACE: Duration = Duration::from_millis(500);

/// What clients may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once; more wait in the system's queue.
    pub connections: usize,
    /// From the first byte of a request to the end of its head; also from the connect to that first byte.
    pub header_time: Duration,
    /// From the end of a request's head to its answer.
    pub answer: Duration,
    /// From one answer to the first byte of the next request. A client that does not take its answer ends here too.
    pub idle: Duration,
    /// Header lines of a request.
    pub headers: usize,
    /// Bytes of a request's head, at least 8 KiB.
    pub header_bytes: usize,
    /// How long answers under way may take after a stop.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            header_time: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            // Longer than the usual scrape interval of a minute.
            idle: Duration::from_secs(90),
            headers: 64,
            header_bytes: 16 * 1024,
            drain: Duration::from_secs(5),
        }
    }
}

/// The connection is to end without an answer, with a reset where the transport can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was ended without an answer")]
pub struct Abort;

/// What is sent back.
pub type Answer = Response<Full<Bytes>>;

/// Answers requests. An object, so that the code that speaks HTTP is in the binary once, and not once for each of them.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The answer to one request.
    ///
    /// # Errors
    /// To end the connection without one.
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Abort>;
}

/// What HTTP is spoken over: TCP, or something around it.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes closing it abrupt, where that can be had.
    fn reset_on_close(&self) {}
}

impl Transport for TcpStream {
    fn reset_on_close(&self) {
        if let Err(error) = self.set_zero_linger() {
            debug!(%error, "a connection is closed without a reset");
        }
    }
}

/// Serves until `stop` is done, then lets answers under way go out.
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

/// As [`serve`], over what `wrap` makes of each TCP stream; its time counts as [`Limits::header_time`].
///
/// # Errors
/// When the listener cannot be used at all.
pub async fn serve_over<W, F, T>(
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
    let crowd = Crowd::new(limits.connections);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut is_refused = false;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &crowd) => accepted,
            Some(_ended) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, place)) => {
                is_refused = false;
                let guest = Guest {
                    handler: Arc::clone(&handler),
                    limits,
                    crowded: Arc::clone(&crowd.crowded),
                    stopped: stopped.clone(),
                };
                connections.spawn(guest.attend(wrap(stream), place));
            }
            Err(error) => {
                if !is_refused {
                    warn!(%error, "cannot accept connections; trying again");
                }
                is_refused = true;
                tokio::select! { () = sleep(ACCEPT_PAUSE) => {}, () = &mut stop => break }
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain, all).await.is_err() {
        warn!(connections = connections.len(), after = ?limits.drain, "connections were cut off");
    }
    Ok(())
}

/// The places that there are, and the bell that is rung when somebody waits for one.
struct Crowd {
    places: Arc<Semaphore>,
    crowded: Arc<Notify>,
}

impl Crowd {
    fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
            crowded: Arc::default(),
        }
    }
}

/// A place first, then a connection: a client that finds no place stays in the system's queue.
async fn accept(
    listener: &TcpListener,
    crowd: &Crowd,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    if crowd.places.available_permits() == 0 {
        crowd.crowded.notify_one();
    }
    let place = Arc::clone(&crowd.places).acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let (stream, _peer) = listener.accept().await?;
    Ok((stream, place))
}

/// What one connection needs.
struct Guest {
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    crowded: Arc<Notify>,
    stopped: watch::Receiver<bool>,
}

impl Guest {
    async fn attend<T: Transport>(
        self,
        stream: impl Future<Output = io::Result<T>>,
        _place: OwnedSemaphorePermit,
    ) {
        match timeout(self.limits.header_time, stream).await {
            Ok(Ok(stream)) => self.converse(stream).await,
            Ok(Err(error)) => debug!(%error, "no connection came about"),
            Err(_) => debug!("no connection came about in time"),
        }
    }

    async fn converse<T: Transport>(mut self, stream: T) {
        let phase = watch::Sender::new(ConnectionPhase::Fresh);
        let mut seen = phase.subscribe();
        let io = TokioIo::new(Paced::new(stream, phase.clone()));
        let handler = Arc::clone(&self.handler);
        let service = service_fn(|request| {
            let (handler, phase) = (Arc::clone(&handler), phase.clone());
            async move {
                phase.send_replace(ConnectionPhase::Answering);
                let answer = handler.answer(request).await;
                let after = if answer.is_ok() {
                    ConnectionPhase::Waiting
                } else {
                    ConnectionPhase::Aborted
                };
                phase.send_replace(after);
                answer
            }
        });
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                // The phases have their limits here: hyper's timer cannot tell a slow head from an idle connection.
                .header_read_timeout(None)
                .max_headers(self.limits.headers)
                .max_buf_size(self.limits.header_bytes.max(8 * 1024))
                .serve_connection(io, service)
        );
        let mut is_leaving = false;
        loop {
            let now = *seen.borrow_and_update();
            let limit = self.limit(now);
            tokio::select! {
                // A stop is looked for first, so that an answer made after it says that the connection closes.
                biased;
                () = is_true(&mut self.stopped), if !is_leaving => {
                    is_leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                ended = &mut connection => {
                    if let Err(error) = ended {
                        debug!(%error, "a connection ended");
                    }
                    return;
                }
                _ = seen.changed() => {}
                () = sleep(limit) => if !activity::falls_silent(&phase) {
                    debug!(phase = ?now, "a connection ran out of time");
                    return;
                },
                () = self.crowded.notified(), if !is_leaving && matches!(now, ConnectionPhase::Silent | ConnectionPhase::Waiting) => {
                    is_leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn limit(&self, phase: ConnectionPhase) -> Duration {
        match phase {
            ConnectionPhase::Fresh => GRACE.min(self.limits.header_time),
            ConnectionPhase::Silent => self.limits.header_time.saturating_sub(GRACE),
            ConnectionPhase::Reading => self.limits.header_time,
            ConnectionPhase::Answering => self.limits.answer,
            ConnectionPhase::Waiting | ConnectionPhase::Aborted => self.limits.idle,
        }
    }
}

/// Done once it is true, or nobody is left to say so.
async fn is_true(flag: &mut watch::Receiver<bool>) {
    let _gone = flag.wait_for(|flag| *flag).await;
}

/// A function of a request, as a handler.
#[async_trait]
impl<F, R> Handler for F
where
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Answer, Abort>> + Send,
{
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Abort> {
        self(request).await
    }
}
