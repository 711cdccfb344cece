//! Runs a command: resolves its settings, reports everything that can fail at start-up, then starts the runtime.

mod approve;
mod list;
mod query;
#[cfg(windows)]
mod service;
mod watch;

use tokio_util::sync::CancellationToken;
use tracing::warn;

#[cfg(windows)]
pub use self::service::run_as_service;
pub use crate::base::system::is_closed_pipe;
use crate::{
    base::{
        system::{self, Signals},
        time::Clock,
    },
    program::{
        CommandError, app,
        cli::{self, Cli, Command, DemoFlags, LogFlags, RunFlags, SimulateFlags},
        config::{self, Config},
        logs::{self, LogGuard, WriteLine},
    },
    simulator,
};

pub fn dispatch(cli: Cli) -> Result<String, CommandError> {
    match cli.command {
        None => run_exporter(&cli.run, logs::write_stderr, obey_service_signals),
        Some(Command::Demo(flags)) => demo(*flags, cli.run),
        Some(Command::Simulate(flags)) => simulate(&flags),
        Some(Command::List(flags)) => run_once(flags.log, list::run(&flags)),
        Some(Command::Approve(flags)) => run_once(flags.query.log, approve::run(&flags)),
        Some(Command::Watch(flags)) => run_once(flags.log, watch::run(&flags)),
        Some(Command::Version) => Ok(cli::version()),
        #[cfg(windows)]
        Some(Command::Service(command)) => service::manage(&command),
    }
}

/// Runs the exporter. Its settings are valid and its sockets are open when `control` begins.
fn run_exporter(
    flags: &RunFlags,
    write_line: WriteLine,
    control: impl AsyncFnOnce(CancellationToken) -> Result<(), CommandError>,
) -> Result<String, CommandError> {
    let settings = Config::new(flags)?;
    let listeners = app::bind(&settings.listen)?;
    let log = init_process(flags.log, write_line)?;
    let exporter = async |stop: CancellationToken| {
        let (clock, stop) = (Clock::start(), stop.cancelled_owned());
        let running = app::run(settings, listeners, log.dropped_lines(), clock, stop);
        Box::pin(running).await
    };
    run_with(exporter, control)
}

fn demo(flags: DemoFlags, exporter: RunFlags) -> Result<String, CommandError> {
    let simulation = config::demo(&flags)?;
    let log = init_process(flags.log, logs::write_stderr)?;
    let settings = |imds_url| config::demo_exporter(flags, exporter, imds_url);
    let demo = async |stop| app::demo(simulation, settings, log.dropped_lines(), stop).await;
    run_with(demo, obey_signals)
}

fn simulate(flags: &SimulateFlags) -> Result<String, CommandError> {
    if flags.list {
        let lines = simulator::catalog();
        let lines = lines.map(|(name, description)| format!("{name:24} {description}\n"));
        return Ok(lines.collect());
    }
    let simulation = config::simulate(&flags.listen_address, &flags.simulator)?;
    let _log_guard = init_process(flags.log, logs::write_stderr)?;
    let pool_file = flags.kvp_pool_file.as_deref();
    run_with(
        async |stop| app::simulate(simulation, pool_file, stop).await,
        obey_signals,
    )
}

fn run_once(
    log: LogFlags,
    command: impl Future<Output = Result<String, CommandError>>,
) -> Result<String, CommandError> {
    let _log_guard = init_process(log, logs::write_stderr)?;
    runtime()?.block_on(command)
}

/// Sets up logging and cryptography. Fails if it is called twice.
fn init_process(flags: LogFlags, write_line: WriteLine) -> Result<LogGuard, CommandError> {
    let log = logs::init(flags, write_line)?;
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| CommandError::system("cannot set up cryptography", &"already done"))?;
    Ok(log)
}

/// One thread is enough: the program waits nearly all of the time.
fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        // To make a large page takes long: sockets are looked at after each one, not after 61 steps of tasks.
        .event_interval(1)
        .enable_all()
        .build()
        .map_err(|cause| CommandError::system("cannot create the async runtime", &cause))?;
    let context = runtime.enter();
    system::ignore_file_size_signal()
        .map_err(|cause| CommandError::system("cannot listen for signals", &cause))?;
    drop(context);
    Ok(runtime)
}

fn signals() -> Result<Signals, CommandError> {
    Signals::listen().map_err(|cause| CommandError::system("cannot listen for signals", &cause))
}

/// For a program in a terminal, which ends with it.
async fn obey_signals(stop: CancellationToken) -> Result<(), CommandError> {
    shut_down_by(signals()?, stop).await
}

/// For the exporter, which has nothing to reload at a hangup: it reads changed files by itself.
async fn obey_service_signals(stop: CancellationToken) -> Result<(), CommandError> {
    shut_down_by(signals()?.ignoring_hangup(), stop).await
}

/// Requests an orderly shutdown at the first signal. A second signal ends the process immediately.
async fn shut_down_by(mut signals: Signals, stop: CancellationToken) -> Result<(), CommandError> {
    signals.next().await;
    stop.cancel();
    signals.next().await;
    warn!("second signal, exiting without an orderly shutdown");
    Ok(())
}

/// Runs the work until its end, which `control` requests with the token, or until the end of `control`.
fn run_with(
    work: impl AsyncFnOnce(CancellationToken) -> Result<(), CommandError>,
    control: impl AsyncFnOnce(CancellationToken) -> Result<(), CommandError>,
) -> Result<String, CommandError> {
    let runtime = runtime()?;
    let stop = CancellationToken::new();
    let result = runtime.block_on(async {
        tokio::select! {
            // First, so that a signal is handled from the first line of the log on.
            biased;
            result = control(stop.clone()) => result,
            result = work(stop.clone()) => result,
        }
    });
    runtime.shutdown_background();
    result.map(|()| String::new())
}
