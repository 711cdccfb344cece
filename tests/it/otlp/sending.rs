//! A running sender with its spool, and spans to export.

use std::{collections::BTreeMap, path::Path, time::Duration};

use azure_scheduled_events_exporter::{
    file::OsFilesystem,
    otlp::{
        batch::{Batch, Record},
        sender::{self, Connection, RetryTiming},
        settings::{ExporterSettings, OtlpSettings},
        signal::Signal,
        spool::{Spool, SpoolHandle, SpoolLimits},
    },
    output_counters::ExportCounts,
    time::{Clock, Timestamp},
    worker::Worker,
};
use opentelemetry::{
    Array, InstrumentationScope, KeyValue, Value,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
    trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_proto::tonic::common::v1::{KeyValue as SentAttribute, any_value};
use opentelemetry_sdk::{
    Resource,
    logs::SdkLoggerProvider,
    trace::{SpanData, SpanEvents, SpanLinks},
};
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{
    DEADLINE, Reply,
    collector::FakeCollector,
    events::{self, document},
    install_cryptography,
};

pub(super) const TIMING: RetryTiming = RetryTiming {
    initial_backoff: Duration::from_millis(5),
    max_backoff: Duration::from_millis(20),
    maintenance_interval: Duration::from_secs(1),
    flush_timeout: Duration::from_secs(1),
};

pub(super) struct Sending {
    pub(super) spool: SpoolHandle,
    worker: Worker,
    pub(super) counts: watch::Receiver<ExportCounts>,
    stop: CancellationToken,
    pub(super) running: JoinHandle<()>,
}

impl Sending {
    pub(super) fn start(
        endpoint: &str,
        environment: &[(&str, &str)],
        directory: Option<&Path>,
    ) -> Self {
        Self::start_with(TIMING, endpoint, environment, directory)
    }

    pub(super) fn start_with(
        timing: RetryTiming,
        endpoint: &str,
        environment: &[(&str, &str)],
        directory: Option<&Path>,
    ) -> Self {
        Self::start_signal(Signal::Traces, timing, endpoint, environment, directory)
    }

    pub(super) fn start_signal(
        signal: Signal,
        timing: RetryTiming,
        endpoint: &str,
        environment: &[(&str, &str)],
        directory: Option<&Path>,
    ) -> Self {
        install_cryptography();
        let limits = SpoolLimits::default();
        let spool = Spool::open(signal, directory, Box::new(OsFilesystem), limits);
        let worker = Worker::start("disk").unwrap();
        let spool = SpoolHandle::new(spool, Some(worker.clone()));
        let stop = CancellationToken::new();
        let settings = exporter_settings(signal, endpoint, environment);
        let connection = Connection::new(&settings, Clock::start(), timing).unwrap();
        let running = sender::run(connection, spool.clone(), stop.clone());
        Self {
            counts: spool.counts().subscribe(),
            spool,
            worker,
            stop,
            running: tokio::spawn(running),
        }
    }

    pub(super) async fn append(&self, names: impl IntoIterator<Item = u64>) {
        for name in names {
            self.spool.append(batch(name), Clock::start().now());
        }
        self.worker.run(|| ()).await.unwrap();
    }

    pub(super) async fn append_logs(&self, bodies: impl IntoIterator<Item = u64>) {
        for body in bodies {
            self.spool.append(log_batch(body), Clock::start().now());
        }
        self.worker.run(|| ()).await.unwrap();
    }

    pub(super) async fn until(
        &mut self,
        condition: impl Fn(&ExportCounts) -> bool,
    ) -> ExportCounts {
        let waiting = self.counts.wait_for(|counts| condition(counts));
        let waited = timeout(DEADLINE, waiting).await;
        let counts = waited.ok().map(|counts| counts.unwrap().clone());
        counts.unwrap_or_else(|| panic!("timed out at {:?}", self.counts.borrow()))
    }

    pub(super) async fn stop(self) -> ExportCounts {
        self.stop.cancel();
        timeout(DEADLINE, self.running).await.unwrap().unwrap();
        self.counts.borrow().clone()
    }
}

pub(super) fn settings(endpoint: &str, environment: &[(&str, &str)]) -> OtlpSettings {
    let all: BTreeMap<_, _> = environment
        .iter()
        .copied()
        .chain([("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)])
        .collect();
    OtlpSettings::from_env(|name| all.get(name).map(|value| (*value).to_owned()))
        .unwrap()
        .unwrap()
}

fn exporter_settings(
    signal: Signal,
    endpoint: &str,
    environment: &[(&str, &str)],
) -> ExporterSettings {
    let settings = settings(endpoint, environment);
    settings.exporter(signal).unwrap().clone()
}

pub(super) fn at(nanos: i128) -> Timestamp {
    Timestamp::from_unix_nanos(1_794_906_942_000_000_000 + nanos).unwrap()
}

/// One batch with these spans.
pub(super) fn batch_of(numbers: std::ops::RangeInclusive<u64>) -> Batch {
    let mut batches = numbers.map(batch);
    let mut whole = batches.next().unwrap();
    whole
        .records
        .extend(batches.flat_map(|batch| batch.records));
    whole
}

fn resource() -> Resource {
    let attributes = [KeyValue::new("host.name", "web_0")];
    Resource::builder_empty()
        .with_attributes(attributes)
        .build()
}

/// One span whose name is the number.
pub(super) fn batch(number: u64) -> Batch {
    let mut events = SpanEvents::default();
    let attributes = vec![KeyValue::new("text", "x")];
    events
        .events
        .push(Event::new("rescheduled", at(5).into(), attributes, 0));
    let texts = ["web_0", "web_1"].map(Into::into).into();
    let span = SpanData {
        span_context: SpanContext::new(
            TraceId::from(7),
            SpanId::from(number),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: SpanId::from(99),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: number.to_string().into(),
        start_time: at(1).into(),
        end_time: at(2_000_000_003).into(),
        attributes: vec![
            KeyValue::new("text", "a \"b\""),
            KeyValue::new("int", -9_i64),
            KeyValue::new("float", 7.25),
            KeyValue::new("texts", Value::Array(Array::String(texts))),
        ],
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: Status::error("status 400"),
        instrumentation_scope: InstrumentationScope::default(),
    };
    Batch {
        resource: resource(),
        records: vec![Record::Span(span)],
    }
}

/// One log record whose body is the number.
pub(super) fn log_batch(number: u64) -> Batch {
    let logger = SdkLoggerProvider::builder().build().logger("test");
    let mut record = logger.create_log_record();
    record.set_event_name("azure.scheduled_event.announced");
    record.set_timestamp(at(7).into());
    record.set_observed_timestamp(at(7).into());
    record.set_severity_number(Severity::Error);
    record.set_trace_context(
        TraceId::from(7),
        SpanId::from(99),
        Some(TraceFlags::SAMPLED),
    );
    record.set_body(number.to_string().into());
    record.add_attribute("texts", AnyValue::from_iter(["web_0", "web_1"]));
    Batch {
        resource: resource(),
        records: vec![Record::Log(record)],
    }
}

pub(super) const EVENT_ID: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";

/// A Freeze of this VM.
pub(super) fn event(status: &str) -> Reply {
    event_of(status, "web_0")
}

pub(super) fn event_of(status: &str, resource: &str) -> Reply {
    let members = json!({
        "EventStatus": status, "Resources": [resource], "DurationInSeconds": 5, "Description": "Host \"a\\b\"",
    });
    document(1, [events::event(&members)])
}

pub(super) fn no_event() -> Reply {
    Reply::ok(r#"{"DocumentIncarnation":2,"Events":[]}"#)
}

pub(super) fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

pub(super) fn base(collector: &FakeCollector) -> String {
    format!("http://{}", collector.address)
}

pub(super) fn text(attributes: &[SentAttribute], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}
