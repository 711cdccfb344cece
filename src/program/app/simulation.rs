//! The commands `demo` and `simulate`.

use std::{
    future::Future,
    io,
    net::TcpListener,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{bind, local_address, run};
use crate::{
    base::time::Clock,
    http::{
        server::{self, ServerLimits},
        web_config::WebConfig,
    },
    program::{
        CommandError,
        config::{Config, Simulation},
    },
    simulator::Simulator,
};

const SIMULATOR_PORT: u16 = 10_170;

/// Serves a simulator. The fault `hang` gives no response for longer than any client waits.
async fn serve(
    listener: TcpListener,
    simulator: Simulator,
    stop: CancellationToken,
) -> io::Result<()> {
    let limits = ServerLimits {
        response_timeout: Duration::from_mins(10),
        ..ServerLimits::default()
    };
    server::serve(listener, None, Arc::new(simulator), limits, stop).await
}

/// The address of the simulator beside the exporter: that of `simulate`, or a free port while something uses it.
fn bind_simulator() -> io::Result<TcpListener> {
    const HOST: &str = "127.0.0.1";
    TcpListener::bind((HOST, SIMULATOR_PORT)).or_else(|_| TcpListener::bind((HOST, 0)))
}

/// The simulated Azure and the exporter in one process.
///
/// # Errors
/// When a socket cannot be bound, or the exporter ends.
pub(crate) async fn demo(
    simulation: Simulation,
    exporter: impl FnOnce(&str) -> Result<Config, CommandError>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), CommandError> {
    let address = format!("127.0.0.1:{SIMULATOR_PORT}");
    let azure = bind_simulator().map_err(CommandError::listen(&address))?;
    let azure_url = azure
        .local_addr()
        .map(|address| format!("http://{address}"));
    let azure_url = azure_url.map_err(CommandError::listen(&address))?;
    let settings = exporter(&azure_url)?;
    let listeners = bind(&[simulation.listen])?;
    let is_tls = settings.web_config.as_ref().is_some_and(WebConfig::is_tls);
    let scheme = if is_tls { "https" } else { "http" };
    for address in listeners.iter().map(local_address) {
        info!(
            page = format!("{scheme}://{address}/"),
            metrics = format!("{scheme}://{address}/metrics"),
            simulated_azure = format!("{azure_url}/"),
            "demo started: open the page, stop with Ctrl-C"
        );
    }
    let simulator = Simulator::new(simulation.simulator, clock);
    let serving = serve(azure, simulator, CancellationToken::new());
    tokio::select! {
        ran = Box::pin(run(settings, listeners, dropped_log_lines, clock, stop)) => ran,
        served = serving => served.map_err(|cause| CommandError::system("the simulator failed", &cause)),
    }
}

/// Runs the simulated Azure alone.
///
/// # Errors
/// When a socket cannot be bound.
pub(crate) async fn simulate(
    simulation: Simulation,
    clock: Clock,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), CommandError> {
    let address = simulation.listen.to_string();
    let listeners = bind(&[simulation.listen])?;
    let simulator = Simulator::new(simulation.simulator, clock);
    let stopping = CancellationToken::new();
    let mut serving = JoinSet::new();
    for listener in listeners {
        let address = local_address(&listener);
        info!(
            page = format!("http://{address}/"),
            imds_url = format!("http://{address}"),
            "simulator started"
        );
        serving.spawn(serve(listener, simulator.clone(), stopping.clone()));
    }
    tokio::select! {
        () = stop => stopping.cancel(),
        Some(Ok(Err(error))) = serving.join_next() => return Err(CommandError::listen(&address)(error)),
    }
    serving.join_all().await;
    Ok(())
}
