//! The process of the Windows service: reports its state to the service control manager, and obeys its controls.

use std::{
    ffi::OsString,
    process,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Level, warn};
use windows_service::{
    define_windows_service,
    service::{
        ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus,
        ServiceType,
    },
    service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle},
    service_dispatcher,
};

use super::{super::run_exporter, NAME};
use crate::program::{
    CommandError,
    cli::{self, EXIT_USAGE, Parsed, RunFlags},
    config,
    logs::event_log,
};

/// How long the next checkpoint may take.
const WAIT_HINT: Duration = Duration::from_secs(10);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(2);

static STATUS: OnceLock<ServiceStatusHandle> = OnceLock::new();
static CHECKPOINT: AtomicU32 = AtomicU32::new(0);
static STOP: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

define_windows_service!(service_entry, service_main);

/// Runs the exporter if the service control manager started this process, until the service has stopped. False in a
/// console, and for other commands.
pub fn run_as_service(parsed: &Result<Parsed, String>) -> bool {
    let is_exporter = match parsed {
        Ok(Parsed::Command(cli)) => cli.command.is_none(),
        Ok(Parsed::Info(_)) => false,
        // The manager must be told. It starts the program with flags only.
        Err(_) => std::env::args_os()
            .nth(1)
            .is_some_and(|first| first.as_encoded_bytes().starts_with(b"-")),
    };
    // Error 1063: not started by the manager.
    is_exporter && service_dispatcher::start(NAME, service_entry).is_ok()
}

/// Called on a thread of its own. `arguments` are the name of the service and those of `sc start`.
fn service_main(arguments: Vec<OsString>) {
    // A function captures nothing: `register` frees what a closure captures after the first stop, shutdown or
    // preshutdown, and another control may follow.
    let Ok(handle) = service_control_handler::register(NAME, control) else {
        return;
    };
    STATUS.get_or_init(|| handle);
    report(ServiceState::StartPending, 0);
    match run(&arguments) {
        Ok(_) => report(ServiceState::Stopped, 0),
        Err(error) => {
            event_log::write(Level::ERROR, "", error.message.as_bytes()).ok();
            end_after(&error);
        }
    }
}

/// A restart does not mend flags: the service stops. After any other failure the process ends without a report, so that
/// Windows starts it again.
#[expect(clippy::exit, reason = "the end of this function reports nothing")]
fn end_after(error: &CommandError) {
    if error.exit_code == EXIT_USAGE {
        report(ServiceState::Stopped, EXIT_USAGE.into());
    } else {
        process::exit(error.exit_code.into());
    }
}

fn run(arguments: &[OsString]) -> Result<String, CommandError> {
    let mut flags = flags()?;
    if flags.state_directory.is_none() {
        flags.state_directory = config::service_state_directory().map(OsString::from);
    }
    run_exporter(
        &flags,
        event_log::write,
        async |stop: CancellationToken| -> Result<(), CommandError> {
            if arguments.len() > 1 {
                warn!("start parameters are ignored: `service install` takes the flags");
            }
            report(ServiceState::Running, 0);
            STOP.cancelled().await;
            stop.cancel();
            // The exporter ends by itself: its orderly shutdown has time limits.
            loop {
                sleep(CHECKPOINT_INTERVAL).await;
                report(ServiceState::StopPending, 0);
            }
        },
    )
}

fn flags() -> Result<RunFlags, CommandError> {
    match cli::parse(std::env::args_os()) {
        Ok(Parsed::Command(cli)) => Ok(cli.run),
        Ok(Parsed::Info(text)) | Err(text) => Err(CommandError {
            message: text,
            exit_code: EXIT_USAGE,
        }),
    }
}

/// Answers at once; the exporter ends on its own thread.
fn control(control: ServiceControl) -> ServiceControlHandlerResult {
    match control {
        ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
            report(ServiceState::StopPending, 0);
            STOP.cancel();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    }
}

/// `code` is specific to the service; 0 is success.
fn report(state: ServiceState, code: u32) {
    let is_pending = matches!(
        state,
        ServiceState::StartPending | ServiceState::StopPending
    );
    let controls_accepted = match state {
        ServiceState::Running => {
            ServiceControlAccept::STOP
                | ServiceControlAccept::SHUTDOWN
                | ServiceControlAccept::PRESHUTDOWN
        }
        _ => ServiceControlAccept::empty(),
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted,
        exit_code: match code {
            0 => ServiceExitCode::NO_ERROR,
            code => ServiceExitCode::ServiceSpecific(code),
        },
        checkpoint: if is_pending {
            CHECKPOINT.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            0
        },
        wait_hint: if is_pending {
            WAIT_HINT
        } else {
            Duration::ZERO
        },
        process_id: None,
    };
    if let Some(handle) = STATUS.get() {
        // There is nobody else to tell.
        handle.set_service_status(status).ok();
    }
}
