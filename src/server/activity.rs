//! The phase of a connection, from its reads, its responses and its writes.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{Notify, watch},
    time::Instant,
};

use super::stream::Stream;

/// A client that reads takes its response within this time. After it, the connection may be evicted.
pub(super) const RESPONSE_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// No byte received yet.
    Silent,
    /// A part of a request head has been received.
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
    /// The response that is being sent. A connection has at most one: hyper asks for the next when this one is written.
    pub(super) response: Option<ResponseBody>,
    /// The request that is in progress has a body.
    has_body: bool,
}

impl Activity {
    /// True unless the handler has a request, or the client is being sent a response.
    pub(super) fn is_evictable(&self, now: Instant) -> bool {
        match self.phase {
            ConnectionPhase::Silent
            | ConnectionPhase::ReadingHead
            | ConnectionPhase::Admission
            | ConnectionPhase::Idle => true,
            ConnectionPhase::Sending => now.duration_since(self.since) >= RESPONSE_GRACE,
            ConnectionPhase::Handling | ConnectionPhase::Aborted => false,
        }
    }
}

/// The memory of a body. Connections that share a body have equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResponseBody {
    address: usize,
    pub(super) bytes: usize,
}

impl From<&Bytes> for ResponseBody {
    fn from(body: &Bytes) -> Self {
        Self {
            address: body.as_ptr().addr(),
            bytes: body.len(),
        }
    }
}

/// The activity of one connection, shared by its task and by the eviction.
#[derive(Debug, Clone)]
pub(super) struct ConnectionActivity {
    current: watch::Sender<Activity>,
    /// Notified when a response has been sent or dropped.
    response_ended: Arc<Notify>,
}

impl ConnectionActivity {
    pub(super) fn new(response_ended: Arc<Notify>) -> Self {
        Self {
            current: watch::Sender::new(Activity {
                phase: ConnectionPhase::Silent,
                since: Instant::now(),
                response: None,
                has_body: false,
            }),
            response_ended,
        }
    }

    pub(super) fn get(&self) -> Activity {
        *self.current.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Activity> {
        self.current.subscribe()
    }

    /// Begins a phase, with the response that is in memory during it.
    pub(super) fn enter(&self, phase: ConnectionPhase, response: Option<ResponseBody>) {
        let previous = self.get();
        self.current.send_replace(Activity {
            phase,
            since: Instant::now(),
            response,
            ..previous
        });
        if previous.response.is_some() && previous.response != response {
            self.response_ended.notify_waiters();
        }
    }

    pub(super) fn begin_request(&self, has_body: bool) {
        self.current
            .send_modify(|activity| activity.has_body = has_body);
    }

    /// The rest of a response that is being sent must not stay in the system's buffers.
    pub(super) fn abort_response(&self) {
        let activity = self.get();
        if activity.phase == ConnectionPhase::Sending {
            self.enter(ConnectionPhase::Aborted, activity.response);
        }
    }
}

/// A stream that begins a phase when the first bytes of a request arrive, and when a response has been sent.
#[derive(Debug)]
pub(super) struct ActivityStream {
    stream: Stream,
    activity: ConnectionActivity,
    /// The bytes that were read last.
    tail: [u8; 3],
}

impl ActivityStream {
    pub(super) fn new(stream: Stream, activity: ConnectionActivity) -> Self {
        Self {
            stream,
            activity,
            tail: [0; 3],
        }
    }

    /// True if a part of the next request head follows the request. hyper reads ahead, so this part may have arrived
    /// with the request.
    fn has_part_of_head(&self) -> bool {
        // A request without a body ends with a blank line.
        let is_complete = self.tail.ends_with(b"\n\n") || self.tail == *b"\n\r\n";
        !is_complete && !self.activity.get().has_body
    }

    fn phase(&self) -> ConnectionPhase {
        self.activity.get().phase
    }
}

impl Drop for ActivityStream {
    fn drop(&mut self) {
        if self.phase() == ConnectionPhase::Aborted {
            self.stream.reset_on_close();
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
        let is_first = matches!(
            self.phase(),
            ConnectionPhase::Silent | ConnectionPhase::Idle
        );
        let received = buffer.filled().get(before..).unwrap_or_default();
        for byte in received.iter().skip(received.len().saturating_sub(3)) {
            self.tail.rotate_left(1);
            self.tail[2] = *byte;
        }
        if !received.is_empty() && is_first {
            self.activity.enter(ConnectionPhase::ReadingHead, None);
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
        if matches!(flushed, Poll::Ready(Ok(()))) && self.phase() == ConnectionPhase::Sending {
            let next = if self.has_part_of_head() {
                ConnectionPhase::ReadingHead
            } else {
                ConnectionPhase::Idle
            };
            self.activity.enter(next, None);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
