//! A scripted gRPC server on a loopback socket.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Frame, Incoming},
    header::{HeaderName, HeaderValue},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// The end of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallEnd {
    /// The code and more trailers.
    Status(u32, Vec<(&'static str, String)>),
    /// OK, with this message and its prefix.
    Message(Bytes),
    /// A message without end.
    Endless,
    /// None; the connection stays open.
    Hang,
}

/// A call with a message that is not empty.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// With its prefix.
    pub(crate) body: Bytes,
    /// The number of its connection, from 1.
    pub(crate) connection: usize,
}

#[derive(Debug, Default)]
struct Script {
    ends: VecDeque<CallEnd>,
    calls: Vec<Call>,
    probes: usize,
}

#[derive(Debug)]
pub(crate) struct FakeGrpc {
    pub(crate) base: String,
    script: Arc<Mutex<Script>>,
    accepting: JoinHandle<()>,
}

impl FakeGrpc {
    /// Ends calls as the script says, then with OK; those with an empty message always with OK.
    pub(crate) async fn scripted(ends: impl IntoIterator<Item = CallEnd>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let ends = ends.into_iter().collect();
        let script = Arc::new(Mutex::new(Script {
            ends,
            ..Script::default()
        }));
        let shared = Arc::clone(&script);
        let accepting = tokio::spawn(async move {
            for connection in 1.. {
                let (stream, _peer) = listener.accept().await.unwrap();
                let script = Arc::clone(&shared);
                let service =
                    service_fn(move |request| answer(request, connection, Arc::clone(&script)));
                let server = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            base,
            script,
            accepting,
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.script.lock().unwrap().calls.clone()
    }

    /// The number of calls with an empty message.
    pub(crate) fn probes(&self) -> usize {
        self.script.lock().unwrap().probes
    }
}

impl Drop for FakeGrpc {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    connection: usize,
    script: Arc<Mutex<Script>>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
    let end = {
        let mut script = script.lock().unwrap();
        if body.len() <= 5 {
            script.probes += 1;
            None
        } else {
            let path = head.uri.path().to_owned();
            script.calls.push(Call {
                path,
                headers: head.headers,
                body,
                connection,
            });
            script.ends.pop_front()
        }
    };
    let mut message = Bytes::from_static(b"\0\0\0\0\0");
    let (code, more) = match end.unwrap_or(CallEnd::Status(0, Vec::new())) {
        CallEnd::Status(code, more) => (code, more),
        CallEnd::Message(with_prefix) => {
            message = with_prefix;
            (0, Vec::new())
        }
        CallEnd::Endless => {
            let response = Response::builder().header("content-type", "application/grpc");
            return Ok(response.body(Endless.boxed_unsync()).unwrap());
        }
        CallEnd::Hang => {
            tokio::time::sleep(Duration::MAX).await;
            (0, Vec::new())
        }
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    for (name, value) in more {
        trailers.insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    let mut response = Response::builder().header("content-type", "application/grpc");
    // A failure has no message, so its status is in the headers.
    if code != 0 {
        message.clear();
        response.headers_mut().unwrap().extend(trailers.clone());
    }
    let trailers = (code == 0).then_some(Ok(trailers));
    let body = Full::new(message).with_trailers(async move { trailers });
    Ok(response.body(body.boxed_unsync()).unwrap())
}

struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 16 << 10])))))
    }
}

/// Answers the first call with OK, then sends frames on its connection until that is closed.
pub(crate) struct ChattyGrpc {
    pub(crate) base: String,
    pub(crate) serving: JoinHandle<()>,
}

impl ChattyGrpc {
    pub(crate) async fn start(frame: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (stream, _peer) = listener.accept().await.unwrap();
            let (mut reader, mut writer) = stream.into_split();
            // SETTINGS, then HEADERS that end stream 1: `:status: 200`, `content-type`, `grpc-status`.
            let fields = b"\x88\x5f\x10application/grpc\x40\x0bgrpc-status\x010";
            let head = [0, 0, fields.len().try_into().unwrap(), 1, 5, 0, 0, 0, 1];
            let answer = [b"\0\0\0\x04\0\0\0\0\0", &head[..], fields].concat();
            let mut received = [0; 4096];
            // The request is small, and comes after the preface.
            let mut bytes = 0;
            while bytes < 200 {
                bytes += reader.read(&mut received).await.unwrap();
            }
            writer.write_all(&answer).await.unwrap();
            let sending = async {
                while writer.write_all(frame).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let reading =
                async { while reader.read(&mut received).await.is_ok_and(|it| it > 0) {} };
            tokio::select! {
                () = sending => {}
                () = reading => {}
            }
        });
        Self { base, serving }
    }
}
