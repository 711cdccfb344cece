//! The commands `demo` and `simulate`.

use std::{
    future::Future,
    net::TcpListener,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use super::{Error, bind, logging, run, tasks::describe_end};
use crate::{
    base::time::Clock,
    http::server::{self, ServerLimits},
    program::config::{Config, ConfigError, Simulation},
    simulator::Simulator,
};

/// The fault `hang` gives no response for longer than any client waits.
fn simulator_limits() -> ServerLimits {
    ServerLimits {
        handler_timeout: Duration::from_mins(10),
        ..ServerLimits::default()
    }
}

/// The simulated Azure and the exporter in one process.
///
/// # Errors
/// When a socket cannot be bound, or the exporter ends.
pub(crate) async fn demo(
    simulation: Simulation,
    exporter: impl FnOnce(&str) -> Result<Config, ConfigError>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let azure = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::listen("127.0.0.1:0"))?;
    let azure_url = azure
        .local_addr()
        .map(|address| format!("http://{address}"));
    let azure_url = azure_url.map_err(Error::listen("127.0.0.1:0"))?;
    let settings = exporter(&azure_url)?;
    let listeners = bind(&[simulation.listen])?;
    logging::demo(&listeners, &settings, &azure_url);
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
            return Err(Error::Task(describe_end(ended)));
        }
    }
    serving.abort();
    Ok(())
}

/// Runs the simulated Azure alone.
///
/// # Errors
/// When a socket cannot be bound.
pub(crate) async fn simulate(
    simulation: Simulation,
    clock: Clock,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let address = simulation.listen.to_string();
    let listener = simulation.listen.bind().map_err(Error::listen(&address))?;
    logging::simulating(&listener);
    let simulator = Simulator::new(simulation.simulator, clock);
    server::serve(listener, simulator, simulator_limits(), stop)
        .await
        .map_err(Error::listen(&address))
}
