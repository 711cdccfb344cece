//! How far a connection is, seen from its bytes and its answers, so that each phase can have a time limit.

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

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Connected just now, and nothing was sent yet.
    Fresh,
    /// Connected for a while, and nothing was sent yet.
    Silent,
    /// The head of a request is coming in.
    Reading,
    /// The handler has the request.
    Answering,
    /// The answer is there; the client takes it, or thinks about its next request.
    Waiting,
    /// The handler wants the connection to end without an answer.
    Aborted,
}

/// Whether a connection was fresh; it is silent from now on.
pub(super) fn falls_silent(phase: &watch::Sender<ConnectionPhase>) -> bool {
    phase.send_if_modified(|phase| {
        let was_fresh = *phase == ConnectionPhase::Fresh;
        if was_fresh {
            *phase = ConnectionPhase::Silent;
        }
        was_fresh
    })
}

/// A stream that says when the first bytes of a request arrive.
#[derive(Debug)]
pub(super) struct Paced<T: Transport> {
    stream: T,
    phase: watch::Sender<ConnectionPhase>,
}

impl<T: Transport> Paced<T> {
    pub(super) fn new(stream: T, phase: watch::Sender<ConnectionPhase>) -> Self {
        Self { stream, phase }
    }
}

impl<T: Transport> Drop for Paced<T> {
    fn drop(&mut self) {
        if *self.phase.borrow() == ConnectionPhase::Aborted {
            self.stream.reset_on_close();
        }
    }
}

impl<T: Transport> AsyncRead for Paced<T> {
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
                    ConnectionPhase::Fresh | ConnectionPhase::Silent | ConnectionPhase::Waiting
                );
                if is_first {
                    *phase = ConnectionPhase::Reading;
                }
                is_first
            });
        }
        read
    }
}

impl<T: Transport> AsyncWrite for Paced<T> {
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
