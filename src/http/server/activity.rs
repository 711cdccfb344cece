//! The phase of a connection, from its reads, its responses and its writes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::Instant,
};
use tokio_util::{either::Either, sync::CancellationToken};

use super::Stream;

/// A client that reads takes its response within this time. After it, the connection may be evicted.
pub(super) const RESPONSE_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// No request yet, or a part of its head.
    ReadingHead,
    /// The client waits for the decision whether its request is handled.
    Admission,
    /// The handler has the request.
    Handling,
    /// The system has not accepted the whole response yet.
    Sending,
    /// The response has been sent, and the next request has not begun.
    Idle,
    /// Closes without a response, or without the rest of it.
    Aborted,
}

/// What a connection does, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub(super) phase: ConnectionPhase,
    pub(super) since: Instant,
    /// The response that is being sent. A client may send its next request before it has read this response.
    pub(super) response: Option<ResponseBody>,
}

impl Activity {
    /// True unless the handler has a request, or the client is being sent a response.
    pub(super) fn is_evictable(&self, now: Instant) -> bool {
        match self.phase {
            ConnectionPhase::Aborted => false,
            _ if self.response.is_some() => now.duration_since(self.since) >= RESPONSE_GRACE,
            ConnectionPhase::ReadingHead | ConnectionPhase::Admission | ConnectionPhase::Idle => {
                true
            }
            ConnectionPhase::Handling | ConnectionPhase::Sending => false,
        }
    }
}

/// The memory of a body. Connections that share a body have equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResponseBody {
    address: usize,
    pub(super) bytes: usize,
}

/// The activity of one connection, shared by its task and by the eviction.
#[derive(Debug, Clone)]
pub(super) struct ConnectionActivity {
    current: watch::Sender<Activity>,
    /// Cancelled when the connection has to close.
    pub(super) evicted: CancellationToken,
}

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self {
            current: watch::Sender::new(Activity {
                phase: ConnectionPhase::ReadingHead,
                since: Instant::now(),
                response: None,
            }),
            evicted: CancellationToken::new(),
        }
    }

    pub(super) fn get(&self) -> Activity {
        *self.current.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Activity> {
        self.current.subscribe()
    }

    /// Begins a phase.
    pub(super) fn enter(&self, phase: ConnectionPhase) {
        let previous = self.get().response;
        self.set(phase, previous);
    }

    /// Begins to send a response.
    pub(super) fn send(&self, body: &Bytes) {
        let body = ResponseBody {
            address: body.as_ptr().addr(),
            bytes: body.len(),
        };
        self.set(ConnectionPhase::Sending, Some(body));
    }

    /// The response has been sent.
    pub(super) fn end_response(&self) {
        let phase = match self.get().phase {
            ConnectionPhase::Sending => ConnectionPhase::Idle,
            other => other,
        };
        self.set(phase, None);
    }

    fn set(&self, phase: ConnectionPhase, response: Option<ResponseBody>) {
        self.current.send_replace(Activity {
            phase,
            since: Instant::now(),
            response,
        });
    }

    /// The rest of a response that is being sent must not stay in the system's buffers.
    pub(super) fn evict(&self) {
        if self.get().response.is_some() {
            self.enter(ConnectionPhase::Aborted);
        }
        self.evicted.cancel();
    }
}

/// A stream that begins a phase when the first bytes of a request arrive, and when a response has been sent.
#[derive(Debug)]
pub(super) struct ActivityStream {
    pub(super) stream: Stream,
    pub(super) activity: ConnectionActivity,
}

impl Drop for ActivityStream {
    fn drop(&mut self) {
        if self.activity.get().phase == ConnectionPhase::Aborted {
            let tcp = match &self.stream {
                Either::Left(tcp) => tcp,
                Either::Right(tls) => tls.get_ref().0,
            };
            // Without it, the connection is closed without a reset.
            tcp.set_zero_linger().ok();
        }
    }
}

impl AsyncRead for ActivityStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before && self.activity.get().phase == ConnectionPhase::Idle {
            self.activity.enter(ConnectionPhase::ReadingHead);
        }
        read
    }
}

impl AsyncWrite for ActivityStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes a stream after it has written the whole response to it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) && self.activity.get().response.is_some() {
            self.activity.end_response();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
