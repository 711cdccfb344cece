//! What people, scrapers and probes are answered.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the status page |
//! | the telemetry path, `/metrics` | the metrics, in the form that is asked for |
//! | `/api/v1/events` | the same picture as JSON ([`events`]) |
//! | `/-/healthy`, `/healthz` | 200 while the process answers |
//! | `/-/ready`, `/readyz` | 200 from the first successful poll on, 503 before |
//! | `/-/serving` | 503 while a load balancer should send nobody here ([`probe`]) |
//! | `/assets/…` | style, script and icon of the status page |
//!
//! What this room promises: each answer is made of one picture, taken once; only GET and HEAD are answered; no body is
//! built from input that was not escaped; nothing a client sends makes it panic, wait or keep anything. What it must
//! never do: ask IMDS, or change anything.

pub mod api;
#[cfg(test)]
mod fixtures;
pub mod probe;
mod reply;
pub mod status;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, HeaderName, VARY},
};
use tokio::sync::watch;

use crate::{
    metrics::{self, MetricsOptions, exposition::Format, negotiation},
    server::{Abort, Handler, HandlerResponse},
    snapshot::Snapshot,
    time::{Clock, Moment},
};
use reply::{Media, WebResponse};

/// What is served, and how.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// Where the metrics are.
    pub telemetry_path: String,
    /// Which metrics there are.
    pub exposed: MetricsOptions,
    /// How long before an event of this VM a load balancer should send nobody here any more.
    pub serving_lead_time: Duration,
}

/// Answers requests.
#[derive(Clone)]
pub struct WebService {
    settings: Arc<WebSettings>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
}

impl fmt::Debug for WebService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebService")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl WebService {
    /// A site that shows the newest picture of `view`.
    pub fn new(
        settings: WebSettings,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        dropped_log_lines: Arc<AtomicU64>,
        clock: Clock,
    ) -> Self {
        let now = move || clock.now();
        Self::at(settings, snapshot, dropped_log_lines, now)
    }

    /// A site whose time is told by `now`.
    pub fn at(
        settings: WebSettings,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        dropped_log_lines: Arc<AtomicU64>,
        now: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            snapshot,
            dropped_log_lines,
            clock: Arc::new(now),
        }
    }

    /// The answer to a request, whose body does not count.
    pub fn respond<B>(&self, request: &Request<B>) -> HandlerResponse {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return reply::method_not_allowed().into_response(request.headers());
        }
        let path = request.uri().path();
        let reply = reply::asset(path)
            .or_else(|| self.page(path, request.headers()))
            .unwrap_or_else(reply::not_found);
        reply.into_response(request.headers())
    }

    fn page(&self, path: &str, headers: &HeaderMap) -> Option<WebResponse> {
        // Taken once: every number of the answer is from this picture.
        let snapshot = Arc::clone(&self.snapshot.borrow());
        let now = (self.clock)();
        if path == self.settings.telemetry_path {
            return Some(self.metrics(&snapshot, now, headers));
        }
        let settings = &self.settings;
        let verdict = || probe::serving(&snapshot, settings.serving_lead_time, now);
        let reply = match path {
            "/" => WebResponse::new(
                Media::Html,
                status::page(&snapshot, &settings.telemetry_path, &verdict(), now),
            ),
            "/api/v1/events" => match api::json(&snapshot, now) {
                Ok(json) => WebResponse::new(Media::Json, json),
                Err(_) => reply::broken(),
            },
            "/-/healthy" | "/healthz" => WebResponse::new(Media::Words, "healthy\n"),
            "/-/ready" | "/readyz" => reply::verdict(probe::ready(&snapshot)),
            "/-/serving" => reply::verdict(verdict()),
            _ => return None,
        };
        Some(reply)
    }

    fn metrics(&self, snapshot: &Arc<Snapshot>, now: Moment, headers: &HeaderMap) -> WebResponse {
        let format = Format::negotiate(joined(headers, ACCEPT).as_deref());
        let dropped = self.dropped_log_lines.load(Ordering::Relaxed);
        let Ok(open_metrics) = metrics::render(snapshot, self.settings.exposed, dropped, now)
        else {
            return reply::broken();
        };
        WebResponse::new(Media::Metrics(format), format.write(open_metrics))
            .with(VARY, "accept, accept-encoding")
    }
}

#[async_trait::async_trait]
impl Handler for WebService {
    async fn answer(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        Ok(self.respond(&request))
    }
}

/// All lines of a header as one, as RFC 9110, section 5.3 has it. What is no text counts as not there.
fn joined(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

/// Whether the client takes gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    negotiation::accepts_gzip(joined(headers, ACCEPT_ENCODING).as_deref())
}

/// A yes or a no with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Whether it is a yes.
    pub holds: bool,
    /// Why, in one line.
    pub reason: String,
}

impl ProbeResult {
    fn status(&self) -> StatusCode {
        if self.holds {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}
