//! The phase of a connection, from its reads and its responses, so that each phase can have a time limit.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
};

use super::Transport;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Just connected, no byte received yet.
    Fresh,
    /// No byte received within the first time limit.
    Silent,
    /// A part of a request head has been received.
    ReadingHead,
    /// The handler has the request.
    Handling,
    /// The response is being sent, or the next request has not begun.
    Idle,
    /// The handler closes the connection without a response.
    Aborted,
}

/// Moves from [`ConnectionPhase::Fresh`] to [`ConnectionPhase::Silent`]; false in any other phase.
pub(super) fn mark_silent(phase: &watch::Sender<ConnectionPhase>) -> bool {
    phase.send_if_modified(|phase| {
        let was_fresh = *phase == ConnectionPhase::Fresh;
        if was_fresh {
            *phase = ConnectionPhase::Silent;
        }
        was_fresh
    })
}

/// A stream that sets the phase when the first bytes of a request arrive.
#[derive(Debug)]
pub(super) struct ActivityStream<T: Transport> {
    stream: T,
    phase: watch::Sender<ConnectionPhase>,
}

impl<T: Transport> ActivityStream<T> {
    pub(super) fn new(stream: T, phase: watch::Sender<ConnectionPhase>) -> Self {
        Self { stream, phase }
    }
}

impl<T: Transport> Drop for ActivityStream<T> {
    fn drop(&mut self) {
        if *self.phase.borrow() == ConnectionPhase::Aborted {
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
        if buffer.filled().len() > before {
            self.phase.send_if_modified(|phase| {
                let is_first = matches!(
                    phase,
                    ConnectionPhase::Fresh | ConnectionPhase::Silent | ConnectionPhase::Idle
                );
                if is_first {
                    *phase = ConnectionPhase::ReadingHead;
                }
                is_first
            });
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
