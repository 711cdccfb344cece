//! A simulated Azure: the metadata service of one VM, for tests, demos and game days.
//!
//! What it promises: it answers as the service does, as far as that is documented or was captured: checks, errors,
//! versions, forms, times. What happens to the VM is data ([`scenario`]), and what is going on at a moment follows from
//! it ([`world`]); only this file knows a clock, and nothing runs while nobody asks. What it must never do: be of use to
//! the exporter other than over HTTP.
//!
//! `docs/simulator.md` describes scenario files and the API.

mod catalog;
pub mod control_api;
pub mod counts;
mod document;
mod file;
mod ids;
pub mod imds_api;
mod limit;
pub mod page;
pub mod playing;
mod reply;
pub mod scenario;
mod vm;
pub mod world;

use std::{
    future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{Request, body::Incoming};
use tokio::time::{sleep, timeout};
use tracing::warn;

pub use self::{
    catalog::catalog,
    document::document,
    reply::SimulatorResponse,
    scenario::{Scenario, ScenarioError},
    vm::Vm,
};
use self::{
    counts::RequestCounts,
    imds_api::{Ask, Outcome},
    world::World,
};
use crate::{
    server::{Abort, Handler, HandlerResponse},
    time::Clock,
};

/// The longest body that is read: a scenario of a game day.
const MAX_BODY: usize = 1024 * 1024;
/// For a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimulatorSettings {
    scenarios: Vec<Arc<Scenario>>,
    speed: f64,
    vm: Vm,
}

impl SimulatorSettings {
    /// These scenarios from the start on, with waiting shortened by `speed`, for a VM of this name.
    pub fn new(scenarios: Vec<Scenario>, speed: f64, vm_name: Option<&str>) -> Self {
        Self {
            scenarios: scenarios.into_iter().map(Arc::new).collect(),
            speed,
            vm: Vm::new(vm_name),
        }
    }
}

/// Answers for the simulated service.
#[derive(Debug, Clone)]
pub struct Simulator {
    clock: Clock,
    stage: Arc<Mutex<Stage>>,
}

#[derive(Debug)]
struct Stage {
    world: World,
    counts: RequestCounts,
}

impl Simulator {
    /// A simulator whose scenarios begin now.
    pub fn new(settings: SimulatorSettings, clock: Clock) -> Self {
        let now = clock.now();
        let mut world = World::new(settings.vm, settings.speed, now);
        for scenario in settings.scenarios {
            if let Err(error) = world.start(scenario, now) {
                warn!(%error, "a scenario is not played");
            }
        }
        Self {
            clock,
            stage: Arc::new(Mutex::new(Stage {
                world,
                counts: RequestCounts::default(),
            })),
        }
    }

    fn decide(&self, ask: &Ask<'_>) -> Outcome {
        // What a panicked request left behind is still a world.
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let Stage { world, counts } = &mut *stage;
        let now = self.clock.now();
        if !ask.path.to_ascii_lowercase().starts_with("/metadata") {
            return Outcome::SimulatorResponse(control_api::answer(world, counts, ask, now));
        }
        let outcome = imds_api::answer(world, ask, now);
        counts.count(ask.method, ask.path, &outcome);
        outcome
    }
}

#[async_trait::async_trait]
impl Handler for Simulator {
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        let (head, body) = request.into_parts();
        let body = match timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Ok(SimulatorResponse::too_large(MAX_BODY).into());
            }
            // Cut off or too slow: what was sent is no request.
            _ => return Err(Abort),
        };
        loop {
            let outcome = self.decide(&Ask {
                method: &head.method,
                path: head.uri.path(),
                query: head.uri.query().unwrap_or_default(),
                headers: &head.headers,
                body: &body,
            });
            match outcome {
                Outcome::SimulatorResponse(reply) => return Ok(reply.into()),
                Outcome::Reset => return Err(Abort),
                // The connection ends when the client gives up, or the server.
                Outcome::Hang => return future::pending().await,
                Outcome::Later(wait) => sleep(wait).await,
            }
        }
    }
}
