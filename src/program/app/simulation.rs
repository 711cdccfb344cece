//! The commands `demo` and `simulate`.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
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

/// The address of the simulator of `demo` is that of `simulate`.
const SIMULATOR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_170);

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
    server::serve(listener, Arc::new(simulator), limits, stop).await
}

pub(crate) async fn demo(
    simulation: Simulation,
    exporter: impl FnOnce(String) -> Result<Config, CommandError>,
    dropped_log_lines: Arc<AtomicU64>,
    stop: CancellationToken,
) -> Result<(), CommandError> {
    let clock = Clock::start();
    // Another port while something uses this one.
    let azure = TcpListener::bind(SIMULATOR).or_else(|_| TcpListener::bind((SIMULATOR.ip(), 0)));
    let azure = azure.map_err(CommandError::listen(&SIMULATOR.to_string()))?;
    let azure_url = format!("http://{}", local_address(&azure));
    let settings = exporter(azure_url.clone())?;
    let listeners = bind(&[simulation.listen])?;
    let is_tls = settings.web_config.as_ref().is_some_and(WebConfig::is_tls);
    let scheme = if is_tls { "https" } else { "http" };
    let simulator = Simulator::new(simulation.vm, simulation.speed, simulation.scenarios, clock);
    for address in listeners.iter().map(local_address) {
        let page = format!("{scheme}://{address}/");
        simulator.link_exporter(&page);
        info!(
            page,
            metrics = format!("{scheme}://{address}/metrics"),
            simulated_azure = format!("{azure_url}/"),
            "demo started: open the page, stop with Ctrl-C"
        );
    }
    let serving = serve(azure, simulator, CancellationToken::new());
    let running = run(
        settings,
        listeners,
        dropped_log_lines,
        clock,
        stop.cancelled(),
    );
    tokio::select! {
        ran = Box::pin(running) => ran,
        served = serving => served.map_err(|cause| CommandError::system("the simulator failed", &cause)),
    }
}

pub(crate) async fn simulate(
    simulation: Simulation,
    kvp_pool_file: Option<&Path>,
    stop: CancellationToken,
) -> Result<(), CommandError> {
    let address = simulation.listen.to_string();
    let listeners = bind(&[simulation.listen])?;
    let Simulation {
        vm,
        speed,
        scenarios,
        ..
    } = simulation;
    let mut simulator = Simulator::new(vm, speed, scenarios, Clock::start());
    simulator.kvp_pool_file = kvp_pool_file.map(Into::into);
    let mut serving = JoinSet::new();
    for listener in listeners {
        let address = local_address(&listener);
        info!(
            page = format!("http://{address}/"),
            imds_url = format!("http://{address}"),
            "simulator started"
        );
        serving.spawn(serve(listener, simulator.clone(), stop.clone()));
    }
    while let Some(ended) = serving.join_next().await {
        if let Ok(Err(error)) = ended {
            return Err(CommandError::listen(&address)(error));
        }
    }
    Ok(())
}
