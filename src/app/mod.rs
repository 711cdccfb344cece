//! Wiring: which tasks run, the event loop, the effects of the engine, and the end of the process.
//!
//! Everything that is served or sent reads the snapshots that the event loop publishes, and can delay nothing there.

mod alert_pushers;
mod approve;
mod event_loop;
mod logging;
mod state_writer;

use std::{
    future::Future,
    io,
    net::TcpListener,
    pin::pin,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::approve::{Approve, approve};
use self::{
    alert_pushers::AlertPushers,
    event_loop::{Driver, EventLoop, Publisher},
    state_writer::StateWriter,
};
use crate::{
    alertmanager,
    cli::Output,
    config::{Config, ImdsSettings, Simulation, StateStorage},
    engine::{Engine, EngineConfig},
    imds::{self, Client},
    list,
    listen::{self, ListenAddress},
    otlp::{
        sender::{self, Pace},
        spool::{Disk, Spool, SpoolHandle, SpoolLimits},
    },
    server::{self, ServerLimits},
    simulator::Simulator,
    snapshot::Snapshot,
    state, system,
    time::Clock,
    web::WebService,
    worker::Worker,
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "--web.listen-address: cannot listen on {address}: {cause}; {}",
        listen::bind_hint(cause)
    )]
    Listen { address: String, cause: io::Error },
    #[error("--imds.url: {0}")]
    Client(#[from] imds::SetupError),
    #[error("{0}")]
    Imds(#[from] imds::Error),
    /// The document does not have the event of `approve`.
    #[error(
        "no event {id:?} is pending; pending events: {pending} (`list` prints them with their ids)"
    )]
    NoSuchEvent { id: String, pending: usize },
    /// IMDS refused the approval, or did not answer.
    #[error("not approved: {cause}; {}", .now.as_deref().unwrap_or("what became of the event cannot be read: try `list`"))]
    NotApproved {
        cause: imds::Error,
        /// The event in the document after it.
        now: Option<String>,
    },
    /// A 304 without an ETag in the request.
    #[error("the document is unchanged")]
    Unchanged,
    #[error("--state.directory: {0}")]
    State(#[from] state::Error),
    #[error(transparent)]
    Alertmanager(#[from] alertmanager::SetupError),
    #[error("--state.directory: cannot start the thread that writes to it: {0}")]
    Thread(io::Error),
    /// A task ended that must run until the end of the process, or failed.
    #[error("{0}")]
    Task(String),
}

/// Opens the sockets of the exporter.
pub fn bind(addresses: &[ListenAddress]) -> Result<Vec<TcpListener>, Error> {
    let bind = |address: &ListenAddress| {
        address.bind().map_err(|cause| Error::Listen {
            address: address.to_string(),
            cause,
        })
    };
    addresses.iter().map(bind).collect()
}

/// Runs the exporter until `stop` is done, then finishes the requests that are under way.
///
/// # Errors
/// When a client cannot be made, or a task ends that must not.
pub async fn run(
    config: Config,
    listeners: Vec<TcpListener>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let client = Client::new(&config.imds.endpoint)?;
    logging::starting(&config);
    let mut tasks = Tasks::default();
    let (mut event_loop, snapshots, pushers) = assemble(&config, client, clock, &mut tasks)?;
    let service = WebService::new(config.web.clone(), snapshots, dropped_log_lines, clock);
    for listener in listeners {
        logging::listening(&listener, &config.web.telemetry_path);
        let stopped = wait_until(tasks.stopped());
        let served = server::serve(listener, service.clone(), ServerLimits::default(), stopped);
        tasks.spawn("HTTP server", async {
            served.await.map_err(|error| error.to_string())
        });
    }
    let stopping = CancellationToken::new();
    {
        let mut polling = pin!(event_loop.run(&stopping));
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut polling => break,
                () = &mut stop, if !stopping.is_cancelled() => {
                    info!("shutting down");
                    stopping.cancel();
                }
                ended = tasks.unexpected_end(), if !stopping.is_cancelled() => return Err(ended),
            }
        }
    }
    tasks.stop.send_replace(true);
    pushers.finish().await;
    while tasks.running.join_next().await.is_some() {}
    Ok(())
}

/// Makes the event loop, and starts the OTLP sender and the Alertmanager pushers.
fn assemble(
    config: &Config,
    client: Client,
    clock: Clock,
    tasks: &mut Tasks,
) -> Result<(EventLoop, watch::Receiver<Arc<Snapshot>>, AlertPushers), Error> {
    let now = clock.now();
    let boot_id = system::boot_id();
    let worker = match config.state {
        StateStorage::Directory(_) => Some(Worker::start("disk").map_err(Error::Thread)?),
        StateStorage::InMemory | StateStorage::Disabled => None,
    };
    let (state, restored) =
        StateWriter::open(&config.state, worker.as_ref(), boot_id.as_deref(), now)?;
    let spool = config.traces.clone().map(|settings| {
        let directory = state.as_ref().map(|state| state.path().join("spool"));
        let limits = SpoolLimits::default();
        let spool = Spool::open(directory.as_deref(), Box::new(Disk), limits);
        let spool = SpoolHandle::new(spool, worker.clone());
        let sending = sender::run(
            settings,
            spool.clone(),
            clock,
            Pace::default(),
            tasks.stopped(),
        );
        tasks.spawn("OTLP sender", async {
            sending.await;
            Ok(())
        });
        spool
    });
    let engine_config = EngineConfig {
        vm_name: config.imds.vm_name.clone(),
        approvals: config.approvals,
        boot_id,
        traces: config.traces.clone(),
        is_persistent: state.is_some(),
    };
    let engine = Engine::new(engine_config, restored, now);
    let publisher = Publisher::new(engine.snapshot(now));
    let snapshots = publisher.subscribe();
    let (pushers, push_counts) =
        AlertPushers::start(&config.alertmanagers, clock, &snapshots, &tasks.stopped())?;
    let driver = Driver {
        engine,
        clock,
        state,
        span_counts: spool.as_ref().map(SpoolHandle::counts),
        spool,
        push_counts,
        publisher,
        approval: None,
        needs_whole_document: false,
    };
    let event_loop = EventLoop::new(client, config.imds.clone(), config.interval, driver);
    Ok((event_loop, snapshots, pushers))
}

/// The tasks that run until the end of the process.
#[derive(Debug)]
struct Tasks {
    running: JoinSet<(&'static str, Result<(), String>)>,
    stop: watch::Sender<bool>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            running: JoinSet::new(),
            stop: watch::Sender::new(false),
        }
    }
}

impl Tasks {
    fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.running.spawn(async move { (name, task.await) });
    }

    /// Why a task ended that must run until the end; never ready while all of them run.
    async fn unexpected_end(&mut self) -> Error {
        match self.running.join_next().await {
            Some(ended) => Error::Task(describe_end(ended)),
            None => std::future::pending().await,
        }
    }
}

fn describe_end(ended: Result<(&str, Result<(), String>), JoinError>) -> String {
    match ended {
        Ok((name, Ok(()))) => format!("the {name} ended unexpectedly"),
        Ok((name, Err(error))) => format!("the {name} failed: {error}"),
        Err(error) if error.is_panic() => "a task panicked".to_owned(),
        Err(_) => "a task was cancelled".to_owned(),
    }
}

/// The fault `hang` gives no response for longer than any client waits.
fn simulator_limits() -> ServerLimits {
    ServerLimits {
        handler_timeout: Duration::from_mins(10),
        ..ServerLimits::default()
    }
}

/// Done once the value is true, or its sender is dropped.
async fn wait_until(mut value: watch::Receiver<bool>) {
    value.wait_for(|value| *value).await.ok();
}

/// The simulated Azure and the exporter in one process.
///
/// # Errors
/// When there is no socket, or the exporter ends.
pub async fn demo(
    simulation: Simulation,
    exporter: impl FnOnce(&str) -> Result<Config, crate::config::ConfigError>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), DemoError> {
    let azure =
        TcpListener::bind(("127.0.0.1", 0)).map_err(|cause| listen_error("127.0.0.1:0", cause))?;
    let azure_url = azure
        .local_addr()
        .map(|address| format!("http://{address}"));
    let azure_url = azure_url.map_err(|cause| listen_error("127.0.0.1:0", cause))?;
    let settings = exporter(&azure_url)?;
    let listeners = bind(&[simulation.listen])?;
    logging::demo(&listeners, &azure_url);
    let simulator = Simulator::new(simulation.simulator, clock);
    let mut serving = tokio::spawn(server::serve(
        azure,
        simulator,
        simulator_limits(),
        std::future::pending(),
    ));
    tokio::select! {
        ran = Box::pin(run(settings, listeners, dropped_log_lines, clock, stop)) => ran?,
        ended = &mut serving => {
            let ended = ended.map(|served| ("simulator", served.map_err(|error| error.to_string())));
            return Err(Error::Task(describe_end(ended)).into());
        }
    }
    serving.abort();
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    ConfigError(#[from] crate::config::ConfigError),
    #[error(transparent)]
    Failed(#[from] Error),
}

fn listen_error(address: &str, cause: io::Error) -> Error {
    Error::Listen {
        address: address.to_owned(),
        cause,
    }
}

/// Runs the simulated Azure alone.
///
/// # Errors
/// When there is no socket.
pub async fn simulate(
    simulation: Simulation,
    clock: Clock,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let address = simulation.listen.to_string();
    let listener = simulation
        .listen
        .bind()
        .map_err(|cause| listen_error(&address, cause))?;
    logging::simulating(&listener);
    let simulator = Simulator::new(simulation.simulator, clock);
    server::serve(listener, simulator, simulator_limits(), stop)
        .await
        .map_err(|cause| listen_error(&address, cause))
}

/// Asks IMDS once for the pending events.
///
/// # Errors
/// When it does not answer with a document.
pub async fn list(settings: &ImdsSettings, output: Output, clock: Clock) -> Result<String, Error> {
    let mut client = Client::new(&settings.endpoint)?;
    let named = settings.vm_name.as_deref().map(str::to_owned);
    let vm_name = match (named, output) {
        (None, Output::Table) => client
            .identify(clock)
            .await
            .ok()
            .map(|identity| identity.name),
        (named, _) => named,
    };
    let document = approve::read(&mut client, settings.first_timeout, clock).await?;
    Ok(match output {
        Output::Json => list::json(&document).map_err(|error| Error::Task(error.to_string()))?,
        Output::Table => list::table(&document, vm_name.as_deref(), clock.now().wall),
    })
}
