//! The Windows service: `service install` and `uninstall`, and its process, which reports its state to the service control
//! manager and obeys its controls.

use std::{
    env,
    ffi::OsString,
    io,
    path::PathBuf,
    process::{self, Command},
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Level, warn};
use windows_service::{
    Error, define_windows_service,
    service::{
        Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceControl,
        ServiceControlAccept, ServiceErrorControl, ServiceExitCode, ServiceFailureActions,
        ServiceFailureResetPeriod, ServiceInfo, ServiceStartType, ServiceState, ServiceStatus,
        ServiceType,
    },
    service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle},
    service_dispatcher,
    service_manager::{ServiceManager, ServiceManagerAccess},
};

use super::run_exporter;
use crate::{
    base::system,
    program::{
        CommandError,
        cli::{self, EXIT_USAGE, Parsed, RunFlags, ServiceCommand},
        config::{self, Config},
        logs::event_log,
    },
};

const NAME: &str = "azure-scheduled-events-exporter";
const DISPLAY_NAME: &str = "Azure Scheduled Events exporter";
const DESCRIPTION: &str =
    "Exports the Azure Scheduled Events of this VM to Prometheus and OpenTelemetry.";

/// It owns nothing and has the rights of an ordinary user: all that the exporter needs.
const ACCOUNT: &str = r"NT AUTHORITY\LocalService";
/// Rights in the default state directory, whose parent lets every user create files: `LocalSystem` and administrators
/// have all, `LocalService` can modify.
const STATE_RIGHTS: [&str; 5] = [
    "/inheritance:r",
    "/grant:r",
    "*S-1-5-18:(OI)(CI)F",
    "*S-1-5-32-544:(OI)(CI)F",
    "*S-1-5-19:(OI)(CI)M",
];

/// Before the first restart, the second, and all further ones.
const RESTART_DELAYS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
/// After this time without a failure, the next restart is the first one again.
const RESTART_RESET: Duration = Duration::from_hours(1);
/// Windows waits this long for the end when the VM shuts down, before it stops other services. Since Windows 10 1703
/// its default is 10 s. The orderly shutdown takes at most 15 s, with a disk and receivers that hang.
const PRESHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// For the end of the service, which saves its state.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

// https://learn.microsoft.com/windows/win32/debug/system-error-codes--1000-1299-
const ACCESS_DENIED: i32 = 5;
const DOES_NOT_EXIST: i32 = 1060;
/// As while it stops, or starts: then it does not stop, and the wait for its end ends in an error.
const ACCEPTS_NO_CONTROL: i32 = 1061;
const NOT_ACTIVE: i32 = 1062;

const WAIT_HINT: Duration = Duration::from_secs(10);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(2);

pub(super) fn manage(command: &ServiceCommand) -> Result<String, CommandError> {
    match command {
        ServiceCommand::Install(flags) => install(flags),
        ServiceCommand::Uninstall => uninstall(),
    }
}

fn install(flags: &RunFlags) -> Result<String, CommandError> {
    config::check_service_paths(flags)?;
    Config::new(flags)?;
    let executable_path =
        env::current_exe().map_err(|cause| CommandError::system("cannot install", &cause))?;
    let info = ServiceInfo {
        name: NAME.into(),
        display_name: DISPLAY_NAME.into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path,
        // Program, `service` and `install` precede the flags.
        launch_arguments: env::args_os().skip(3).collect(),
        dependencies: Vec::new(),
        account_name: Some(ACCOUNT.into()),
        account_password: None,
    };
    let (service, done) = create_or_change(&info).map_err(failed("install the service"))?;
    configure(&service).map_err(failed("configure the service"))?;
    event_log::register()
        .map_err(|cause| CommandError::system("cannot register the source of events", &cause))?;
    if flags.state_directory.is_none() {
        make_state_directory()
            .map_err(|cause| CommandError::system("cannot make the state directory", &cause))?;
    }
    Ok(format!("{NAME} is {done}\n"))
}

fn create_or_change(info: &ServiceInfo) -> Result<(Service, &'static str), Error> {
    let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
    let manager = ServiceManager::local_computer(None::<&str>, access)?;
    // To let Windows start it again, too.
    let access = ServiceAccess::CHANGE_CONFIG | ServiceAccess::START;
    match manager.open_service(NAME, access) {
        Ok(service) => {
            service.change_config(info)?;
            Ok((
                service,
                "changed; its flags take effect when it is started again",
            ))
        }
        Err(error) if code(&error) == Some(DOES_NOT_EXIST) => {
            Ok((manager.create_service(info, access)?, "installed"))
        }
        Err(error) => Err(error),
    }
}

/// Windows restarts a service that ends without reporting that it has stopped. So does an exporter that fails, but not
/// one with invalid flags: `end_after`.
fn configure(service: &Service) -> Result<(), Error> {
    service.set_description(DESCRIPTION)?;
    let restart = |delay| ServiceAction {
        action_type: ServiceActionType::Restart,
        delay,
    };
    service.update_failure_actions(ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(RESTART_RESET),
        reboot_msg: None,
        command: None,
        actions: Some(RESTART_DELAYS.map(restart).to_vec()),
    })?;
    service.set_preshutdown_timeout(PRESHUTDOWN_TIMEOUT)
}

fn make_state_directory() -> io::Result<()> {
    let Some(path) = service_state_directory() else {
        return Ok(());
    };
    system::make_private_directory(&path)?;
    // By its whole path, so that no other one in `%PATH%` takes its place.
    let windows = folder("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
    let output = Command::new(windows.join(r"System32\icacls.exe"))
        .arg(&path)
        .args(STATE_RIGHTS)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let detail = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "icacls {}: {}",
        path.display(),
        detail.trim()
    )))
}

/// `%ProgramData%\azure-scheduled-events-exporter`, where the service keeps its state without `--state.directory`.
fn service_state_directory() -> Option<PathBuf> {
    Some(folder("ProgramData")?.join(NAME))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the folders of Windows are variables"
)]
fn folder(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

fn uninstall() -> Result<String, CommandError> {
    let access = ServiceAccess::QUERY_STATUS | ServiceAccess::STOP | ServiceAccess::DELETE;
    let service = ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)
        .and_then(|manager| manager.open_service(NAME, access))
        .map_err(failed("open the service"))?;
    stop_and_wait(&service)?;
    service.delete().map_err(failed("remove the service"))?;
    // The source was removed, or never registered.
    event_log::deregister().ok();
    Ok(format!(
        "{NAME} is uninstalled; its state directory is not removed\n"
    ))
}

#[expect(clippy::disallowed_methods, reason = "the command has no event loop")]
fn stop_and_wait(service: &Service) -> Result<(), CommandError> {
    match service.stop() {
        Err(error) if code(&error) == Some(NOT_ACTIVE) => return Ok(()),
        Err(error) if code(&error) != Some(ACCEPTS_NO_CONTROL) => {
            return Err(failed("stop the service")(error));
        }
        _ => {}
    }
    let mut waited = Duration::ZERO;
    loop {
        let status = service.query_status();
        let state = status.map_err(failed("query the service"))?.current_state;
        if state == ServiceState::Stopped {
            return Ok(());
        }
        if waited >= WAIT_TIMEOUT {
            let problem = format!("still {state:?} after {} s", WAIT_TIMEOUT.as_secs());
            return Err(CommandError::system(NAME, &problem));
        }
        thread::sleep(WAIT_INTERVAL);
        waited += WAIT_INTERVAL;
    }
}

fn code(error: &Error) -> Option<i32> {
    match error {
        Error::Winapi(error) => error.raw_os_error(),
        _ => None,
    }
}

fn failed(action: &str) -> impl FnOnce(Error) -> CommandError {
    move |error| {
        let hint = match code(&error) {
            Some(ACCESS_DENIED) => "; use an elevated prompt",
            Some(DOES_NOT_EXIST) => "; `service install` installs it",
            _ => "",
        };
        let cause = match &error {
            Error::Winapi(cause) => cause.to_string(),
            other => other.to_string(),
        };
        CommandError::system(&format!("cannot {action}"), &format!("{cause}{hint}"))
    }
}

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
        Err(_) => env::args_os()
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
        flags.state_directory = service_state_directory().map(OsString::from);
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
    match cli::parse(env::args_os()) {
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
    let (checkpoint, wait_hint) = if is_pending {
        (CHECKPOINT.fetch_add(1, Ordering::Relaxed) + 1, WAIT_HINT)
    } else {
        (0, Duration::ZERO)
    };
    let controls_accepted = if state == ServiceState::Running {
        ServiceControlAccept::STOP
            | ServiceControlAccept::SHUTDOWN
            | ServiceControlAccept::PRESHUTDOWN
    } else {
        ServiceControlAccept::empty()
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted,
        exit_code: match code {
            0 => ServiceExitCode::NO_ERROR,
            code => ServiceExitCode::ServiceSpecific(code),
        },
        checkpoint,
        wait_hint,
        process_id: None,
    };
    if let Some(handle) = STATUS.get() {
        // There is nobody else to tell.
        handle.set_service_status(status).ok();
    }
}
