//! Runs a command: resolves its settings, reports everything that can fail at start-up, then starts the runtime.

mod approve;
mod list;
mod query;
#[cfg(windows)]
mod service;

use std::{fmt, io::Write as _, pin::Pin};

use tokio::sync::oneshot;

#[cfg(windows)]
pub use self::service::run_as_service;
use crate::{
    app,
    cli::{
        ApproveCommand, Cli, Command, DemoFlags, EXIT_USAGE, LogFlags, QueryFlags, RunFlags,
        SimulateFlags,
    },
    config::{self, Config, ConfigError, ImdsSettings},
    event::EventId,
    logs::{self, LogGuard, WriteLine},
    simulator, state,
    system::{self, Signals},
    time::Clock,
};

#[derive(Debug)]
pub struct CommandError {
    /// One line.
    pub message: String,
    pub exit_code: u8,
}

impl CommandError {
    /// A failure of the operating system or of the runtime.
    fn system(context: &str, cause: &impl fmt::Display) -> Self {
        Self {
            message: format!("{context}: {cause}"),
            exit_code: 1,
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self {
            message: error.to_string(),
            exit_code: EXIT_USAGE,
        }
    }
}

impl From<app::Error> for CommandError {
    fn from(error: app::Error) -> Self {
        // These are caused by the value of a flag.
        let is_usage = matches!(
            error,
            app::Error::Config(_)
                | app::Error::Client(_)
                | app::Error::Alertmanager(_)
                | app::Error::State(state::Error::Unusable { .. })
        );
        Self {
            message: error.to_string(),
            exit_code: if is_usage { EXIT_USAGE } else { 1 },
        }
    }
}

/// Runs the command and returns its output for stdout.
pub fn dispatch(cli: Cli) -> Result<String, CommandError> {
    match cli.command {
        None => run(&cli.run),
        Some(Command::Demo(flags)) => demo(flags),
        Some(Command::Simulate(flags)) => simulate(&flags),
        Some(Command::List(flags)) => list(&flags),
        Some(Command::Approve(flags)) => approve(&flags),
        #[cfg(windows)]
        Some(Command::Service(command)) => service::manage(&command),
    }
}

fn run(flags: &RunFlags) -> Result<String, CommandError> {
    let (_log_guard, exporter) = exporter(flags, logs::write_stderr)?;
    run_until_signal(exporter)
}

/// The settings are valid and the sockets are open when this returns.
fn exporter(
    flags: &RunFlags,
    write_line: WriteLine,
) -> Result<(LogGuard, StartWork), CommandError> {
    let settings = Config::new(flags)?;
    let listeners = app::bind(&settings.listen)?;
    let log = init_process(flags.log, write_line)?;
    let dropped_log_lines = log.dropped_lines();
    let start: StartWork = Box::new(|stop| {
        Box::pin(async move {
            let clock = Clock::start();
            let exporter = app::run(settings, listeners, dropped_log_lines, clock, stop);
            Ok(Box::pin(exporter).await?)
        })
    });
    Ok((log, start))
}

fn demo(flags: DemoFlags) -> Result<String, CommandError> {
    let simulation = config::demo(&flags)?;
    let log = init_process(flags.log, logs::write_stderr)?;
    let dropped_log_lines = log.dropped_lines();
    let settings = move |imds_url: &str| config::demo_exporter(&flags, imds_url);
    run_until_signal(Box::new(|stop| {
        Box::pin(async move {
            let clock = Clock::start();
            Ok(app::demo(simulation, settings, dropped_log_lines, clock, stop).await?)
        })
    }))
}

fn simulate(flags: &SimulateFlags) -> Result<String, CommandError> {
    if flags.list {
        let lines: Vec<_> = simulator::catalog()
            .map(|(name, description)| format!("{name:24} {description}\n"))
            .collect();
        return Ok(lines.concat());
    }
    let simulation = config::simulate(flags)?;
    let _log_guard = init_process(flags.log, logs::write_stderr)?;
    run_until_signal(Box::new(|stop| {
        Box::pin(async move { Ok(app::simulate(simulation, Clock::start(), stop).await?) })
    }))
}

fn list(flags: &QueryFlags) -> Result<String, CommandError> {
    let settings = ImdsSettings::new(&flags.imds)?;
    let _log_guard = init_process(flags.log, logs::write_stderr)?;
    Ok(runtime()?.block_on(list::run(&settings, flags.output, Clock::start()))?)
}

fn approve(flags: &ApproveCommand) -> Result<String, CommandError> {
    let settings = ImdsSettings::new(&flags.query.imds)?;
    let request = approve::Approve {
        id: EventId::new(flags.event_id.trim()),
        dry_run: flags.dry_run,
        output: flags.query.output,
    };
    let _log_guard = init_process(flags.query.log, logs::write_stderr)?;
    Ok(runtime()?.block_on(approve::run(&settings, &request, announce, Clock::start()))?)
}

/// Written to stderr before the POST, so that stdout contains only the result. Write errors are ignored.
fn announce(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// Sets up logging and cryptography. Fails if it is called twice.
fn init_process(flags: LogFlags, write_line: WriteLine) -> Result<LogGuard, CommandError> {
    let log = logs::init(flags, write_line)
        .map_err(|cause| CommandError::system("cannot set up logging", &cause))?;
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| CommandError::system("cannot set up cryptography", &"already done"))?;
    Ok(log)
}

/// One thread is enough: the program waits nearly all of the time.
fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| CommandError::system("cannot create the async runtime", &cause))?;
    let context = runtime.enter();
    system::ignore_file_size_signal()
        .map_err(|cause| CommandError::system("cannot listen for signals", &cause))?;
    drop(context);
    Ok(runtime)
}

/// Resolves when an orderly shutdown is requested.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

type Work = Pin<Box<dyn Future<Output = Result<(), CommandError>> + Send>>;

type StartWork = Box<dyn FnOnce(Stop) -> Work>;

/// Runs `work` until the first signal, which requests an orderly shutdown. A second signal ends it immediately.
fn run_until_signal(start: StartWork) -> Result<String, CommandError> {
    run_with(start, |stop| {
        Box::pin(async move {
            let mut signals = Signals::listen()
                .map_err(|cause| CommandError::system("cannot listen for signals", &cause))?;
            signals.next().await;
            stop.send(()).ok();
            signals.next().await;
            tracing::warn!("second signal, exiting without an orderly shutdown");
            Ok(())
        })
    })
}

/// Requests an orderly shutdown, and ends for an immediate one.
type Control = Pin<Box<dyn Future<Output = Result<(), CommandError>>>>;

/// Runs the work until its end or the end of its control.
///
/// The work is a task of its own: waking the future that `block_on` runs interrupts the runtime's wait for I/O, waking
/// a task does not, and each poll wakes its task several times.
fn run_with(
    start: StartWork,
    control: impl FnOnce(oneshot::Sender<()>) -> Control,
) -> Result<String, CommandError> {
    let (stop_sender, stop) = oneshot::channel();
    let work = start(Box::pin(async {
        stop.await.ok();
    }));
    let control = control(stop_sender);
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = tokio::spawn(work) => result.unwrap_or_else(|cause| {
                Err(CommandError::system("the main task ended unexpectedly", &cause))
            }),
            result = control => result,
        }
    });
    runtime.shutdown_background();
    result.map(|()| String::new())
}
