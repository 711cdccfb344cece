//! Wiring: each part is made from its own settings. The loop of the exporter is in `runner`.
//!
//! Everything that is served or sent reads the snapshots that the loop publishes, and cannot block it. What is sent
//! runs on a thread of its own.

mod imds_requests;
mod logging;
mod output_thread;
mod outputs;
mod runner;
mod serving;
mod simulation;
mod state_writer;
mod tasks;

use std::{
    collections::BTreeMap,
    future::Future,
    net::TcpListener,
    pin::pin,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::serving::bind;
pub(crate) use self::simulation::{demo, simulate};
use self::{
    imds_requests::ImdsRequests,
    outputs::{OtlpOutput, push_alerts, write_textfile},
    runner::{Runner, notification_ticks, pause_ticks},
    serving::{protect, serve, server_limits},
    state_writer::StateWriter,
    tasks::Tasks,
};
use crate::{
    azure::imds::Client,
    base::{log_id, system, time::Clock},
    core::{
        engine::{Engine, EngineConfig, SavedState},
        lifecycle::SavedCursor,
    },
    outputs::{
        otlp::sender::metric_push::MetricSource, output_counters::OutputCounters, web::WebService,
    },
    program::{CommandError, config::Config},
};

/// Runs the exporter until `stop` is done, then finishes the requests in flight.
///
/// # Errors
/// When a client cannot be made, or a required task ends.
pub async fn run(
    config: Config,
    listeners: Vec<TcpListener>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), CommandError> {
    let client = Client::new(&config.imds.endpoint)?;
    logging::starting(&config);
    let limits = server_limits(listeners.len(), config.alertmanagers.len());
    let Config {
        listen: _,
        web,
        web_config,
        imds,
        interval,
        approvals,
        state,
        otlp,
        alertmanagers,
        textfile,
    } = config;
    let mut tasks = Tasks::new();
    let boot_id = system::boot_id();
    let opened = StateWriter::open(state, boot_id.as_deref(), random_id(), clock.now());
    let (state, restored, journal) = opened.await?;
    let clock = resumed(clock, restored.as_ref());
    let cursors = cursors(restored.as_ref());
    let engine_config = EngineConfig {
        vm_name: imds.vm_name.clone(),
        poll_interval: interval,
        approvals,
        boot_id,
        is_persistent: state.is_some(),
        journal,
        next_journal_id: random_id(),
    };
    let engine = Engine::new(engine_config, restored, clock.now());
    let (publisher, snapshots) = watch::channel(Arc::new(engine.snapshot(clock.now())));
    let counters = Arc::new(OutputCounters::new(dropped_log_lines));
    let source = MetricSource {
        snapshots: snapshots.clone(),
        options: web.exposed,
        outputs: Arc::clone(&counters),
    };
    write_textfile(textfile, &source, clock, &mut tasks)?;
    let otlp = otlp
        .map(|otlp| OtlpOutput::start(&otlp, &cursors, state.is_some(), source, clock, &mut tasks))
        .transpose()?;
    push_alerts(alertmanagers, &snapshots, &counters, clock, &mut tasks)?;
    logging::listening(&listeners, &web.telemetry_path, web_config.as_ref());
    let service = WebService::new(web, snapshots, counters, move || clock.now());
    serve(listeners, protect(web_config, service)?, limits, &mut tasks);
    let runner = Runner {
        engine,
        clock,
        requests: ImdsRequests::new(client, imds, clock),
        state,
        otlp,
        snapshots: publisher,
        ticks: pause_ticks(),
        notifications: notification_ticks(),
        delays: system::ProcessDelays::watch(),
    };
    run_until(stop, runner, tasks).await
}

/// The clock goes on where that of an earlier process was.
fn resumed(clock: Clock, restored: Option<&SavedState>) -> Clock {
    let now = restored.map(|saved| saved.resume(clock.now()).monotonic);
    now.map_or(clock, |now| clock.resume(now))
}

/// The id of a journal.
fn random_id() -> Arc<str> {
    let bytes = fastrand::u128(..).to_be_bytes();
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    id.to_string().into()
}

/// How far an earlier process had sent this journal.
fn cursors(restored: Option<&SavedState>) -> BTreeMap<String, SavedCursor> {
    let saved = restored.and_then(|saved| saved.journal.as_ref());
    saved.map(|saved| saved.cursors.clone()).unwrap_or_default()
}

/// Runs until `stop` is done, then finishes the tasks.
///
/// # Errors
/// When a required task ends.
async fn run_until(
    stop: impl Future<Output = ()>,
    mut runner: Runner,
    mut tasks: Tasks,
) -> Result<(), CommandError> {
    let stopping = CancellationToken::new();
    let mut stop = pin!(stop);
    {
        let mut running = pin!(runner.run(&stopping));
        loop {
            tokio::select! {
                () = &mut running => break,
                () = &mut stop, if !stopping.is_cancelled() => {
                    info!(name: log_id::SHUTTING_DOWN, "shutting down");
                    stopping.cancel();
                }
                ended = tasks.unexpected_end(), if !stopping.is_cancelled() => return Err(ended),
            }
        }
    }
    tasks.finish().await;
    if runner.otlp.is_some() {
        runner.save().await;
    }
    Ok(())
}
