//! One connection: its time limits, its requests and its end.

use std::{future::Future, io, pin::pin, sync::Arc};

use hyper::{
    Request,
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    task::yield_now,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Abort, Handler, HandlerResponse, ServerLimits, Transport,
    activity::{ActivityStream, ConnectionPhase, ResponseBody},
    slots::Slot,
};

pub(super) struct ConnectionTask {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: ServerLimits,
    pub(super) stopping: CancellationToken,
}

impl ConnectionTask {
    pub(super) async fn run<T: Transport>(
        self,
        stream: impl Future<Output = io::Result<T>>,
        slot: Slot,
    ) {
        match timeout(self.limits.header_timeout, stream).await {
            Ok(Ok(stream)) => self.serve(stream, &slot).await,
            Ok(Err(error)) => debug!(%error, "connection setup failed"),
            Err(_) => debug!("connection setup timed out"),
        }
    }

    async fn serve<T: Transport>(self, stream: T, slot: &Slot) {
        let mut observed = slot.activity.subscribe();
        let io = TokioIo::new(ActivityStream::new(stream, slot.activity.clone()));
        let service = service_fn(|request| respond(Arc::clone(&self.handler), slot, request));
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
    request: Request<Incoming>,
) -> Result<HandlerResponse, Abort> {
    slot.activity.begin_request(!request.body().is_end_stream());
    // A client may send a request before it has read the previous response. Its connection stays evictable then.
    if slot.activity.get().response.is_none() {
        slot.activity.enter(ConnectionPhase::Handling, None);
    }
    // A client that sends many requests at once gets one response per turn, like every other client.
    yield_now().await;
    slot.wait_for_response_capacity(|| handler.makes_large_body(&request))
        .await;
    let unsent = slot.activity.get().response;
    slot.activity.enter(ConnectionPhase::Handling, unsent);
    let response = handler.handle(request).await;
    match &response {
        Ok(response) => {
            let body = response.body().clone().into_inner();
            let body = body.as_ref().map(ResponseBody::from);
            slot.activity.enter(ConnectionPhase::Sending, body);
        }
        Err(Abort) => slot.activity.enter(ConnectionPhase::Aborted, unsent),
    }
    response
}
