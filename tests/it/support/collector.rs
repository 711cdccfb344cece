//! A scripted OTLP collector on a loopback socket, which records requests as OpenTelemetry's messages.

use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::SocketAddr,
    sync::MutexGuard,
    time::Duration,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
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
use tokio::time::Instant;

use super::{
    Reply,
    listening::{ANY_PORT, Listening, RESTARTABLE},
    request::Request,
};

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Reply(Reply),
    /// 404 for a request to this path, else 200: a Collector without a pipeline for the signal.
    NotFound(&'static str),
    /// This status for a request that contains a span or a metric whose name begins with this text, else 200.
    Refuse(&'static str, u16),
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self::http(status, &[], b"")
    }

    pub(crate) fn http(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        Self::Reply(Reply::http(&format!("{status} So"), headers, body))
    }

    pub(crate) fn retry_after(status: u16, value: &str) -> Self {
        Self::http(status, &[("retry-after", value)], b"")
    }

    /// 200 after a delay.
    pub(crate) fn slow(delay: Duration) -> Self {
        Self::Reply(Reply::http("200 So", &[], b"").after(delay))
    }

    /// None; the connection stays open.
    pub(crate) fn hang() -> Self {
        Self::Reply(Reply::silence())
    }

    /// None; the connection is closed.
    pub(crate) fn reset() -> Self {
        Self::Reply(Reply::raw([]).then_close())
    }

    /// The beginning of a response with a body shorter than its Content-Length.
    pub(crate) fn cut(status: u16, body: &[u8]) -> Reply {
        let head = format!("HTTP/1.1 {status} So\r\ncontent-length: 99999999\r\n\r\n");
        Reply::raw([head.as_bytes(), body].concat())
    }

    fn reply_to(self, received: &Received) -> Reply {
        let status = match self {
            Self::Reply(reply) => return reply,
            Self::Refuse(name, status)
                if received.spans().any(|span| span.name.starts_with(name))
                    || received.metrics().any(|it| it.name.starts_with(name)) =>
            {
                status
            }
            Self::NotFound(path) if received.line.contains(path) => 404,
            Self::NotFound(_) | Self::Refuse(..) => 200,
        };
        Reply::http(&format!("{status} So"), &[], b"")
    }

    pub(crate) fn partial(rejected_spans: i64, error_message: &str) -> Self {
        let body = partial_success(rejected_spans, error_message);
        Self::http(200, &[("content-type", "application/x-protobuf")], &body)
    }
}

pub(crate) fn partial_success(rejected_spans: i64, error_message: &str) -> Vec<u8> {
    let partial_success = Some(ExportTracePartialSuccess {
        rejected_spans,
        error_message: error_message.to_owned(),
    });
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(body).unwrap();
    gzip.finish().unwrap()
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
    fn decode(request: Request) -> Self {
        let mut body = request.bytes;
        if request
            .headers
            .contains(&("content-encoding".to_owned(), "gzip".to_owned()))
        {
            let mut plain = Vec::new();
            GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
            body = plain;
        }
        let (mut message, mut logs, mut metrics) = (None, None, None);
        if request.target.ends_with("/v1/logs") {
            logs = Some(ExportLogsServiceRequest::decode(&body[..]).unwrap());
        } else if request.target.ends_with("/v1/metrics") {
            metrics = Some(ExportMetricsServiceRequest::decode(&body[..]).unwrap());
        } else {
            message = Some(ExportTraceServiceRequest::decode(&body[..]).unwrap());
        }
        Self {
            line: format!("{} {} HTTP/1.1", request.method, request.target),
            headers: request.headers,
            message: message.unwrap_or_default(),
            logs: logs.unwrap_or_default(),
            metrics: metrics.unwrap_or_default(),
            at: Instant::now(),
            is_accepted: false,
        }
    }

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
    listening: Listening<State>,
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
        Self::start(ANY_PORT, script).await
    }

    /// Answers with 200.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restartable() -> Self {
        Self::start(RESTARTABLE, []).await
    }

    async fn start(address: &str, script: impl IntoIterator<Item = Answer>) -> Self {
        let state = State {
            script: script.into_iter().collect(),
            standing: Answer::status(200),
            received: Vec::new(),
            probe: Answer::status(200),
            probes: Vec::new(),
        };
        let listening = Listening::start(address, state, State::respond).await;
        Self {
            address: listening.address,
            listening,
        }
    }

    /// Closes the port and all connections, and listens again.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restart(&mut self) {
        self.listening.restart().await;
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
        self.listening.state()
    }
}

impl State {
    fn respond(&mut self, request: Request) -> Reply {
        let mut received = Received::decode(request);
        let is_probe = received.message.resource_spans.is_empty()
            && received.logs.resource_logs.is_empty()
            && received.metrics.resource_metrics.is_empty();
        if is_probe {
            let reply = self.probe.clone().reply_to(&received);
            self.probes.push(received.line);
            return reply;
        }
        let answer = self.script.pop_front();
        let answer = answer.unwrap_or_else(|| self.standing.clone());
        let reply = answer.reply_to(&received);
        received.is_accepted = reply.is_ok();
        self.received.push(received);
        reply
    }
}
