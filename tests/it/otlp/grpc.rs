//! The export over gRPC, and what the log says of a port that speaks another protocol.

use std::{io::Read as _, process::Command, time::Duration};

use azure_scheduled_events_exporter::{
    otlp::Signal,
    output_counters::{DropReason, ExportFailure},
};
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

use super::sending::{NO_LOGS, Sending, Start, base, event, exporting, no_event, stop};
use crate::support::{
    DEADLINE, FakeImds, Pki,
    collector::{Answer, FakeCollector, gzip, partial_success},
    grpc::{CallEnd, ChattyGrpc, FakeGrpc},
    process::{PROGRAM, Process},
};

const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");

fn ends(code: u32) -> CallEnd {
    CallEnd::Status(code, Vec::new())
}

/// `RESOURCE_EXHAUSTED` with a delay of one second: `google.rpc.Status` with a `RetryInfo`.
fn exhausted() -> CallEnd {
    let details = "CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAQ";
    CallEnd::Status(8, vec![("grpc-status-details-bin", details.to_owned())])
}

#[tokio::test]
async fn each_signal_calls_its_service_with_headers_and_compression() {
    let server = FakeGrpc::scripted([]).await;
    let environment = [
        GRPC,
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a"),
    ];
    let mut spans = Sending::start(&server.base, &environment);
    spans.send(1).await;
    let start = Start {
        signal: Signal::Logs,
        ..Start::default()
    };
    let mut logs = Sending::start_as(start, &server.base, &[GRPC]);
    logs.send(1).await;

    let [trace, log] = <[_; 2]>::try_from(server.calls()).unwrap();
    assert_eq!(
        trace.path,
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    );
    assert_eq!(
        log.path,
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
    );
    let header = |name: &str| trace.headers.get(name).map(|it| it.to_str().unwrap());
    assert_eq!(header("content-type"), Some("application/grpc"));
    assert_eq!(header("te"), Some("trailers"));
    assert_eq!(header("grpc-encoding"), Some("gzip"));
    assert_eq!(header("content-encoding"), None);
    assert_eq!(header("authorization"), Some("Bearer a"));
    assert_eq!((trace.body[0], log.body[0]), (1, 0));
    let mut message = Vec::new();
    GzDecoder::new(&trace.body[5..])
        .read_to_end(&mut message)
        .unwrap();
    let request = ExportTraceServiceRequest::decode(&message[..]).unwrap();
    let name = &request.resource_spans[0].scope_spans[0].spans[0].name;
    assert_eq!(name, "scheduled_event 1");
    let length = u32::from_be_bytes(log.body[1..5].try_into().unwrap());
    assert_eq!(usize::try_from(length).unwrap(), log.body.len() - 5);
}

#[tokio::test]
async fn codes_wait_or_drop_as_specified() {
    for (end, reason) in [
        (ends(14), ExportFailure::Status5xx),
        (ends(16), ExportFailure::Status4xx),
        (exhausted(), ExportFailure::Throttled),
        (ends(8), ExportFailure::Throttled),
    ] {
        let server = FakeGrpc::scripted([end.clone(), end.clone()]).await;
        let mut sending = Sending::start(&server.base, &[GRPC]);
        let begin = tokio::time::Instant::now();
        sending.append([1, 2]);
        let counts = sending.until(|counts| counts.exported == 2).await;
        assert_eq!(counts.failures[&reason], 2, "{end:?}");
        assert_eq!(counts.dropped.values().sum::<u64>(), 0, "{end:?}");
        let has_waited = begin.elapsed() >= Duration::from_secs(2);
        assert_eq!(has_waited, end == exhausted(), "{end:?}");
    }
    let server = FakeGrpc::scripted([ends(3)]).await;
    let mut sending = Sending::start(&server.base, &[GRPC]);
    sending.append([1]);
    sending.until(|counts| counts.spooled == 0).await;
    let counts = sending.send(2).await;
    assert_eq!(counts.dropped[&DropReason::Rejected], 1);
    assert_eq!(server.calls().len(), 2);
}

/// A server may compress although it was not asked to.
#[tokio::test]
async fn a_partial_success_is_read_plain_and_compressed() {
    for is_compressed in [false, true] {
        let plain = partial_success(1, "too old");
        let message = if is_compressed { gzip(&plain) } else { plain };
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let framed = [&[is_compressed.into()], &length[..], &message].concat();
        let server = FakeGrpc::scripted([CallEnd::Message(framed.into())]).await;
        let mut sending = Sending::start(&server.base, &[GRPC]);
        sending.append([1]);
        let counts = sending.until(|counts| counts.spooled == 0).await;
        assert_eq!(counts.dropped[&DropReason::Rejected], 1, "{is_compressed}");
        assert_eq!(counts.exported, 0, "{is_compressed}");
    }
}

#[tokio::test]
async fn a_call_without_an_answer_is_repeated_on_another_connection() {
    let server = FakeGrpc::scripted([CallEnd::Hang]).await;
    let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "5000");
    let mut sending = Sending::start(&server.base, &[GRPC, timeout]);
    let counts = sending.send(1).await;
    assert_eq!(counts.failures[&ExportFailure::Timeout], 1);
    let connections: Vec<_> = server.calls().iter().map(|call| call.connection).collect();
    assert_eq!(connections.len(), 2);
    assert!(connections[0] < connections[1], "{connections:?}");
}

#[tokio::test]
async fn a_message_without_end_is_a_failure_before_the_timeout() {
    let server = FakeGrpc::scripted([CallEnd::Endless]).await;
    let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000");
    let mut sending = Sending::start(&server.base, &[GRPC, timeout]);
    let counts = sending.send(1).await;
    assert_eq!(counts.failures[&ExportFailure::NotOtlp], 1);
}

/// Each frame costs CPU time: `PING`, `SETTINGS`, and `WINDOW_UPDATE` of a stream that has ended.
#[tokio::test]
async fn an_idle_connection_is_closed_although_it_has_frames() {
    let ping = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let window_update = b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\x01";
    let mut connections = Vec::new();
    for frame in [&ping[..], settings, window_update] {
        let server = ChattyGrpc::start(frame).await;
        let mut sending = Sending::start(&server.base, &[GRPC]);
        sending.until(|counts| counts.is_up == Some(true)).await;
        connections.push((sending, server));
    }
    for (_sending, server) in connections {
        let closed = tokio::time::timeout(DEADLINE, server.serving).await;
        closed.expect("the connection stays open").unwrap();
    }
}

/// Before there is an event, and without a loss when there is one.
#[tokio::test]
async fn a_wrong_endpoint_is_known_at_the_start() {
    let imds = FakeImds::standing(no_event()).await;
    let (http, grpc) = (
        FakeCollector::scripted([]).await,
        FakeGrpc::scripted([]).await,
    );
    let redirecting = FakeCollector::scripted([]).await;
    let location = [("location", "http://collector.example/v1/traces")];
    redirecting.answer_probes(Answer::http(307, &location, b""));
    let page = FakeCollector::scripted([]).await;
    let html = [("content-type", "text/html")];
    page.answer_probes(Answer::http(200, &html, b"<html>sign in</html>"));
    let pki = Pki::new();
    let tls = pki.tls_proxy("127.0.0.1", false, http.address).await;
    let asking = pki.tls_proxy("127.0.0.1", true, http.address).await;
    let plain_to_tls = tls.base().replace("https:", "http:");
    let tls_to_plain = grpc.base.replace("http:", "https:");
    let ca = pki.path("ca.pem");
    for (endpoint, protocol, expected) in [
        (
            base(&http),
            "grpc",
            "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        ),
        (
            grpc.base.clone(),
            "http/protobuf",
            "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
        ),
        (
            plain_to_tls.clone(),
            "http/protobuf",
            "if it expects TLS, write https://",
        ),
        (plain_to_tls, "grpc", "if it expects TLS, write https://"),
        (tls_to_plain.clone(), "http/protobuf", "is it http?"),
        (tls_to_plain, "grpc", "is it http?"),
        (
            asking.base(),
            "http/protobuf",
            "CertificateRequired; if it asks for a client certificate, set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        ),
        (
            base(&redirecting),
            "http/protobuf",
            "to http://collector.example; redirects are not followed",
        ),
        (base(&page), "http/protobuf", "this is no OTLP receiver"),
    ] {
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca),
            NO_LOGS,
        ];
        let mut process = exporting(&imds, None, &environment);
        let line = process.says("trace export failed").await;
        assert!(line.contains(expected), "{endpoint} {protocol}: {line}");
        stop(process).await;
    }
}

#[tokio::test]
async fn a_timeout_names_its_limit_and_variable() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::hang());
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*base(&collector)),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10"),
        NO_LOGS,
    ];
    let mut process = exporting(&imds, None, &environment);
    let line = process.says("trace export failed").await;
    let limit = "timed out after 10ms (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, in milliseconds)";
    assert!(line.contains(limit), "{line}");
    stop(process).await;
}

#[tokio::test]
async fn each_endpoint_gets_an_empty_export_at_the_start() {
    let imds = FakeImds::standing(no_event()).await;
    let (http, grpc) = (
        FakeCollector::scripted([]).await,
        FakeGrpc::scripted([]).await,
    );
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*base(&http)),
        ("OTEL_METRICS_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &grpc.base),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
    ];
    let mut process = exporting(&imds, None, &environment);
    for records in ["spans", "log records", "metric points"] {
        process
            .says(&format!("the receiver of {records} answers"))
            .await;
    }
    assert_eq!(grpc.probes(), 1);
    let mut probes = http.probes();
    probes.sort();
    assert_eq!(
        probes,
        ["POST /v1/metrics HTTP/1.1", "POST /v1/traces HTTP/1.1"]
    );
    stop(process).await;
}

#[tokio::test]
async fn a_receiver_that_refuses_the_content_of_the_empty_export_answers() {
    let imds = FakeImds::standing(no_event()).await;
    let html = [("content-type", "text/html")];
    for (answer, expected) in [
        (Answer::status(400), "receiver of spans answers"),
        (Answer::http(400, &html, b"<html>"), "reason=not_otlp"),
        (Answer::status(415), "reason=status_4xx"),
    ] {
        let collector = FakeCollector::scripted([]).await;
        collector.answer_probes(answer);
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*base(&collector));
        let mut process = exporting(&imds, None, &[endpoint, NO_LOGS]);
        let line = process.says(expected).await;
        assert!(line.contains("level=warn"), "{line}");
        assert!(line.contains("HTTP 4"), "{line}");
        let log = stop(process).await;
        let is_failure = log.contains("trace export failed");
        assert_eq!(is_failure, expected.contains("reason="), "{log}");
    }
}

#[tokio::test]
async fn a_variable_with_which_the_export_cannot_work_is_exit_code_64() {
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization: Bearer topsecret",
        ),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "gauge"),
    ] {
        let mut command = Command::new(PROGRAM);
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
            .env("OTEL_METRICS_EXPORTER", "otlp")
            .env(variable, value);
        let ended = Process::start_as(&mut command).end().await;
        assert_eq!(ended.code, Some(64), "{variable}");
        assert_eq!(ended.log.lines().count(), 1, "{}", ended.log);
        assert!(
            ended.log.contains(variable) && !ended.log.contains("topsecret"),
            "{}",
            ended.log
        );
    }
}
