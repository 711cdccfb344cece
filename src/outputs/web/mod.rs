//! The HTTP service of the exporter.
//!
//! | path | response |
//! |---|---|
//! | `/` | the status page |
//! | the telemetry path, `/metrics` | the metrics, in the negotiated format |
//! | `/api/v1/events` | the snapshot as JSON (`api`) |
//! | `/api/v1/transitions?after=N` | the transitions of events after number N, as JSON |
//! | `/-/healthy`, `/healthz` | 200 |
//! | `/-/ready`, `/readyz` | 503 until the first successful poll, then 200 |
//! | `/-/serving` | 503 while a load balancer should not send traffic to this VM (`probe`) |
//! | `/assets/…` | style, script and icon of the status page |
//!
//! `/` and all paths under `/api/` answer 403 to a `Host` header with a foreign name (`hosts`). The metrics and the
//! probes answer under any name, as Prometheus and load balancers use any.
//!
//! Each response is built from one snapshot. The service is read-only: it accepts GET and HEAD, at the probes also
//! OPTIONS, which the health check of `HAProxy` sends. It keeps no state of a request and sends no requests of its own.
//! Untrusted text is escaped in every body.

mod api;
#[cfg(test)]
mod fixtures;
mod hosts;
mod probe;
mod recent;
mod reply;
mod status;

use std::{fmt, sync::Arc, time::Duration};

use hyper::{
    HeaderMap, Method, Request,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, HeaderName, VARY},
};
use tokio::sync::watch;

use crate::{
    base::time::Moment,
    core::snapshot::Snapshot,
    http::server::{Abort, Anonymous, Handler, HandlerResponse},
    outputs::{
        metrics::{
            self, MetricsOptions,
            exposition::{self, Format},
        },
        output_counters::OutputCounters,
    },
};
pub use hosts::AllowedHosts;
use recent::{Content, RecentResponses, Variant};

/// Paths of the probes that a kubelet or a load balancer sends. They need no password, because those have none.
pub(crate) const PROBE_PATHS: [&str; 5] = [
    "/-/healthy",
    "/healthz",
    "/-/ready",
    "/readyz",
    "/-/serving",
];

#[derive(Debug, Clone)]
pub struct WebSettings {
    /// The path of the metrics.
    pub telemetry_path: String,
    /// Names under which `/` and `/api/` are served.
    pub allowed_hosts: AllowedHosts,
    /// Selects the optional series.
    pub exposed: MetricsOptions,
    /// `/-/serving` fails for this time before an event of this VM.
    pub serving_lead_time: Duration,
    /// The page of the simulator, if the exporter polls that of its own process.
    pub simulator_url: Option<Box<str>>,
}

/// Serves the latest snapshot.
#[derive(Clone)]
pub struct WebService {
    settings: Arc<WebSettings>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    outputs: Arc<OutputCounters>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    recent: Arc<RecentResponses>,
}

impl fmt::Debug for WebService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebService")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl WebService {
    /// Serves the latest snapshot of the channel.
    pub fn new(
        settings: WebSettings,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        outputs: Arc<OutputCounters>,
        now: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            snapshot,
            outputs,
            clock: Arc::new(now),
            recent: Arc::default(),
        }
    }

    /// The response to a request; the body of the request is ignored.
    fn respond<B>(&self, request: &Request<B>) -> HandlerResponse {
        let is_probe = PROBE_PATHS.contains(&request.uri().path());
        let is_options = is_probe && request.method() == Method::OPTIONS;
        if !is_read(request) && !is_options {
            return reply::method_not_allowed(is_probe);
        }
        // Taken once, so that all values of the response are of the same snapshot.
        let snapshot = Arc::clone(&self.snapshot.borrow());
        if !self.is_host_allowed(request, &snapshot) {
            reply::host_not_allowed()
        } else if is_options {
            reply::without_body(self.small(request, &snapshot))
        } else if let Some(variant) = self.variant(request) {
            let render = |now| self.render(variant, &snapshot, now);
            let recent = &self.recent;
            let response = recent.get_or_render(variant, &snapshot, &*self.clock, render);
            response.unwrap_or_else(reply::internal_error)
        } else if accepts_gzip(request.headers()) {
            reply::compressed(self.small(request, &snapshot))
        } else {
            self.small(request, &snapshot)
        }
    }

    fn is_host_allowed<B>(&self, request: &Request<B>, snapshot: &Snapshot) -> bool {
        let (uri, headers) = (request.uri(), request.headers());
        let is_protected = uri.path() == "/" || uri.path().starts_with("/api/");
        !is_protected || self.settings.allowed_hosts.allows(uri, headers, snapshot)
    }

    /// The variant of the response if it contains every event.
    fn variant<B>(&self, request: &Request<B>) -> Option<Variant> {
        let headers = request.headers();
        let content = match request.uri().path() {
            path if path == self.settings.telemetry_path => {
                Content::Metrics(Format::negotiate(combined(headers, ACCEPT).as_deref()))
            }
            "/" => Content::StatusPage,
            "/api/v1/events" => Content::Events,
            "/api/v1/transitions" => {
                Content::Transitions(api::After::parse(request.uri().query())?)
            }
            _ => return None,
        };
        Some(Variant {
            content,
            is_compressed: accepts_gzip(headers),
        })
    }

    fn render(
        &self,
        variant: Variant,
        snapshot: &Arc<Snapshot>,
        now: Moment,
    ) -> Option<HandlerResponse> {
        let settings = &self.settings;
        let response = match variant.content {
            Content::Metrics(format) => {
                let (exposed, outputs) = (settings.exposed, &self.outputs);
                let text = metrics::render(snapshot, format, exposed, outputs, now).ok()?;
                let mut response = reply::ok(format.content_type(), text);
                reply::set(&mut response, VARY, "accept, accept-encoding");
                response
            }
            Content::StatusPage => {
                let serving = probe::serving(snapshot, settings.serving_lead_time, now);
                let page = status::page(snapshot, settings, &serving, now);
                reply::ok(reply::HTML, page)
            }
            Content::Events => reply::ok(reply::JSON, api::json(snapshot, now).ok()?),
            Content::Transitions(after) => {
                let body = api::transitions_json(snapshot, after, now).ok()?;
                reply::ok(reply::JSON, body)
            }
        };
        Some(if variant.is_compressed {
            reply::compressed(response)
        } else {
            response
        })
    }

    /// All other responses: one line, or a static asset.
    fn small<B>(&self, request: &Request<B>, snapshot: &Snapshot) -> HandlerResponse {
        match request.uri().path() {
            "/api/v1/transitions" => reply::invalid_after(),
            "/-/healthy" | "/healthz" => reply::healthy(),
            "/-/ready" | "/readyz" => reply::probe(probe::ready(snapshot)),
            "/-/serving" => {
                let lead_time = self.settings.serving_lead_time;
                let mut result = probe::serving(snapshot, lead_time, (self.clock)());
                if request.extensions().get::<Anonymous>().is_some() && !result.is_ok {
                    // Without the event.
                    "not serving".clone_into(&mut result.reason);
                }
                reply::probe(result)
            }
            path => reply::asset(path).unwrap_or_else(reply::not_found),
        }
    }
}

#[async_trait::async_trait]
impl Handler for WebService {
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        Ok(self.respond(&request))
    }

    /// All other bodies have less than 16 KiB, so that 1024 connections hold less than 16 MiB of them if no client
    /// reads: probes and errors have less than 2 KiB, and an asset is in the program unless it is compressed.
    fn makes_large_body(&self, request: &Request<Incoming>) -> bool {
        let snapshot = Arc::clone(&self.snapshot.borrow());
        is_read(request)
            && self.is_host_allowed(request, &snapshot)
            && self.variant(request).is_some_and(|variant| {
                let now = (self.clock)();
                !self.recent.contains(variant, &snapshot, now)
            })
    }
}

fn is_read<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// All lines of a header as one list (RFC 9110, section 5.3). Lines that are not text are ignored.
fn combined(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    exposition::accepts_gzip(combined(headers, ACCEPT_ENCODING).as_deref())
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProbeResult {
    /// True for 200, false for 503.
    is_ok: bool,
    /// The body of the response, one line.
    reason: String,
}
