//! One connection: its time limits, its requests and its end.

use std::{pin::pin, sync::Arc};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpStream,
    task::yield_now,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Abort, Acceptor, Handler, HandlerResponse, ServerLimits, Stream,
    activity::{ActivityStream, ConnectionPhase},
    slots::Slot,
};

pub(super) struct ConnectionTask {
    /// `None` for plain TCP.
    pub(super) acceptor: Option<Arc<dyn Acceptor>>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: ServerLimits,
    pub(super) stopping: CancellationToken,
}

impl ConnectionTask {
    /// Until the connection ends or is evicted.
    pub(super) async fn run(self, stream: TcpStream, slot: Slot) {
        tokio::select! {
            biased;
            () = slot.activity.evicted.cancelled() => {}
            () = self.accept(stream, &slot) => {}
        }
    }

    async fn accept(&self, stream: TcpStream, slot: &Slot) {
        let Some(acceptor) = &self.acceptor else {
            return self.serve(Stream::Left(stream), slot).await;
        };
        let accepted = tokio::select! {
            () = self.stopping.cancelled() => return,
            accepted = timeout(self.limits.header_timeout, acceptor.accept(stream)) => accepted,
        };
        match accepted {
            Ok(Ok(stream)) => self.serve(stream, slot).await,
            Ok(Err(error)) => debug!(%error, "connection setup failed"),
            Err(_) => debug!("connection setup timed out"),
        }
    }

    async fn serve(&self, stream: Stream, slot: &Slot) {
        let mut observed = slot.activity.subscribe();
        let io = TokioIo::new(ActivityStream {
            stream,
            activity: slot.activity.clone(),
        });
        let service = service_fn(|request| respond(Arc::clone(&self.handler), slot, request));
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                // hyper's timer cannot tell a slow request head from an idle connection; the phases can.
                .header_read_timeout(None)
                // A client may close its side after its last request, as `nc -N` does.
                .half_close(true)
                .max_headers(self.limits.max_headers)
                .max_buf_size(self.limits.max_header_bytes.max(8 * 1024))
                .serve_connection(io, service)
        );
        let mut is_closing = false;
        loop {
            let phase = observed.borrow_and_update().phase;
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
                // The loop would poll the connection again at once, and so never let other clients go first.
                _ = observed.changed() => yield_now().await,
                () = sleep(self.limits.timeout(phase)) => {
                    debug!(?phase, "connection timed out");
                    return;
                }
            }
        }
    }
}

async fn respond(
    handler: Arc<dyn Handler>,
    slot: &Slot,
    mut request: Request<Incoming>,
) -> Result<HandlerResponse, Abort> {
    let activity = &slot.activity;
    activity.enter(ConnectionPhase::Handling);
    // A client that sends many requests at once gets one response per turn, like every other client.
    yield_now().await;
    activity.enter(ConnectionPhase::Admission);
    let refusal = handler.refusal(&mut request).await;
    activity.enter(ConnectionPhase::Handling);
    let response = if let Some(refusal) = refusal {
        Ok(refusal)
    } else {
        slot.wait_for_response_capacity(|| handler.makes_large_body(&request))
            .await;
        handler.handle(request).await
    };
    match &response {
        Ok(response) => activity.send(&response.body().clone().into_inner().unwrap_or_default()),
        Err(Abort) => activity.enter(ConnectionPhase::Aborted),
    }
    response
}
