//! Wiring: which tasks run, the event loop, the effects of the engine, and the end of the process.
//!
//! Everything that is served or sent reads the snapshots that the event loop publishes, and cannot block the event
//! loop. What is sent runs on a thread of its own.

mod error;
mod event_loop;
mod logging;
mod output_thread;
mod poller;
mod publisher;
mod simulation;
mod state_writer;
mod tasks;

use std::{
    future::Future,
    net::TcpListener,
    pin::pin,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::error::Error;
use self::{
    event_loop::{EventLoop, pause_ticks},
    poller::Poller,
    publisher::Publisher,
    state_writer::StateWriter,
    tasks::Tasks,
};
pub(crate) use self::{
    logging::log_anomaly,
    simulation::{demo, simulate},
};
use crate::{
    azure::imds::{Client, timeouts::PollTimeouts},
    base::{log_id, system, time::Clock, worker::Worker},
    core::{
        engine::{Engine, EngineConfig},
        snapshot::Snapshot,
    },
    http::{
        listen::ListenAddress,
        server::{self, ServerLimits},
        web_config::Protected,
    },
    outputs::{
        otlp::signal::Signal,
        web::{PROBE_PATHS, WebService},
    },
    program::config::{Config, StateStorage},
};

/// The process has about 14 open files when it is idle. Each use of a file, of a socket and of the name resolution
/// needs a few more for a short time.
const RESERVED_DESCRIPTORS: usize = 36;
const DESCRIPTORS_PER_ALERTMANAGER: usize = 2;

/// Opens the sockets of the exporter.
pub fn bind(addresses: &[ListenAddress]) -> Result<Vec<TcpListener>, Error> {
    let bind = |address: &ListenAddress| {
        let bound = address.bind();
        bound.map_err(Error::listen(&address.to_string()))
    };
    addresses.iter().map(bind).collect()
}

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
) -> Result<(), Error> {
    let client = Client::new(&config.imds.endpoint)?;
    logging::starting(&config);
    let mut tasks = Tasks::new(&config, clock)?;
    let assembled = assemble(&config, client, clock, &mut tasks, &dropped_log_lines);
    let (mut poller, snapshots) = assembled.await?;
    let now = move || clock.now();
    let service = WebService::new(config.web.clone(), snapshots, dropped_log_lines, now);
    let Protected { handler, acceptor } = protect(&config, service)?;
    let limits = server_limits(listeners.len(), config.alertmanagers.len());
    for listener in listeners {
        logging::listening(&listener, &config);
        let stop = Box::pin(tasks.stop.clone().cancelled_owned());
        let (handler, acceptor) = (Arc::clone(&handler), acceptor.clone());
        let served = server::serve_over(listener, acceptor, handler, limits, stop);
        tasks.spawn("HTTP server", async {
            served.await.map_err(|error| error.to_string())
        });
    }
    let stopping = CancellationToken::new();
    {
        let mut polling = pin!(poller.run(&stopping));
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut polling => break,
                () = &mut stop, if !stopping.is_cancelled() => {
                    info!(name: log_id::SHUTTING_DOWN, "shutting down");
                    stopping.cancel();
                }
                ended = tasks.unexpected_end(), if !stopping.is_cancelled() => return Err(ended),
            }
        }
    }
    tasks.finish().await;
    Ok(())
}

/// Puts the checks of `--web.config.file` in front of the web service.
fn protect(config: &Config, service: WebService) -> Result<Protected, Error> {
    let service = Arc::new(service);
    match &config.web_config {
        None => Ok(Protected {
            handler: service,
            acceptor: None,
        }),
        Some(web_config) => web_config
            .protect(service, &PROBE_PATHS)
            .map_err(Error::thread("reads --web.config.file")),
    }
}

/// HTTP clients get the file descriptors that polls, state, spool, OTLP and Alertmanagers do not need.
fn server_limits(listeners: usize, alertmanagers: usize) -> ServerLimits {
    let limits = ServerLimits::default();
    let Some(open_files) = system::max_open_files() else {
        return limits;
    };
    let reserved = RESERVED_DESCRIPTORS + alertmanagers * DESCRIPTORS_PER_ALERTMANAGER;
    let within = limits.within(open_files, reserved, listeners);
    if within.max_connections < limits.max_connections {
        info!(
            max_open_files = open_files,
            max_connections = within.max_connections,
            "fewer HTTP connections because of the limit on open files"
        );
    }
    within
}

/// Makes the poller with the event loop, and starts the OTLP senders and the Alertmanager pushers.
async fn assemble(
    config: &Config,
    client: Client,
    clock: Clock,
    tasks: &mut Tasks,
    dropped_log_lines: &Arc<AtomicU64>,
) -> Result<(Poller, watch::Receiver<Arc<Snapshot>>), Error> {
    let now = clock.now();
    let boot_id = system::boot_id();
    let worker = match config.state {
        StateStorage::Directory(_) => {
            let worker = Worker::start("disk");
            Some(worker.map_err(Error::thread("writes to --state.directory"))?)
        }
        StateStorage::InMemory | StateStorage::Disabled => None,
    };
    let (state, restored) =
        StateWriter::open(&config.state, worker.as_ref(), boot_id.as_deref(), now).await?;
    let directory = state.as_ref().map(|state| &*state.path);
    let mut export = |signal| tasks.export(signal, config, directory, worker.as_ref());
    let (spans, log_records) = (export(Signal::Traces)?, export(Signal::Logs)?);
    let engine_config = EngineConfig {
        vm_name: config.imds.vm_name.clone(),
        poll_interval: config.interval,
        approvals: config.approvals,
        boot_id,
        is_persistent: state.is_some(),
    };
    let engine = Engine::new(engine_config, restored, now);
    let publisher = Publisher::new(engine.snapshot(now));
    let snapshots = publisher.subscribe();
    let push_counts = tasks.push_alerts(config, &snapshots)?;
    let metric_counts = tasks.push_metrics(config, &snapshots, dropped_log_lines)?;
    let event_loop = EventLoop {
        engine,
        clock,
        state,
        otlp: config.otlp.clone(),
        spans,
        log_records,
        metric_counts,
        push_counts,
        receiver_states: tasks.receivers.subscribe(),
        publisher,
        approval: None,
        needs_whole_document: false,
        ticks: pause_ticks(),
    };
    let poller = Poller {
        client,
        imds: config.imds.clone(),
        interval: config.interval,
        event_loop,
        timeouts: PollTimeouts::default(),
        consecutive_failures: 0,
        identity_unavailable: 0,
    };
    Ok((poller, snapshots))
}
