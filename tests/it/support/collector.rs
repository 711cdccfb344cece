//! A scripted OTLP collector on a loopback socket, which records requests as OpenTelemetry's messages.

use std::{
    collections::VecDeque,
    io::Read as _,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::{
    collector::logs::v1::ExportLogsServiceRequest,
    collector::metrics::v1::ExportMetricsServiceRequest,
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    },
    common::v1::any_value,
    logs::v1::LogRecord,
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A status, more header lines, and a body.
    Status(u16, String, Vec<u8>),
    /// A status after a delay.
    Slow(Duration, u16),
    /// None; the connection stays open.
    Hang,
    /// None; the connection is closed.
    Reset,
    /// Exactly these bytes.
    Cut(Vec<u8>, End),
    /// 404 for a request to this path, else 200: a Collector without a pipeline for the signal.
    NotFound(&'static str),
    /// This status for a request that contains a span or a metric whose name begins with this text, else 200.
    Refuse(&'static str, u16),
}

/// The end of an incomplete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Hanging,
    /// The same bytes again, until the client closes the connection.
    Repeated,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self::Status(status, String::new(), Vec::new())
    }

    pub(crate) fn retry_after(status: u16, value: &str) -> Self {
        Self::Status(status, format!("retry-after: {value}\r\n"), Vec::new())
    }

    /// A response with a body shorter than its Content-Length.
    pub(crate) fn cut(status: u16, body: &[u8], end: End) -> Self {
        let head = format!("HTTP/1.1 {status} So\r\ncontent-length: 99999999\r\n\r\n");
        Self::Cut([head.as_bytes(), body].concat(), end)
    }

    fn is_success(&self) -> bool {
        match self {
            Self::Status(status, ..) | Self::Slow(_, status) => *status == 200,
            Self::Cut(bytes, _) => bytes.starts_with(b"HTTP/1.1 200 "),
            Self::Hang | Self::Reset | Self::NotFound(_) | Self::Refuse(..) => false,
        }
    }

    /// The response to a request, where it depends on the request.
    fn resolved_for(self, received: &Received) -> Self {
        let status = match self {
            Self::Refuse(name, status)
                if received.spans().any(|span| span.name.starts_with(name))
                    || received.metrics().any(|it| it.name.starts_with(name)) =>
            {
                status
            }
            Self::NotFound(path) if received.line.contains(path) => 404,
            Self::NotFound(_) | Self::Refuse(..) => 200,
            other => return other,
        };
        Self::status(status)
    }

    pub(crate) fn partial(rejected_spans: i64, error_message: &str) -> Self {
        let partial_success = Some(ExportTracePartialSuccess {
            rejected_spans,
            error_message: error_message.to_owned(),
        });
        let body = ExportTraceServiceResponse { partial_success }.encode_to_vec();
        Self::Status(
            200,
            "content-type: application/x-protobuf\r\n".to_owned(),
            body,
        )
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// `POST /v1/traces HTTP/1.1`.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Empty for a request to `/v1/logs` or `/v1/metrics`.
    pub(crate) message: ExportTraceServiceRequest,
    /// Empty for any other request.
    pub(crate) logs: ExportLogsServiceRequest,
    /// Empty for any other request.
    pub(crate) metrics: ExportMetricsServiceRequest,
    /// When it was complete.
    pub(crate) at: Instant,
    /// Whether the response was a 200.
    pub(crate) is_accepted: bool,
}

/// The value of `log.record.uid`.
pub(crate) fn uid(record: &LogRecord) -> String {
    let mut attributes = record.attributes.iter();
    let uid = attributes.find(|attribute| attribute.key == "log.record.uid");
    let uid = uid.and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
    match uid {
        Some(any_value::Value::StringValue(uid)) => uid.clone(),
        _ => panic!("no id: {record:?}"),
    }
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        let resources = self.message.resource_spans.iter();
        resources.flat_map(|spans| spans.scope_spans.iter().flat_map(|scope| &scope.spans))
    }

    pub(crate) fn log_records(&self) -> impl Iterator<Item = &LogRecord> {
        let resources = self.logs.resource_logs.iter();
        resources.flat_map(|logs| logs.scope_logs.iter().flat_map(|scope| &scope.log_records))
    }

    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Metric> {
        let resources = self.metrics.resource_metrics.iter();
        resources.flat_map(|it| it.scope_metrics.iter().flat_map(|scope| &scope.metrics))
    }
}

#[derive(Debug)]
pub(crate) struct FakeCollector {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    script: VecDeque<Answer>,
    standing: Answer,
    received: Vec<Received>,
    /// The answer to an empty request, which is no part of `received`.
    probe: Answer,
    /// The first lines of the empty requests.
    probes: Vec<String>,
}

impl FakeCollector {
    /// Answers with the script, then with 200.
    pub(crate) async fn scripted(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::start("127.0.0.1:0", script).await
    }

    /// Answers with 200, on an address that is not the source address of all clients: while it restarts, none of them
    /// can get its port.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restartable() -> Self {
        Self::start("127.0.0.2:0", []).await
    }

    async fn start(address: &str, script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            script: script.into_iter().collect(),
            standing: Answer::status(200),
            received: Vec::new(),
            probe: Answer::status(200),
            probes: Vec::new(),
        }));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self {
            address,
            state,
            accepting,
        }
    }

    /// Closes the port and all connections, and listens again.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restart(&mut self) {
        self.accepting.abort();
        // Ended by the abort: its listener is closed.
        (&mut self.accepting).await.ok();
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = tokio::spawn(accept(listener, Arc::clone(&self.state)));
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers with this from now on, after the script.
    pub(crate) fn now(&self, answer: Answer) {
        self.state().standing = answer;
    }

    /// Answers empty requests with this, which are answered with 200 otherwise.
    pub(crate) fn answer_probes(&self, answer: Answer) {
        self.state().probe = answer;
    }

    /// The first lines of the empty requests.
    pub(crate) fn probes(&self) -> Vec<String> {
        self.state().probes.clone()
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.state().received.clone()
    }

    /// The names of the spans of requests answered with 200, in order.
    pub(crate) fn accepted(&self) -> Vec<String> {
        let received = self.received();
        let accepted = received.iter().filter(|received| received.is_accepted);
        accepted
            .flat_map(|received| received.spans().map(|span| span.name.clone()))
            .collect()
    }

    /// The bodies of the log records of requests answered with 200, in order.
    pub(crate) fn accepted_logs(&self) -> Vec<String> {
        let received = self.received();
        let accepted = received.iter().filter(|received| received.is_accepted);
        let records = accepted.flat_map(Received::log_records);
        let bodies = records.map(|record| record.body.clone().unwrap().value.unwrap());
        let text = |body| match body {
            any_value::Value::StringValue(text) => text,
            other => panic!("{other:?}"),
        };
        bodies.map(text).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Drop for FakeCollector {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    // Closed together with the listener.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _peer) = listener.accept().await.unwrap();
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    while let Some(mut received) = read(&mut stream).await {
        let is_probe = received.message.resource_spans.is_empty()
            && received.logs.resource_logs.is_empty()
            && received.metrics.resource_metrics.is_empty();
        let answer = if is_probe {
            let mut state = state.lock().unwrap();
            state.probes.push(received.line);
            state.probe.clone()
        } else {
            let mut state = state.lock().unwrap();
            let answer = state.script.pop_front();
            let answer = answer
                .unwrap_or_else(|| state.standing.clone())
                .resolved_for(&received);
            received.is_accepted = answer.is_success();
            state.received.push(received);
            answer
        };
        let (status, headers, body) = match answer {
            Answer::Status(status, headers, body) => (status, headers, body),
            Answer::Slow(after, status) => {
                tokio::time::sleep(after).await;
                (status, String::new(), Vec::new())
            }
            Answer::Hang => std::future::pending().await,
            Answer::Reset | Answer::NotFound(_) | Answer::Refuse(..) => return,
            Answer::Cut(bytes, end) => {
                // The client may close the connection before it has read everything.
                stream.write_all(&bytes).await.ok();
                match end {
                    End::Repeated => {
                        while stream.write_all(&bytes).await.is_ok() {}
                        return;
                    }
                    End::Closed => return,
                    End::Hanging => std::future::pending().await,
                }
            }
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status} So\r\n{headers}content-length: {length}\r\n\r\n");
        if stream
            .write_all(&[head.as_bytes(), &body].concat())
            .await
            .is_err()
        {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let get = |name: &str| {
        headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let mut body = vec![0; get("content-length")?.parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    if get("content-encoding") == Some("gzip") {
        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let (mut message, mut logs, mut metrics) = (None, None, None);
    if line.contains("/v1/logs ") {
        logs = Some(ExportLogsServiceRequest::decode(&body[..]).unwrap());
    } else if line.contains("/v1/metrics ") {
        metrics = Some(ExportMetricsServiceRequest::decode(&body[..]).unwrap());
    } else {
        message = Some(ExportTraceServiceRequest::decode(&body[..]).unwrap());
    }
    Some(Received {
        message: message.unwrap_or_default(),
        logs: logs.unwrap_or_default(),
        metrics: metrics.unwrap_or_default(),
        line,
        headers,
        at: Instant::now(),
        is_accepted: false,
    })
}
