//! The phase of a connection, from its reads, its responses and its writes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::Instant,
};

use super::Transport;

/// A client that reads takes its response within this time. After it, the connection may be evicted.
const RESPONSE_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// No byte received yet.
    Silent,
    /// A part of a request head has been received.
    ReadingHead,
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
    /// Body of the response that is being sent.
    pub(super) response_bytes: usize,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: ConnectionPhase::Silent,
            since: now,
            response_bytes: 0,
        }
    }

    /// True unless a request is in progress.
    pub(super) fn is_evictable(&self, now: Instant) -> bool {
        match self.phase {
            ConnectionPhase::Silent | ConnectionPhase::ReadingHead | ConnectionPhase::Idle => true,
            ConnectionPhase::Sending => now.duration_since(self.since) >= RESPONSE_GRACE,
            ConnectionPhase::Handling | ConnectionPhase::Aborted => false,
        }
    }
}

/// Begins a phase; `response_bytes` is not 0 while a response is being sent.
pub(super) fn enter(
    activity: &watch::Sender<Activity>,
    phase: ConnectionPhase,
    response_bytes: usize,
) {
    activity.send_replace(Activity {
        phase,
        since: Instant::now(),
        response_bytes,
    });
}

/// A stream that begins a phase when the first bytes of a request arrive, and when a response has been sent.
#[derive(Debug)]
pub(super) struct ActivityStream<T: Transport> {
    stream: T,
    activity: watch::Sender<Activity>,
}

impl<T: Transport> ActivityStream<T> {
    pub(super) fn new(stream: T, activity: watch::Sender<Activity>) -> Self {
        Self { stream, activity }
    }

    fn phase(&self) -> ConnectionPhase {
        self.activity.borrow().phase
    }
}

impl<T: Transport> Drop for ActivityStream<T> {
    fn drop(&mut self) {
        if self.phase() == ConnectionPhase::Aborted {
            self.stream.reset_on_close();
        }
    }
}

impl<T: Transport> AsyncRead for ActivityStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let is_first = matches!(
            self.phase(),
            ConnectionPhase::Silent | ConnectionPhase::Idle
        );
        if buffer.filled().len() > before && is_first {
            enter(&self.activity, ConnectionPhase::ReadingHead, 0);
        }
        read
    }
}

impl<T: Transport> AsyncWrite for ActivityStream<T> {
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
        if matches!(flushed, Poll::Ready(Ok(()))) && self.phase() == ConnectionPhase::Sending {
            enter(&self.activity, ConnectionPhase::Idle, 0);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
