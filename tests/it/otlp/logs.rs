//! The export of log records: what a collector gets, and that neither signal waits for the receiver of the other.

use azure_scheduled_events_exporter::otlp::{Signal, trace};

use super::sending::{
    SEEN_AT, Sending, Start, base, entry, event, exporting, no_event, stop, text,
};
use crate::support::{
    DEADLINE, FakeImds, ask_until,
    collector::{Answer, FakeCollector, Received},
    exporter::Metrics,
    process::{Process, page},
    wait_until,
};

/// Waits until these metrics have these values; `None` for an absent one.
async fn until_metrics(exporter: &mut Process, expected: &[(&str, Option<f64>)]) {
    let address = exporter.address().await;
    ask_until(
        &format!("{expected:?}"),
        async || Metrics(page(&address, "/metrics").await.unwrap()),
        |metrics| {
            let mut all = expected.iter();
            all.all(|(name, value)| metrics.value(name) == *value)
        },
    )
    .await;
}

/// The event goes from Scheduled to its end; each step waits until the collector has the spans and log records of the
/// one before.
async fn play(imds: &FakeImds, traces: &FakeCollector, spans: [usize; 3]) {
    let steps = [None, Some(event("Started")), Some(no_event())];
    for (step, count) in steps.into_iter().zip(spans) {
        if let Some(reply) = step {
            imds.now(reply);
        }
        wait_until(DEADLINE, "the spans are accepted", || {
            (traces.accepted().len() == count).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn exported_log_record_is_that_of_the_entry() {
    let collector = FakeCollector::scripted([]).await;
    let gzip = ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "gzip");
    let start = Start {
        signal: Signal::Logs,
        ..Start::default()
    };
    let mut sending = Sending::start_as(start, &base(&collector), &[gzip]);
    let counts = sending.send(1).await;
    assert_eq!(counts.spooled, 0);
    let received = collector.received();
    assert_eq!(received[0].line, "POST /v1/logs HTTP/1.1");
    assert_eq!(received[0].header("content-encoding"), Some("gzip"));
    let resource = &received[0].logs.resource_logs[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert_eq!(text(attributes, "host.name").as_deref(), Some("web_0"));
    let record = received[0].log_records().next().unwrap();
    assert_eq!(record.event_name, "azure.scheduled_event.ended");
    let ended_at = u64::try_from(SEEN_AT + 2).unwrap() * 1_000_000_000;
    assert_eq!(record.time_unix_nano, ended_at);
    assert_eq!(record.observed_time_unix_nano, record.time_unix_nano);
    assert_eq!(
        (record.severity_number, record.severity_text.as_str()),
        (9, "")
    );
    let span = &trace::spans(&entry(1).transition, "web_0")[0].span_context;
    assert_eq!(record.trace_id, span.trace_id().to_bytes());
    assert_eq!(record.span_id, span.span_id().to_bytes());
    let name = "azure.scheduled_event.resources";
    let resources = text(&record.attributes, name).unwrap();
    assert!(
        resources.contains("web_0") && resources.contains("web_1"),
        "{resources}"
    );
    let [body] = <[_; 1]>::try_from(collector.accepted_logs()).unwrap();
    assert!(body.starts_with("Ended: "), "{body}");
}

#[tokio::test]
async fn collector_without_a_logs_pipeline_gets_all_spans_and_one_line_says_what_to_set() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::NotFound("/v1/logs"));
    let state = tempfile::tempdir().unwrap();
    let endpoint = base(&collector);
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let mut exporter = exporting(&imds, Some(state.path()), &environment);
    play(&imds, &collector, [1, 2, 4]).await;
    let line = exporter.says("log export failed").await;
    let hint = "set OTEL_LOGS_EXPORTER=none if the collector has no log pipeline";
    assert!(line.contains("HTTP 404") && line.contains(hint), "{line}");
    // Announced, approved elsewhere, started and ended.
    let spooled = [
        ("azure_scheduled_events_spans_spooled", Some(0.0)),
        ("azure_scheduled_events_log_records_spooled", Some(4.0)),
    ];
    until_metrics(&mut exporter, &spooled).await;
    let log = stop(exporter).await;
    assert_eq!(log.matches("log export failed").count(), 1, "{log}");
    assert_eq!(log.matches("trace export failed").count(), 0, "{log}");
}

/// Each signal has a receiver of its own, and one of them hangs.
#[tokio::test]
async fn a_receiver_that_hangs_does_not_delay_the_other_signal() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let (traces, logs) = (
        FakeCollector::scripted([]).await,
        FakeCollector::scripted([]).await,
    );
    let urls = [
        format!("{}/as/it/is/v1/traces", base(&traces)),
        format!("{}/as/it/is/v1/logs", base(&logs)),
    ];
    let environment = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", urls[0].as_str()),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", urls[1].as_str()),
    ];
    let state = tempfile::tempdir().unwrap();
    logs.now(Answer::hang());
    let mut exporter = exporting(&imds, Some(state.path()), &environment);
    play(&imds, &traces, [1, 2, 4]).await;
    let spooled = [("azure_scheduled_events_log_records_spooled", Some(4.0))];
    until_metrics(&mut exporter, &spooled).await;
    drop(exporter);
    // The other way round, with the unsent log records.
    traces.now(Answer::hang());
    logs.now(Answer::status(200));
    imds.now(event("Started"));
    let _exporter = exporting(&imds, Some(state.path()), &environment);
    let bodies = wait_until(DEADLINE, "the log records are accepted", || {
        let bodies = logs.accepted_logs();
        (bodies.len() == 5).then_some(bodies)
    })
    .await;
    let titles: Vec<_> = bodies
        .iter()
        .filter_map(|body| body.split(':').next())
        .collect();
    let expected = [
        "Announced",
        "Approved elsewhere",
        "Started",
        "Ended",
        "Returned",
    ];
    assert_eq!(titles, expected);
    let of_logs = |received: &Received| received.line == "POST /as/it/is/v1/logs HTTP/1.1";
    assert!(logs.received().iter().all(of_logs));
}
