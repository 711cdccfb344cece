//! Wiring: each part is made from its own settings. The loop of the exporter is in `runner`.
//!
//! Everything that is served or sent reads the snapshots that the loop publishes, and cannot block it. What is sent
//! runs on a thread of its own.

mod imds_requests;
mod outputs;
mod runner;
mod simulation;
mod state_writer;
mod tasks;

use std::{
    collections::BTreeMap,
    future::Future,
    net::TcpListener,
    pin::pin,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use self::simulation::{demo, simulate};
use self::{
    imds_requests::ImdsRequests,
    outputs::{OtlpOutput, push_alerts, write_textfile},
    runner::{Notifications, Runner, pause_ticks},
    state_writer::StateWriter,
    tasks::Tasks,
};
use crate::{
    azure::imds::Client,
    base::{
        log_id, system,
        time::{Clock, format_duration},
        worker::Worker,
    },
    core::{
        engine::{Engine, EngineConfig, SavedState},
        lifecycle::SavedCursor,
    },
    http::{
        client::proxy,
        listen::ListenAddress,
        server::{self, Handler, ServerLimits},
        web_config::WebConfig,
    },
    outputs::{
        metrics::MetricSource,
        output_counters::OutputCounters,
        web::{PROBE_PATHS, WebService},
    },
    program::{CommandError, config::Config},
};

/// The process has about 14 open files when it is idle. Each use of a file, of a socket and of the name resolution
/// needs a few more for a short time.
const RESERVED_DESCRIPTORS: usize = 36;
const DESCRIPTORS_PER_ALERTMANAGER: usize = 2;

/// Runs the exporter until `stop` is done, then finishes the requests in flight.
pub async fn run(
    config: Config,
    listeners: Vec<TcpListener>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), CommandError> {
    let mut client = Client::new(&config.imds.endpoint, clock)?;
    client.owner_tag.clone_from(&config.owner_tag);
    log_start(&config);
    let limits = server_limits(listeners.len(), config.alertmanagers.len());
    let mut tasks = Tasks::new();
    let boot_id = system::boot_id();
    let opened = StateWriter::open(config.state, boot_id.as_deref(), random_id(), clock.now());
    let (state, restored, journal) = opened.await?;
    let clock = resumed(clock, restored.as_ref());
    let cursors = cursors(restored.as_ref());
    let engine_config = EngineConfig {
        vm_name: config.imds.vm_name.clone(),
        owner_tag: config.owner_tag,
        poll_interval: config.interval,
        approvals: config.approvals,
        boot_id,
        is_persistent: state.is_some(),
        journal,
        next_journal_id: random_id(),
    };
    let engine = Engine::new(engine_config, restored, clock.now());
    let (publisher, snapshots) = watch::channel(Arc::new(engine.snapshot(clock.now())));
    let counters = Arc::new(OutputCounters {
        dropped_log_lines,
        ..OutputCounters::default()
    });
    let source = MetricSource {
        snapshots: snapshots.clone(),
        options: config.web.exposed,
        outputs: Arc::clone(&counters),
        clock,
    };
    write_textfile(config.textfile, &source, &mut tasks)?;
    push_alerts(config.alertmanagers, &source, &mut tasks)?;
    let otlp = config
        .otlp
        .map(|otlp| OtlpOutput::start(&otlp, &cursors, state.is_some(), source, &mut tasks))
        .transpose()?;
    let path = config.web.telemetry_path.clone();
    let web = WebService::new(config.web, snapshots, counters, move || clock.now());
    serve(listeners, &path, config.web_config, web, limits, &mut tasks)?;
    let runner = Runner {
        engine,
        clock,
        requests: ImdsRequests::new(client, config.imds, clock),
        state,
        otlp,
        snapshots: publisher,
        ticks: pause_ticks(),
        notifications: Notifications::new(),
        delays: system::ProcessDelays::watch(),
        kvp_reader: Worker::start("kvp")
            .map_err(CommandError::thread("reads the name of the physical host"))?,
        kvp_pool_file: config.kvp_pool_file,
    };
    run_until(stop, runner, tasks).await
}

fn log_start(config: &Config) {
    let imds = &config.imds;
    info!(
        name: log_id::STARTING,
        version = env!("CARGO_PKG_VERSION"),
        revision = env!("BUILD_REVISION"),
        imds_url = imds.endpoint.base(),
        api_version = imds.api_version.name(),
        poll_interval = format_duration(config.interval),
        vm_name = imds.vm_name.as_deref().unwrap_or("(from instance metadata)"),
        events_scope = config.web.exposed.scope.as_str(),
        alertmanagers = config.alertmanagers.len(),
        "starting"
    );
    let policy = &config.approvals;
    if policy.is_on() {
        info!(
            user_events = policy.user_events,
            for_group = policy.for_group,
            freeze_below = policy.freeze_below.map(format_duration),
            delay = format_duration(policy.delay),
            drain = format_duration(policy.drain),
            dry_run = policy.dry_run,
            "approvals are on"
        );
    }
    let version = &imds.api_version;
    if !version.is_documented() {
        warn!(
            api_version = version.name(),
            treated_as = version.documented(),
            "api-version not documented: event types and fields assumed as in a documented version"
        );
    }
    let missing = version.missing();
    if !missing.is_empty() {
        warn!(
            api_version = version.name(),
            missing, "old api-version: event types and fields are missing"
        );
    }
    for ignored in config.otlp.iter().flat_map(|settings| &settings.ignored) {
        warn!("{ignored}");
    }
    let notes = config.web_config.iter().flat_map(WebConfig::notes);
    notes.for_each(|note| warn!("{note}"));
    if config.otlp.is_some() || !config.alertmanagers.is_empty() {
        for (variable, proxy) in proxy::variables() {
            if let Some(proxy) = proxy {
                info!(variable, proxy, "proxy variable is set");
            } else {
                warn!(variable, "variable is not the URL of an HTTP proxy");
            }
        }
    }
    // The demo keeps nothing.
    if config.state.is_none() && config.web.simulator.is_none() {
        warn!(
            "no state directory (--state.directory or $STATE_DIRECTORY): tracked events are lost when this process ends, so \
             the interruption by a reboot is not measured, and an event that ends meanwhile is not reported as ended"
        );
    }
}

/// The clock goes on where that of an earlier process was.
fn resumed(clock: Clock, restored: Option<&SavedState>) -> Clock {
    let now = restored.map(|saved| saved.resume(clock.now()).monotonic);
    now.map_or(clock, |now| clock.resume(now))
}

fn random_id() -> Arc<str> {
    let bytes = fastrand::u128(..).to_be_bytes();
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    id.to_string().into()
}

/// How far an earlier process had sent this journal.
fn cursors(restored: Option<&SavedState>) -> BTreeMap<String, SavedCursor> {
    restored.map_or_else(BTreeMap::new, |saved| saved.journal.cursors.clone())
}

/// Runs until `stop` is done, then finishes the tasks.
async fn run_until(
    stop: impl Future<Output = ()>,
    mut runner: Runner,
    mut tasks: Tasks,
) -> Result<(), CommandError> {
    let stopping = CancellationToken::new();
    let mut stop = pin!(stop);
    {
        let mut running = pin!(runner.run(&stopping));
        loop {
            tokio::select! {
                () = &mut running => break,
                () = &mut stop, if !stopping.is_cancelled() => {
                    info!(name: log_id::SHUTTING_DOWN, "shutting down");
                    stopping.cancel();
                }
                ended = tasks.unexpected_end(), if !stopping.is_cancelled() => return Err(ended),
            }
        }
    }
    tasks.finish().await;
    if runner.otlp.is_some() {
        runner.save().await;
    }
    Ok(())
}

pub fn bind(addresses: &[ListenAddress]) -> Result<Vec<TcpListener>, CommandError> {
    let bind = |address: &ListenAddress| {
        let bound = address.bind();
        bound.map_err(CommandError::listen(&address.to_string()))
    };
    let bound: Vec<_> = addresses.iter().map(bind).collect::<Result<_, _>>()?;
    Ok(bound.into_iter().flatten().collect())
}

fn local_address(listener: &TcpListener) -> String {
    let address = listener.local_addr();
    address.map_or_else(|_| String::new(), |it| it.to_string())
}

/// Serves on each socket, with the checks of `--web.config.file` in front of the web service.
fn serve(
    listeners: Vec<TcpListener>,
    telemetry_path: &str,
    web_config: Option<WebConfig>,
    service: WebService,
    limits: ServerLimits,
    tasks: &mut Tasks,
) -> Result<(), CommandError> {
    if listeners.is_empty() {
        info!("no HTTP server, as --web.listen-address=none says");
    }
    let is_tls = web_config.as_ref().is_some_and(WebConfig::is_tls);
    let has_users = web_config.as_ref().is_some_and(WebConfig::has_users);
    let mut handler: Arc<dyn Handler> = Arc::new(service);
    if let Some(web_config) = web_config {
        let protected = web_config.protect(handler, &PROBE_PATHS);
        handler = protected.map_err(CommandError::thread("reads --web.config.file"))?;
    }
    for listener in listeners {
        info!(
            address = local_address(&listener),
            telemetry_path,
            tls = is_tls,
            password = has_users,
            "listening"
        );
        let (handler, stop) = (Arc::clone(&handler), tasks.stop.clone());
        let served = server::serve(listener, handler, limits, stop);
        tasks.spawn("HTTP server", async {
            served.await.map_err(|error| error.to_string())
        });
    }
    Ok(())
}

/// HTTP clients get the file descriptors that polls, state, OTLP and Alertmanagers do not need.
fn server_limits(listeners: usize, alertmanagers: usize) -> ServerLimits {
    let limits = ServerLimits::default();
    let Some(open_files) = system::max_open_files() else {
        return limits;
    };
    let reserved = RESERVED_DESCRIPTORS + alertmanagers * DESCRIPTORS_PER_ALERTMANAGER;
    let within = limits.within(open_files, reserved, listeners);
    if within.max_connections < limits.max_connections {
        info!(
            max_open_files = open_files,
            max_connections = within.max_connections,
            "fewer HTTP connections because of the limit on open files"
        );
    }
    within
}
