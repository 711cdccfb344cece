//! The cost of parsing a document, of a poll in the engine, of rendering, of a whole scrape, and of finding the alerts
//! to push.
//! `cargo bench --bench core`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hint::black_box,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    alertmanager::{self, ClockDifference},
    document::{self, Answer},
    due_alerts::{DueAlert, due_alerts},
    engine::{Effect, Engine, EngineConfig, Input},
    metrics::{MetricsOptions, Scrape, exposition::Format},
    pause::Lateness,
    server::{self, ServerLimits},
    snapshot::{SeriesScope, Snapshot},
    time::{Moment, Timestamp},
    web::{WebService, WebSettings},
};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Events, and the VMs that each names.
const SIZES: [(usize, usize); 7] = [
    (1, 1),
    (10, 1),
    (100, 1),
    (1_000, 1),
    (1, 100),
    (10, 100),
    (100, 100),
];

/// 2026-11-17 09:00 UTC.
fn now() -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000).unwrap_or(Timestamp::UNIX_EPOCH),
        Duration::from_hours(1),
    )
}

fn body(events: usize, resources: usize) -> String {
    let names: Vec<_> = (0..resources)
        .map(|number| format!("\"web_{number}\""))
        .collect();
    let names = names.join(",");
    let mut body = r#"{"DocumentIncarnation":7,"Events":["#.to_owned();
    for number in 0..events {
        let comma = if number == 0 { "" } else { "," };
        let id = format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265");
        let written = write!(
            body,
            r#"{comma}{{"EventId":"{id}","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":[{names}],"NotBefore":"Tue, 17 Nov 2026 09:15:42 GMT","Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":9}}"#
        );
        assert!(written.is_ok(), "a string takes everything");
    }
    body + "]}"
}

fn engine() -> Engine {
    let config = EngineConfig {
        vm_name: Some(Arc::from("web_0")),
        ..EngineConfig::default()
    };
    Engine::new(config, None, now())
}

/// A poll that brought this document.
fn polled(body: &str) -> Option<Input> {
    let (document, anomalies) = document::parse(body.as_bytes()).ok()?;
    Some(Input::Polled {
        result: Ok(Answer::Document {
            document,
            anomalies,
        }),
        took: Duration::ZERO,
        late: Lateness::default(),
    })
}

fn handle(engine: &mut Engine, input: Option<Input>) -> Vec<Effect> {
    input.map_or_else(Vec::new, |input| engine.handle(input, now()))
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for (events, resources) in SIZES {
        let body = body(events, resources);
        let name = BenchmarkId::from_parameter(format!("{events}x{resources}"));
        group.bench_with_input(name, &body, |bencher, body| {
            bencher.iter(|| document::parse(black_box(body.as_bytes())));
        });
    }
    group.finish();
}

fn observe(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("observe");
    for (events, resources) in SIZES {
        let body = body(events, resources);
        let size = format!("{events}x{resources}");
        group.bench_function(BenchmarkId::new("first", &size), |bencher| {
            bencher.iter_batched(
                || (engine(), polled(&body)),
                |(mut engine, input)| handle(&mut engine, black_box(input)),
                BatchSize::SmallInput,
            );
        });
        let mut known = engine();
        handle(&mut known, polled(&body));
        group.bench_function(BenchmarkId::new("again", &size), |bencher| {
            bencher.iter_batched(
                || polled(&body),
                |input| handle(&mut known, black_box(input)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn render(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("render");
    for (events, resources) in SIZES {
        let mut engine = engine();
        handle(&mut engine, polled(&body(events, resources)));
        let snapshot = Arc::new(engine.snapshot(now()));
        let exposed = MetricsOptions {
            scope: SeriesScope::Own,
            resources: resources > 1,
            process: false,
        };
        let size = format!("{events}x{resources}");
        for (name, format) in [("openmetrics", Format::OpenMetrics), ("text", Format::Text)] {
            group.bench_function(BenchmarkId::new(name, &size), |bencher| {
                let counters = Arc::default();
                bencher.iter(|| {
                    Scrape {
                        snapshot: Arc::clone(black_box(&snapshot)),
                        options: exposed,
                        outputs: Arc::clone(&counters),
                        now: now(),
                    }
                    .text(format)
                });
            });
        }
    }
    group.finish();
}

/// Whole scrapes over one connection, each of them rendered: the snapshot is a new one, as after a poll.
fn scrape(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scrape");
    let open_metrics = "Accept: application/openmetrics-text;version=1.0.0\r\n";
    let gzip = "Accept: application/openmetrics-text;version=1.0.0\r\nAccept-Encoding: gzip\r\n";
    for (name, headers, events, resources) in [
        ("openmetrics gzip", gzip, 0, 1),
        ("openmetrics", open_metrics, 0, 1),
        ("openmetrics", open_metrics, 100, 1),
        ("text", "", 100, 1),
        ("openmetrics", open_metrics, 100, 100),
    ] {
        let mut engine = engine();
        handle(&mut engine, polled(&body(events, resources)));
        let snapshot = engine.snapshot(now());
        let (sender, receiver) = watch::channel(Arc::new(snapshot.clone()));
        let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let connection = serve(receiver).and_then(TcpStream::connect);
        assert!(connection.is_ok(), "{connection:?}");
        let id = BenchmarkId::new(name, format!("{events}x{resources}"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                sender.send_replace(Arc::new(snapshot.clone()));
                let result = connection.as_ref().map(|it| get(it, &request));
                assert!(matches!(result, Ok(Ok(()))), "{result:?}");
            });
        });
    }
    group.finish();
}

/// Serves until the process ends.
fn serve(snapshot: watch::Receiver<Arc<Snapshot>>) -> io::Result<SocketAddr> {
    let settings = WebSettings {
        telemetry_path: "/metrics".to_owned(),
        exposed: MetricsOptions {
            scope: SeriesScope::Own,
            resources: true,
            process: true,
        },
        simulator: None,
        serving_lead_time: Duration::ZERO,
    };
    let service = WebService::new(settings, snapshot, Arc::default(), now);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let limits = ServerLimits::default();
    std::thread::spawn(move || {
        runtime.block_on(server::serve(
            listener,
            Arc::new(service),
            limits,
            CancellationToken::new(),
        ))
    });
    Ok(address)
}

/// Reads the whole response.
fn get(connection: &TcpStream, request: &str) -> io::Result<()> {
    let mut connection = BufReader::with_capacity(64 * 1024, connection);
    connection.get_mut().write_all(request.as_bytes())?;
    let mut length = 0;
    let mut line = String::new();
    while connection.read_line(&mut line)? > 2 {
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim_end().parse().unwrap_or(0);
        }
        line.clear();
    }
    let received = io::copy(&mut connection.take(length), &mut io::sink())?;
    if received == 0 || received < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Which alerts are due, and their words.
fn push(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("push");
    let labels = BTreeMap::new();
    for events in [10, 1_000, 10_000] {
        let mut engine = engine();
        handle(&mut engine, polled(&body(events, 1)));
        let snapshot = engine.snapshot(now());
        let due = || due_alerts(black_box(&snapshot), &labels, now());
        group.bench_function(BenchmarkId::new("due", events), |bencher| {
            bencher.iter(due);
        });
        let alerts = due();
        let alert =
            |due: &DueAlert| alertmanager::json(due, &snapshot, ClockDifference::default(), now());
        group.bench_function(BenchmarkId::new("words", events), |bencher| {
            bencher.iter(|| black_box(&alerts).iter().map(alert).collect::<Vec<_>>());
        });
    }
    group.finish();
}

criterion_group!(core, parse, observe, render, scrape, push);
criterion_main!(core);
