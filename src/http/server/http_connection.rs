//! One connection: its time limits, its requests and its end.

use std::{mem, pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, sync::watch, task::yield_now, time::timeout};
use tokio_util::{
    either::Either,
    sync::{CancellationToken, DropGuard},
};
use tracing::debug;

use super::{
    Abort, Handler, HandlerResponse, ServerLimits, Stream,
    clients::{Client, Turn},
    text_response,
};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Bodies of at most this many bytes are sent without a turn: all connections together hold 8 MiB of them.
const MAX_SMALL_BODY: usize = 16 * 1024;

pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: ServerLimits,
    pub(super) stop: CancellationToken,
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream) {
        let accepted = timeout(HANDSHAKE_TIMEOUT, self.handler.accept(stream));
        match self.stop.run_until_cancelled(accepted).await {
            Some(Ok(Ok(stream))) => self.serve(stream).await,
            Some(Ok(Err(error))) => debug!(%error, "connection setup failed"),
            Some(Err(_)) => debug!("connection setup timed out"),
            None => {}
        }
    }

    async fn serve(&self, stream: Stream) {
        let (sending, sent) = watch::channel(CancellationToken::new());
        let service = service_fn(|request| self.respond(request, &sending));
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            // A client may close its side after its last request, as `nc -N` does.
            .half_close(true)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let result = tokio::select! {
            // The stop comes first, so that a response sent after it has `Connection: close`.
            biased;
            () = self.stop.cancelled() => {
                pin::Pin::new(&mut connection).graceful_shutdown();
                Some((&mut connection).await)
            }
            result = &mut connection => Some(result),
            () = overdue(sent, self.limits) => None,
        };
        let is_aborted = match result {
            None => true,
            Some(Err(error)) => {
                debug!(%error, "connection failed");
                error.is_user()
            }
            Some(Ok(())) => false,
        };
        if is_aborted {
            reset(&connection.into_parts().io.into_inner());
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        sending: &watch::Sender<CancellationToken>,
    ) -> Result<HandlerResponse, Abort> {
        // A client that sends many requests at once gets one response at a time, like every other client.
        yield_now().await;
        let handled = timeout(self.limits.response_timeout, self.handle(request)).await;
        let (mut response, turn) = if let Ok(handled) = handled {
            handled?
        } else {
            let busy = "503: no response in time: too many requests at once, from your address or from all";
            let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, busy);
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("10"));
            (response, None)
        };
        let body = mem::take(response.body_mut());
        let bytes = body.into_inner().unwrap_or_default();
        let sent = CancellationToken::new();
        sending.send_replace(sent.clone());
        *response.body_mut() = Full::new(Bytes::from_owner(SentBody {
            _turn: turn.filter(|_| bytes.len() > MAX_SMALL_BODY),
            _sent: sent.drop_guard(),
            bytes,
        }));
        Ok(response)
    }

    async fn handle(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<(HandlerResponse, Option<Turn>), Abort> {
        let refusal = self.handler.refusal(&mut request, self.client.check_turn());
        if let Some(refusal) = refusal.await {
            return Ok((refusal, None));
        }
        let turn = if self.handler.has_large_body(&request) {
            self.client.turn().await
        } else {
            None
        };
        Ok((self.handler.handle(request).await?, turn))
    }
}

/// A body until the system has accepted all of it, or the connection has ended.
struct SentBody {
    bytes: Bytes,
    _turn: Option<Turn>,
    _sent: DropGuard,
}

impl AsRef<[u8]> for SentBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Completes when a response, of which the channel has the end of the body, has not been sent in time.
async fn overdue(mut sent: watch::Receiver<CancellationToken>, limits: ServerLimits) {
    // hyper drops the body of a response to HEAD before it has sent the head: then the next response does not come. hyper
    // ends a connection without a request by itself, before this.
    let next = limits.header_timeout + limits.response_timeout + limits.send_timeout;
    while let Ok(Ok(())) = timeout(next, sent.changed()).await {
        let body = sent.borrow_and_update().clone();
        if timeout(limits.send_timeout, body.cancelled())
            .await
            .is_err()
        {
            break;
        }
    }
    debug!("response not read in time");
}

/// Closes the stream with a reset when it is dropped. The rest of a response does not stay in the system's buffers.
fn reset(stream: &Stream) {
    let tcp = match stream {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    };
    // Without it, the connection is closed without a reset.
    tcp.set_zero_linger().ok();
}
