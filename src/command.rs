//! What each command does with its flags: settings first, everything that can fail at start before the first poll, then
//! the runtime.

use std::{fmt, io::Write as _, pin::Pin};

use crate::{
    app,
    cli::{
        ApproveCommand, Cli, Command, DemoFlags, EXIT_USAGE, LogFlags, OnceFlags, RunFlags,
        SimulateFlags,
    },
    config::{self, Config, ConfigError, Imds},
    event::EventId,
    logs::{self, LogGuard},
    simulator, state,
    system::Signals,
    time::Clock,
};

/// Why a command did not do its work, and the exit code that says so.
#[derive(Debug)]
pub struct Failure {
    /// One line for people.
    pub line: String,
    /// For programs.
    pub exit_code: u8,
}

impl From<ConfigError> for Failure {
    fn from(wrong: ConfigError) -> Self {
        Self {
            line: wrong.to_string(),
            exit_code: EXIT_USAGE,
        }
    }
}

impl Failure {
    /// What the system would not give.
    fn of_the_system(what: &str, cause: &impl fmt::Display) -> Self {
        Self {
            line: format!("{what}: {cause}"),
            exit_code: 1,
        }
    }
}

impl From<app::Error> for Failure {
    fn from(error: app::Error) -> Self {
        // A client that cannot be made, a directory that cannot be used: flags that cannot work.
        let is_flag = matches!(
            error,
            app::Error::Client(_)
                | app::Error::Alertmanager(_)
                | app::Error::State(state::Error::Unusable { .. })
        );
        let exit_code = if is_flag { EXIT_USAGE } else { 1 };
        Self {
            line: error.to_string(),
            exit_code,
        }
    }
}

/// Does what was asked for; what it returns belongs on stdout.
///
/// # Errors
/// With the exit code.
pub fn carry_out(cli: Cli) -> Result<String, Failure> {
    match cli.command {
        None => run(&cli.run),
        Some(Command::Demo(flags)) => demo(flags),
        Some(Command::Simulate(flags)) => simulate(&flags),
        Some(Command::List(flags)) => list(&flags),
        Some(Command::Approve(flags)) => approve(&flags),
    }
}

fn run(flags: &RunFlags) -> Result<String, Failure> {
    let settings = Config::new(flags)?;
    let listeners = app::bind(&settings.listen)?;
    let log = begin(flags.log)?;
    let dropped_log_lines = log.dropped_lines();
    until_signalled(|stop| {
        Box::pin(async move {
            let clock = Clock::start();
            Ok(app::run(settings, listeners, dropped_log_lines, clock, stop).await?)
        })
    })
}

fn demo(flags: DemoFlags) -> Result<String, Failure> {
    let simulation = config::demo(&flags)?;
    let log = begin(flags.log)?;
    let dropped_log_lines = log.dropped_lines();
    let settings = move |imds_url: &str| config::demo_exporter(&flags, imds_url);
    until_signalled(|stop| {
        Box::pin(async move {
            let ended = app::demo(
                simulation,
                settings,
                dropped_log_lines,
                Clock::start(),
                stop,
            )
            .await;
            ended.map_err(|error| match error {
                app::DemoError::ConfigError(wrong) => wrong.into(),
                app::DemoError::Failed(error) => error.into(),
            })
        })
    })
}

fn simulate(flags: &SimulateFlags) -> Result<String, Failure> {
    if flags.list {
        let lines: Vec<_> = simulator::catalog()
            .map(|(name, text)| format!("{name:24} {text}\n"))
            .collect();
        return Ok(lines.concat());
    }
    let simulation = config::simulate(flags)?;
    let _log_guard = begin(flags.log)?;
    until_signalled(|stop| {
        Box::pin(async move { Ok(app::simulate(simulation, Clock::start(), stop).await?) })
    })
}

fn list(flags: &OnceFlags) -> Result<String, Failure> {
    let settings = Imds::new(&flags.imds)?;
    let _log_guard = begin(flags.log)?;
    let runtime = runtime()?;
    Ok(runtime.block_on(app::list(&settings, flags.output, Clock::start()))?)
}

fn approve(flags: &ApproveCommand) -> Result<String, Failure> {
    let settings = Imds::new(&flags.once.imds)?;
    let wanted = app::Approve {
        id: EventId::new(flags.event_id.trim()),
        dry_run: flags.dry_run,
        output: flags.once.output,
    };
    let _log_guard = begin(flags.once.log)?;
    let runtime = runtime()?;
    Ok(runtime.block_on(app::approve(&settings, &wanted, announce, Clock::start()))?)
}

/// Before the deed and on stderr, so that stdout has the result alone. Who closed stderr does not want to know.
fn announce(text: &str) {
    let mut stderr = std::io::stderr();
    let _nobody_reads = stderr.write_all(text.as_bytes()).is_err();
}

/// Logs and cryptography, once per process.
fn begin(flags: LogFlags) -> Result<LogGuard, Failure> {
    let log = logs::init(flags)
        .map_err(|cause| Failure::of_the_system("the log could not be set up", &cause))?;
    let provider = rustls::crypto::ring::default_provider().install_default();
    provider.map_err(|_| Failure::of_the_system("cryptography", &"it was set up twice"))?;
    Ok(log)
}

/// One thread: the program waits, nearly always.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Failure::of_the_system("the runtime could not be set up", &cause))
}

/// What a command does until it is told to stop.
type Work = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Runs until the first signal, which asks for an orderly end; the second one ends at once.
///
/// The work is a task of its own: what wakes the future that the runtime blocks on also interrupts its wait for the
/// system, which a task does not, and a poll wakes its task several times.
fn until_signalled(work: impl FnOnce(Stop) -> Work) -> Result<String, Failure> {
    let (first, stop) = tokio::sync::oneshot::channel();
    let work = work(Box::pin(async move {
        let _sender_gone = stop.await.is_err();
    }));
    drive(work, first)
}

fn drive(work: Work, stop: tokio::sync::oneshot::Sender<()>) -> Result<String, Failure> {
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()
            .map_err(|cause| Failure::of_the_system("signals cannot be listened for", &cause))?;
        let told = async {
            signals.next().await;
            let _nobody_waits = stop.send(()).is_err();
            signals.next().await;
            tracing::warn!("ended at once by a second signal");
        };
        tokio::select! {
            ended = tokio::spawn(work) => ended.unwrap_or_else(|cause| {
                Err(Failure::of_the_system("the work ended before its time", &cause))
            }),
            () = told => Ok(()),
        }
    });
    runtime.shutdown_background();
    ended.map(|()| String::new())
}

/// Done when an orderly end is asked for.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;
