//! A simulated Azure: the metadata service of one VM and of those that scenarios name, for tests, demos and game days.
//!
//! It responds as the real service does, as far as that is documented or was captured. Scenarios (`scenario`) are
//! data; the state at a moment follows from them ([`world`]). Only this file reads the clock and draws a random number,
//! and nothing runs between requests. The exporter uses it over HTTP only.
//!
//! `scenarios/README.md` describes scenario files, `docs/simulator.md` the API.

mod control_api;
pub mod imds_api;
mod page;
pub(crate) mod scenario;
mod scenario_file;
mod vm;
pub mod world;

use std::{
    future,
    hash::{BuildHasher as _, RandomState},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue},
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;
use tracing::warn;

pub use self::{
    imds_api::document,
    scenario::Scenario,
    scenario_file::catalog,
    vm::{OsType, Vm},
};
use self::{
    imds_api::{Action, metadata_path},
    world::World,
};
use crate::{
    base::{kvp, time::Clock},
    http::server::{Abort, Handler, HandlerResponse},
};

/// In bytes; bodies are scenario files and approvals.
const MAX_BODY_SIZE: usize = 1024 * 1024;
const JSON: &str = "application/json; charset=utf-8";

/// With its whole body.
type Request = hyper::Request<Bytes>;
type Response = hyper::Response<Bytes>;

#[derive(Debug, Clone)]
pub struct Simulator {
    clock: Clock,
    world: Arc<Mutex<World>>,
    /// Gets the physical host of the simulated VM.
    pub(crate) kvp_pool_file: Option<Arc<Path>>,
}

impl Simulator {
    pub fn new(vm: Vm, speed: f64, scenarios: Vec<Scenario>, clock: Clock) -> Self {
        // Not from the time: two simulators that start together must not have the same event ids.
        let id_seed = RandomState::new().hash_one(());
        let mut world = World::new(vm, speed, id_seed);
        for scenario in scenarios {
            if let Err(error) = world.start(scenario, clock.now()) {
                warn!(error, "scenario not started");
            }
        }
        Self {
            clock,
            world: Arc::new(Mutex::new(world)),
            kvp_pool_file: None,
        }
    }

    /// Links the status page of the exporter.
    pub fn link_exporter(&self, url: &str) {
        self.world.lock().exporter_url = Some(url.into());
    }

    fn handle(&self, request: &Request) -> Action {
        let mut world = self.world.lock();
        let now = self.clock.now();
        let action = if metadata_path(request.uri().path()).is_some() {
            imds_api::handle(&mut world, request, now)
        } else {
            Action::Respond(control_api::respond(&mut world, request, now))
        };
        if let (Some(path), Some(host)) = (&self.kvp_pool_file, world.new_host.take())
            && let Err(error) = kvp::write(path, &host)
        {
            warn!(path = %path.display(), %error, "physical host not written");
        }
        action
    }
}

#[async_trait::async_trait]
impl Handler for Simulator {
    async fn handle(&self, request: hyper::Request<Incoming>) -> Result<HandlerResponse, Abort> {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY_SIZE).collect().await {
            Ok(body) => body.to_bytes(),
            Err(cause) if cause.is::<LengthLimitError>() => {
                let message = format!("the body is too large: the limit is {MAX_BODY_SIZE} bytes");
                let refusal = error(StatusCode::PAYLOAD_TOO_LARGE, &message);
                return Ok(refusal.map(Full::new));
            }
            // The request is incomplete.
            Err(_) => return Err(Abort),
        };
        let request = Request::from_parts(head, body);
        loop {
            match self.handle(&request) {
                Action::Respond(response) => return Ok(response.map(Full::new)),
                Action::CloseConnection => return Err(Abort),
                // The client or the server closes the connection.
                Action::Hang => return future::pending().await,
                Action::Delay(wait) => sleep(wait).await,
            }
        }
    }
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = empty(status);
    *response.body_mut() = body.into();
    with_header(response, CONTENT_TYPE, content_type)
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

fn with_header(mut response: Response, name: HeaderName, value: &'static str) -> Response {
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}

fn json_response(value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).unwrap_or_default();
    response(StatusCode::OK, JSON, body)
}

fn error(status: StatusCode, message: &str) -> Response {
    response(status, JSON, json!({ "error": message }).to_string())
}

fn not_allowed(methods: &'static str) -> Response {
    let refusal = error(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    with_header(refusal, ALLOW, methods)
}
