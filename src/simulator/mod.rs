//! A simulated Azure: the metadata service of one VM, for tests, demos and game days.
//!
//! It responds as the real service does, as far as that is documented or was captured. Scenarios (`scenario`) are
//! data; the state at a moment follows from them ([`world`]). Only this file reads the clock and draws a random number,
//! and nothing runs between requests. The exporter uses it over HTTP only.
//!
//! `docs/simulator.md` describes scenario files and the API.

mod builtin;
mod control_api;
mod counts;
mod document;
mod file;
pub mod http;
mod ids;
pub mod imds_api;
mod load;
mod page;
mod rate_limiter;
pub(crate) mod scenario;
mod scenario_duration;
pub(crate) mod scenario_run;
mod vm;
pub mod world;

use std::{
    future,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{StatusCode, body::Incoming, http::request::Parts};
use tokio::time::{sleep, timeout};
use tracing::warn;

use self::{
    counts::RequestCounts,
    http::{Request, SimulatorResponse},
    imds_api::Action,
    world::World,
};
pub use self::{
    document::{SimulatedVersion, document},
    load::{ScenarioError, catalog},
    scenario::Scenario,
    vm::{OsType, Vm},
};
use crate::{
    server::{Abort, Handler, HandlerResponse, RequestedHost, requested_host},
    system,
    time::Clock,
};

/// In bytes; bodies are scenario files and approvals.
const MAX_BODY_SIZE: usize = 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct SimulatorSettings {
    scenarios: Vec<Arc<Scenario>>,
    speed: f64,
    vm: Vm,
}

impl SimulatorSettings {
    /// The scenarios start with the simulator; `speed` divides all waiting times.
    pub fn new(scenarios: Vec<Scenario>, speed: f64, vm: Vm) -> Self {
        Self {
            scenarios: scenarios.into_iter().map(Arc::new).collect(),
            speed,
            vm,
        }
    }
}

/// Handles the requests to the simulated service and to the control API.
#[derive(Debug, Clone)]
pub struct Simulator {
    clock: Clock,
    /// Of the machine that the simulator runs on.
    host_name: Option<Arc<str>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    world: World,
    counts: RequestCounts,
}

impl Simulator {
    pub fn new(settings: SimulatorSettings, clock: Clock) -> Self {
        let now = clock.now();
        // Not from the time: two simulators that start together must not have the same event ids.
        let id_seed = RandomState::new().hash_one(());
        let mut world = World::new(settings.vm, settings.speed, id_seed);
        for scenario in settings.scenarios {
            if let Err(error) = world.start(scenario, now) {
                warn!(%error, "scenario not started");
            }
        }
        Self {
            clock,
            host_name: system::host_name().map(Into::into),
            state: Arc::new(Mutex::new(State {
                world,
                counts: RequestCounts::default(),
            })),
        }
    }

    /// A web page that rebinds its own name to the address of the simulator (DNS rebinding) must not control it.
    fn is_own_host(&self, head: &Parts) -> bool {
        match requested_host(&head.uri, &head.headers) {
            RequestedHost::Missing | RequestedHost::Address => true,
            RequestedHost::Name(name) => {
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                let own = [Some("localhost"), self.host_name.as_deref()].into_iter();
                own.flatten()
                    .chain([state.world.vm().name()])
                    .any(|own| own.eq_ignore_ascii_case(&name))
            }
            RequestedHost::Invalid => false,
        }
    }

    fn handle(&self, request: &Request<'_>) -> Action {
        // A panic in another request leaves a usable state.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { world, counts } = &mut *state;
        let now = self.clock.now();
        if !is_imds(request.path) {
            return Action::Respond(control_api::respond(world, counts, request, now));
        }
        let action = imds_api::handle(world, request, now);
        counts.count(request.method, request.path, &action);
        action
    }
}

/// Any host may be named in requests to the metadata service, as in Azure.
fn is_imds(path: &str) -> bool {
    path.to_ascii_lowercase().starts_with("/metadata")
}

#[async_trait::async_trait]
impl Handler for Simulator {
    async fn handle(&self, request: hyper::Request<Incoming>) -> Result<HandlerResponse, Abort> {
        let (head, body) = request.into_parts();
        let body = match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_SIZE).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message = format!("the body is too large: the limit is {MAX_BODY_SIZE} bytes");
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                return Ok(SimulatorResponse::error(status, &message).into());
            }
            // The request is incomplete.
            _ => return Err(Abort),
        };
        if !is_imds(head.uri.path()) && !self.is_own_host(&head) {
            let message = "the host of the URL is not known: use an IP address, localhost, the name of this machine or of the simulated VM";
            return Ok(SimulatorResponse::error(StatusCode::FORBIDDEN, message).into());
        }
        loop {
            let action = self.handle(&Request {
                method: &head.method,
                path: head.uri.path(),
                query: head.uri.query().unwrap_or_default(),
                headers: &head.headers,
                body: &body,
            });
            match action {
                Action::Respond(response) => return Ok(response.into()),
                Action::CloseConnection => return Err(Abort),
                // The client or the server closes the connection.
                Action::Hang => return future::pending().await,
                Action::Delay(wait) => sleep(wait).await,
            }
        }
    }
}
