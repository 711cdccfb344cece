//! Wiring: who runs, the one event loop, the order of effects, and the end.
//!
//! The loop asks IMDS, one request at a time, and takes the pulse of this VM between and during requests. Everything
//! that is served or sent reads the pictures that it publishes, and can delay nothing here.

mod anomaly_tracker;
mod approving;
mod by_hand;
mod exporter;
mod keeper;
mod logging;
mod polling;
mod pushing;
mod traces;

use std::{
    future::Future,
    io,
    net::TcpListener,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet};
use tracing::info;

pub use self::by_hand::{Approve, approve};
use self::{
    exporter::Exporter,
    keeper::Keeper,
    polling::{Core, Polling},
    pushing::Pushing,
    traces::Traces,
};
use crate::{
    alertmanager,
    cli::Output,
    config::{Config, Imds, Simulation},
    imds::{self, Client},
    list,
    listen::{self, ListenAddress},
    otlp::sender::{self, Pace},
    server::{self, ServerLimits},
    simulator::Simulator,
    state, system,
    time::Clock,
    web::WebService,
};

/// Why the program could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No socket to serve on.
    #[error(
        "--web.listen-address: cannot listen on {address}: {cause}; {}",
        listen::bind_hint(cause)
    )]
    Listen {
        /// The address as it was given.
        address: String,
        /// What the system said.
        cause: io::Error,
    },
    /// No client for IMDS.
    #[error("--imds.url: {0}")]
    Client(#[from] imds::SetupError),
    /// IMDS did not answer, or not with a document.
    #[error("{0}")]
    Imds(#[from] imds::Error),
    /// `approve` was given an id that the document does not have.
    #[error(
        "no event {id:?} is pending; pending events: {pending} (`list` prints them with their ids)"
    )]
    NoSuchEvent {
        /// The id as it was typed.
        id: String,
        /// How many events are pending.
        pending: usize,
    },
    /// IMDS did not take the approval.
    #[error("not approved: {cause}; {}", .now.as_deref().unwrap_or("what became of the event cannot be read: try `list`"))]
    NotApproved {
        /// What was wrong.
        cause: imds::Error,
        /// What the document says afterwards.
        now: Option<String>,
    },
    /// The document is the same as before, which was asked for only once.
    #[error("the document is unchanged")]
    Unchanged,
    /// No state directory.
    #[error("--state.directory: {0}")]
    State(#[from] state::Error),
    /// No way to an Alertmanager.
    #[error(transparent)]
    Alertmanager(#[from] alertmanager::SetupError),
    /// A part of the program ended that must never end.
    #[error("a task ended before its time: {0}")]
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

/// Runs the exporter until `stop` is done, then finishes the answers that are under way.
///
/// # Errors
/// When a client cannot be made, or a task ends that must not.
pub async fn run(
    settings: Config,
    listeners: Vec<TcpListener>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let client = Client::new(&settings.imds.endpoint)?;
    logging::starting(&settings);
    let now = clock.now();
    let boot_id = system::boot_id();
    let (keeper, legacy) = keeper::take_over(&settings.state, boot_id.as_deref(), now)?;
    let exporter = Exporter::new(settings.imds.vm_name.clone(), legacy, now);
    let site = WebService::new(
        settings.web.clone(),
        exporter.snapshots(),
        dropped_log_lines,
        clock,
    );
    let (stopping, stopped) = watch::channel(false);
    let (pushing, pushed) = Pushing::start(
        &settings.alertmanagers,
        clock,
        &exporter.snapshots(),
        &stopped,
    )?;
    let mut tasks = JoinSet::new();
    for listener in listeners {
        logging::listening(&listener, &settings.web.telemetry_path);
        let served = server::serve(
            listener,
            site.clone(),
            ServerLimits::default(),
            told(stopped.clone()),
        );
        tasks.spawn(async { served.await.map_err(|error| error.to_string()) });
    }
    let directory = keeper.as_ref().map(Keeper::path);
    let traces = settings
        .traces
        .clone()
        .map(|settings| Traces::open(settings, directory));
    if let Some((settings, spool)) = traces.as_ref().map(Traces::sender) {
        let sending = sender::run(settings, spool, clock, Pace::default(), stopped.clone());
        tasks.spawn(async {
            sending.await;
            Ok(())
        });
    }
    let core = Core {
        exporter,
        traces,
        keeper,
        boot_id,
        clock,
        pushed,
    };
    let mut polling = Polling::new(settings, client, core);
    tokio::select! {
        () = polling.go_on() => return Err(Error::Task("polling".to_owned())),
        () = stop => info!("stopping: finishing what is under way"),
        Some(ended) = tasks.join_next() => return Err(Error::Task(format!("{ended:?}"))),
    }
    polling.end().await;
    stopping.send_replace(true);
    pushing.finish().await;
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// The fault "hang" is no answer for longer than any client waits.
fn simulator_limits() -> ServerLimits {
    ServerLimits {
        handler_timeout: Duration::from_mins(10),
        ..ServerLimits::default()
    }
}

/// Done once the sender says so, or is gone.
async fn told(mut stopped: watch::Receiver<bool>) {
    let _sender_gone = stopped.wait_for(|stopped| *stopped).await.is_err();
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
        ended = &mut serving => return Err(Error::Task(format!("the simulator: {ended:?}")).into()),
    }
    serving.abort();
    Ok(())
}

/// Why a demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A flag cannot work.
    #[error(transparent)]
    ConfigError(#[from] crate::config::ConfigError),
    /// The exporter could not do its work.
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
pub async fn list(settings: &Imds, output: Output, clock: Clock) -> Result<String, Error> {
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
    let document = by_hand::read(&mut client, settings.first_timeout, clock).await?;
    Ok(match output {
        Output::Json => list::json(&document).map_err(|error| Error::Task(error.to_string()))?,
        Output::Table => list::table(&document, vm_name.as_deref(), clock.now().wall),
    })
}
